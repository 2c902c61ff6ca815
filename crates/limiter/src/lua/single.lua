-- ARGV: time, a, b, c, cost, peek ('0' or '1').
local function run(decide)
  local value = redis.call('GET', KEYS[1])
  local ok, limit, left, retry, reset, new, ttl = decide(value, ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]))
  if not ok then return redis.error_reply('WRONGTYPE the key holds the state of another rate limit algorithm') end
  if new and ARGV[6] == '0' then save(KEYS[1], new, ttl) end
  return { ok, limit, left, retry, reset }
end
