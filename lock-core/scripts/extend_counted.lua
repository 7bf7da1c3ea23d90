-- Extends one hold of an owner that may have several, of one lock or of several as one; never shortens it and never makes one. 1:
-- held; 0: not.
-- KEYS: locks, the owner's list of each, acquire record.  ARGV: lease in ms, owner.
local lease, owner, count = tonumber(ARGV[1]), ARGV[2], (#KEYS - 1) / 2
local record = KEYS[#KEYS]
local id = id_of(record)
if redis.call('get', record) ~= '1' then
    return 0
end
for i = 1, count do
    if redis.call('hexists', KEYS[i], owner) == 0 or not rest_of(KEYS[count + i], id) then
        return 0
    end
end
-- The first write of all is one that a server without memory takes.
redis.call('pexpire', record, math.max(redis.call('pttl', record), lease))
for i = 1, count do
    local left = redis.call('pttl', KEYS[i])
    redis.call('pexpire', KEYS[i], (count_in(KEYS[i], owner, KEYS[count + i], id, lease, left)))
end
return 1
