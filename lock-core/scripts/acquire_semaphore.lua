-- Takes permits of a semaphore that is a number. {what is left, server's ms}: taken; -1: too few; -3: this acquire was undone before;
-- {server's ms}: too late.
-- KEYS: semaphore, acquire record.  ARGV: permits, record in ms, server's ms after which nothing is taken any more, ['again'].
-- The record knows a repetition, which takes nothing more: 1 means taken, 0 undone. It is asked first only where the
-- permits themselves may be what a first time took.
-- Permits have no lease. A request that a network has kept for so long that its undo is forgotten would take them for ever, so it takes
-- nothing.
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
if now > tonumber(ARGV[3]) then
    return {now}
end
local free = tonumber(redis.call('get', KEYS[1]) or 0)
if not free then
    return redis.error_reply('WRONGTYPE the key holds no number')
end
local said
if free < tonumber(ARGV[1]) then
    said = ARGV[4] and redis.call('get', KEYS[2])
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
    return {free, now}
end
local left = redis.pcall('decrby', KEYS[1], ARGV[1])
if type(left) == 'table' then
    -- A user who may not: nothing was taken that could be given back.
    redis.call('set', KEYS[2], '0', 'px', ARGV[2])
    return left
end
return {left, now}
