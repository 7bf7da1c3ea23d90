-- Takes permits of a semaphore that is a number. {what is left}: taken; -1: too few; -3: this acquire was undone before.
-- KEYS: semaphore, acquire latch.  ARGV: permits, latch in ms, ['again'].
-- The latch knows a repetition, which takes nothing more: 1 means taken, 0 undone. It is asked first only where the
-- permits themselves may be what a first time took.
local free = tonumber(redis.call('get', KEYS[1]) or 0)
local said
if free < tonumber(ARGV[1]) then
    said = ARGV[3] and redis.call('get', KEYS[2])
    if not said then
        return -1
    end
elseif not redis.call('set', KEYS[2], '1', 'px', ARGV[2], 'nx') then
    said = redis.call('get', KEYS[2])
end
if said == '0' then
    return -3
end
if said then
    -- Written anew, so that replicas that are waited for have it.
    redis.call('pexpire', KEYS[2], ARGV[2])
    return {free}
end
return {redis.call('decrby', KEYS[1], ARGV[1])}
