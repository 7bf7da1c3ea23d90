-- Gives one permit a lease from now on, longer or shorter than it had. 1: done; 0: not held (any more).
-- ARGV: PUBLISH or SPUBLISH or BOTH, lease in ms, id.
count_back(ARGV[1])
if not redis.call('zscore', KEYS[2], ARGV[3]) then
    return 0
end
redis.call('zadd', KEYS[2], now + tonumber(ARGV[2]), ARGV[3])
return 1
