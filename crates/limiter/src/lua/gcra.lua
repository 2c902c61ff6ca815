-- Value: the theoretical arrival time in microseconds. a: burst, b: increment in us, c: tolerance in us.
-- Returns the five fields of the decision, then the value to store and its life in ms, if any.
local function gcra(value, a, b, c, cost)
  local burst, increment, tolerance = tonumber(a), tonumber(b), tonumber(c)
  local ahead = 0
  if value then
    if not string.match(value, '^%-?%d+$') then return nil end
    ahead = tonumber(value) - now_us
    if ahead < 0 then ahead = 0 end
  end
  local function remaining(owed)
    local free = tolerance - owed
    if free < 0 then return 0 end
    return (free - math.fmod(free, increment)) / increment
  end
  if cost > burst then return 0, burst, remaining(ahead), -1, ahead end
  local wanted = ahead + cost * increment
  if wanted > tolerance then return 0, burst, remaining(ahead), wanted - tolerance, ahead end
  if cost == 0 then return 1, burst, remaining(ahead), 0, ahead end
  return 1, burst, remaining(wanted), 0, wanted, string.format('%.0f', now_us + wanted), math.ceil(wanted / 1000)
end
