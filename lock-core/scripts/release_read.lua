-- Gives back one read hold. 1: its owner reads no more; 0: it reads still; nil: it did not.
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
local found = redis.call('hmget', lock, 'mode', owner)
local mode, count = found[1], found[2]
local left = -2
if count and mine then
    left = read_left(lock, owner, count)
end
if holds > 0 and left ~= -2 then
    redis.call('pexpire', list, kept)
    redis.call('set', list, text, 'px', kept)
    -- What its owner writes lasts as long as it would without this hold.
    local writes = mode == 'write' and write_left(lock, owner, count)
    number_endings(lock, owner, text, count)
    redis.call('hset', lock, owner, holds)
    if writes and writes ~= -1 then
        redis.call('pexpire', lock, math.max(writes, kept))
    elseif not writes and left + 1 >= redis.call('pttl', lock) then
        local longest = sweep_readers(lock)
        if longest ~= -1 then
            redis.call('pexpire', lock, longest)
        end
    end
    return settle(record, said, live and 0 or nil, life)
end
if not live or not mine then
    return settle(record, said, nil, life)
end
if record then
    redis.pcall('del', list)
end
if mode == 'write' and count then
    -- Its own write hold goes on, for as long as it would have without this one.
    local ends = write_left(lock, owner, count)
    forget_reader(lock, owner, count)
    redis.call('del', ending(lock, owner .. ':write', 1))
    if ends == -2 then
        redis.call('del', lock)
        speak(channel, ARGV[2], '1')
    elseif ends ~= -1 then
        redis.call('pexpire', lock, ends)
    end
else
    forget_reader(lock, owner, count)
    if count and redis.call('hlen', lock) == 1 then
        redis.call('del', lock)
        speak(channel, ARGV[2], '0')
    -- Where the hash lasts longer than this hold, it was another who extended it so, and that one reads still.
    elseif count and left + 1 >= redis.call('pttl', lock) then
        local longest = sweep_readers(lock)
        if longest == -2 then
            speak(channel, ARGV[2], '0')
        elseif longest ~= -1 then
            redis.call('pexpire', lock, longest)
        end
    end
end
local given = left ~= -2 and 1 or nil
return record and settle(record, said, given, life) or given
