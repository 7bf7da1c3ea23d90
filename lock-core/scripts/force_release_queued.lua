-- Takes the lock away from its holder; it goes to the next in the line. 1: somebody did; 0: nobody.
-- ARGV: publish command, longest unclaimed lease in ms.
local held = redis.call('del', lock)
pass(nil, tonumber(ARGV[2]), ARGV[1])
return held
