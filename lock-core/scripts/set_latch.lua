-- Closes a latch that is open, with a count. 1: done; 0: it is closed already.
-- KEYS: latch, answer record.  ARGV: count, PUBLISH or SPUBLISH or BOTH, channel, answer record in ms.
-- The answer record keeps the answer for a repetition, which would find its own count.
local said = redis.call('get', KEYS[2])
if said then
    return tonumber(said)
end
local done = redis.call('set', KEYS[1], ARGV[1], 'nx') and 1 or 0
if done == 0 and not tonumber(redis.call('get', KEYS[1]) or 0) then
    return redis.error_reply('WRONGTYPE the key holds no number')
end
redis.call('set', KEYS[2], done, 'px', ARGV[4])
if done == 1 then
    speak(ARGV[3], ARGV[2], '1')
end
return done
