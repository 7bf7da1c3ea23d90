-- Asks for a lock that is a string for somebody who waits, or again after an answer was lost. -3: held; else what is left of another's lease.
-- KEYS: lock.  ARGV: lease in ms, owner.
local left = redis.call('pttl', KEYS[1])
if left == -2 then
    redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[1])
    return -3
end
if redis.call('get', KEYS[1]) ~= ARGV[2] then
    return left
end
if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
return -3
