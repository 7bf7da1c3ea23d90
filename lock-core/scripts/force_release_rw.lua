-- Takes a read-write lock away from all readers, or from the writer and what it reads. 1: somebody did; 0: nobody.
-- KEYS: lock.  ARGV: PUBLISH or SPUBLISH or BOTH, channel, read or write: the mode that it must be in.
local lock = KEYS[1]
local mode = redis.call('hget', lock, 'mode')
if mode == 'write' then
    mode = settled_mode(lock)
end
if mode ~= ARGV[3] then
    return 0
end
local fields, longest = redis.call('hgetall', lock), -2
for at = 1, #fields, 2 do
    local owner, count = fields[at], fields[at + 1]
    if owner ~= 'mode' then
        if ARGV[3] == 'write' then
            longest = 0
        else
            longest = math.max(longest, read_left(lock, owner, count))
        end
        for number = 1, tonumber(count) do
            redis.call('del', ending(lock, owner, number))
        end
    end
end
redis.call('del', lock)
speak(ARGV[2], ARGV[1], ARGV[3] == 'write' and '1' or '0')
return longest == -2 and 0 or 1
