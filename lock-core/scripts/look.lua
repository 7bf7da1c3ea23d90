-- Says who holds a lock that is a hash, of several the first that is held. {what is left in ms, -1 without end, owner, count}; nil:
-- nobody.
-- KEYS: locks.
for _, lock in ipairs(KEYS) do
    local fields = redis.call('hgetall', lock)
    if #fields > 0 then
        -- The first field is the owner: another than a mutex has more.
        return {redis.call('pttl', lock), fields[1], tonumber(fields[2]) or 1}
    end
end
return nil
