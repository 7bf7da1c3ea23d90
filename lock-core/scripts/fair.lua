-- What the scripts of a fair lock share; put in front of each. KEYS: lock, queue, deadlines, offer, channel.
-- RFairLock's keys: the lock is a hash {owner: count}; the queue a list of owners; the deadlines a sorted set of the ms until
-- when each counts as waiting, here always by the server's clock. Each waits on the channel <channel>:<owner>.
-- The offer is ours: "<owner> <server's ms> <grace in ms> <witness>", who was called last for a free lock, and somebody of ours who
-- stood behind it then. RFairLock leaves a free lock to its head until the head's deadline, which may be minutes away.
-- One of ours that is the head still has surely not come: whoever of us takes the lock, or queues while it is held, deletes the offer.
-- A peer comes and goes by its own scripts, which leave the offer as it is, and may be the head again when we look next. But it queues
-- again behind the witness; so only as long as the witness stands there it has surely not come.
local lock, queue, deadlines, offer, channel = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
-- A waiter that heard its call has so long to come; one for which nobody listened may be about to subscribe, which it does after it has
-- taken its place: ours from 25 ms away, without a connection for that yet, 200 ms later; Redisson on a busy machine 390 ms after its start.
local HEARD_MS, UNHEARD_MS, UNHEARD_PEER_MS = 1000, 250, 500
-- A peer that takes the lock by RFairLock's scripts, or gives up by them, takes its wait from the deadline of each that stays: 300 s if
-- its caller names no other, here up to an hour. We take nothing from anybody. So one of ours needs so much in hand for each peer that is ahead
-- of it, and nothing for ours; at the head it has what a place lasts, and leaves a peer no longer than that if its client dies.
local WAIT_MS, MOST_WAITS = 300000, 12
-- For so long the line outlasts the last deadline in it, however far away that is, up to ten years. RFairLock's scripts move no end: a
-- line of peers alone that is never empty ends a day after the last deadline that one of us saw, and must not end sooner.
local KEPT_MS, MOST_MS = 86400000, 315360000000

local function clock()
    local now = redis.call('time')
    return now[1] * 1000 + math.floor(now[2] / 1000)
end

-- The ids of our clients are UUIDs of version 8, those of RFairLock's of version 4.
local function ours(owner)
    return string.sub(owner, 15, 15) == '8'
end

-- Until when one of ours counts as waiting behind so many peers; the last of them counts until `last`, which says how long they wait.
local function until_when(now, place, last, least, most)
    local waits = math.ceil((last - now - place) / WAIT_MS)
    return now + place + WAIT_MS * math.max(least, math.min(waits, most))
end

-- The owner with the last deadline in the line, and that deadline; nobody and now, if there is none.
local function farthest(now)
    local last = redis.call('zrange', deadlines, -1, -1, 'withscores')
    return last[1] or '', tonumber(last[2] or now)
end

-- Lets the line end some time if nobody ever comes again.
local function keep(now, last)
    local ms = string.format('%.0f', math.min(math.max(last - now, 0), MOST_MS) + KEPT_MS)
    local kept, dated = redis.pcall('pexpire', queue, ms), redis.pcall('pexpire', deadlines, ms)
    if type(kept) == 'table' or type(dated) == 'table' then
        -- A user who may not: no line stays without an end. Who stood in it queues again.
        for _, key in ipairs({queue, deadlines}) do
            if redis.call('pttl', key) == -1 then
                redis.call('del', key)
            end
        end
        redis.call('pexpire', deadlines, ms)
    end
end

-- Takes an owner out of the line; how often it was in it.
local function leave(owner)
    redis.call('zrem', deadlines, owner)
    return redis.call('lrem', queue, 0, owner)
end

-- The first in the line whose deadline has not passed. Who has no deadline was left behind by half a script.
local function first(now)
    while true do
        local head = redis.call('lindex', queue, 0)
        if not head then
            return nil
        end
        local deadline = redis.call('zscore', deadlines, head)
        if deadline and tonumber(deadline) > now then
            return head
        end
        redis.call('lpop', queue)
        redis.call('zrem', deadlines, head)
    end
end

-- Notifies an owner that it is its turn; false if nobody heard it. A user who may not publish cannot know.
local function tell(owner, publish)
    local heard = false
    for _, command in ipairs({'PUBLISH', 'SPUBLISH'}) do
        if publish == command or publish == 'BOTH' then
            heard = redis.pcall(command, channel .. ':' .. owner, '0') ~= 0 or heard
        end
    end
    return heard
end

-- Somebody of these who is not the head; '-' if nobody is.
local function behind(head, ours)
    for _, owner in ipairs(ours or {}) do
        if owner ~= head then
            return owner
        end
    end
    return '-'
end

-- Whether an owner is one of these.
local function among(owner, these)
    for _, each in ipairs(these or {}) do
        if each == owner then
            return true
        end
    end
    return false
end

-- Those who have lost their place in this script.
local passed = {}

-- Calls the first in the line of a free lock, unless it is the one that asks. One that was called and has surely not come loses
-- its place. Returns it and for how long the lock is kept for it. `there` are ours that stand in the line, or will when this script ends;
-- their client hears the answer, so each of them has the time of one that heard its call.
local function call(now, publish, asker, there)
    local gone, silent
    while true do
        local head = first(now)
        if not head or head == asker then
            return head, 0
        end
        local said = redis.call('get', offer) or ''
        local owner, since, grace, witness = string.match(said, '^(%S+) (%d+) (%d+) (%S+)$')
        local spent, heard = owner == head and now - since, among(head, there)
        if spent and heard and tonumber(grace) < HEARD_MS then
            spent = false
        end
        local proven = spent and (ours(head) or redis.call('lpos', queue, witness))
        local other = not proven and behind(head, there)
        if proven and spent >= tonumber(grace) then
            passed[head] = leave(head) > 0
            gone, silent = ours(head) and string.sub(head, 1, 36), tonumber(grace) < HEARD_MS
        elseif proven or (other == '-' and spent and spent < tonumber(grace)) then
            return head, grace - spent
        else
            -- All of a client of ours listen in one place. If its first did not come, nobody waits as long again for its next.
            local same, told = gone == string.sub(head, 1, 36), tell(head, publish)
            if same and silent and not told then
                passed[head] = leave(head) > 0
            else
                local long = heard or told and not same
                grace = long and HEARD_MS or ours(head) and UNHEARD_MS or UNHEARD_PEER_MS
                redis.call('set', offer, string.format('%s %.0f %d %s', head, now, grace, other), 'px', 10 * HEARD_MS)
                return head, grace
            end
        end
    end
end
