-- KEYS[1]; ARGV: time, then tag, a, b, c, cost: gives back up to cost units that were taken, and replies as a look.
local decide = ({ w = fixed_window, g = gcra, s = sliding_window })[ARGV[2]]
local a, b, c, cost = ARGV[3], ARGV[4], ARGV[5], tonumber(ARGV[6])
local value = redis.call('GET', KEYS[1])
-- The algorithm itself says whether the value is its own.
local ok = decide(value, a, b, c, 0)
if not ok then return redis.error_reply('WRONGTYPE the key holds the state of another rate limit algorithm') end
local now = math.floor(now_us / 1000)
local new, ttl
if value and cost > 0 then
  if ARGV[2] == 'w' then
    local n, e = string.match(value, '^(%d+):(%-?%d+)$')
    n, e = tonumber(n), tonumber(e)
    if now < e and n > 0 then
      new, ttl = string.format('%.0f:%.0f', math.max(n - cost, 0), e), e - now
    end
  elseif ARGV[2] == 's' then
    local p, n, e = string.match(value, '^(%d+):(%d+):(%-?%d+)$')
    n, e = tonumber(n), tonumber(e)
    if now < e + tonumber(b) and n > 0 then
      new, ttl = string.format('%s:%.0f:%.0f', p, math.max(n - cost, 0), e), e + tonumber(b) - now
    end
  else
    local ahead = tonumber(value) - now_us
    if ahead > 0 then
      ahead = math.max(ahead - cost * tonumber(b), 0)
      new, ttl = string.format('%.0f', now_us + ahead), math.max(math.ceil(ahead / 1000), 1)
    end
  end
end
if new then
  save(KEYS[1], new, ttl)
  value = new
end
local allowed, limit, left, retry, reset = decide(value, a, b, c, 0)
return { allowed, limit, left, retry, reset }
