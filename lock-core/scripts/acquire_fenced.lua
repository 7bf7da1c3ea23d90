-- Takes a lock that is a hash {owner: count}, with a token. {token}: held; else as acquire_all.lua.
-- KEYS: lock, token counter, [the owner's list, acquire record].  ARGV: lease in ms, owner, life of the counter in ms or 0.
-- Without a life the counter is that of RFencedLock: 1, 2, 3 and no end. With one it ends when nobody has taken the lock
-- for so long, and the next begins at the server's clock in microseconds, which is above every token issued before.
local life = tonumber(ARGV[3])
local function next_token()
    if life == 0 then
        return redis.call('incr', KEYS[2])
    end
    local ends = redis.call('pttl', KEYS[2])
    if ends == -2 then
        local now = redis.call('time')
        local token = now[1] * 1000000 + now[2]
        redis.call('set', KEYS[2], string.format('%.0f', token), 'px', life)
        return token
    end
    if ends < life then
        redis.call('pexpire', KEYS[2], life)
    end
    return redis.call('incr', KEYS[2])
end
local left = redis.call('pttl', KEYS[1])
if left ~= -2 and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return left
end
-- One counter has an end or has none: two sorts of client on one name would see it start over.
if life > 0 and redis.call('pttl', KEYS[2]) == -1 then
    return redis.error_reply('ENDLESS the token counter of this lock has no end: a client without a token life uses it')
end
local lease, list, record = tonumber(ARGV[1]), KEYS[3], KEYS[4]
local free = left == -2
local open, again = true, not free
if record then
    open, again = opens(record, lease, free)
end
if not open then
    return -3
end
-- The token first: without one there is to be no hold either. A repetition gets the token of the first time, which nobody else can
-- have moved on from.
local token = again and tonumber(redis.call('get', KEYS[2]) or nil) or next_token()
if record then
    lease = count_in(KEYS[1], ARGV[2], list, id_of(record), lease, left)
elseif free then
    redis.call('hset', KEYS[1], ARGV[2], 1)
end
if record or left < lease then
    local kept = redis.pcall('pexpire', KEYS[1], lease)
    if kept ~= 1 then
        -- A user who may not: no lock stays without an end.
        if free then
            redis.call('del', KEYS[1])
        end
        -- Said as what broke off, so that one of several holds is undone.
        return redis.call('pexpire', KEYS[1], lease)
    end
end
return {token}
