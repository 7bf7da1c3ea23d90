-- Gives back one hold of several locks. 1: all are freed; 0: its owner has some still; nil: it had not all of them, and those that it
-- had are given back.
-- KEYS: locks, their channels, [unlock latch, acquire latch].  ARGV: owner, PUBLISH or SPUBLISH or BOTH, how many locks, [latch in
-- ms].  Latches as in release_counted.lua.
local owner, count = ARGV[1], tonumber(ARGV[3])
local latch, acquired = KEYS[2 * count + 1], KEYS[2 * count + 2]
if latch then
    local said = redis.call('get', latch)
    if said then
        return said ~= '' and tonumber(said) or nil
    end
    redis.call('del', latch)
    local known = redis.call('get', acquired) == '1'
    redis.call('set', acquired, '0', 'px', ARGV[4])
    if not known then
        return nil
    end
end
local answer, missing = 1, false
for i = 1, count do
    local holds = tonumber(redis.call('hget', KEYS[i], owner) or 0)
    if holds > 1 then
        answer = 0
        redis.call('hincrby', KEYS[i], owner, -1)
    elseif holds == 1 then
        redis.call('hdel', KEYS[i], owner)
        -- A message is a hint: a user who may not publish gives back all the same.
        if ARGV[2] ~= 'SPUBLISH' then
            redis.pcall('publish', KEYS[count + i], '0')
        end
        if ARGV[2] ~= 'PUBLISH' then
            redis.pcall('spublish', KEYS[count + i], '0')
        end
    else
        missing = true
    end
end
if latch then
    redis.call('set', latch, missing and '' or answer, 'px', ARGV[4])
end
return not missing and answer or nil
