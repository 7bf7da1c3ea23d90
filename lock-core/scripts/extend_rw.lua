-- Lengthens the leases of holds; never shortens one and never makes one. For each 1: held; 0: not; one alone as a number.
-- KEYS: locks, and after one that is read the key that ends with its reader's first hold, [acquire latch, of one hold alone].  ARGV:
-- lease in ms, for each the owner who reads, or <owner>:write.  The latch as in extend.lua.
local lease = tonumber(ARGV[1])
local function extend(lock, field)
    local owner = string.match(field, '^(.*):write$')
    local found = redis.call('hmget', lock, field, owner or field)
    local count, reads = found[1], found[2]
    if not count then
        return 0
    end
    if owner then
        if reads then
            if write_left(lock, owner, reads) == -2 then
                return 0
            end
            lengthen(ending(lock, field, 1), lease)
        end
    else
        if read_left(lock, field, count) == -2 then
            return 0
        end
        for number = 1, tonumber(count) do
            lengthen(ending(lock, field, number), lease)
        end
    end
    lengthen(lock, lease)
    return 1
end
local held, key = {}, 1
local latch = not ARGV[3] and KEYS[string.find(ARGV[2], ':write', -6, true) and 2 or 3]
if latch and redis.call('get', latch) ~= '1' then
    return 0
end
for at = 2, #ARGV do
    held[at - 1] = extend(KEYS[key], ARGV[at])
    key = key + (string.find(ARGV[at], ':write', -6, true) and 1 or 2)
end
if latch and held[1] == 1 then
    lengthen(latch, lease)
end
return held[2] and held or held[1]
