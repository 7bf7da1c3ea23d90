-- A client says that its waiters are alive, and hears how things stand; a lock that became free without a release goes to the
-- next in the line. {server's us, how many owners of this client wait, what is left of the hold in ms, -1 without end, -2: free,
-- [owner, token, server's us, ms]: who was called last, if he holds it}.
-- ARGV: client, how long it counts as alive in ms, 1: it is subscribed, publish command, longest unclaimed lease in ms.
local client, now = ARGV[1], clock()
local waiting = tonumber(redis.call('hget', line, 'n:' .. client) or 0)
if waiting > 0 then
    redis.call('hset', line, 'c:' .. client, string.format('%.0f %s', now / 1000 + ARGV[2], ARGV[3]))
    redis.call('pexpire', line, LINE_MS)
end
local left = redis.call('pttl', lock)
if left == -2 and pass(now, tonumber(ARGV[5]), ARGV[4], nil, client) then
    left = redis.call('pttl', lock)
    waiting = tonumber(redis.call('hget', line, 'n:' .. client) or 0)
end
local answer = {now, waiting, left}
local owner, at, ms = string.match(redis.call('hget', line, 'at') or '', '^(%S+) (%d+) (%d+)$')
if owner and redis.call('hexists', lock, owner) == 1 then
    answer[4], answer[5], answer[6], answer[7] = owner, tonumber(redis.call('get', counter)), tonumber(at), tonumber(ms)
end
return answer
