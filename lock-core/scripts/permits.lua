-- Shared by the scripts of permits with ids, and put before each of them. RPermitExpirableSemaphore's format:
-- KEYS: free permits {number}, held permits {id of 16 bytes: end in ms of the epoch}, ...  ARGV: ..., channel.
-- Every time is the server's. A number that is not there is a semaphore that has ended: nothing is counted back to it.
local channel = ARGV[#ARGV]
local clock = redis.call('time')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local free = redis.call('get', KEYS[1])
if free and not tonumber(free) then
    -- Another kind of lock: to be left alone.
    return redis.error_reply('WRONGTYPE the key holds no number')
end
free = free and tonumber(free)

local function add(count, publish)
    if free and count ~= 0 then
        free = redis.call('incrby', KEYS[1], count)
        if count > 0 and free > 0 then
            speak(channel, publish, free)
        end
    end
end

-- Counts back what has expired. As the first write of a script it needs no memory, and a full server takes the rest.
local function count_back(publish)
    add(redis.call('zremrangebyscore', KEYS[2], '-inf', now), publish)
end
