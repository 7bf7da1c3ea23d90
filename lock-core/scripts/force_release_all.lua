-- Takes several locks away from whoever holds them. How many were held.
-- KEYS: locks, their channels.  ARGV: PUBLISH or SPUBLISH or BOTH.
local count, held = #KEYS / 2, 0
for i = 1, count do
    if redis.call('del', KEYS[i]) == 1 then
        held = held + 1
        if ARGV[1] ~= 'SPUBLISH' then
            redis.pcall('publish', KEYS[count + i], '0')
        end
        if ARGV[1] ~= 'PUBLISH' then
            redis.pcall('spublish', KEYS[count + i], '0')
        end
    end
end
return held
