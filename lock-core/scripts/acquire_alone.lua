-- The first hold of an owner that may have several, of one lock: in front of what acquire_all.lua needs for more, since most are alone.
-- KEYS: lock, the owner's list, acquire record.  ARGV: lease in ms, owner.
if redis.call('pttl', KEYS[1]) == -2 then
    if not redis.call('set', KEYS[3], '1', 'px', ARGV[1], 'nx') then
        return -3
    end
    redis.call('set', KEYS[2], string.sub(KEYS[3], -32), 'px', ARGV[1])
    redis.call('hset', KEYS[1], ARGV[2], 1)
    local kept = redis.pcall('pexpire', KEYS[1], ARGV[1])
    if kept ~= 1 then
        -- A user who may not: no lock stays without an end.
        redis.call('del', KEYS[1])
        return kept
    end
    return nil
end
