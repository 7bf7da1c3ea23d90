-- Takes a lock that is a hash {owner: count}. nil: held; else what is left of another's lease in ms, -1 without end.
-- KEYS: lock, [acquire latch].  ARGV: lease in ms, owner, [latch in ms, ['once' or 'vote']].
-- An owner that may hold several times counts each acquire once, told by its latch; -3: this acquire was settled
-- before; -4: the owner has it and may have it only once. A latch never outlives the lock; that of a vote lives for as long.
-- A repetition lengthens both: with the lock alone, the next one would count again.
local left = redis.call('pttl', KEYS[1])
if left == -2 then
    if KEYS[2] and not redis.call('set', KEYS[2], '1', 'px', ARGV[3], 'nx') then
        return -3
    end
    redis.call('hset', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return nil
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return left
end
if ARGV[4] == 'once' and redis.call('exists', KEYS[2]) == 0 then
    return -4
end
local life = ARGV[3]
if ARGV[4] == 'vote' and left > tonumber(life) then
    life = left
end
if KEYS[2] then
    if redis.call('set', KEYS[2], '1', 'px', life, 'nx') then
        redis.call('hincrby', KEYS[1], ARGV[2], 1)
    elseif redis.call('pttl', KEYS[2]) < tonumber(life) then
        redis.call('pexpire', KEYS[2], life)
    end
end
if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
return nil
