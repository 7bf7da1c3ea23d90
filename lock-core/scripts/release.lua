-- Gives back a lock whose owner holds it once. 1: freed; nil: this owner has it no more.
-- KEYS: lock, [channel].  ARGV: owner, [publish command].
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('hdel', KEYS[1], ARGV[1]) == 0 then
    return nil
end
if KEYS[2] then
    redis.pcall(ARGV[2], KEYS[2], '0')
end
return 1
