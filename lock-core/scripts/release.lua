-- Gives back a lock whose owner holds it once. 1: freed; nil: this owner has it no more.
-- KEYS: lock, [channel].  ARGV: owner, [PUBLISH or SPUBLISH or BOTH or QUIET].
-- Neither channel nor way are sent where they are as usual, and so need not be read.
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return nil
end
if not ARGV[2] then
    redis.pcall('publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
elseif KEYS[2] then
    if ARGV[2] ~= 'SPUBLISH' then
        redis.pcall('publish', KEYS[2], '0')
    end
    if ARGV[2] ~= 'PUBLISH' then
        redis.pcall('spublish', KEYS[2], '0')
    end
end
return 1
