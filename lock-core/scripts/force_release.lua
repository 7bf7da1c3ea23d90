-- Takes a lock away from whoever holds it. 1: somebody did; 0: nobody.
-- KEYS: lock, channel.  ARGV: publish command.
if redis.call('del', KEYS[1]) == 0 then
    return 0
end
redis.call(ARGV[1], KEYS[2], '0')
return 1
