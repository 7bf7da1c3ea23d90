-- What the scripts share for an owner that may hold several times; put in front of each that such an owner sends.
-- Each acquire has a record, called by its id: '1' as long as the lease of its own hold lasts; once it is given back '0' and the answer,
-- for a repetition, and so that a late acquire never counts. Beside each lock stands the list of its owner's holds, "<id> <the
-- server's ms at which it ends> " for each, or the id alone where one hold came to a free lock: it ends with the lock. The owner's
-- count is how many of them have not ended, and the lock lasts as long as the longest. A list counts only where its owner has the lock:
-- one that was taken away leaves its list behind.

-- Rounded up, so that no hold ends before its lease.
local function clock_ms()
    local now = redis.call('time')
    return now[1] * 1000 + math.ceil(now[2] / 1000)
end

local function id_of(record)
    return string.sub(record, -32)
end

-- Of a list: when this hold ends, nil if it is not there; and of the others that have not ended how many there are, the list of
-- them, and what is left of the longest in ms. `left`: what is left of a hold whose end is not listed.
local function rest_of(list, id, now, left)
    local held, mine, count, text, last = redis.call('get', list) or '', nil, 0, '', 0
    if left and #held == 32 then
        held = held .. string.format(' %.0f ', now + left)
    end
    for each, ends in string.gmatch(held, '(%x+) (%d+) ') do
        if each == id then
            mine = tonumber(ends)
        else
            now = now or clock_ms()
            if tonumber(ends) > now then
                count, text, last = count + 1, text .. each .. ' ' .. ends .. ' ', math.max(last, ends)
            end
        end
    end
    return mine or held == id, count, text, now and last - now
end

-- Whether this acquire counts, and whether it did before. `alone`: its owner has nothing, so what was counted before is over.
local function opens(record, lease, alone)
    if redis.call('set', record, '1', 'px', lease, 'nx') then
        return true, false
    end
    if alone or redis.call('get', record) ~= '1' then
        return false, true
    end
    if redis.call('pttl', record) < lease then
        redis.call('pexpire', record, lease)
    end
    return true, true
end

-- Counts a hold of so many ms, or extends it to that, where its owner has the lock for `left` ms more; -2: not at all. For how long
-- the longest lasts then, and the list of all.
local function count_in(lock, field, list, id, lease, left)
    if left == -2 then
        redis.call('set', list, id, 'px', lease)
        redis.call('hset', lock, field, 1)
        return lease
    end
    local now = clock_ms()
    local mine, count, text, longest = rest_of(list, id, now, left)
    local ends = math.max(now + lease, mine or 0)
    longest = math.max(longest, ends - now)
    text = text .. string.format('%s %.0f ', id, ends)
    redis.call('set', list, text, 'px', longest)
    redis.call('hset', lock, field, count + 1)
    return longest, text
end

-- Takes a hold out of a lock that is a hash. 1: its owner has the lock no more; 0: it has it still; nil: this hold was over. `live`: by
-- its record it is not. The first write is one that a server without memory takes; what follows it that one takes too.
local function give(lock, owner, list, id, live)
    local mine, count, text, left = rest_of(list, id)
    if not mine or count == 0 and not live then
        return nil
    end
    if count == 0 then
        -- A list without its lock ends by itself, so a user who may not delete gives back all the same.
        redis.pcall('del', list)
        return redis.call('hdel', lock, owner) == 1 and 1 or nil
    end
    if redis.call('hexists', lock, owner) == 0 then
        return nil
    end
    redis.call('pexpire', lock, left)
    redis.call('hset', lock, owner, count)
    redis.call('set', list, text, 'px', left)
    return live and 0 or nil
end

-- Keeps the answer to a release. `said`: what the record said so far, if it is there.
local function settle(record, said, answer, life)
    if not answer then
        -- Perhaps the first write, which a server without memory refuses if it may need some. And a server whose slot moves away makes
        -- no key anew, so one that is there is not deleted.
        if said then
            redis.pcall('pexpire', record, life)
        else
            redis.call('del', record)
        end
    end
    redis.call('set', record, '0' .. (answer or ''), 'px', life)
    return answer
end
