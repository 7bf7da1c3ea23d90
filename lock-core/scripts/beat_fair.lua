-- A client says that its waiters are alive, and hears how things stand; whoever was called for a free lock and did not come is
-- passed over. {server's ms, for how long it is another's in ms, -1 without end, -2: nobody's, the first in the line or '', 1: the lock is free,
-- numbers from 1 on of owners who have no place ...}.
-- ARGV: publish command, how long a place lasts in ms, the client's owners.
local now, there, absent = clock(), {}, {}
for i = 3, #ARGV do
    if redis.call('zscore', deadlines, ARGV[i]) then
        redis.call('zadd', deadlines, now + ARGV[2], ARGV[i])
        there[#there + 1] = ARGV[i]
    else
        absent[#absent + 1] = i - 2
    end
end
if there[1] then
    keep(now)
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
for i, number in ipairs(absent) do
    answer[4 + i] = number
end
return answer
