-- Begins a semaphore that is a number, if there is none. 1: begun; 0: there is one.
-- KEYS: semaphore, record.  ARGV: permits, PUBLISH or SPUBLISH or BOTH, channel, record in ms, [end in ms].
-- The record keeps the answer for a repetition, which would find its own semaphore.
local said = redis.call('get', KEYS[2])
if said then
    return tonumber(said)
end
local begun
if ARGV[5] then
    begun = redis.call('set', KEYS[1], ARGV[1], 'px', ARGV[5], 'nx')
else
    begun = redis.call('set', KEYS[1], ARGV[1], 'nx')
end
if not begun and not tonumber(redis.call('get', KEYS[1]) or 0) then
    return redis.error_reply('WRONGTYPE the key holds no number')
end
redis.call('set', KEYS[2], begun and 1 or 0, 'px', ARGV[4])
if not begun then
    return 0
end
speak(ARGV[3], ARGV[2], ARGV[1])
return 1
