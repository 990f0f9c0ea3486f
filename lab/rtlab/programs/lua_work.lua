-- Binary trees, string building and tables, as Lua programs do them.   lua5.4 lua_work.lua ROUNDS
-- Prints one checksum, the same each time.

local rounds = tonumber(arg[1])

local function tree(depth)
  if depth == 0 then return {} end
  return { tree(depth - 1), tree(depth - 1) }
end

local function count(node)
  if not node[1] then return 1 end
  return 1 + count(node[1]) + count(node[2])
end

local state = 42
local function random(limit) -- a Lehmer generator: the same numbers on every version
  state = state * 48271 % 2147483647
  return state % limit
end

local function strings()
  local parts = {}
  for i = 1, 20000 do
    parts[#parts + 1] = string.rep(string.char(97 + random(26)), 1 + random(60)) .. i
  end
  local text = table.concat(parts, " ")
  local words = 0
  for word in text:gmatch("%a+%d+") do words = words + #word end
  return words
end

local function index()
  local numbers = {}
  for i = 1, 30000 do
    local key = "k" .. random(8000)
    numbers[key] = (numbers[key] or 0) + i
    if i % 7 == 0 then numbers["k" .. random(8000)] = nil end
  end
  local sum = 0
  for _, value in pairs(numbers) do sum = sum + value end
  return sum
end

local checksum = 0
local long_lived = tree(15)
for _ = 1, rounds do
  for depth = 4, 14, 2 do
    for _ = 1, 1 << ((14 - depth) // 2) do checksum = checksum + count(tree(depth)) end
  end
  checksum = (checksum * 31 + strings() + index()) % 1000000007
end
print(string.format("lua: checksum %016x", checksum + count(long_lived)))
