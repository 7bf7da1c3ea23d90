-- Gives the lock, or the place in its line, back; the lock goes to the next in the line at once. 1: done; {token}: done, and the
-- first heir has the lock for his whole lease; {token, 0}: this owner did not have it, and the first heir has; nil: this owner had
-- neither.
-- ARGV: owner, life of the counter in ms or 0, publish command, longest unclaimed lease in ms, [client, how long it counts as alive
-- in ms, 1: it is subscribed, for each of up to two heirs, who wait in this client and came in this order: for how many us, lease
-- in ms, owner]. The lock stays in this client unless somebody of another came before the first heir; who is left of them has the
-- client's place.
local life, client = tonumber(ARGV[2]), ARGV[5]
local came, lease, heir
local now = ARGV[10] and clock()
if now then
    came, lease, heir = now - ARGV[8], tonumber(ARGV[9]), ARGV[10]
end
local function stand(waited, ms, owner)
    place(client, now - waited, now / 1000 + ARGV[6], ARGV[7], ms, owner)
end
-- The place is the second heir's now.
local function inherit(placed)
    if ARGV[13] then
        stand(ARGV[11], ARGV[12], ARGV[13])
        if not placed then
            keep()
        end
    elseif placed then
        vacate(client)
    end
end

if redis.call('hdel', lock, ARGV[1]) == 0 then
    if heir and redis.call('hexists', lock, heir) == 1 then
        -- A repetition, and the first time he got it; or this owner's lease was over, and he asked for himself.
        if redis.call('pttl', lock) < lease then
            redis.call('pexpire', lock, lease)
        end
        return {this_token(), 0}
    end
    if client and standing(client) == ARGV[1] then
        vacate(client)
        return 1
    end
    return nil
end
if not heir then
    pass(nil, life, tonumber(ARGV[4]), ARGV[3])
    return 1
end
local placed, behind = ahead(client, came)
if not behind then
    local token = grant(heir, lease, life)
    inherit(placed)
    return {token}
end
if standing(client) ~= heir then
    stand(ARGV[8], ARGV[9], heir)
    keep()
end
local called, token = pass(now, life, tonumber(ARGV[4]), ARGV[3], heir, client)
if called == heir then
    inherit(false)
    return {token}
end
return 1
