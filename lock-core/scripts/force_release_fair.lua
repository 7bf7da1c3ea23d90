-- Takes a lock away from its holder, and calls the next. 1: somebody did; 0: nobody.
-- ARGV: publish command.
if redis.call('del', lock) == 0 then
    return 0
end
redis.call('del', offer)
call(clock(), ARGV[1])
return 1
