-- Gives back a lock whose owner holds it once. 1 and how many listen: freed; nil: this owner has it no more.
-- KEYS: lock.  ARGV: owner, [PUBLISH or SPUBLISH or BOTH or QUIET, channel].
-- Neither channel nor way are sent where they are as usual, and so need not be read.
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return nil
end
local plain, sharded
if not ARGV[2] then
    plain = redis.pcall('publish', 'redisson_lock__channel:{' .. KEYS[1] .. '}', '0')
elseif ARGV[3] then
    if ARGV[2] ~= 'SPUBLISH' then
        plain = redis.pcall('publish', ARGV[3], '0')
    end
    if ARGV[2] ~= 'PUBLISH' then
        sharded = redis.pcall('spublish', ARGV[3], '0')
    end
end
return 1 + math.max(tonumber(plain) or 0, tonumber(sharded) or 0)
