-- Gives back one read hold. 1: its owner reads no more; 0: it reads still; nil: it did not.
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
local found = redis.call('hmget', lock, 'mode', owner)
local mode, count = found[1], found[2]
local left = -2
if count then
    left = read_left(lock, owner, count)
end
if left ~= -2 and tonumber(count) > 1 then
    redis.call('del', ending(lock, owner, count))
    redis.call('hincrby', lock, owner, -1)
    if latch then
        redis.call('set', latch, 'kept', 'px', ARGV[4])
    end
    return 0
end
if mode == 'write' and count then
    -- Its own write hold goes on, for as long as it would have without this one.
    local ends = write_left(lock, owner, count)
    forget_reader(lock, owner, count)
    redis.call('del', ending(lock, owner .. ':write', 1))
    if ends == -2 then
        redis.call('del', lock)
        speak(channel, ARGV[2], '1')
    elseif ends ~= -1 then
        redis.call('pexpire', lock, ends)
    end
else
    forget_reader(lock, owner, count)
    if count and redis.call('hlen', lock) == 1 then
        redis.call('del', lock)
        speak(channel, ARGV[2], '0')
    -- Where the hash lasts longer than this hold, it was another who lengthened it so, and that one reads still.
    elseif count and left + 1 >= redis.call('pttl', lock) then
        local longest = sweep_readers(lock)
        if longest == -2 then
            speak(channel, ARGV[2], '0')
        elseif longest ~= -1 then
            redis.call('pexpire', lock, longest)
        end
    end
end
if left == -2 then
    return nil
end
if latch then
    redis.call('set', latch, 'freed', 'px', ARGV[4])
end
return 1
