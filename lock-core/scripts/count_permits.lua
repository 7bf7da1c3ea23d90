-- {free, held}; nil: there is no such semaphore.
-- ARGV: PUBLISH or SPUBLISH or BOTH.
count_back(ARGV[1])
return free and {free, redis.call('zcard', KEYS[2])}
