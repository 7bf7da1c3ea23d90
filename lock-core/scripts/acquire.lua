-- Takes a lock that is a hash {owner: count}. nil: held; else what is left of another's lease in ms, -1 without end.
-- KEYS: lock, [acquire latch].  ARGV: lease in ms, owner, ['once'].
-- An owner that may hold several times counts each acquire once, told by its latch; -3: this acquire was settled
-- before; -4: the owner has it and may have it only once. A latch lasts as long as the lock does by this acquire: one that outlived the
-- lock would stand for the owner's next hold, and one that ended before would make a repetition count again.
local left = redis.call('pttl', KEYS[1])
if left == -2 then
    if KEYS[2] and not redis.call('set', KEYS[2], '1', 'px', ARGV[1], 'nx') then
        return -3
    end
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
if ARGV[3] == 'once' and redis.call('exists', KEYS[2]) == 0 then
    return -4
end
if KEYS[2] then
    local life = math.max(tonumber(ARGV[1]), left)
    if redis.call('set', KEYS[2], '1', 'px', life, 'nx') then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
    elseif redis.call('pttl', KEYS[2]) < life then
        redis.call('pexpire', KEYS[2], life)
    end
end
if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
return nil
