-- Takes several locks away from their holders. How many were held.
-- KEYS: locks.  ARGV: PUBLISH or SPUBLISH or BOTH, their channels.
local held = 0
for i = 1, #KEYS do
    if redis.call('del', KEYS[i]) == 1 then
        held = held + 1
        speak(ARGV[i + 1], ARGV[1], '0')
    end
end
return held
