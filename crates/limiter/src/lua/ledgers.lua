-- States that grow: a letter, then a list in cmsgpack's form.
--   L<at us, cost, ...>                                     the sliding log, oldest first
--   C<id, cost, expires us, ...>                            leases
--   H<tag, a, b, c, most, base, base until us; id, amount, expires us, actual or -1, counts until us, ...>   reservations on a
--     small state
local ENTRIES_MAX, NAMES_MAX = 1000, 10000

local function packed(letter, list)
  return letter .. cmsgpack.pack(list)
end

local function opened(value, letter)
  if string.sub(value, 1, 1) ~= letter then return nil end
  return cmsgpack.unpack(string.sub(value, 2))
end

local function life(until_us)
  return math.max(math.ceil((until_us - now_us) / 1000), 1)
end

-- a: limit, b: period in us. Returns as the small algorithms do.
local function sliding_log(value, a, b, cost)
  local limit, period = tonumber(a), tonumber(b)
  local hits = {}
  if value then
    hits = opened(value, 'L')
    if not hits then return nil end
  end
  local n, here = #hits, now_us
  if n > 0 then here = math.max(here, hits[n - 1]) end
  local live, used = 1, 0
  while live < n and hits[live] + period <= here do live = live + 2 end
  for i = live, n, 2 do used = used + hits[i + 1] end
  local left = math.max(limit - used, 0)
  local reset = live < n and math.max(hits[n - 1] + period - now_us, 0) or 0
  if used > limit or cost > left then
    if cost > limit then return 0, limit, left, -1, reset end
    local surplus, at = used + cost - limit, now_us
    for i = live, n, 2 do
      surplus, at = surplus - hits[i + 1], hits[i] + period
      if surplus <= 0 then break end
    end
    return 0, limit, left, math.max(at - now_us, 0), reset
  end
  if cost == 0 then return 1, limit, left, 0, reset end
  local kept = {}
  for i = live, n do kept[#kept + 1] = hits[i] end
  local m = #kept
  if m > 0 and kept[m - 1] == here then
    kept[m] = kept[m] + cost
  else
    if m >= 2 * ENTRIES_MAX then
      kept[4] = kept[4] + kept[2]
      table.remove(kept, 1)
      table.remove(kept, 1)
      m = m - 2
    end
    kept[m + 1], kept[m + 2] = here, cost
  end
  local ends = here + period
  return 1, limit, left - cost, 0, ends - now_us, packed('L', kept), life(ends)
end

local function by_expiry(one, other)
  if one[3] == other[3] then return one[1] < other[1] end
  return one[3] < other[3]
end

-- The leases that have not expired, in the order in which they will.
local function leases_of(value)
  local list, used = {}, 0
  if value then
    local held = opened(value, 'C')
    if not held then return nil end
    for i = 1, #held, 3 do
      if held[i + 2] > now_us then
        list[#list + 1] = { held[i], held[i + 1], held[i + 2] }
        used = used + held[i + 1]
      end
    end
    table.sort(list, by_expiry)
  end
  return list, used
end

local function packed_leases(list)
  local flat = {}
  for _, lease in ipairs(list) do
    for j = 1, 3 do flat[#flat + 1] = lease[j] end
  end
  table.sort(list, by_expiry)
  return packed('C', flat), life(list[#list][3])
end

-- a: limit. A look counts the cost as another's.
local function acquire(value, a, cost, look, id, ttl)
  local limit = tonumber(a)
  local list, used = leases_of(value)
  if not list then return nil end
  local own
  if look then id = nil end
  for i, lease in ipairs(list) do
    if lease[1] == id then own = i end
  end
  local mine = own and list[own][2] or 0
  local function reset()
    return #list > 0 and list[#list][3] - now_us or 0
  end
  local others = used - mine
  local room = look or own or #list < NAMES_MAX
  if cost > limit then return 0, limit, math.max(limit - used, 0), -1, reset() end
  if others > limit - cost or not room then
    local wait, count = 0, #list
    for i, lease in ipairs(list) do
      if i ~= own then
        others, count = others - lease[2], count - 1
        if others <= limit - cost and count < NAMES_MAX then
          wait = lease[3] - now_us
          break
        end
      end
    end
    return 0, limit, math.max(limit - used, 0), wait, reset()
  end
  if look then return 1, limit, math.max(limit - used - cost, 0), 0, reset() end
  if cost == 0 then return 1, limit, math.max(limit - used, 0), 0, reset() end
  if own then table.remove(list, own) end
  list[#list + 1] = { id, cost, now_us + ttl }
  table.sort(list, by_expiry)
  local new, px = packed_leases(list)
  return 1, limit, math.max(limit - (used - mine + cost), 0), 0, reset(), new, px
end

local small = { w = fixed_window, g = gcra, s = sliding_window }

-- Gives units of a small state back: the new state and its life, or nil when there is nothing to give back.
local function give_back(tag, value, b, units)
  local now = math.floor(now_us / 1000)
  if not value or units <= 0 then return nil end
  if tag == 'w' then
    local n, e = string.match(value, '^(%d+):(%-?%d+)$')
    n, e = tonumber(n), tonumber(e)
    if now < e and n > 0 then return string.format('%.0f:%.0f', math.max(n - units, 0), e), e - now end
  elseif tag == 's' then
    local p, n, e = string.match(value, '^(%d+):(%d+):(%-?%d+)$')
    n, e, b = tonumber(n), tonumber(e), tonumber(b)
    if now < e + b and n > 0 then
      return string.format('%s:%.0f:%.0f', p, math.max(n - units, 0), e), e + b - now
    end
  else
    local ahead = tonumber(value) - now_us
    if ahead > 0 then
      ahead = math.max(ahead - units * tonumber(b), 0)
      return string.format('%.0f', now_us + ahead), math.max(math.ceil(ahead / 1000), 1)
    end
  end
  return nil
end

-- When the units that a state took last count no more: the end of their window, or when they are earned again.
local function counts_until(tag, value)
  if tag == 'g' then return tonumber(value) end
  return tonumber(string.match(value, '(%-?%d+)$')) * 1000
end

-- What a bucket has to earn after units that came back, it earns so much sooner. `steps`: until when they counted, and the sum
-- of all up to there, in order.
local function bring_forward(list, steps)
  if #steps == 0 then return end
  for _, hold in ipairs(list) do
    local low, high = 0, #steps
    while low < high do
      local middle = math.ceil((low + high) / 2)
      if steps[middle][1] < hold[5] then low = middle else high = middle - 1 end
    end
    if low > 0 then hold[5] = hold[5] - steps[low][2] end
  end
end

local function by_time(one, other)
  return one[1] < other[1]
end

-- Gives units back as far as they count still. `over`: until when they do, and how many.
local function give_back_held(held, over)
  local now, steps, sum = math.floor(now_us / 1000), {}, 0
  table.sort(over, by_time)
  for _, back in ipairs(over) do
    local value, till, units = held.base, back[1], back[2]
    local new, px
    if value and units > 0 and held.tag == 'g' then
      local ahead = math.max(tonumber(value) - now_us, 0)
      local sooner = math.min(units * tonumber(held.b), till - sum - now_us, ahead)
      if sooner > 0 then
        ahead, sum = ahead - sooner, sum + sooner
        new, px = string.format('%.0f', now_us + ahead), math.max(math.ceil(ahead / 1000), 1)
        steps[#steps + 1] = { till, sum }
      end
    elseif value and units > 0 and counts_until(held.tag, value) == till then
      new, px = give_back(held.tag, value, held.b, units)
    elseif value and units > 0 and held.tag == 's' then
      local p, n, e = string.match(value, '^(%d+):(%d+):(%-?%d+)$')
      p, e = tonumber(p), tonumber(e)
      local period = tonumber(held.b)
      if till / 1000 + period == e and now < e and p > 0 then
        new, px = string.format('%.0f:%s:%.0f', math.max(p - units, 0), n, e), e + period - now
      end
    end
    if new then held.base, held.base_until = new, now_us + px * 1000 end
  end
  bring_forward(held.list, steps)
end

-- Takes units whether or not they fit, up to `most` in all.
local function charge(held, units)
  local a, c = '4503599627370495', held.c
  if held.tag == 'g' then
    a, c = held.most, string.format('%.0f', tonumber(held.most) * tonumber(held.b))
  end
  local decide = small[held.tag]
  local _, _, left = decide(held.base, a, held.b, c, 0)
  units = math.min(units, tonumber(held.most), left)
  local _, _, _, _, _, new, px = decide(held.base, a, held.b, c, units)
  if new then held.base, held.base_until = new, now_us + px * 1000 end
end

-- Reservations with those gone whose time is up; their units are back. nil when the value is none of them.
local function reservations(value)
  local flat = opened(value, 'H')
  if not flat then return nil end
  local held = { tag = flat[1], a = flat[2], b = flat[3], c = flat[4], most = flat[5], base_until = flat[7], list = {} }
  if flat[6] ~= '' then held.base = flat[6] end
  local over = {}
  for i = 8, #flat, 5 do
    if flat[i + 2] > now_us then
      held.list[#held.list + 1] = { flat[i], flat[i + 1], flat[i + 2], flat[i + 3], flat[i + 4] }
    elseif flat[i + 3] < 0 then
      over[#over + 1] = { flat[i + 4], flat[i + 1] }
    end
  end
  give_back_held(held, over)
  return held
end

local function packed_reservations(held)
  if #held.list == 0 then
    if not held.base then return nil end
    return held.base, life(held.base_until)
  end
  local flat = { held.tag, held.a, held.b, held.c, held.most, held.base or '', held.base_until or 0 }
  local ends = held.base_until or 0
  for _, hold in ipairs(held.list) do
    for j = 1, 5 do flat[#flat + 1] = hold[j] end
    ends = math.max(ends, hold[3])
  end
  return packed('H', flat), life(ends)
end

local function is_held(value)
  return value and string.sub(value, 1, 1) == 'H'
end

-- One reservation on a small state; `base_until` is when the key that holds `value` expires.
local function reserve(value, check, base_until)
  local held
  if is_held(value) then
    held = reservations(value)
  else
    held = { base = value or nil, base_until = base_until, list = {} }
  end
  local decide = small[check.tag]
  local soonest
  for _, hold in ipairs(held.list) do
    if hold[1] == check.id then
      local ok, limit, left, _, reset = decide(held.base, check.a, check.b, check.c, 0)
      return ok and 1, limit, left, 0, reset
    end
    soonest = math.min(soonest or hold[3], hold[3])
  end
  local ok, limit, left, retry, reset, new, px = decide(held.base, check.a, check.b, check.c, check.cost)
  if not ok or ok == 0 then return ok, limit, left, retry, reset end
  if #held.list >= NAMES_MAX then
    local _, _, free, _, full = decide(held.base, check.a, check.b, check.c, 0)
    return 0, limit, free, soonest - now_us, full
  end
  if new then held.base, held.base_until = new, now_us + px * 1000 end
  held.tag, held.a, held.b, held.c, held.most = check.tag, check.a, check.b, check.c, check.most
  local till = held.base and counts_until(held.tag, held.base) or now_us
  held.list[#held.list + 1] = { check.id, check.cost, now_us + math.max(check.ttl, 1), -1, till }
  local value, ends = packed_reservations(held)
  return ok, limit, left, retry, reset, value, ends
end

-- Decides one check on a value: the five fields of the decision, then the value to store and its life in ms, if any.
local function step(value, check, base_until)
  if check.tag == 'l' then return sliding_log(value, check.a, check.b, check.cost) end
  if check.tag == 'c' then
    return acquire(value, check.a, check.cost, check.act == '1', check.id, check.ttl)
  end
  if check.act == '2' then return reserve(value, check, base_until) end
  local decide = small[check.tag]
  if not is_held(value) then return decide(value, check.a, check.b, check.c, check.cost) end
  local held = reservations(value)
  local ok, limit, left, retry, reset, new, px = decide(held.base, check.a, check.b, check.c, check.cost)
  if not new then return ok, limit, left, retry, reset end
  held.base, held.base_until = new, now_us + px * 1000
  local value, ends = packed_reservations(held)
  return ok, limit, left, retry, reset, value, ends
end
