-- KEYS: one for each check, repeated where two checks share one. ARGV: time, then six for each check: 'w', 'g' or
-- 's' for the algorithm, a, b, c, cost, peek. All take or none does. Replies five numbers for each check.
local algorithms = { w = fixed_window, g = gcra, s = sliding_window }
local found, taken, life, checks, passed = {}, {}, {}, {}, true
for i, key in ipairs(KEYS) do
  local at = 2 + (i - 1) * 6
  if found[key] == nil then found[key] = redis.call('GET', key) end
  local check = { algorithms[ARGV[at]], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], tonumber(ARGV[at + 4]), ARGV[at + 5] }
  local ok, limit, left, retry, reset, new, ttl = check[1](taken[key] or found[key], check[2], check[3], check[4], check[5])
  if not ok then return redis.error_reply('WRONGTYPE the key holds the state of another rate limit algorithm') end
  if ok == 0 then passed = false end
  if new and check[6] == '0' then taken[key], life[key] = new, ttl end
  check.reply = { ok, limit, left, retry, reset }
  checks[i] = check
end
local replies = {}
for i, key in ipairs(KEYS) do
  local check = checks[i]
  local reply = check.reply
  if not passed and reply[1] == 1 and check[6] == '0' then
    local ok, limit, left, retry, reset = check[1](found[key], check[2], check[3], check[4], 0)
    reply = { ok, limit, left, retry, reset }
  end
  for j = 1, 5 do replies[#replies + 1] = reply[j] end
end
if passed then
  for key, value in pairs(taken) do save(key, value, life[key]) end
end
return replies
