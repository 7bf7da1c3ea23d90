-- Takes several locks that are hashes {owner: count}, all of them or none. nil: held; else for how long at least one of them is
-- another's in ms, -1 without end; -3: this acquire was settled before; -4: the owner has them and may have them only once.
-- KEYS: locks, [the owner's list of each, acquire record: of an owner that may hold several times].  ARGV: lease in ms, owner, how many
-- locks, ['once'].
local lease, owner, count = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3])
local record = KEYS[2 * count + 1]
local lefts, free, longest = {}, false, nil
for i = 1, count do
    local left = redis.call('pttl', KEYS[i])
    lefts[i] = left
    if left == -2 then
        free = true
    elseif redis.call('hexists', KEYS[i], owner) == 0 then
        longest = (left == -1 or longest == -1) and -1 or math.max(longest or 0, left)
    end
end
if longest then
    return longest
end
if record then
    if ARGV[4] == 'once' and not free and redis.call('exists', record) == 0 then
        return -4
    end
    -- What was had by this very acquire and is not there any more is not taken again.
    if not opens(record, lease, free) then
        return -3
    end
end
for i = 1, count do
    local lasts = lease
    if record then
        lasts = count_in(KEYS[i], owner, KEYS[count + i], id_of(record), lease, lefts[i])
    elseif lefts[i] == -2 then
        redis.call('hset', KEYS[i], owner, 1)
    end
    if record or lefts[i] < lease then
        local kept = redis.pcall('pexpire', KEYS[i], lasts)
        if kept ~= 1 then
            -- A user who may not: no lock stays without an end.
            if lefts[i] == -2 then
                redis.call('del', KEYS[i])
            end
            return redis.call('pexpire', KEYS[i], lasts)
        end
    end
end
return nil
