-- Lengthens the lease of one hold of an owner that may have several, and what is remembered of its acquire with it; never shortens
-- one and never makes one. 1: held; 0: not.
-- KEYS: lock, acquire latch.  ARGV: lease in ms, owner, latch in ms.
-- Without its latch a hold cannot be given back, so it is not lengthened either.
if redis.call('get', KEYS[2]) ~= '1' or redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
if redis.call('pttl', KEYS[2]) < tonumber(ARGV[3]) then
    redis.call('pexpire', KEYS[2], ARGV[3])
end
return 1
