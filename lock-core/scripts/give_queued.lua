-- Gives the lock, or the place in its line, back; the lock goes to the next in the line at once. 1: done; nil: this owner had
-- neither.
-- ARGV: owner, publish command, longest unclaimed lease in ms.
if redis.call('hdel', lock, ARGV[1]) == 0 then
    return leave(ARGV[1]) and 1 or nil
end
pass(nil, tonumber(ARGV[3]), ARGV[2])
return 1
