-- Takes a write hold. nil: held; how long at most others hold it in ms, -1 without end; -3: this acquire was settled before; -4: the
-- owner reads, and a reader becomes no writer.
-- KEYS: lock, waiting writers, [the owner's list, acquire record].  ARGV: lease in ms, owner, how long it is to come before new readers
-- in ms or 0.
local lock, list, record, lease, owner = KEYS[1], KEYS[3], KEYS[4], tonumber(ARGV[1]), ARGV[2]
local mine = owner .. ':write'
local found = redis.call('hmget', lock, 'mode', mine, owner)
local mode, count, reads = found[1], found[2], found[3]
local left = count and write_left(lock, owner, reads) or -2
if left ~= -2 then
    if record then
        if not opens(record, lease, false) then
            return -3
        end
        lease = count_in(lock, mine, list, id_of(record), lease, left)
    end
    if reads then
        extend_end(ending(lock, mine, 1), lease)
    end
    extend_end(lock, lease)
    return nil
end
if mode == 'write' then
    mode = settled_mode(lock)
elseif not mode then
    -- Held as a lock of another kind, by one that neither reads nor writes.
    local other = redis.call('pttl', lock)
    if other ~= -2 then
        return other
    end
end
if mode == 'read' then
    if sweep_readers(lock) == -2 then
        mode = false
    elseif redis.call('hexists', lock, owner) == 1 then
        return -4
    end
end
if mode then
    if ARGV[3] ~= '0' then
        local now = redis.call('time')
        now = now[1] * 1000 + math.floor(now[2] / 1000)
        redis.call('zremrangebyscore', KEYS[2], '-inf', now)
        redis.call('zadd', KEYS[2], now + ARGV[3], owner)
        local kept = redis.pcall('pexpire', KEYS[2], ARGV[3])
        if kept ~= 1 then
            redis.call('zrem', KEYS[2], owner)
            return kept
        end
    end
    return redis.call('pttl', lock)
end
if record then
    if not opens(record, lease, true) then
        return -3
    end
    redis.call('set', list, id_of(record), 'px', lease)
end
redis.call('hset', lock, 'mode', 'write', mine, 1)
local kept = redis.pcall('pexpire', lock, lease)
if kept ~= 1 then
    -- A user who may not: no lock stays without an end.
    redis.call('del', lock)
    return kept
end
if ARGV[3] ~= '0' then
    redis.call('zrem', KEYS[2], owner)
end
return nil
