-- Gives back a lock that is a string. 1: freed; nil: this owner has it no more.
-- KEYS: lock.  ARGV: owner, [PUBLISH or SPUBLISH or BOTH, channel].
-- Neither channel nor way are sent where they are as usual, and so need not be read.
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return nil
end
redis.call('del', KEYS[1])
if not ARGV[2] then
    redis.pcall('publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
    return 1
end
if ARGV[2] ~= 'SPUBLISH' then
    redis.pcall('publish', ARGV[3], '0')
end
if ARGV[2] ~= 'PUBLISH' then
    redis.pcall('spublish', ARGV[3], '0')
end
return 1
