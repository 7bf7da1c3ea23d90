-- Gives back one hold of an owner that may have several. 1: freed; 0: held still; nil: this owner has it no more.
-- KEYS: lock, channel, unlock latch, acquire latch.  ARGV: owner, PUBLISH or SPUBLISH or BOTH, latch in ms.
-- The unlock latch keeps the answer for a repetition. The acquire latch says whether the hold is that of this acquire: where nothing is
-- remembered of it, or it was given back before, what the owner has now is another hold. If it has not run, setting its latch makes
-- sure that it never will count.
-- A message is a hint: a user who may not publish gives back all the same.
local said = redis.call('get', KEYS[3])
if said then
    return tonumber(said)
end
-- A server without memory refuses a script's first write if that may need some, and takes what follows a first write:
-- deleting the latch, which is not there, opens the way.
redis.call('del', KEYS[3])
local known = redis.call('get', KEYS[4]) == '1'
redis.call('set', KEYS[4], '0', 'px', ARGV[3])
local count = known and redis.call('hget', KEYS[1], ARGV[1])
if not count then
    return nil
end
if tonumber(count) > 1 then
    redis.call('hincrby', KEYS[1], ARGV[1], -1)
    redis.call('set', KEYS[3], '0', 'px', ARGV[3])
    return 0
end
redis.call('hdel', KEYS[1], ARGV[1])
if ARGV[2] ~= 'SPUBLISH' then
    redis.pcall('publish', KEYS[2], '0')
end
if ARGV[2] ~= 'PUBLISH' then
    redis.pcall('spublish', KEYS[2], '0')
end
redis.call('set', KEYS[3], '1', 'px', ARGV[3])
return 1
