-- Lengthens the leases of holds; never shortens one and never makes one. For each 1: held; 0: not; one alone as a number.
-- KEYS: locks, [acquire latch, of one hold alone].  ARGV: lease in ms, the owner of each lock.
-- Without its latch a hold of an owner that may have several cannot be given back, so it is not lengthened either; and the latch never
-- outlives the lock.
local lease, count = tonumber(ARGV[1]), #ARGV - 1
local latch = KEYS[count + 1]
local known = not latch or redis.call('get', latch) == '1'
local function lengthen(key)
    if redis.call('pttl', key) < lease then
        redis.call('pexpire', key, ARGV[1])
    end
end
local held, all = {}, known
for i = 1, count do
    held[i] = known and redis.call('hexists', KEYS[i], ARGV[i + 1]) or 0
    if held[i] == 1 then
        lengthen(KEYS[i])
    else
        all = false
    end
end
if latch and all then
    lengthen(latch)
end
return held[2] and held or held[1]
