-- Lets a counter go on from another. KEYS: the new one, the one before. ARGV: time, 'inherit', the nine words of the new
-- limit, the nine of the one before, how ('reset', 'proportional', 'as_is', 'additive'). Replies 1 when something was carried
-- over.
local function inherit()
  local new, old, way = check_at(3), check_at(12), ARGV[21]
  if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
  local value = redis.call('GET', KEYS[2])
  if not value then return 0 end
  local there, whole = look(value, old), look(nil, new)
  if not there[1] then return redis.error_reply(OTHER) end
  local before, left, after = there[2], there[3], whole[2]
  if way == 'reset' or before == 0 then
    left = after
  elseif way == 'proportional' then
    left = math.floor(left * after / before)
  elseif way == 'additive' then
    left = left + math.max(after - before, 0)
  end
  redis.call('DEL', KEYS[2])
  new.cost, new.act = math.max(after - left, 0), '0'
  local _, _, _, _, _, state, ends = step(nil, new, 0)
  if state then save(KEYS[1], state, ends) end
  return 1
end

