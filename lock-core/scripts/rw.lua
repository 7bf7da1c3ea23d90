-- What the scripts of a read-write lock share; put in front of each.
-- RReadWriteLock's keys: the lock is a hash {mode: read or write, owner: its read holds, <owner>:write: its write holds}. Each read
-- hold has a key {lock}:<owner>:rwlock_timeout:<number> that ends with it, and the hash lasts as long as the longest.
-- A reader all of whose keys have ended holds nothing, although its field may stay for as long as the hash does.
-- A write hold ends with the hash. Where its owner reads as well, the hash may last longer: then it has such a key too, and the
-- reader's first key says so by its value, since a Java peer's write hold never has one.
local PLAIN, UNDER_WRITE = '1', 'w'

-- The key that ends with a hold.
local function ending(lock, field, number)
    local tag = string.find(lock, '{', 1, true) and lock or '{' .. lock .. '}'
    return tag .. ':' .. field .. ':rwlock_timeout:' .. number
end

-- What is left of an owner's read holds in ms, the longest counts, -1 without end; -2: it has none.
local function read_left(lock, owner, count)
    local longest = -2
    for number = 1, tonumber(count or 0) do
        local left = redis.call('pttl', ending(lock, owner, number))
        if left == -1 then
            return -1
        end
        longest = math.max(longest, left)
    end
    return longest
end

-- The same of the write hold that an owner has in the hash, who reads as well if there is a count.
local function write_left(lock, owner, count)
    if count then
        local left = redis.call('pttl', ending(lock, owner .. ':write', 1))
        if left ~= -2 or redis.call('get', ending(lock, owner, 1)) == UNDER_WRITE then
            return left
        end
    end
    return redis.call('pttl', lock)
end

-- Sets a key's end to so many ms from now, unless it ends later.
local function extend_end(key, lease)
    if redis.call('pttl', key) < lease then
        redis.call('pexpire', key, lease)
    end
end

-- Gives each of the read holds in the list of an owner (counted.lua) a key that ends with it, of as many keys as there were before. The
-- first ends last, since it says what else there is.
local function number_endings(lock, owner, text, before)
    local now, all = clock_ms(), {}
    for ends in string.gmatch(text, ' (%d+) ') do
        all[#all + 1] = tonumber(ends)
    end
    table.sort(all)
    local value = redis.call('get', ending(lock, owner, 1)) or PLAIN
    for number = 1, #all do
        redis.call('set', ending(lock, owner, number), value, 'px', math.max(all[#all + 1 - number] - now, 1))
        value = PLAIN
    end
    for number = #all + 1, tonumber(before or 0) do
        redis.call('del', ending(lock, owner, number))
    end
end

-- Takes an owner's read holds out; its field too, unless it had none.
local function forget_reader(lock, owner, count)
    for number = 1, tonumber(count or 1) do
        redis.call('del', ending(lock, owner, number))
    end
    if count then
        redis.call('hdel', lock, owner)
    end
end

-- Ends a write hold; what its owner reads goes on, and the hash lasts no longer than that. What is left of it in ms; -2: nothing.
local function downgrade(lock, owner, count)
    redis.call('hdel', lock, owner .. ':write')
    if count then
        redis.call('del', ending(lock, owner .. ':write', 1))
        local left = read_left(lock, owner, count)
        if left ~= -2 then
            redis.call('hset', lock, 'mode', 'read')
            if left ~= -1 then
                redis.call('pexpire', lock, left)
            end
            return left
        end
        forget_reader(lock, owner, count)
    end
    redis.call('del', lock)
    return -2
end

-- The writer, and how often it reads, in the mode write.
local function writer(lock)
    local fields = redis.call('hgetall', lock)
    local counts, owner = {}, nil
    for at = 1, #fields, 2 do
        counts[fields[at]] = fields[at + 1]
        owner = string.match(fields[at], '^(.*):write$') or owner
    end
    return owner, owner and counts[owner]
end

-- What has become of the mode write: itself and what is left of it in ms, or what it is once a write hold that has ended before
-- its hash is taken out.
local function settled_mode(lock)
    if redis.call('hlen', lock) > 2 then
        local owner, count = writer(lock)
        local left = owner and write_left(lock, owner, count)
        if left == -2 then
            return downgrade(lock, owner, count) ~= -2 and 'read' or false
        elseif left then
            return 'write', left
        end
    end
    return 'write', redis.call('pttl', lock)
end

-- What is left of the longest read hold in ms; those that have ended are taken out. -2: nobody reads, and the hash is gone.
local function sweep_readers(lock)
    local fields, longest = redis.call('hgetall', lock), -2
    for at = 1, #fields, 2 do
        local owner, count = fields[at], fields[at + 1]
        if owner ~= 'mode' then
            local left = read_left(lock, owner, count)
            if left == -2 then
                forget_reader(lock, owner, count)
            elseif longest ~= -1 then
                longest = left == -1 and -1 or math.max(longest, left)
            end
        end
    end
    if longest == -2 then
        redis.call('del', lock)
    end
    return longest
end
