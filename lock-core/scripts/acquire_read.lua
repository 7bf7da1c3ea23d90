-- Takes a read hold. nil: held; what is left of a writer's lease in ms, -1 without end; -3: this acquire was settled before.
-- KEYS: lock, waiting writers, [the owner's list, acquire record].  ARGV: lease in ms, owner, 1: writers who wait come first;
-- 2: only where somebody reads.
-- An owner that writes may read too.
local lock, list, record, lease, owner = KEYS[1], KEYS[3], KEYS[4], tonumber(ARGV[1]), ARGV[2]
local found = redis.call('hmget', lock, 'mode', owner, owner .. ':write')
local mode, count, writes = found[1], found[2], found[3]
local left = -2
if count then
    left = read_left(lock, owner, count)
end
if left ~= -2 then
    if record then
        if not opens(record, lease, false) then
            return -3
        end
        local longest, all = count_in(lock, owner, list, id_of(record), lease, left)
        number_endings(lock, owner, all, count)
        extend_end(lock, longest)
    elseif left < lease then
        extend_end(ending(lock, owner, 1), lease)
        extend_end(lock, lease)
    end
    return nil
end
local ends = mode == 'write' and writes and write_left(lock, owner, count)
local under_write = ends and ends ~= -2
if not under_write then
    if mode == 'write' then
        mode, ends = settled_mode(lock)
    elseif not mode then
        -- Held as a lock of another kind, by one that neither reads nor writes.
        local other = redis.call('pttl', lock)
        if other ~= -2 then
            return other
        end
    end
    if mode == 'write' then
        return ends
    end
    local last = (ARGV[3] == '1' or ARGV[3] == '2' and mode) and redis.call('zrange', KEYS[2], -1, -1, 'withscores')[2]
    if last then
        local now = redis.call('time')
        now = now[1] * 1000 + math.floor(now[2] / 1000)
        if tonumber(last) > now then
            return math.floor(tonumber(last) - now)
        end
    end
end
if record then
    if not opens(record, lease, true) then
        return -3
    end
    redis.call('set', list, id_of(record), 'px', lease)
end
if under_write and ends ~= -1 then
    redis.call('set', ending(lock, owner .. ':write', 1), PLAIN, 'px', math.max(ends, 1))
    redis.call('set', ending(lock, owner, 1), UNDER_WRITE, 'px', lease)
else
    redis.call('set', ending(lock, owner, 1), PLAIN, 'px', lease)
end
if mode then
    redis.call('hset', lock, owner, 1)
    extend_end(lock, lease)
else
    redis.call('hset', lock, 'mode', 'read', owner, 1)
    local kept = redis.pcall('pexpire', lock, lease)
    if kept ~= 1 then
        -- A user who may not: no lock stays without an end.
        redis.call('del', lock)
        return kept
    end
end
return nil
