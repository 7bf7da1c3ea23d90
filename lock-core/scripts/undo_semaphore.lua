-- Gives back what one acquire took of a semaphore, and sees to it that it takes nothing later. 1: given; nil: nothing to give.
-- KEYS: semaphore, acquire record.  ARGV: permits, PUBLISH or SPUBLISH or BOTH, channel, record in ms.
-- A semaphore that has ended meanwhile is not begun again.
local said = redis.call('get', KEYS[2])
if said == '0' then
    return nil
end
local owed = said and redis.call('exists', KEYS[1]) == 1
-- A server without memory takes what follows a first write that needs none; and one whose slot moves away makes no key that is gone.
if owed then
    redis.pcall('pexpire', KEYS[2], ARGV[4])
else
    redis.call('del', KEYS[2])
end
redis.call('set', KEYS[2], '0', 'px', ARGV[4])
if not owed then
    return nil
end
local free = redis.call('incrby', KEYS[1], ARGV[1])
speak(ARGV[3], ARGV[2], free)
return 1
