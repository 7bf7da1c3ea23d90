-- A client says that its waiters are alive, and hears how things stand; a lock that became free without a release goes to the
-- next in the line. {server's us, who stands in the client's place, what is left of the hold in ms, -1 without end, -2: free,
-- [owner, token]: who holds it}.
-- ARGV: client, how long it counts as alive in ms, 1: it is subscribed, publish command, longest unclaimed lease in ms.
local client, now = ARGV[1], clock()
local rest = string.match(redis.call('hget', line, client) or '', '^%d+ %d (.+)$')
-- A place without a rank is never called, so it is none: whoever stands in it asks again, and says since when he has waited.
if rest and not redis.call('zscore', order, client) then
    vacate(client)
    rest = nil
end
if rest then
    redis.call('hset', line, client, string.format('%.0f %s %s', now / 1000 + ARGV[2], ARGV[3], rest))
    keep()
end
local left = redis.call('pttl', lock)
if left == -2 and pass(now, tonumber(ARGV[5]), ARGV[4], nil, client) then
    left = redis.call('pttl', lock)
    rest = redis.call('hget', line, client)
end
local answer = {now, string.match(rest or '', ' (%S+)$') or '', left}
if left ~= -2 then
    answer[4], answer[5] = redis.call('hkeys', lock)[1], this_token()
end
return answer
