-- A client says that its waiters are alive, and hears how things stand; a waiter that was called for a free lock and did not come is
-- passed over. {server's ms, for how long it is another's in ms, -1 without end, -2: nobody's, the first in the line or '', 1: the lock is free,
-- numbers from 1 on of owners who have no place ...}.
-- ARGV: publish command, how long a place lasts in ms, the client's owners.
local now, place, there, absent = clock(), ARGV[2], {}, {}
for i = 3, #ARGV do
    absent[ARGV[i]] = true
end
-- The line is read once, whatever the number of owners.
local peers, peer, last = 0, nil, 0
for _, owner in ipairs(redis.call('lrange', queue, 0, -1)) do
    if absent[owner] then
        if peer then
            last, peer = tonumber(redis.call('zscore', deadlines, peer) or now), nil
        end
        redis.call('zadd', deadlines, until_when(now, place, last, peers, MOST_WAITS * peers), owner)
        there[#there + 1] = owner
        absent[owner] = nil
    elseif not ours(owner) then
        peers, peer = peers + 1, owner
    end
end
if there[1] then
    local _, farthest_of_all = farthest(now)
    keep(now, farthest_of_all)
end
local left, free = redis.call('pttl', lock), 0
local head
if left == -2 then
    free = 1
    head, left = call(now, ARGV[1], nil, there)
    if not head then
        left = -2
    end
else
    head = redis.call('lindex', queue, 0)
end
local answer = {now, left, head or '', free}
for i = 3, #ARGV do
    if absent[ARGV[i]] or passed[ARGV[i]] then
        answer[#answer + 1] = i - 2
    end
end
return answer
