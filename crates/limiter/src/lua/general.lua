-- Every act on every algorithm. KEYS: one for each check. ARGV: time, then what is asked:
--   'decide', then nine for each check: tag ('w', 'g', 's', 'l' log, 'c' leases), a, b, c, most (units that a charge may
--     reach), cost, act ('0' take, '1' look, '2' hold), id and time in us of the hold. All take or none does; replies five
--     numbers for each check.
--   'refund', then the nine of one check: gives back up to cost units that were taken, and replies as a look. A second key
--     names the request, which may come twice.
--   'end', then id and actual cost: ends a reservation; replies actual, released, and 1 if it had ended before, or nothing.
--   'release', then id: gives a lease back; replies its units.
--   'inherit': see there.
local function decide()
  local found, until_us, taken, px, checks, passed = {}, {}, {}, {}, {}, true
  for i, key in ipairs(KEYS) do
    if found[key] == nil then
      found[key] = redis.call('GET', key)
      until_us[key] = now_us + math.max(redis.call('PTTL', key), 0) * 1000
    end
    local check = check_at(3 + (i - 1) * 9)
    local ok, limit, left, retry, reset, new, ends = step(taken[key] or found[key], check, until_us[key])
    if not ok then return redis.error_reply(OTHER) end
    if ok == 0 then passed = false end
    if new and check.act ~= '1' then taken[key], px[key] = new, ends end
    check.reply = { ok, limit, left, retry, reset }
    checks[i] = check
  end
  local replies = {}
  for i, key in ipairs(KEYS) do
    local reply = checks[i].reply
    if not passed and reply[1] == 1 and checks[i].act ~= '1' then reply = look(found[key], checks[i]) end
    for j = 1, 5 do replies[#replies + 1] = reply[j] end
  end
  if passed then
    for key, value in pairs(taken) do save(key, value, px[key]) end
  end
  return replies
end

local function refund()
  local key, check = KEYS[1], check_at(3)
  local value = redis.call('GET', key)
  local first = look(value, check)
  if not first[1] then return redis.error_reply(OTHER) end
  if not value or check.cost == 0 then return first end
  if KEYS[2] and not redis.call('SET', KEYS[2], '', 'NX', 'PX', 60000) then return first end
  local left = check.cost
  if check.tag == 'l' then
    local hits = opened(value, 'L')
    while #hits > 0 and left > 0 do
      local back = math.min(hits[#hits], left)
      hits[#hits], left = hits[#hits] - back, left - back
      if hits[#hits] == 0 then
        hits[#hits] = nil
        hits[#hits] = nil
      end
    end
    if #hits == 0 then value = nil else value = packed('L', hits) end
    put(key, value, value and life(hits[#hits - 1] + tonumber(check.b)))
  elseif check.tag == 'c' then
    local list = leases_of(value)
    if #list == 0 then return first end
    while #list > 0 and left > 0 do
      local back = math.min(list[1][2], left)
      list[1][2], left = list[1][2] - back, left - back
      if list[1][2] == 0 then table.remove(list, 1) end
    end
    local px
    if #list == 0 then value = nil else value, px = packed_leases(list) end
    put(key, value, px)
  elseif is_held(value) then
    local held = reservations(value)
    local new, px = give_back(check.tag, held.base, check.b, left)
    if not new then return first end
    -- Nobody knows which of the units they were: perhaps some that were taken before all reservations.
    if check.tag == 'g' then bring_forward(held.list, { { -math.huge, tonumber(held.base) - tonumber(new) } }) end
    held.base, held.base_until = new, now_us + px * 1000
    value, px = packed_reservations(held)
    put(key, value, px)
  else
    local new, px = give_back(check.tag, value, check.b, left)
    if new then
      save(key, new, px)
      value = new
    end
  end
  return look(value, check)
end

local function finish()
  local value = redis.call('GET', KEYS[1])
  if not value then return {} end
  local held = reservations(value)
  if not held then
    local letter = string.sub(value, 1, 1)
    if letter == 'L' or letter == 'C' then return redis.error_reply(OTHER) end
    return {}
  end
  local reply = {}
  for _, hold in ipairs(held.list) do
    if hold[1] == ARGV[3] then
      local amount, actual, before = hold[2], hold[4], 1
      if actual < 0 then
        actual, before = tonumber(ARGV[4]), 0
        hold[4] = actual
        if actual < amount then
          give_back_held(held, { { hold[5], amount - actual } })
        elseif actual > amount then
          charge(held, actual - amount)
        end
      end
      reply = { actual, math.max(amount - actual, 0), before }
      if before == 0 then put(KEYS[1], packed_reservations(held)) end
    end
  end
  return reply
end

local function release()
  local value = redis.call('GET', KEYS[1])
  if not value then return { 0 } end
  local list = leases_of(value)
  if not list then return redis.error_reply(OTHER) end
  for i, lease in ipairs(list) do
    if lease[1] == ARGV[3] then
      table.remove(list, i)
      local new, px
      if #list > 0 then new, px = packed_leases(list) end
      put(KEYS[1], new, px)
      return { lease[2] }
    end
  end
  return { 0 }
end

return ({ decide = decide, refund = refund, inherit = inherit, ['end'] = finish, release = release })[ARGV[2]]()
