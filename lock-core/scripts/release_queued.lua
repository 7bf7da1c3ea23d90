-- Gives the lock, or the place in its line, back; the lock goes to the next in the line at once. 1: done; {token}: done, and the
-- first successor has the lock for its whole lease; {token, 0}: this owner did not have it, and the first successor has; nil: this owner had
-- neither.
-- ARGV: owner, publish command, longest unclaimed lease in ms, [client, how long it counts as alive in ms, 1: it is subscribed, for
-- each of up to two successors, who wait in this client and came in this order: for how many us, terms, owner]. The lock stays in this
-- client unless somebody of another came before the first successor; who is left of them has the client's place, also where this owner only
-- waited in it.
local client, successor = ARGV[4], ARGV[9]
local now = successor and clock()
local came = successor and now - ARGV[7]
local function stand(waited, terms, owner)
    place(client, now - waited, now / 1000 + ARGV[5], ARGV[6], terms, owner)
end
-- The place is the second successor's now.
local function inherit(placed)
    if ARGV[12] then
        stand(ARGV[10], ARGV[11], ARGV[12])
        if not placed then
            keep()
        end
    elseif placed then
        vacate(client)
    end
end

if redis.call('hdel', lock, ARGV[1]) == 0 then
    if successor and redis.call('hexists', lock, successor) == 1 then
        -- A repetition, and the first time it was granted; or this owner's lease was over, and the successor asked for itself.
        local lease = tonumber(string.match(ARGV[8], '^%d+'))
        if redis.call('pttl', lock) < lease then
            redis.call('pexpire', lock, lease)
        end
        -- One that asked for itself has left the place to this owner, who leaves it now.
        if standing(client) == ARGV[1] then
            inherit(true)
        end
        return {this_token(), 0}
    end
    if client and standing(client) == ARGV[1] then
        if successor then
            stand(ARGV[7], ARGV[8], successor)
            keep()
        else
            vacate(client)
        end
        return 1
    end
    return nil
end
if not successor then
    pass(nil, tonumber(ARGV[3]), ARGV[2])
    return 1
end
local placed, behind = ahead(client, came)
if not behind then
    local token = grant(successor, ARGV[8])
    inherit(placed)
    return {token}
end
if standing(client) ~= successor then
    stand(ARGV[7], ARGV[8], successor)
    keep()
end
local called, token = pass(now, tonumber(ARGV[3]), ARGV[2], successor, client)
if called == successor then
    inherit(false)
    return {token}
end
return 1
