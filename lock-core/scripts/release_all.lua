-- Gives back one hold of several locks. 1 and how many listen to the first of them: all are freed; 0: its owner has some still; nil: it
-- had not all of them, and those that it had are given back.
-- KEYS: locks, [acquire latch].  ARGV: owner, PUBLISH or SPUBLISH or BOTH, how many locks, their channels, [latch in ms].
-- The latch as in release_counted.lua.
local owner, count = ARGV[1], tonumber(ARGV[3])
local latch, life = KEYS[count + 1], ARGV[count + 4]
if latch then
    local said = redis.call('get', latch)
    if said == 'freed' or said == 'kept' then
        return said == 'freed' and 1 or 0
    end
    if said ~= '1' then
        redis.call('del', latch)
        redis.call('set', latch, '0', 'px', life)
        return nil
    end
    redis.pcall('pexpire', latch, life)
end
local answer, missing, heard = 1, false, 0
for i = 1, count do
    local holds = tonumber(redis.call('hget', KEYS[i], owner) or 0)
    if holds > 1 then
        answer = 0
        redis.call('hincrby', KEYS[i], owner, -1)
    elseif holds == 1 then
        redis.call('hdel', KEYS[i], owner)
        -- A message is a hint: a user who may not publish gives back all the same.
        local plain, sharded
        if ARGV[2] ~= 'SPUBLISH' then
            plain = redis.pcall('publish', ARGV[i + 3], '0')
        end
        if ARGV[2] ~= 'PUBLISH' then
            sharded = redis.pcall('spublish', ARGV[i + 3], '0')
        end
        if i == 1 then
            heard = math.max(tonumber(plain) or 0, tonumber(sharded) or 0)
        end
    else
        missing = true
    end
end
if latch then
    redis.call('set', latch, missing and '0' or answer == 1 and 'freed' or 'kept', 'px', life)
end
if missing then
    return nil
end
return answer == 1 and 1 + heard or answer
