-- Gives back one write hold. 1 and how many listen: its owner writes no more, and what it reads it reads on; 0: it writes still; nil:
-- it did not.
-- KEYS: lock, [acquire latch].  ARGV: owner, PUBLISH or SPUBLISH or BOTH, channel, [latch in ms].
-- The latch as in release_counted.lua.
local lock, latch, owner, channel = KEYS[1], KEYS[2], ARGV[1], ARGV[3]
if latch then
    local said = redis.call('get', latch)
    if said == 'freed' or said == 'kept' then
        return said == 'freed' and 1 or 0
    end
    -- The first write opens the way for others at a server without memory.
    if said then
        redis.pcall('pexpire', latch, ARGV[4])
    else
        redis.call('del', latch)
    end
    redis.call('set', latch, '0', 'px', ARGV[4])
    if said ~= '1' then
        return nil
    end
end
local mine = owner .. ':write'
local found = redis.call('hmget', lock, mine, owner)
local count, reads = found[1], found[2]
if not count then
    return nil
end
local holds = not reads or write_left(lock, owner, reads) ~= -2
if holds and tonumber(count) > 1 then
    redis.call('hincrby', lock, mine, -1)
    if latch then
        redis.call('set', latch, 'kept', 'px', ARGV[4])
    end
    return 0
end
-- RReadWriteLock says nothing when a writer goes on as a reader, and those who wait to read wait on.
downgrade(lock, owner, reads)
local heard = speak(channel, ARGV[2], '1')
if not holds then
    return nil
end
if latch then
    redis.call('set', latch, 'freed', 'px', ARGV[4])
end
return 1 + heard
