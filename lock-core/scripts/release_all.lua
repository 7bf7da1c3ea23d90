-- Gives back one hold of several locks. 1 and how many listen to the first of them: all are freed; 0: its owner has some still; nil: it
-- had not all of them, and those that it had are given back.
-- KEYS: locks, [the owner's list of each, acquire record].  ARGV: owner, PUBLISH or SPUBLISH or BOTH, how many locks, their channels,
-- [how long the answer is kept in ms].
-- There is no key but those that a hold has, so that in a slot that moves all of them are found in one place.
local owner, count = ARGV[1], tonumber(ARGV[3])
local record, said = KEYS[2 * count + 1], nil
if record then
    said = redis.call('get', record)
    if said and said ~= '1' then
        return tonumber(string.sub(said, 2))
    end
end
local answer, missing, heard = 1, false, 0
for i = 1, count do
    local given
    if record then
        given = give(KEYS[i], owner, KEYS[count + i], id_of(record), said)
    elseif redis.call('hdel', KEYS[i], owner) == 1 then
        given = 1
    end
    if not given then
        missing = true
    elseif given == 0 then
        answer = 0
    else
        local listen = speak(ARGV[i + 3], ARGV[2], '0')
        if i == 1 then
            heard = listen
        end
    end
end
if missing then
    answer = nil
elseif answer == 1 then
    answer = 1 + heard
end
return record and settle(record, said, answer, ARGV[count + 4]) or answer
