local OTHER = 'WRONGTYPE the key holds the state of another rate limit algorithm'

local function put(key, value, px)
  if value then save(key, value, px) else redis.call('DEL', key) end
end

local function check_at(at)
  return {
    tag = ARGV[at], a = ARGV[at + 1], b = ARGV[at + 2], c = ARGV[at + 3], most = ARGV[at + 4],
    cost = tonumber(ARGV[at + 5]), act = ARGV[at + 6], id = ARGV[at + 7], ttl = tonumber(ARGV[at + 8]),
  }
end

local function look(value, check)
  local act, id, cost = check.act, check.id, check.cost
  check.act, check.id, check.cost = '1', '', 0
  local ok, limit, left, retry, reset = step(value, check, 0)
  check.act, check.id, check.cost = act, id, cost
  return { ok, limit, left, retry, reset }
end

