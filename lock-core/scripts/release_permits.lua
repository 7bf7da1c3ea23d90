-- Gives permits back by their ids. For each 1: given; 0: not held (any more).
-- KEYS: ..., [record].  ARGV: PUBLISH or SPUBLISH or BOTH, the ids in one, [record in ms].
-- The record keeps the answer for a repetition, which would find nothing.
local said = KEYS[3] and redis.call('get', KEYS[3])
if said then
    return said
end
count_back(ARGV[1])
local ids, given, answer = ARGV[2], 0, {}
for at = 1, #ids, 16 do
    local one = redis.call('zrem', KEYS[2], string.sub(ids, at, at + 15))
    given = given + one
    answer[#answer + 1] = one
end
answer = table.concat(answer)
add(given, ARGV[1])
if KEYS[3] then
    redis.call('set', KEYS[3], answer, 'px', ARGV[3])
end
return answer
