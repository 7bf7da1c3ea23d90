-- A client says that its waiters are alive, and hears how things stand; a lock that became free without a release goes to the
-- next in the line. {server's us, who stands in the client's place, what is left of the hold in ms, -1 without end, -2: free,
-- [owner, token]: who holds it}.
-- ARGV: client, how long it counts as alive in ms, 1: it is subscribed, publish command, longest unclaimed lease in ms, the first of its
-- owners who wait, for how many us that one has waited.
-- Clocks that are less apart count as one.
local CLOCK_US = 100000
local client, alive_ms, now = ARGV[1], ARGV[2], clock()
local rest = string.match(redis.call('hget', line, client) or '', '^%d+ %d (.+)$')
local rank = rest and redis.call('zscore', order, client)
-- A place without a rank is never called, so it is none: the owner that stands in it asks again, and says since when it has waited.
if rest and not rank then
    vacate(client)
    rest = nil
end
if rest then
    -- A question that took its time makes a rank too late, never too early. A rank that is later than this one says is of a clock that
    -- was ahead: it was set back, or was another server's. Every place that was written by it lies so much too late, and lasts too long.
    local excess = rank - (now - ARGV[7])
    if excess > CLOCK_US and string.match(rest, '%S+$') == ARGV[6] then
        local ranks = redis.call('zrange', order, 0, -1, 'withscores')
        for i = 1, #ranks, 2 do
            local alive, what = string.match(redis.call('hget', line, ranks[i]) or '', '^(%d+)( .+)$')
            if alive and (ranks[i] == client or alive - alive_ms - now / 1000 > CLOCK_US / 1000) then
                redis.call('zadd', order, string.format('%.0f', ranks[i + 1] - excess), ranks[i])
                redis.call('hset', line, ranks[i], string.format('%.0f%s', alive - excess / 1000, what))
            end
        end
    end
    redis.call('hset', line, client, string.format('%.0f %s %s', now / 1000 + alive_ms, ARGV[3], rest))
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
