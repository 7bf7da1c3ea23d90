-- Changes how many permits there are, held ones included. 1: done; 0: not, since there is such a semaphore already.
-- KEYS: ..., record.  ARGV: PUBLISH or SPUBLISH or BOTH, record in ms, 'begin' or 'set' or 'add', number.
-- The record keeps the answer for a repetition. What is held stays held: fewer permits than that leave a number of free
-- ones below zero. What was held of a semaphore that has ended is of no count for a new one.
local said = redis.call('get', KEYS[3])
if said then
    return tonumber(said)
end
count_back(ARGV[1])
local number = tonumber(ARGV[4])
local done = 1
if not free then
    redis.call('del', KEYS[2])
    redis.call('set', KEYS[1], number)
    speak(channel, ARGV[1], number)
elseif ARGV[3] == 'add' then
    add(number, ARGV[1])
elseif ARGV[3] == 'set' then
    add(number - free - redis.call('zcard', KEYS[2]), ARGV[1])
else
    done = 0
end
redis.call('set', KEYS[3], done, 'px', ARGV[2])
return done
