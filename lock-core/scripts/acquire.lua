-- Takes a lock that is a hash {owner: count} for an owner that holds it once. nil: held; else what is left of another's lease in ms, -1
-- without end.
-- KEYS: lock.  ARGV: lease in ms, owner.
local left = redis.call('pttl', KEYS[1])
if left == -2 then
    redis.call('hset', KEYS[1], ARGV[2], 1)
    local kept = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if kept ~= 1 then
        -- A user who may not: no lock stays without an end.
        redis.call('del', KEYS[1])
        return kept
    end
    return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return left
end
-- Its own repetition.
if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
return nil
