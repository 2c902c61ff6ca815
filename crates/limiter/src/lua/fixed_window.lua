-- Value: "<count>:<window end, ms>". a: limit, b: period in ms, c: '0' from the first hit, '1' from the epoch; for
-- windows of a calendar b is the end of this one and c that of the next one, in ms.
-- Returns the five fields of the decision, then the value to store and its life in ms, if any.
local function fixed_window(value, a, b, c, cost)
  local limit, period = tonumber(a), tonumber(b)
  local now = math.floor(now_us / 1000)
  local count, ends = 0, nil
  if value then
    local n, e = string.match(value, '^(%d+):(%-?%d+)$')
    if not n then return nil end
    e = tonumber(e)
    if now < e then count, ends = tonumber(n), e end
  end
  local open = ends ~= nil
  if not open then
    if c == '1' then
      ends = now - now % period + period
    elseif c == '0' then
      ends = now + period
    else
      ends = now < period and period or tonumber(c)
    end
  end
  local fixed = c ~= '0'
  local left = limit - count
  local to_end = (ends - now) * 1000
  if left < 0 or cost > left then
    if left < 0 then left = 0 end
    return 0, limit, left, never_or(cost <= limit, to_end), (open or fixed) and to_end or 0
  end
  local reset = (open or fixed or cost > 0) and to_end or 0
  if cost == 0 then return 1, limit, left, 0, reset end
  return 1, limit, left - cost, 0, reset, string.format('%.0f:%.0f', count + cost, ends), ends - now
end
