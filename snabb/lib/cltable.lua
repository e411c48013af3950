-- SPDX-License-Identifier: MIT
-- lib.cltable: a table from cdata keys (equal by their bytes) to any Lua values: `t[key] = value`, `t[key]`,
-- `cltable.pairs(t)`.
--
-- What differs from Snabb: places of removed values are used again.
local ffi = require("ffi")
local ctable = require("lib.ctable")

local M = {}

--- The value of `key` in `t`, nil if there is none; `t[key]` does the same.
function M.get(t, key)
   local entry = rawget(t, "keys"):lookup_ptr(key)
   if entry then return rawget(t, "values")[entry.value] end
end

--- Sets the value of `key` in `t`; nil removes it. `t[key] = value` does the same.
function M.set(t, key, value)
   local keys, values, unused = rawget(t, "keys"), rawget(t, "values"), rawget(t, "unused")
   local entry = keys:lookup_ptr(key)
   if entry then
      local index = entry.value
      values[index] = value
      if value == nil then
         keys:remove_ptr(entry)
         unused[#unused + 1] = index
      end
   elseif value ~= nil then
      local index = table.remove(unused) or rawget(t, "count") + 1
      keys:add(key, index)
      values[index] = value
      rawset(t, "count", math.max(rawget(t, "count"), index))
   end
end

local metatable = {__index = M.get, __newindex = M.set}

--- A table of the ctable `keys`, whose values are indices in the array `values`.
function M.build(keys, values)
   return setmetatable({keys = keys, values = values, count = #values, unused = {}}, metatable)
end

--- A new, empty table. `params`: as for lib.ctable.new, without value_type.
function M.new(params)
   local copied = {}
   for name, value in pairs(params) do copied[name] = value end
   assert(copied.value_type == nil, "cltable: value_type is not an option: values are any Lua values")
   copied.value_type = ffi.typeof("uint32_t")
   return M.build(ctable.new(copied), {})
end

--- An iterator over the keys (cdata in the table) and the values of `t`, which must not be changed meanwhile.
function M.pairs(t)
   local following, limit, entry = rawget(t, "keys"):iterate()
   return function ()
      entry = following(limit, entry)
      if entry then return entry.key, rawget(t, "values")[entry.value] end
   end
end

function M.selftest()
   local key_t = ffi.typeof("uint8_t[4]")
   local t = M.new({key_type = key_t})
   local function key(i) return key_t(1, 2, 3, i) end
   for round = 1, 3 do
      for i = 0, 255 do t[key(i)] = "hello "..i end
      for i = 0, 255 do assert(t[key(i)] == "hello "..i) end
      local count = 0
      for k, v in M.pairs(t) do
         count = count + 1
         assert(v == "hello "..k[3])
      end
      assert(count == 256 and rawget(t, "count") == 256, round)
      t[key(7)] = false
      assert(t[key(7)] == false)
      for i = 0, 255 do
         t[key(i)] = nil
         t[key_t(9, 9, 9, i)] = nil
      end
      for _ in M.pairs(t) do error("not empty") end
      assert(t[key(3)] == nil)
   end
   assert(not pcall(M.new, {key_type = key_t, value_type = key_t}))
end

return M
