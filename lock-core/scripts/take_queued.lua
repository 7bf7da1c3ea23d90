-- Takes the lock, or a place in its line. {1, token, server's us}: held for the whole lease; {0, what is left of another's
-- hold in ms, -1 without end, server's us}: not.
-- ARGV: lease in ms, owner, publish command, longest unclaimed lease in ms, [client, how long it counts as alive in ms, 1: it is
-- subscribed]. Without a client it is a try, which takes no place.
local lease, owner, client = tonumber(ARGV[1]), ARGV[2], ARGV[5]
local now = clock()
local left = redis.call('pttl', lock)
if left ~= -2 and redis.call('hexists', lock, owner) == 1 then
    -- A repetition, or somebody who was called meanwhile: either way the answer is heard.
    if left < lease then
        redis.call('pexpire', lock, lease)
    end
    return {1, tonumber(redis.call('get', counter)), now}
end
if left == -2 then
    local called, token, ms = pass(now, tonumber(ARGV[4]), ARGV[3], owner, client)
    if not called then
        token = redis.call('incr', counter)
        leave(owner)
        redis.call('hset', lock, owner, 1)
        redis.call('pexpire', lock, lease)
        called = owner
    end
    if called == owner then
        return {1, token, now}
    end
    left = ms
end
if client then
    if redis.call('hexists', line, 'o:' .. owner) == 0 then
        local place = redis.call('hincrby', line, 'tail', 1)
        redis.call('hset', line, 'w:' .. place, string.format('%d %s %s', lease, client, owner), 'o:' .. owner, place)
        redis.call('hincrby', line, 'n:' .. client, 1)
    end
    redis.call('hset', line, 'c:' .. client, string.format('%.0f %s', now / 1000 + ARGV[6], ARGV[7]))
    redis.call('pexpire', line, LINE_MS)
end
return {0, left, now}
