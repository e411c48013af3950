-- SPDX-License-Identifier: MIT
-- lib.lpm.lpm: the base class of the longest prefix match tables: named arrays of C structs that grow, and that can be
-- stored to and loaded from a block of memory.
local ffi = require("ffi")

ffi.cdef [[
void *perigee_lpm_calloc(size_t, size_t) __asm__("calloc");
void perigee_lpm_free(void *) __asm__("free");
]]
local C = ffi.C

local M = {}
local LPM = {}
M.LPM = LPM

--- A new object of the class.
function LPM:new()
   return setmetatable({}, {__index = self})
end

-- Memory of zeros for `count` elements that the garbage collector frees.
local function allocate(ctype, count)
   local memory = C.perigee_lpm_calloc(math.max(count, 1), ffi.sizeof(ctype))
   if memory == nil then error("lpm: no memory for "..count.." elements") end
   return ffi.gc(ffi.cast(ffi.typeof("$ *", ctype), memory), C.perigee_lpm_free)
end

--- Makes an array of `count` elements of the type `ctype`, all zero, as the field `name`, and these methods of the
-- object:
--   NAME_type(), NAME_length()    its type and its number of elements,
--   NAME_new(), NAME_free(index)  take an element that is not in use, from the index `first` (default 0) on, and give
-- it back,
--   NAME_grow(factor)             makes it `factor` (default 2) times as long; it moves,
--   NAME_store(pointer)           copies it to memory and returns the number of bytes,
--   NAME_load(pointer, bytes)     replaces it by what is in memory.
function LPM:alloc(name, ctype, count, first)
   count = count or 0
   local following, freed = first or 0, {}
   local size = ffi.sizeof(ctype)
   if count > 0 then self[name] = allocate(ctype, count) end
   local function grow(wanted)
      local larger = allocate(ctype, wanted)
      if self[name] ~= nil then ffi.copy(larger, self[name], math.min(count, wanted) * size) end
      self[name], count = larger, wanted
   end
   self[name.."_type"] = function () return ctype end
   self[name.."_length"] = function () return count end
   self[name.."_grow"] = function (_, factor) grow(math.max(count * (factor or 2), 1)) end
   self[name.."_free"] = function (_, index) freed[#freed + 1] = index end
   self[name.."_new"] = function ()
      local index = table.remove(freed)
      if index then return index end
      while following >= count do grow(math.max(count * 2, 1)) end
      following = following + 1
      return following - 1
   end
   self[name.."_store"] = function (_, pointer)
      ffi.copy(pointer, self[name], count * size)
      return count * size
   end
   self[name.."_load"] = function (_, pointer, bytes)
      count = tonumber(bytes) / size
      self[name] = allocate(ctype, count)
      ffi.copy(self[name], pointer, bytes)
   end
   return self
end

--- Writes the arrays named in the object's field `alloc_storable` to the memory at `pointer`: for each, its size in
-- bytes (uint64_t) and its bytes. Returns the number of bytes written.
function LPM:alloc_store(pointer)
   local bytes = ffi.cast("uint8_t *", pointer)
   local written = 0
   for _, name in ipairs(self.alloc_storable) do
      local size = self[name.."_store"](self, bytes + written + 8)
      ffi.cast("uint64_t *", bytes + written)[0] = size
      written = written + 8 + size
   end
   return written
end

--- Reads what alloc_store has written to the memory at `pointer`.
function LPM:alloc_load(pointer)
   local bytes = ffi.cast("const uint8_t *", pointer)
   for _, name in ipairs(self.alloc_storable) do
      local size = tonumber(ffi.cast("const uint64_t *", bytes)[0])
      self[name.."_load"](self, bytes + 8, size)
      bytes = bytes + 8 + size
   end
end

function M.selftest()
   local s = LPM:new()
   s:alloc("test", ffi.typeof("uint64_t"), 2)
   for i = 0, 6 do
      assert(s:test_new() == i)
      s.test[i] = i * 3
   end
   for _, index in ipairs {4, 3, 2, 5} do s:test_free(index) end
   assert(s:test_new() == 5 and s:test_new() == 2 and s:test_new() == 3 and s:test_new() == 4 and s:test_new() == 7)
   assert(s:test_type() == ffi.typeof("uint64_t") and s:test_length() == 8)
   s:test_grow(3)
   assert(s:test_length() == 24 and s.test[23] == 0)
   for i = 0, 6 do assert(s.test[i] == i * 3) end
   local a, b = LPM:new(), LPM:new()
   for _, object in ipairs {a, b} do
      object.alloc_storable = {"bytes", "words"}
      object:alloc("bytes", ffi.typeof("uint8_t"), 3)
      object:alloc("words", ffi.typeof("uint32_t"), 2, 1)
   end
   assert(a:words_new() == 1 and a:words_new() == 2 and a:words_length() == 4)
   a.bytes[2], a.words[3] = 9, 8
   local memory = ffi.new("uint8_t[64]")
   assert(a:alloc_store(memory) == 8 + 3 + 8 + 16 and memory[0] == 3)
   b:alloc_load(memory)
   assert(b.bytes[2] == 9 and b.words[3] == 8 and b:words_length() == 4)
end

return M
