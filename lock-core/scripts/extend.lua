-- Extends the leases of holds, each of an owner that holds once; never shortens one and never makes one. For each 1: held; 0: not; one
-- alone as a number.
-- KEYS: locks.  ARGV: lease in ms, the owner of each lock.
local lease, held = tonumber(ARGV[1]), {}
for i = 1, #KEYS do
    held[i] = redis.call('hexists', KEYS[i], ARGV[i + 1])
    if held[i] == 1 and redis.call('pttl', KEYS[i]) < lease then
        redis.call('pexpire', KEYS[i], ARGV[1])
    end
end
return held[2] and held or held[1]
