-- Says who holds a queued lock. {what is left in ms, -1 without end, owner, token, -1 if its counter is gone}; nil: nobody.
-- KEYS: lock, token counter.
local owner = redis.call('hgetall', KEYS[1])[1]
if not owner then
    return nil
end
return {redis.call('pttl', KEYS[1]), owner, tonumber(redis.call('get', KEYS[2]) or -1)}
