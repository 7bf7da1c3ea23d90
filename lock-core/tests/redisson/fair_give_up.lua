-- How RFairLock ends a wait, said anew; a test's peer. KEYS: queue, deadlines. ARGV: owner, wait in ms.
local behind = false
for _, owner in ipairs(redis.call('lrange', KEYS[1], 0, -1)) do
    if behind then
        redis.call('zincrby', KEYS[2], -ARGV[2], owner)
    end
    behind = behind or owner == ARGV[1]
end
redis.call('zrem', KEYS[2], ARGV[1])
redis.call('lrem', KEYS[1], 0, ARGV[1])
