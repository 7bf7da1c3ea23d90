-- Takes a lock away from its holder. 1: somebody did; 0: nobody.
-- KEYS: lock, [what goes with the lock].  ARGV: PUBLISH or SPUBLISH or BOTH, channel.
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('del', KEYS[1]) == 0 then
    return 0
end
if KEYS[2] then
    redis.call('del', KEYS[2])
end
if ARGV[1] ~= 'SPUBLISH' then
    redis.pcall('publish', ARGV[2], '0')
end
if ARGV[1] ~= 'PUBLISH' then
    redis.pcall('spublish', ARGV[2], '0')
end
return 1
