-- Takes a lock that is a hash {owner: count}, with a token. {token}: held; else as acquire.lua.
-- KEYS: lock, token counter, [acquire latch].  ARGV: lease in ms, owner, [latch in ms].
-- The counter is never behind the server's clock in microseconds: it goes on rising when it was lost, or when a
-- replica that had not seen its last steps became the master.
local function next_token()
    local token = redis.call('incr', KEYS[2])
    local now = redis.call('time')
    local floor = now[1] * 1000000 + now[2]
    if token < floor then
        token = floor
        redis.call('set', KEYS[2], string.format('%.0f', token))
    end
    return token
end
local left = redis.call('pttl', KEYS[1])
if left == -2 then
    if KEYS[3] and not redis.call('set', KEYS[3], '1', 'px', ARGV[3], 'nx') then
        return -3
    end
    redis.call('hset', KEYS[1], ARGV[2], 1)
    redis.call('pexpire', KEYS[1], ARGV[1])
    return {next_token()}
end
if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
    return left
end
local again = KEYS[3] and redis.call('set', KEYS[3], '1', 'px', ARGV[3], 'nx')
if again then
    redis.call('hincrby', KEYS[1], ARGV[2], 1)
end
if left < tonumber(ARGV[1]) then
    redis.call('pexpire', KEYS[1], ARGV[1])
end
-- A repetition gets the token of the first time, which nobody else can have moved on from.
return {not again and tonumber(redis.call('get', KEYS[2]) or nil) or next_token()}
