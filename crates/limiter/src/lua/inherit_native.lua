-- As `inherit`, where the store has limiters of its own. KEYS: the new counter, the one before. ARGV: how, the number of words
-- of the new limit, those words, then those of the limit before.
local way, count = ARGV[1], tonumber(ARGV[2])
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('EXISTS', KEYS[2]) == 0 then return 0 end
local function take(call, key, from, to, ...)
  local words = { 'RL.TAKE', key }
  for at = from, to do words[#words + 1] = ARGV[at] end
  for _, word in ipairs({ ... }) do words[#words + 1] = word end
  return call(unpack(words))
end
-- A ban goes along: 'state', 'banned', 'ttl-ms', n, 'banned-ms', n.
local said, banned_ms = redis.call('RL.INSPECT', KEYS[2]), nil
if said[2] == 'banned' then
  banned_ms = said[6]
  redis.call('RL.UNBAN', KEYS[2])
end
local function ban(key)
  if banned_ms then redis.call('RL.BAN', key, banned_ms) end
end
local there = take(redis.pcall, KEYS[2], 3 + count, #ARGV, 'COST', '0', 'PEEK')
-- The state of another algorithm: nothing to carry over.
if there.err then
  ban(KEYS[2])
  return 0
end
local whole = take(redis.call, KEYS[1], 3, 2 + count, 'COST', '0', 'PEEK')
local before, left, after = there[2], there[3], whole[2]
if way == 'reset' or before == 0 then
  left = after
elseif way == 'proportional' then
  left = math.floor(left * after / before)
elseif way == 'additive' then
  left = left + math.max(after - before, 0)
end
redis.call('DEL', KEYS[2])
local used = math.max(after - left, 0)
if used > 0 then take(redis.call, KEYS[1], 3, 2 + count, 'COST', string.format('%.0f', used)) end
ban(KEYS[1])
return 1
