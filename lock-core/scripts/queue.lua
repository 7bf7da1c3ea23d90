-- What the scripts of a queued lock share; put in front of each. KEYS: lock, token counter, line.
-- The lock is a hash {owner: 1}, as RLock's, so that each excludes the other. The line is one hash:
--   head, tail        the last place that was called, and the last that was given out
--   w:<place>         "<lease in ms> <client> <owner>" of who waits there
--   o:<owner>         his place
--   c:<client>        "<server's ms until when it counts as alive> <1: it is subscribed>"
--   n:<client>        how many of its owners wait
--   at                "<owner> <server's us> <ms>": who was called last, when, and for how long
-- A client listens on the channel <line>:<client>.
local lock, counter, line = KEYS[1], KEYS[2], KEYS[3]
-- A line that nobody has touched for so long has no live waiter.
local LINE_MS = 15000

local function clock()
    local now = redis.call('time')
    return now[1] * 1000000 + now[2]
end

-- Empties the place of one of a client's owners.
local function empty(place, client, owner)
    redis.call('hdel', line, 'o:' .. owner, 'w:' .. place)
    if redis.call('hincrby', line, 'n:' .. client, -1) <= 0 then
        redis.call('hdel', line, 'n:' .. client, 'c:' .. client)
    end
end

-- Takes an owner out of the line; true if he was in it.
local function leave(owner)
    local place = redis.call('hget', line, 'o:' .. owner)
    if not place then
        return false
    end
    empty(place, string.match(redis.call('hget', line, 'w:' .. place), '^%S+ (%S+)'), owner)
    return true
end

-- Gives a free lock to the first in the line who is there to take it, and says so on his client's channel. Nothing: nobody is.
-- `window` is the longest lease of a hold that was not asked for just now: its holder has to claim the rest. `asker` asks
-- himself and `client` hears the answer to this very script: they need no message to know. `now` is nil if nobody has looked.
local function pass(now, window, publish, asker, client)
    local ends = redis.call('hmget', line, 'head', 'tail')
    if not ends[2] then
        return
    end
    now = now or clock()
    local place, tail = tonumber(ends[1] or 0), tonumber(ends[2] or 0)
    local head, kept, token = place, false, nil
    while place < tail do
        place = place + 1
        local entry = redis.call('hget', line, 'w:' .. place)
        if entry then
            local lease, whose, owner = string.match(entry, '^(%d+) (%S+) (%S+)$')
            local alive, ready = string.match(redis.call('hget', line, 'c:' .. whose) or '0 0', '^(%d+) (%d)$')
            if tonumber(alive) * 1000 < now then
                empty(place, whose, owner)
            else
                lease = tonumber(lease)
                if owner ~= asker then
                    lease = math.min(lease, window)
                end
                -- The token first: without one there is to be no hold either. One that nobody heard of is used again.
                token = token or redis.call('incr', counter)
                -- Who is subscribed and does not hear is dead or cut off; he keeps his place as long as he counts as alive.
                local heard = owner == asker or whose == client or ready == '0'
                if owner ~= asker then
                    local message = string.format('%s %d %.0f %d', owner, token, now, lease)
                    local ears = redis.pcall(publish == 'BOTH' and 'PUBLISH' or publish, line .. ':' .. whose, message)
                    heard = heard or (type(ears) == 'number' and ears > 0)
                end
                if heard then
                    empty(place, whose, owner)
                    redis.call('hset', lock, owner, 1)
                    redis.call('pexpire', lock, lease)
                    redis.call('hset', line, 'head', kept and head or place, 'at', string.format('%s %.0f %d', owner, now, lease))
                    redis.call('pexpire', line, LINE_MS)
                    return owner, token, lease
                end
                kept = true
            end
        end
        if not kept then
            head = place
        end
    end
    if not kept then
        redis.call('del', line)
    end
end
