-- How RFairLock takes the lock or a place, said anew; a test's peer. KEYS: lock, queue, deadlines. ARGV: lease in ms, owner, wait in ms, its
-- caller's clock in ms. nil: held; otherwise for how many ms it may sleep.
local lock, queue, deadlines = KEYS[1], KEYS[2], KEYS[3]
local lease, owner, wait, now = ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
while true do
    local head = redis.call('lindex', queue, 0)
    local deadline = head and redis.call('zscore', deadlines, head)
    if not deadline or tonumber(deadline) > now then
        break
    end
    redis.call('zrem', deadlines, head)
    redis.call('lpop', queue)
end
local head = redis.call('lindex', queue, 0)
if redis.call('exists', lock) == 0 and (not head or head == owner) then
    redis.call('lpop', queue)
    redis.call('zrem', deadlines, owner)
    for _, other in ipairs(redis.call('zrange', deadlines, 0, -1)) do
        redis.call('zincrby', deadlines, -wait, other)
    end
    redis.call('hset', lock, owner, 1)
    redis.call('pexpire', lock, lease)
    return nil
end
if redis.call('hexists', lock, owner) == 1 then
    redis.call('hincrby', lock, owner, 1)
    redis.call('pexpire', lock, lease)
    return nil
end
if redis.call('zscore', deadlines, owner) then
    return math.max(0, redis.call('pttl', lock))
end
local last = redis.call('lindex', queue, -1)
local base = last and redis.call('zscore', deadlines, last) - now or redis.call('pttl', lock)
redis.call('zadd', deadlines, base + wait + now, owner)
redis.call('rpush', queue, owner)
return base
