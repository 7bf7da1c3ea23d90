-- How RFairLock gives the lock back, said anew; a test's peer. KEYS: lock, queue, deadlines, channel. ARGV: lease in ms, owner, its caller's
-- clock in ms. 1: freed; 0: held still; nil: not its owner's.
local lock, queue, deadlines, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local now = tonumber(ARGV[3])
while true do
    local head = redis.call('lindex', queue, 0)
    local deadline = head and redis.call('zscore', deadlines, head)
    if not deadline or tonumber(deadline) > now then
        break
    end
    redis.call('zrem', deadlines, head)
    redis.call('lpop', queue)
end
if redis.call('exists', lock) == 1 then
    if redis.call('hexists', lock, ARGV[2]) == 0 then
        return nil
    end
    if redis.call('hincrby', lock, ARGV[2], -1) > 0 then
        redis.call('pexpire', lock, ARGV[1])
        return 0
    end
    redis.call('del', lock)
end
local head = redis.call('lindex', queue, 0)
if head then
    redis.call('publish', channel .. ':' .. head, '0')
end
return 1
