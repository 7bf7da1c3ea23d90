-- Says who holds a lock that is a hash. {what is left in ms, -1 without end, owner, count}; nil: nobody.
-- KEYS: lock.
local fields = redis.call('hgetall', KEYS[1])
if #fields == 0 then
    return nil
end
-- The first field is the owner: another than a mutex has more.
return {redis.call('pttl', KEYS[1]), fields[1], tonumber(fields[2]) or 1}
