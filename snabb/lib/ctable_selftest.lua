-- SPDX-License-Identifier: MIT
-- The selftest of lib.ctable: against Lua tables.
local ffi = require("ffi")

local M = {}

local seed

local function check(condition, what)
   if not condition then error(("seed %d: %s"):format(seed, what), 2) end
end

-- What is in the table must be what is in `model`, value by number.
local function compare(ctab, model, read_key)
   ctab:selfcheck()
   local count = 0
   for entry in ctab:iterate() do
      count = count + 1
      check(model[read_key(entry.key)] == entry.value[0], "iterate")
   end
   check(count == ctab.occupancy, "occupancy")
   for _ in pairs(model) do count = count - 1 end
   check(count == 0, "number of entries")
end

-- Random operations on a table of keys of `words` 16-bit words.
local function test_random(ctable, words, params, operations)
   params.key_type, params.value_type = ffi.typeof("uint16_t["..words.."]"), ffi.typeof("int32_t[3]")
   local ctab, model = ctable.new(params), {}
   local key, value, entry = params.key_type(), params.value_type(), ctab.entry_type()
   local function read_key(k) return k[0] + k[words - 1] * 65536 end
   for step = 1, operations do
      local n = math.random(0, 400)
      key[0], key[words - 1] = n % 20, math.floor(n / 20)
      value[0] = step
      local id, what = read_key(key), math.random(1, 6)
      if what <= 2 then
         ctab:add(key, value, true)
         model[id] = step
      elseif what == 3 then
         local ok = pcall(ctab.add, ctab, key, value)
         check(ok == (model[id] == nil), "add")
         model[id] = model[id] or step
      elseif what == 4 then
         check(ctab:remove(key, true) == (model[id] ~= nil), "remove")
         model[id] = nil
      elseif what == 5 then
         check(pcall(ctab.update, ctab, key, value) == (model[id] ~= nil), "update")
         if model[id] then model[id] = step end
      else
         check(ctab:add(key, value, "preserve").value[0] == (model[id] or step), "preserve")
         model[id] = model[id] or step
      end
      local other = math.random(0, 400)
      key[0], key[words - 1] = other % 20, math.floor(other / 20)
      local found = ctab:lookup_ptr(key)
      check((found and found.value[0]) == model[read_key(key)], "lookup_ptr")
      check(ctab:lookup_and_copy(key, entry) == (found ~= nil), "lookup_and_copy")
      if found then check(entry.value[0] == found.value[0] and entry.key[0] == key[0], "copy") end
      if step % 500 == 0 then compare(ctab, model, read_key) end
   end
   compare(ctab, model, read_key)
   return ctab, model, read_key
end

local function test_streamer(ctab, model, read_key, words)
   for _, width in ipairs {1, 3, 32} do
      local streamer = ctab:make_lookup_streamer(width)
      for first = 0, 420, width do
         for i = 0, width - 1 do
            local key, n = streamer.entries[i].key, first + i
            key[0], key[words - 1] = n % 20, math.floor(n / 20)
         end
         streamer:stream()
         for i = 0, width - 1 do
            local expected = model[read_key(streamer.entries[i].key)]
            check(streamer:is_found(i) == (expected ~= nil) and streamer:is_empty(i) == not expected, "streamer")
            if expected then check(streamer.entries[i].value[0] == expected, "streamer: value") end
         end
      end
      check(not pcall(streamer.is_found, streamer, width), "streamer: range")
   end
   check(not pcall(ctab.make_lookup_streamer, ctab, 0), "streamer: width")
end

-- A stream in memory, with the methods of Snabb's lib.stream.
local function memory_stream()
   local bytes, position = "", 0
   local stream = {}
   function stream:write_array(t, ptr, count) bytes = bytes..ffi.string(ptr, ffi.sizeof(t) * count) end
   function stream:write_struct(t, struct) self:write_array(t, struct, 1) end
   function stream:read_array(to, t, count)
      local size = ffi.sizeof(t) * count
      ffi.copy(to, bytes:sub(position + 1, position + size), size)
      position = position + size
      return to
   end
   function stream:read_struct(to, t) return self:read_array(to or t(), t, 1) end
   return stream
end

local function test_save(ctable, ctab, model, read_key, params)
   local stream = memory_stream()
   ctab:save(stream)
   compare(ctable.load(stream, params), model, read_key)
   local name = os.tmpname()
   local file = io.open(name, "wb")
   ctab:save(file)
   file:close()
   file = io.open(name, "rb")
   local bytes = file:read("*a")
   file:seek("set", 0)
   local loaded = ctable.load(file, params)
   file:close()
   compare(loaded, model, read_key)
   local function damaged(contents, wanted)
      local f = io.open(name, "wb")
      f:write(contents)
      f:close()
      f = io.open(name, "rb")
      local ok, message = pcall(ctable.load, f, params)
      f:close()
      check(not ok and message:find(wanted, 1, true), tostring(message))
   end
   damaged(bytes:sub(1, 20), "truncated")
   damaged(bytes:sub(1, -2), "truncated")
   damaged(bytes:sub(1, 4).."\xff\xff\xff\xff"..bytes:sub(9), "damaged header")
   damaged(bytes:sub(1, 48)..("\1"):rep(#bytes - 48), "ctable: entry at 0: ")
   os.remove(name)
end

-- Scalar keys, growing and shrinking, walking by offsets.
local function test_sizes(ctable)
   local resized = {}
   local ctab = ctable.new({key_type = ffi.typeof("uint32_t"), value_type = ffi.typeof("int32_t[1]"), initial_size = 4,
                            min_occupancy_rate = 0.2,
                            resize_callback = function (t, old) resized[#resized + 1] = old.."-"..t.size end})
   local value = ffi.new("int32_t[1]")
   for i = 1, 3000 do
      value[0] = -i
      ctab:add(i, value)
   end
   ctab:selfcheck()
   check(ctab.size == 4096 and ctab.occupancy == 3000 and ctab:get_backing_size() >= 4096 * 16, "growth")
   check(table.concat(resized, " ", 1, 3) == "0-4 4-8 8-16", table.concat(resized, " "))
   local offset, entry, seen = 0, nil, 0
   while true do
      offset, entry = ctab:next_entry(offset, offset + 7)
      if entry then
         seen = seen + 1
         check(entry.value[0] == -entry.key, "next_entry")
         offset = offset + 1
      elseif offset == 0 then
         break
      end
   end
   check(seen == 3000, "next_entry: all")
   for i = 1, 2999 do ctab:remove(i) end
   ctab:selfcheck()
   check(ctab.size < 16 and ctab:lookup_ptr(3000).value[0] == -3000 and not ctab:lookup_ptr(1), "shrinking")
   check(not pcall(ctab.remove, ctab, 1) and not ctab:remove(1, true), "remove what is not there")
   check(not pcall(ctab.resize, ctab, 0) and not pcall(ctab.resize, ctab, 8.5), "resize")
   -- A table that there was no memory for had the new size and the old entries, and a search read beyond them.
   for _, size in ipairs{2 ^ 32, 2 ^ 53, 1e300, 1 / 0, 0 / 0, -1} do
      check(not pcall(ctab.resize, ctab, size), "resize to "..size)
      check(ctab:lookup_ptr(3000).value[0] == -3000 and not ctab:lookup_ptr(1), "resize that failed")
      ctab:selfcheck()
   end
   check(not pcall(ctab.remove_ptr, ctab, ctab.entries - 1), "remove_ptr")
   local removed = ctab:lookup_ptr(3000)
   ctab:remove_ptr(removed)
   check(ctab.occupancy == 0 and not pcall(ctab.remove_ptr, ctab, ctab.entries), "empty")
end

-- Keys of each size: like and unlike in any byte.
local function test_equal(equal_function)
   for size = 1, 20 do
      local key_type = ffi.typeof("uint8_t["..size.."]")
      local equal, a, b = equal_function(key_type), key_type(), key_type()
      check(equal(a, b), "equal")
      for i = 0, size - 1 do
         b[i] = 1
         check(not equal(a, b), ("keys of %d bytes differ in byte %d"):format(size, i))
         b[i] = 0
      end
   end
   local equal = equal_function(ffi.typeof("int"))
   check(equal(1, 1) and not equal(1, 2), "numbers")
end

--- Runs all tests of the module `ctable`.
function M.run(ctable, equal_function)
   seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   test_equal(equal_function)
   test_sizes(ctable)
   for words = 1, 9 do
      -- Keys of one word: only 20 different ones.
      local params = {initial_size = words % 3, max_occupancy_rate = words % 2 == 0 and 1 or 0.4}
      local ctab, model, read_key = test_random(ctable, words, params, 3000)
      if words > 1 then test_streamer(ctab, model, read_key, words) end
      params.initial_size = nil
      test_save(ctable, ctab, model, read_key, params)
   end
   test_random(ctable, 3, {max_displacement_limit = 4, max_occupancy_rate = 0.9}, 3000)
   local int = ffi.typeof("int")
   check(not pcall(ctable.new, {key_type = int}), "value_type is required")
   check(not pcall(ctable.new, {key_type = int, value_type = int, size = 3}), "unknown option")
   check(not pcall(ctable.new, {key_type = int, value_type = int, max_occupancy_rate = 2}), "rate")
end

return M
