-- Takes the lock, or a place in its line. nil: held; {0, for how long it is another's in ms, -1 without end, server's ms}: not; -3:
-- this acquire was settled before.
-- KEYS: and [the owner's list, acquire record].  ARGV: lease in ms, owner, publish command, how long a place lasts in ms or 0 for a
-- try.
local lease, owner, list, record = tonumber(ARGV[1]), ARGV[2], KEYS[6], KEYS[7]
local now = clock()
local left = redis.call('pttl', lock)
if left ~= -2 and redis.call('hexists', lock, owner) == 1 then
    if record then
        if not opens(record, lease, false) then
            return -3
        end
        redis.call('pexpire', lock, (count_in(lock, owner, list, id_of(record), lease, left)))
    elseif left < lease then
        redis.call('pexpire', lock, lease)
    end
    return nil
end
local free, waits = left == -2, ARGV[4] ~= '0'
if free then
    local called, ms = call(now, ARGV[3], owner, waits and {owner})
    if not called or called == owner then
        if record and not opens(record, lease, true) then
            return -3
        end
        -- The hold first: a server without memory refuses it as long as the script has written nothing else.
        if record then
            count_in(lock, owner, list, id_of(record), lease, -2)
        else
            redis.call('hset', lock, owner, 1)
        end
        local kept = redis.pcall('pexpire', lock, lease)
        if kept ~= 1 then
            -- A user who may not: no lock stays without an end.
            redis.call('del', lock)
            return kept
        end
        leave(owner)
        redis.call('del', offer)
        return nil
    end
    left = ms
end
if waits and record and string.sub(redis.call('get', record) or '', 1, 1) == '0' then
    -- Nobody waits for it any more: who gave it up gave its place up too, on another connection, and was faster.
    return -3
end
-- The list decides about the order; the set alone would be no place.
if waits and redis.call('lpos', queue, owner) then
    -- A beat knows better what is ahead.
    redis.call('zadd', deadlines, 'gt', now + ARGV[4], owner)
elseif waits then
    if not free then
        -- Nobody is called any more; and who was a witness once and had left is none.
        redis.call('del', offer)
    end
    local length = redis.call('rpush', queue, owner)
    if length == 1 then
        -- Whose list was lost has no place; RFairLock goes by the deadline alone, and would never put it into the line again.
        redis.call('del', deadlines)
    end
    local tail, last = farthest(now)
    local least = (tail == '' or ours(tail)) and 0 or 1
    local mine = until_when(now, ARGV[4], last, least, MOST_WAITS * (length - 1))
    redis.call('zadd', deadlines, mine, owner)
    keep(now, math.max(last, mine))
end
return {0, left, now}
