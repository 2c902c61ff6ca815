-- For a store with RL.TAKE. KEYS: one for each check, repeated where two checks share one. ARGV: three for each
-- check: limit, period in ms, cost; windows are aligned to the epoch. All take or none does: every check is
-- first looked at, with what the ones before it on the same key would have taken, and taken only if all pass.
-- Replies five numbers for each check, spans in microseconds.
local function take(i, cost)
  local at = 3 * i - 2
  return redis.call('RL.TAKE', KEYS[i], 'ALIGNED', ARGV[at], ARGV[at + 1], 'COST', string.format('%.0f', cost))
end

local function peek(i, cost)
  local at = 3 * i - 2
  return redis.call('RL.TAKE', KEYS[i], 'ALIGNED', ARGV[at], ARGV[at + 1], 'COST', string.format('%.0f', cost), 'PEEK')
end

local before, decided, passed = {}, {}, true
for i, key in ipairs(KEYS) do
  local cost, taken = tonumber(ARGV[3 * i]), before[key] or 0
  local reply = peek(i, cost + taken)
  if reply[1] == 1 then
    before[key] = taken + cost
  else
    passed = false
    -- The store denied more than this check asks.
    reply[3] = math.max(reply[3] - taken, 0)
    reply[4] = cost <= reply[2] and reply[5] or -1
  end
  decided[i] = reply
end
local replies = {}
for i = 1, #KEYS do
  local reply = decided[i]
  if passed then
    local cost = tonumber(ARGV[3 * i])
    if cost > 0 then reply = take(i, cost) end
  elseif reply[1] == 1 then
    reply = peek(i, 0)
  end
  for j = 1, 3 do replies[#replies + 1] = reply[j] end
  for j = 4, 5 do replies[#replies + 1] = reply[j] < 0 and -1 or reply[j] * 1000 end
end
return replies
