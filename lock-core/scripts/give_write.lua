-- Gives back one write hold. 1: its owner writes no more, and what it reads it reads on; 0: it writes still; nil: it did not.
-- KEYS: lock, channel, [unlock latch, acquire latch].  ARGV: owner, PUBLISH or SPUBLISH or BOTH, [latch in ms].
-- Latches as in release_counted.lua.
local lock, channel, latch, owner = KEYS[1], KEYS[2], KEYS[3], ARGV[1]
if latch then
    local said = redis.call('get', latch)
    if said then
        return tonumber(said)
    end
    redis.call('del', latch)
    local known = redis.call('get', KEYS[4]) == '1'
    redis.call('set', KEYS[4], '0', 'px', ARGV[3])
    if not known then
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
        redis.call('set', latch, '0', 'px', ARGV[3])
    end
    return 0
end
-- RReadWriteLock says nothing when a writer goes on as a reader, and those who wait to read wait on.
downgrade(lock, owner, reads)
speak(channel, ARGV[2], '1')
if not holds then
    return nil
end
if latch then
    redis.call('set', latch, '1', 'px', ARGV[3])
end
return 1
