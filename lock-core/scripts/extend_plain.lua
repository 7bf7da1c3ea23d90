-- Extends the leases of holds; never shortens one and never makes one. For each 1: held; 0: not; one alone as a number.
-- KEYS: locks.  ARGV: lease in ms, the value of each.
local lease = tonumber(ARGV[1])
local function extend(lock, value)
    if redis.call('get', lock) ~= value then
        return 0
    end
    if redis.call('pttl', lock) < lease then
        redis.call('pexpire', lock, ARGV[1])
    end
    return 1
end
if #KEYS == 1 then
    return extend(KEYS[1], ARGV[2])
end
local held = {}
for i, lock in ipairs(KEYS) do
    held[i] = extend(lock, ARGV[i + 1])
end
return held
