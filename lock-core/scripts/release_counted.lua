-- Gives back one hold of an owner that may have several. 1 and how many listen: freed; 0: held still; nil: this owner has it no
-- more.
-- KEYS: lock, acquire latch.  ARGV: owner, PUBLISH or SPUBLISH or BOTH, channel, latch in ms.
-- The latch says whether the hold is that of this acquire: where nothing is remembered of it, what the owner has now is another hold.
-- If the acquire has not run, 0 makes sure that it never will count. Once the hold is given back the latch keeps the answer for a
-- repetition. So there is no key but those that a hold has, and in a slot that moves all of them are found in one place.
-- A message is a hint: a user who may not publish gives back all the same.
local said = redis.call('get', KEYS[2])
if said == 'freed' or said == 'kept' then
    return said == 'freed' and 1 or 0
end
local count = said == '1' and redis.call('hget', KEYS[1], ARGV[1])
if not count then
    -- A server without memory refuses a script's first write if that may need some, and takes what follows a first write. And a
    -- server whose slot moves away makes no key anew, so one that is there is not deleted.
    if said then
        redis.pcall('pexpire', KEYS[2], ARGV[4])
    else
        redis.call('del', KEYS[2])
    end
    redis.call('set', KEYS[2], '0', 'px', ARGV[4])
    return nil
end
if tonumber(count) > 1 then
    redis.pcall('pexpire', KEYS[2], ARGV[4])
    redis.call('hincrby', KEYS[1], ARGV[1], -1)
    redis.call('set', KEYS[2], 'kept', 'px', ARGV[4])
    return 0
end
redis.call('hdel', KEYS[1], ARGV[1])
local plain, sharded
if ARGV[2] ~= 'SPUBLISH' then
    plain = redis.pcall('publish', ARGV[3], '0')
end
if ARGV[2] ~= 'PUBLISH' then
    sharded = redis.pcall('spublish', ARGV[3], '0')
end
redis.call('set', KEYS[2], 'freed', 'px', ARGV[4])
return 1 + math.max(tonumber(plain) or 0, tonumber(sharded) or 0)
