-- Takes several locks that are hashes {owner: count}, all of them or none. nil: held; else for how long at least one of them is
-- another's in ms, -1 without end; -3: this acquire was settled before.
-- KEYS: locks, [acquire latch].  ARGV: lease in ms, owner, how many locks.
-- An owner that may hold several times counts each acquire once, told by its latch, which lasts as long as all of them do by this
-- acquire.
local lease, owner, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local latch = KEYS[count + 1]
local lefts, ours, longest, life = {}, 0, nil, math.huge
for i = 1, count do
    lefts[i] = redis.call('pttl', KEYS[i])
    life = math.min(life, math.max(lease, lefts[i]))
    if lefts[i] ~= -2 then
        if redis.call('hexists', KEYS[i], owner) == 1 then
            ours = ours + 1
        else
            longest = (lefts[i] == -1 or longest == -1) and -1 or math.max(longest or 0, lefts[i])
        end
    end
end
if longest then
    return longest
end
local first = latch and redis.call('set', latch, '1', 'px', life, 'nx')
-- What was had by this very acquire and is not there any more is not taken again.
if latch and not first and ours < count then
    return -3
end
if latch and not first and redis.call('pttl', latch) < life then
    redis.call('pexpire', latch, life)
end
for i = 1, count do
    if lefts[i] == -2 then
        redis.call('hset', KEYS[i], owner, 1)
    elseif first then
        redis.call('hincrby', KEYS[i], owner, 1)
    end
    if lefts[i] < lease then
        local kept = redis.pcall('pexpire', KEYS[i], lease)
        if kept ~= 1 then
            -- A user who may not: no lock stays without an end.
            if lefts[i] == -2 then
                redis.call('del', KEYS[i])
            end
            return redis.call('pexpire', KEYS[i], lease)
        end
    end
end
return nil
