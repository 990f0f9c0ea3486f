-- Allocates as Lua programs do: tables, strings, closures, coroutines, collected in between.
-- Prints only what does not depend on time or addresses. Argument: a scale, 1 for the smallest.
local scale = tonumber(arg[1])

local state = 12345
local function random(limit)
  state = (state * 1103515245 + 12345) % 2147483648
  return state // 65536 % limit
end

local function checksum(text)
  local sum = 0
  for i = 1, #text do sum = (sum * 31 + text:byte(i)) % 4294967296 end
  return sum
end

local live, sums = {}, {}
for i = 1, 40000 * scale do
  local slot = random(5000) + 1
  local kind = i % 4
  if kind == 0 then
    live[slot] = { id = i, name = "row " .. i, values = { i, i + 1, i + 2 } }
  elseif kind == 1 then
    live[slot] = string.rep(string.char(97 + i % 26), random(2000))
  elseif kind == 2 then
    live[slot] = function() return i end
  else
    live[slot] = coroutine.wrap(function() coroutine.yield(i) end)
  end
  if i % 10000 == 0 then
    collectgarbage()
    local sum = 0
    for _, value in pairs(live) do
      if type(value) == "table" then sum = sum + value.id + value.values[3]
      elseif type(value) == "string" then sum = sum + checksum(value)
      elseif type(value) == "function" then sum = sum + 1 end
    end
    sums[#sums + 1] = sum
  end
end
print(table.concat(sums, " "))

local words = {}
for i = 1, 20000 * scale do words[i] = string.format("%08x", random(32768) * random(32768)) end
table.sort(words)
local text = table.concat(words, "\n")
print(#text, checksum(text), select(2, text:gsub("%d+", "")))
