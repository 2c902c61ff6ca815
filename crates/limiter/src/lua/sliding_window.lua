-- Value: "<previous>:<current>:<end of the latest window, ms>". a: limit, b: period in ms, c: unused.
-- Returns the five fields of the decision, then the value to store and its life in ms, if any.
local function sliding_window(value, a, b, c, cost)
  local limit, period = tonumber(a), tonumber(b)
  local now = math.floor(now_us / 1000)
  local start = now - now % period
  local previous, current, elapsed, ends = 0, 0, now - start, start + period
  if value then
    local p, n, e = string.match(value, '^(%d+):(%d+):(%-?%d+)$')
    if not p then return nil end
    p, n, e = tonumber(p), tonumber(n), tonumber(e)
    if now < e then
      previous, current, elapsed, ends = p, n, math.max(period - (e - now), 0), e
    elseif now - e < period then
      previous, elapsed, ends = n, now - e, e + period
    end
  end
  -- The product of two large numbers is not exact in a double, so the quotient is taken apart first.
  local function scaled(units, part)
    local whole = math.floor(units / period)
    return whole * part + math.ceil((units - whole * period) * part / period)
  end
  local function fades_at(units, room)
    if units <= room then return 0 end
    return period - math.floor(room * period / units)
  end
  local used = current + scaled(previous, math.max(period - elapsed, 0))
  local left = math.max(limit - used, 0)
  local function empty_after(n)
    if n > 0 then return (ends + period - now) * 1000 end
    if previous > 0 then return (ends - now) * 1000 end
    return 0
  end
  if used > limit or cost > left then
    if cost > limit then return 0, limit, left, -1, empty_after(current) end
    local at
    if current + cost <= limit then
      local fades = fades_at(previous, limit - cost - current)
      if fades < period then at = ends - period + fades end
    end
    at = at or ends + fades_at(current, limit - cost)
    return 0, limit, left, (at - now) * 1000, empty_after(current)
  end
  local taken = current + cost
  local reset = empty_after(taken)
  if cost == 0 then return 1, limit, left, 0, reset end
  return 1, limit, left - cost, 0, reset, string.format('%.0f:%.0f:%.0f', previous, taken, ends), ends + period - now
end
