-- Who holds: {what is left in ms, -1 without end, owner, count, and so on for each}; nil: nobody.
-- KEYS: lock.  ARGV: read or write.
local lock, all = KEYS[1], {}
local fields = redis.call('hgetall', lock)
local counts = {}
for at = 1, #fields, 2 do
    counts[fields[at]] = fields[at + 1]
end
for at = 1, #fields, 2 do
    local field = fields[at]
    local writes = string.match(field, '^(.*):write$')
    local owner, left = nil, -2
    if writes and ARGV[1] == 'write' then
        owner, left = writes, write_left(lock, writes, counts[writes])
    elseif not writes and field ~= 'mode' and ARGV[1] == 'read' then
        owner, left = field, read_left(lock, field, counts[field])
    end
    if left ~= -2 then
        local last = #all
        all[last + 1], all[last + 2], all[last + 3] = left, owner, tonumber(counts[field])
    end
end
if #all == 0 then
    return nil
end
return all
