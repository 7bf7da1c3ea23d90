-- Publishes on a channel: by PUBLISH, SPUBLISH or BOTH. How many listen. A message is a hint: for a user who may not publish the rest is
-- done all the same. Put in front of the scripts that use it; those of the two most frequent releases have it in their own text.
local function speak(channel, publish, payload)
    local plain, sharded
    if publish ~= 'SPUBLISH' then
        plain = redis.pcall('publish', channel, payload)
    end
    if publish ~= 'PUBLISH' then
        sharded = redis.pcall('spublish', channel, payload)
    end
    return math.max(tonumber(plain) or 0, tonumber(sharded) or 0)
end
