-- Counts a latch down by one; at nothing it is gone, and opens. What is left; 0 also where there is none.
-- KEYS: latch, answer record.  ARGV: PUBLISH or SPUBLISH or BOTH, channel, answer record in ms.
-- The answer record keeps the answer for a repetition.
local said = redis.call('get', KEYS[2])
if said then
    return tonumber(said)
end
local left = tonumber(redis.call('get', KEYS[1]) or 0)
if not left then
    return redis.error_reply('WRONGTYPE the key holds no number')
end
if left <= 0 then
    redis.call('del', KEYS[1])
    return 0
end
left = left - 1
-- A server without memory takes what follows a first write that needs none.
redis.call('del', KEYS[left == 0 and 1 or 2])
if left > 0 then
    redis.call('decr', KEYS[1])
end
redis.call('set', KEYS[2], left, 'px', ARGV[3])
if left == 0 then
    speak(ARGV[2], ARGV[1], '0')
end
return left
