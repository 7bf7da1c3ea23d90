-- Takes the lock, or its client's place in the line. {1, token, server's us}: held for the whole lease; {0, what is left of
-- another's hold in ms, -1 without end, server's us}: not.
-- ARGV: lease in ms, owner, life of the counter in ms or 0, publish command, longest unclaimed lease in ms, [client, how long it
-- counts as alive in ms, 1: it is subscribed, for how many us the owner has waited]. Without a client it is a try, which takes no
-- place.
local lease, owner, life, client = tonumber(ARGV[1]), ARGV[2], tonumber(ARGV[3]), ARGV[6]
local now = clock()
local came = client and now - ARGV[9]
local left = redis.call('pttl', lock)
if left ~= -2 and redis.call('hexists', lock, owner) == 1 then
    -- A repetition, or somebody who was called meanwhile: either way the answer is heard. It always writes, since who waits for
    -- replicas waits for what he has written himself.
    redis.call('pexpire', lock, math.max(left, lease))
    return {1, this_token(), now}
end
if left == -2 then
    local placed, behind = ahead(client, came)
    if not behind then
        if placed and standing(client) == owner then
            vacate(client)
        end
        return {1, grant(owner, lease, life), now}
    end
end
if client then
    place(client, came, now / 1000 + ARGV[7], ARGV[8], ARGV[1], owner)
    keep()
end
if left == -2 then
    local called, token, ms = pass(now, life, tonumber(ARGV[5]), ARGV[4], owner, client)
    if not called then
        -- Nobody who waits is alive.
        called, token = owner, grant(owner, lease, life)
    end
    if called == owner then
        return {1, token, now}
    end
    left = ms
end
return {0, left, now}
