-- Adds permits to a semaphore that is a number, or takes some away, and keeps its end if it has one. The new number.
-- KEYS: semaphore, record.  ARGV: permits, PUBLISH or SPUBLISH or BOTH, channel, record in ms, ['there': begins none].
-- The record keeps the answer for a repetition.
local said = redis.call('get', KEYS[2])
if said then
    return tonumber(said)
end
if ARGV[5] and redis.call('exists', KEYS[1]) == 0 then
    return 0
end
-- A server without memory takes what follows a first write that needs none.
redis.call('del', KEYS[2])
local free = redis.pcall('incrby', KEYS[1], ARGV[1])
if type(free) == 'table' then
    return string.find(free.err, 'not an integer', 1, true) and redis.error_reply('WRONGTYPE the key holds no number') or free
end
redis.call('set', KEYS[2], free, 'px', ARGV[4])
if free > 0 then
    speak(ARGV[3], ARGV[2], free)
end
return free
