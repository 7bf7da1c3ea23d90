-- Takes a lock away from whoever holds it. 1: somebody did; 0: nobody.
-- KEYS: lock, channel.  ARGV: publish command.
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('del', KEYS[1]) == 0 then
    return 0
end
redis.pcall(ARGV[1], KEYS[2], '0')
return 1
