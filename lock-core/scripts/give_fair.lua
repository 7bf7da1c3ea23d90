-- Gives back one hold, and calls the next if the lock is free then. 1: freed; 0: held still; nil: this owner has it no more.
-- KEYS: and [acquire latch].  ARGV: owner, publish command, '1' to give up a place too, [latch in ms].
-- The latch as in release_counted.lua.
-- Who gives up moves nobody else's deadline.
local owner, publish, latch = ARGV[1], ARGV[2], KEYS[6]
local said = latch and redis.call('get', latch)
if said == 'freed' or said == 'kept' then
    return said == 'freed' and 1 or 0
end
local now = clock()
local never = latch and said ~= '1'
if latch then
    -- A server without memory refuses a script's first write if that may need some, and takes what follows a first write.
    if said then
        redis.pcall('pexpire', latch, ARGV[4])
    else
        redis.call('del', latch)
    end
    redis.call('set', latch, '0', 'px', ARGV[4])
end
local count = redis.call('hget', lock, owner)
if never or not count then
    if ARGV[3] == '1' and leave(owner) > 0 then
        if redis.call('exists', lock) == 0 then
            call(now, publish)
        end
        return 1
    end
    return nil
end
if tonumber(count) > 1 then
    redis.call('hincrby', lock, owner, -1)
    redis.call('set', latch, 'kept', 'px', ARGV[4])
    return 0
end
redis.call('hdel', lock, owner)
if latch then
    redis.call('set', latch, 'freed', 'px', ARGV[4])
end
redis.call('del', offer)
call(now, publish)
return 1
