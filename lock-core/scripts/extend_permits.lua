-- Extends the leases of permits; never shortens one, never revives one. For each hold 1: all held; 0: not all; one
-- alone as a number.
-- KEYS: held permits {id of 16 bytes: end in ms of the epoch}.  ARGV: lease in ms, the ids of each hold in one.
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local until_ms = now + tonumber(ARGV[1])
local held = {}
for i, key in ipairs(KEYS) do
    local ids = ARGV[i + 1]
    held[i] = 1
    for at = 1, #ids, 16 do
        local id = string.sub(ids, at, at + 15)
        local ends = tonumber(redis.call('zscore', key, id) or 0)
        if ends <= now then
            held[i] = 0
        elseif ends < until_ms then
            redis.call('zadd', key, until_ms, id)
        end
    end
end
return #KEYS == 1 and held[1] or held
