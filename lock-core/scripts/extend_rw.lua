-- Extends the leases of holds; never shortens one and never makes one. For each 1: held; 0: not; one alone as a number.
-- KEYS: locks, and after one that is read the key that ends with its reader's first hold; of an owner that may hold several times one
-- lock alone, and behind it the owner's list and the acquire record.  ARGV: lease in ms, for each the owner who reads, or
-- <owner>:write.
local lease = tonumber(ARGV[1])
local function extend(lock, field, list, record)
    local owner = string.match(field, '^(.*):write$')
    local found = redis.call('hmget', lock, field, owner or field)
    local count, reads = found[1], found[2]
    if not count then
        return 0
    end
    if record and (redis.call('get', record) ~= '1' or not rest_of(list, id_of(record))) then
        return 0
    end
    local left
    if not owner then
        left = read_left(lock, field, count)
    elseif reads or record then
        left = write_left(lock, owner, reads)
    end
    if left == -2 then
        return 0
    end
    local longest, all = lease, nil
    if record then
        -- The first write of all is one that a server without memory takes.
        redis.call('pexpire', record, math.max(redis.call('pttl', record), lease))
        longest, all = count_in(lock, field, list, id_of(record), lease, left)
    end
    if all and not owner then
        number_endings(lock, field, all, count)
    elseif not owner or reads then
        extend_end(ending(lock, field, 1), longest)
    end
    extend_end(lock, longest)
    return 1
end
local held, key = {}, 1
for at = 2, #ARGV do
    local keys = string.find(ARGV[at], ':write', -6, true) and 1 or 2
    held[at - 1] = extend(KEYS[key], ARGV[at], KEYS[key + keys], not ARGV[3] and KEYS[key + keys + 1] or nil)
    key = key + keys
end
return held[2] and held or held[1]
