-- Gives back one write hold. 1 and how many listen: its owner writes no more, and what it reads it reads on; 0: it writes still; nil:
-- it did not.
-- KEYS: lock, [the owner's list, acquire record].  ARGV: owner, PUBLISH or SPUBLISH or BOTH, channel, [how long the answer is kept
-- in ms].
local lock, list, record, owner, channel, life = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[3], ARGV[4]
local said, live, mine, holds, text, kept = nil, true, true, 0, nil, nil
if record then
    said = redis.call('get', record)
    if said and said ~= '1' then
        return tonumber(string.sub(said, 2))
    end
    live, mine, holds, text, kept = said, rest_of(list, id_of(record))
end
local field = owner .. ':write'
local found = redis.call('hmget', lock, field, owner)
local count, reads = found[1], found[2]
if count and mine and holds > 0 then
    redis.call('pexpire', list, kept)
    redis.call('set', list, text, 'px', kept)
    redis.call('hset', lock, field, holds)
    if reads then
        redis.call('set', ending(lock, field, 1), PLAIN, 'px', kept)
        kept = math.max(kept, read_left(lock, owner, reads))
    end
    redis.call('pexpire', lock, kept)
    return settle(record, said, live and 0 or nil, life)
end
if not count or not live or not mine then
    return record and settle(record, said, nil, life) or nil
end
if record then
    redis.pcall('del', list)
end
local holds_yet = not reads or write_left(lock, owner, reads) ~= -2
-- RReadWriteLock says nothing when a writer goes on as a reader, and those who wait to read wait on.
downgrade(lock, owner, reads)
local heard = speak(channel, ARGV[2], '1')
local given = holds_yet and 1 + heard or nil
return record and settle(record, said, given, life) or given
