-- What the scripts of a queued lock share; put in front of each. KEYS: lock, token counter, line, order of the line.
-- The lock is a hash {owner: 1}, as RLock's, so that each excludes the other. A client has one place in the line, for that of its
-- owners who came first; the others wait in the client. The line is a hash:
--   <client>     "<server's ms until when it counts as alive> <1: it is subscribed> <terms> <owner>"
-- where the terms are "<lease in ms>" or "<lease in ms>:<life of the counter in ms>"; and its order a sorted set of the same
-- clients, by the server's us at which the owner in the place came.
-- A client listens on the channel <line>:<client>.
local lock, counter, line, order = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
-- A line that nobody has touched for so long has no live waiter.
local LINE_MS = 15000

local function clock()
    local now = redis.call('time')
    return now[1] * 1000000 + now[2]
end

-- Keeps the line; waiters do so by their heartbeats.
local function keep()
    local kept, ranked = redis.pcall('pexpire', line, LINE_MS), redis.pcall('pexpire', order, LINE_MS)
    if type(kept) == 'table' or type(ranked) == 'table' then
        -- A user who may not: no line stays without an end. Who stood in it asks again.
        for _, key in ipairs({line, order}) do
            if redis.call('pttl', key) == -1 then
                redis.call('del', key)
            end
        end
        redis.call('pexpire', order, LINE_MS)
    end
end

-- The owner in a client's place, if there is one.
local function standing(client)
    return string.match(redis.call('hget', line, client) or '', ' (%S+)$')
end

-- Puts an owner into its client's place.
local function place(client, came, alive, subscribed, terms, owner)
    redis.call('hset', line, client, string.format('%.0f %s %s %s', alive, subscribed, terms, owner))
    local rank = string.format('%.0f', came)
    if type(redis.pcall('zadd', order, rank, client)) == 'table' then
        -- A user who may not: a place without a rank is none, and might stay without an end.
        redis.call('hdel', line, client)
        redis.call('zadd', order, rank, client)
    end
end

local function vacate(client)
    redis.call('zrem', order, client)
    redis.call('hdel', line, client)
end

-- Whether a client has a place at the head of the line, and whether another has one who came before `came`, or at all.
local function ahead(client, came)
    local first = redis.call('zrange', order, 0, 1, 'withscores')
    if not first[1] then
        return false, false
    end
    local other = first[1] == client and 3 or 1
    local behind = first[other] and (not came or tonumber(first[other + 1]) < came)
    return first[1] == client or first[3] == client, behind
end

-- The token of the hold that there is; where its counter is gone, one above it.
local function this_token()
    return tonumber(redis.call('get', counter) or nil) or clock()
end

-- Gives a free lock to an owner, for `window` ms at most if that is said; returns token and lease. The counter is that of the fenced
-- kind, which may have had an end: a new one begins at the server's clock in microseconds, which is above every token issued before.
-- With a life, in ms, it ends when nobody has had the lock for so long; the life is that of the owner's own terms, since the client
-- that calls it may know of none.
local function grant(owner, terms, window)
    local lease, life = string.match(terms, '^(%d+):?(%d*)$')
    lease, life = tonumber(lease), tonumber(life)
    -- The token first: without one there is to be no hold either.
    local token = redis.call('incr', counter)
    life = life and math.max(life, lease)
    if token == 1 then
        token = clock()
        local text, put = string.format('%.0f', token), nil
        if life then
            put = redis.pcall('set', counter, text, 'px', life)
        else
            put = redis.pcall('set', counter, text)
        end
        if type(put) == 'table' and put.err then
            -- A user who may not: no counter stays that began at 1, or that has no end and should.
            redis.call('del', counter)
            redis.call('set', counter, text)
        end
    elseif life then
        local ends = redis.call('pttl', counter)
        -- A peer's has none, and would begin at 1 after it.
        if ends ~= -1 and ends < life then
            redis.call('pexpire', counter, life)
        end
    end
    lease = window and math.min(lease, window) or lease
    redis.call('hset', lock, owner, 1)
    if redis.pcall('pexpire', lock, lease) ~= 1 then
        -- A user who may not: no lock stays without an end.
        redis.call('del', lock)
        redis.call('pexpire', lock, lease)
    end
    return token, lease
end

-- Whether somebody listens on a channel at this server.
local function listens(count, channel)
    local answer = redis.pcall('pubsub', count, channel)
    -- Who may not ask has to believe that somebody does.
    return answer.err or answer[2] > 0
end

-- Gives a free lock to the first in the line that is there to take it, and says so on its client's channel. Nothing: nobody is.
-- `window` is the longest lease of a hold that was not asked for just now: its holder has to claim the rest. `asker` asks
-- itself and `client` hears the answer to this very script: they need no message to know. `now` is nil if nobody has looked.
local function pass(now, window, publish, asker, client)
    local kept, called, token, lease
    while not called do
        local head = redis.call('zpopmin', order)
        local whose = head[1]
        if not whose then
            break
        end
        now = now or clock()
        local entry = redis.call('hget', line, whose) or ''
        local alive, ready, terms, owner = string.match(entry, '^(%d+) (%d) (%S+) (%S+)$')
        local channel = line .. ':' .. whose
        if not alive or tonumber(alive) * 1000 < now then
            redis.call('hdel', line, whose)
        elseif owner == asker or whose == client or ready == '0'
            or publish ~= 'SPUBLISH' and listens('numsub', channel)
            or publish ~= 'PUBLISH' and listens('shardnumsub', channel) then
            called = owner
            redis.call('hdel', line, whose)
            token, lease = grant(owner, terms, owner ~= asker and window)
            if owner ~= asker then
                -- Only of what is so: a message also reaches those whom this server does not count, at another node of a cluster or
                -- at a replica, and the owner that is named in one holds the lock.
                local message = string.format('%s %d %.0f %d', owner, token, now, lease)
                if publish == 'BOTH' then
                    redis.pcall('PUBLISH', channel, message)
                    publish = 'SPUBLISH'
                end
                redis.pcall(publish, channel, message)
            end
        else
            -- One that is subscribed and does not hear is dead or cut off; it keeps its place as long as it counts as alive.
            kept = kept or {}
            kept[#kept + 1] = head
        end
    end
    if kept then
        -- One by one: a call takes no more than some thousand arguments.
        for _, head in ipairs(kept) do
            redis.call('zadd', order, head[2], head[1])
        end
        -- Of a line that was emptied meanwhile the end is gone.
        keep()
    end
    return called, token, lease
end
