-- {id, what is left of its lease in ms, -1 without end, ...} of all held permits, the first to end first.
-- ARGV: PUBLISH or SPUBLISH or BOTH.
count_back(ARGV[1])
local held = redis.call('zrange', KEYS[2], 0, -1, 'withscores')
for at = 2, #held, 2 do
    local ends = tonumber(held[at])
    held[at] = ends < 922337203685477 and ends - now or -1
end
return held
