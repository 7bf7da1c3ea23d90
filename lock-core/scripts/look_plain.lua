-- Says who holds a lock that is a string. {what is left in ms, -1 without end, value, 1}; nil: nobody.
-- KEYS: lock.
local value = redis.call('get', KEYS[1])
if not value then
    return nil
end
return {redis.call('pttl', KEYS[1]), value, 1}
