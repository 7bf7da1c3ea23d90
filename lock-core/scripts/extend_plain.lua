-- Lengthens the lease of a hold; never shortens it and never makes one. 1: held; 0: not.
-- KEYS: lock.  ARGV: lease in ms, owner.
if redis.call('get', KEYS[1]) ~= ARGV[2] then
    return 0
end
if redis.call('pttl', KEYS[1]) < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
return 1
