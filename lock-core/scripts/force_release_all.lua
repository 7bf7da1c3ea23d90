-- Takes several locks away from their holders. How many were held.
-- KEYS: locks.  ARGV: PUBLISH or SPUBLISH or BOTH, their channels.
local held = 0
for i = 1, #KEYS do
    if redis.call('del', KEYS[i]) == 1 then
        held = held + 1
        if ARGV[1] ~= 'SPUBLISH' then
            redis.pcall('publish', ARGV[i + 1], '0')
        end
        if ARGV[1] ~= 'PUBLISH' then
            redis.pcall('spublish', ARGV[i + 1], '0')
        end
    end
end
return held
