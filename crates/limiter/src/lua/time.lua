-- ARGV[1]: the time in microseconds since the Unix epoch, or '' for the store's own clock, which all
-- instances of the service share.
local fixed_time = ARGV[1] ~= ''
local now_us
if fixed_time then
  now_us = tonumber(ARGV[1])
else
  local t = redis.call('TIME')
  now_us = t[1] * 1000000 + t[2]
end

-- A given time is not the store's time, so the entry's life cannot follow it: keep it for a day at least.
local function save(key, value, ttl_ms)
  if fixed_time and ttl_ms < 86400000 then ttl_ms = 86400000 end
  redis.call('SET', key, value, 'PX', string.format('%.0f', ttl_ms))
end

local function never_or(possible, wait)
  if possible then return wait end
  return -1
end
