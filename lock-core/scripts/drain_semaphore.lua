-- Takes all permits of a semaphore that is a number, and keeps its end if it has one. How many they were.
-- KEYS: semaphore, record.  ARGV: record in ms.
-- The record keeps the answer for a repetition, which would find nothing.
local said = redis.call('get', KEYS[2])
if said then
    return tonumber(said)
end
local free = tonumber(redis.call('get', KEYS[1]) or 0)
if not free then
    return redis.error_reply('WRONGTYPE the key holds no number')
end
if free <= 0 then
    return 0
end
redis.call('set', KEYS[2], free, 'px', ARGV[1])
redis.call('decrby', KEYS[1], free)
return free
