-- The only hold of an owner that may have several, of one lock: in front of what release_all.lua needs for more, since most are alone.
-- KEYS: lock, the owner's list, acquire record.  ARGV: owner, PUBLISH or SPUBLISH or BOTH, (how many locks), channel, how long the answer
-- is kept in ms.
if redis.call('get', KEYS[3]) == '1' then
    local list = redis.call('get', KEYS[2])
    -- Two are longer.
    if list and #list < 64 and string.sub(list, 1, 32) == string.sub(KEYS[3], -32) and redis.call('hdel', KEYS[1], ARGV[1]) == 1 then
        redis.pcall('del', KEYS[2])
        local answer = 1 + speak(ARGV[4], ARGV[2], '0')
        redis.call('set', KEYS[3], '0' .. answer, 'px', ARGV[5])
        return answer
    end
end
