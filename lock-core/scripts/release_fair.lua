-- Gives back one hold, and calls the next if the lock is free then. 1: freed; 0: held still; nil: this owner has it no more.
-- KEYS: and [the owner's list, acquire record].  ARGV: owner, publish command, '1' to give up a place too, [how long the answer is kept
-- in ms].
-- Who gives up moves nobody else's deadline.
local owner, publish, record, said, given = ARGV[1], ARGV[2], KEYS[7], nil, nil
if record then
    said = redis.call('get', record)
    local answer = said and tonumber(string.sub(said, 2))
    if answer then
        return answer
    end
    -- Who had nothing may have got a place since.
    if said ~= '0' then
        given = settle(record, said, give(lock, owner, KEYS[6], id_of(record), said), ARGV[4])
    end
elseif redis.call('hdel', lock, owner) == 1 then
    given = 1
end
if given == 0 then
    return 0
end
if given then
    redis.call('del', offer)
    call(clock(), publish)
    return 1
end
if ARGV[3] == '1' and leave(owner) > 0 then
    if redis.call('exists', lock) == 0 then
        call(clock(), publish)
    end
    return 1
end
return nil
