-- Takes a lock away from its holder. 1: somebody did; 0: nobody.
-- KEYS: lock, [what goes with the lock].  ARGV: PUBLISH or SPUBLISH or BOTH, channel.
if redis.call('del', KEYS[1]) == 0 then
    return 0
end
if KEYS[2] then
    redis.call('del', KEYS[2])
end
speak(ARGV[2], ARGV[1], '0')
return 1
