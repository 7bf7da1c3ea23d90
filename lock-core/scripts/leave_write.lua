-- A writer waits no more. Readers stand back for the last of those who wait: when there is none they need not wait for the end of its time.
-- KEYS: waiting writers.  ARGV: owner, PUBLISH or SPUBLISH or BOTH, channel.
if redis.call('zrem', KEYS[1], ARGV[1]) == 1 and redis.call('zcard', KEYS[1]) == 0 then
    speak(ARGV[3], ARGV[2], '0')
end
return nil
