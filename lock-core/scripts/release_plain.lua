-- Gives back a lock that is a string. 1: freed; nil: this owner has it no more.
-- KEYS: lock, channel.  ARGV: owner, publish command.
if redis.call('get', KEYS[1]) ~= ARGV[1] then
    return nil
end
redis.call('del', KEYS[1])
redis.call(ARGV[2], KEYS[2], '0')
return 1
