-- Gives back a lock whose owner holds it once. 1: freed; nil: this owner has it no more.
-- KEYS: lock, [channel].  ARGV: owner, [PUBLISH or SPUBLISH or BOTH].
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return nil
end
if KEYS[2] then
    if ARGV[2] ~= 'SPUBLISH' then
        redis.pcall('publish', KEYS[2], '0')
    end
    if ARGV[2] ~= 'PUBLISH' then
        redis.pcall('spublish', KEYS[2], '0')
    end
end
return 1
