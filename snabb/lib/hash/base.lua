-- SPDX-License-Identifier: MIT
-- lib.hash.base: the base class of hash functions.
--
-- A subclass has the field `_size`, the number of bits of the result, a multiple of 32, and the method hash(data,
-- length, seed), which writes the result to `self.h` and returns that: a union of the arrays u8, i8, u32, i32 and, if
-- the size is a multiple of 64, u64 and i64.
local ffi = require("ffi")
require("lib.lua.class")

local Hash = subClass(nil)
Hash._name = "hash function"

-- Result types by size, as LuaJIT never frees types.
local result_types = {}

local function result_type(bits)
   if not result_types[bits] then
      local wide = bits % 64 == 0 and ("uint64_t u64[%d]; int64_t i64[%d];"):format(bits / 64, bits / 64) or ""
      result_types[bits] = ffi.typeof(("union { uint8_t u8[%d]; int8_t i8[%d]; uint32_t u32[%d]; int32_t i32[%d]; %s }")
         :format(bits / 8, bits / 8, bits / 32, bits / 32, wide))
   end
   return result_types[bits]
end

--- A new object of a subclass. Errors: for the base class itself.
function Hash:new()
   if self == Hash then error("Can't instantiate abstract class hash") end
   local o = Hash:superClass().new(self)
   assert(o._size and o._size >= 32 and o._size % 32 == 0, "the size of a hash must be a multiple of 32 bits")
   o.h = o.h or result_type(o._size)()
   return o
end

--- The number of bits of the result.
function Hash:size()
   return self._size
end

function Hash.selftest()
   local Wide, Narrow = subClass(Hash), subClass(Hash)
   Wide._size, Narrow._size = 128, 32
   local wide, narrow = Wide:new(), Narrow:new()
   wide.h.u64[1] = 0x8000000000000000ULL
   assert(wide:size() == 128 and wide.h.u8[15] == 0x80 and wide.h.i64[1] < 0 and ffi.sizeof(wide.h) == 16)
   narrow.h.u32[0] = 2^32 - 1
   assert(narrow.h.i32[0] == -1 and narrow.h.i8[0] == -1 and ffi.sizeof(narrow.h) == 4)
   assert(not pcall(Hash.new, Hash))
end

return Hash
