-- Takes the lock, or its client's place in the line. {1, token, server's us}: held for the whole lease; {0, what is left of
-- another's hold in ms, -1 without end, server's us}: not.
-- ARGV: terms, owner, publish command, longest unclaimed lease in ms, [client, how long it counts as alive in ms, 1: it is
-- subscribed, for how many us the owner has waited]. Without a client it is a try, which takes no place.
local owner, client = ARGV[2], ARGV[5]
local now = clock()
local came = client and now - ARGV[8]
local left = redis.call('pttl', lock)
if left ~= -2 and redis.call('hexists', lock, owner) == 1 then
    -- A repetition, or somebody who was called meanwhile: either way the answer is heard. It always writes, since who waits for
    -- replicas waits for its own write.
    redis.call('pexpire', lock, math.max(left, tonumber(string.match(ARGV[1], '^%d+'))))
    return {1, this_token(), now}
end
if left == -2 then
    local placed, behind = ahead(client, came)
    if not behind then
        if placed and standing(client) == owner then
            vacate(client)
        end
        return {1, grant(owner, ARGV[1]), now}
    end
end
if client then
    place(client, came, now / 1000 + ARGV[6], ARGV[7], ARGV[1], owner)
    keep()
end
if left == -2 then
    local called, token, ms = pass(now, tonumber(ARGV[4]), ARGV[3], owner, client)
    if not called then
        -- Nobody who waits is alive.
        called, token = owner, grant(owner, ARGV[1])
    end
    if called == owner then
        return {1, token, now}
    end
    left = ms
end
return {0, left, now}
