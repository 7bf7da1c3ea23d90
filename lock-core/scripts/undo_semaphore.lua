-- Gives back what one acquire took of a semaphore, and sees to it that it takes nothing later. 1: given; nil: nothing to give.
-- KEYS: semaphore, channel, acquire latch.  ARGV: permits, PUBLISH or SPUBLISH or BOTH, latch in ms.
-- A semaphore that has ended meanwhile is not begun again.
local said = redis.call('get', KEYS[3])
if said == '0' then
    return nil
end
-- A server without memory takes what follows a first write that needs none.
redis.call('del', KEYS[3])
redis.call('set', KEYS[3], '0', 'px', ARGV[3])
if not said or redis.call('exists', KEYS[1]) == 0 then
    return nil
end
local free = redis.call('incrby', KEYS[1], ARGV[1])
if ARGV[2] ~= 'SPUBLISH' then
    redis.pcall('publish', KEYS[2], free)
end
if ARGV[2] ~= 'PUBLISH' then
    redis.pcall('spublish', KEYS[2], free)
end
return 1
