-- Gives back a lock that is a string. 1: freed; nil: this owner has it no more.
-- KEYS: lock, channel.  ARGV: owner, publish command.
-- A message is a hint: a user who may not publish gives back all the same.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return nil
end
redis.call('del', KEYS[1])
redis.pcall(ARGV[2], KEYS[2], '0')
return 1
