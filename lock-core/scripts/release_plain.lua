-- Gives back a lock that is a string. 1 and how many listen: freed; nil: this owner has it no more.
-- KEYS: lock.  ARGV: owner, [PUBLISH or SPUBLISH or BOTH, channel].
-- Neither channel nor way are sent where they are as usual, and so need not be read.
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return nil
end
redis.call('del', KEYS[1])
if not ARGV[2] then
    return 1 + (tonumber(redis.pcall('publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')) or 0)
end
local plain, sharded
if ARGV[2] ~= 'SPUBLISH' then
    plain = redis.pcall('publish', ARGV[3], '0')
end
if ARGV[2] ~= 'PUBLISH' then
    sharded = redis.pcall('spublish', ARGV[3], '0')
end
return 1 + math.max(tonumber(plain) or 0, tonumber(sharded) or 0)
