-- Lengthens the lease of one hold of an owner that may have several, and what is remembered of its acquire with it; never shortens
-- one and never makes one. 1: held; 0: not.
-- KEYS: lock, acquire latch.  ARGV: lease in ms, owner.
-- Without its latch a hold cannot be given back, so it is not lengthened either; and the latch never outlives the lock.
if redis.call('get', KEYS[2]) ~= '1' or redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return 0
end
for _, key in ipairs(KEYS) do
    if redis.call('pttl', key) < tonumber(ARGV[1]) then
        redis.call('pexpire', key, ARGV[1])
    end
end
return 1
