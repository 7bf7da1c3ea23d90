-- Takes permits by their ids. {what is left}: taken; else in how many ms the next one expires, -1 if none does.
-- ARGV: lease in ms, PUBLISH or SPUBLISH or BOTH, the ids in one.
-- A repetition finds its ids: it takes nothing more, and its lease begins anew.
count_back(ARGV[2])
local ids = ARGV[3]
local wanted, taken = #ids / 16, 0
if not redis.call('zscore', KEYS[2], string.sub(ids, 1, 16)) then
    if not free or free < wanted then
        local first = redis.call('zrange', KEYS[2], 0, 0, 'withscores')
        return first[2] and tonumber(first[2]) - now or -1
    end
    free = redis.call('decrby', KEYS[1], wanted)
    taken = wanted
end
for at = 1, #ids, 16 do
    local put = redis.pcall('zadd', KEYS[2], now + tonumber(ARGV[1]), string.sub(ids, at, at + 15))
    if type(put) == 'table' then
        -- A user who may not: what has no id is not held, and could not be given back by one.
        add(taken, ARGV[2])
        return put
    end
end
local left = redis.call('pttl', KEYS[1])
if left > 0 then
    redis.call('pexpire', KEYS[2], left)
end
return {free or 0}
