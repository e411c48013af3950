-- SPDX-License-Identifier: MIT
-- lib.protocol.header: the base class of protocol headers. A header object is a view of a C struct, either of its own
-- (`new`) or in a packet's memory (`new_from_mem`).
--
-- A protocol is a subclass with
--   _name   the protocol's name,
--   _ulp    {method = name of the method that tells the upper layer protocol,
--            class_map = {[its result] = module name}},
-- that has called `init` with an array of struct types: the first one is what `new` and `new_from_mem` take; a class of
-- headers with several layouts (see lib.protocol.gre) may choose another: `object._headers[i]`, each with `box`, an
-- array of one pointer to the struct, and `data`, the object's own struct; `object._header` is the one in use.
--
-- What differs from Snabb: `clone` keeps its copy alive by itself.
local ffi = require("ffi")
require("lib.lua.class")

ffi.cdef [[
int perigee_header_memcmp(const void *, const void *, size_t) __asm__("memcmp");
]]
local memcmp = ffi.C.perigee_header_memcmp

local Header = subClass(nil)
Header._name = "header"
Header._ulp = {}

--- The address `address`, which is to have `size` bytes, for functions that read it. What cdata points to cannot be
-- known; of a string, the length is checked: a shorter one would be read past its end.
-- Errors: "invalid address: N bytes, expected SIZE".
function Header.checked(address, size)
   if type(address) == "string" and #address ~= size then
      error("invalid address: "..#address.." bytes, expected "..size, 3)
   end
   return address
end

--- Class method: declares the struct types (an array of ctypes) of a protocol's header.
function Header:init(types)
   self._layouts = {}
   for i, t in ipairs(types) do
      local ptr_t = ffi.typeof("$ *", t)
      self._layouts[i] = {t = t, ptr_t = ptr_t, box_t = ffi.typeof("$[1]", ptr_t), size = ffi.sizeof(t)}
   end
end

-- A new or recycled object with its boxes.
local function instance(class)
   local o = Header:superClass().new(class)
   if o._headers == nil then
      local layouts = o._layouts
      if layouts == nil then
         -- A class made for Snabb's older interface, which names its one type.
         Header.init(o:class(), {o._header_type})
         layouts = o._layouts
      end
      o._headers = {}
      for i, layout in ipairs(layouts) do
         o._headers[i] = {
            t = layout.t, ptr_t = layout.ptr_t, size = layout.size, box = layout.box_t(), data = layout.t()
         }
      end
   end
   o._header = o._headers[1]
   return o
end

--- A new header of zeros; subclasses take a table of fields.
function Header:new()
   local o = instance(self)
   local layout = o._header
   ffi.fill(layout.data, layout.size)
   layout.box[0] = layout.data
   return o
end

--- A header that is the memory at `mem`, of which `size` bytes may be used; nil if those are too few.
function Header:new_from_mem(mem, size)
   local o = instance(self)
   local layout = o._header
   if layout.size > size then
      o:free()
      return nil
   end
   layout.box[0] = ffi.cast(layout.ptr_t, mem)
   return o
end

--- The struct.
function Header:header()
   return self._header.box[0][0]
end

--- The header's size in bytes.
function Header:sizeof()
   local layout = self._header or self._layouts[1]
   return layout.size
end

--- Whether the header has the same bytes as the header `other`; some protocols compare significant fields only.
function Header:eq(other)
   local size = self:sizeof()
   return size == other:sizeof() and memcmp(self._header.box[0], other._header.box[0], size) == 0
end

--- Copies the header to `dst`, where there must be room for it. With `relocate`, the object is a view of that copy
-- from now on.
function Header:copy(dst, relocate)
   local layout = self._header
   ffi.copy(dst, layout.box[0], layout.size)
   if relocate then layout.box[0] = ffi.cast(layout.ptr_t, dst) end
end

--- A new object with a copy of the header. Not for the fast path.
function Header:clone()
   local copy = self:class():new_from_mem(self._header.box[0], self:sizeof())
   local layout = copy._header
   ffi.copy(layout.data, layout.box[0], layout.size)
   layout.box[0] = layout.data
   return copy
end

--- The class of the upper layer protocol; nil if it is not supported or there is none.
function Header:upper_layer()
   local method = self._ulp.method
   if not method then return nil end
   local name = self._ulp.class_map[self[method](self)]
   if not name then return nil end
   return package.loaded[name] or require(name)
end

function Header.selftest()
   assert(Header.checked("123456", 6) == "123456")
   for _, bad in ipairs {"", "12345", "1234567"} do
      local ok, message = pcall(Header.checked, bad, 6)
      assert(not ok and message:find("invalid address: "..#bad.." bytes, expected 6", 1, true), message)
   end
   local Pair = subClass(Header)
   Pair._name = "pair"
   Pair._ulp = {method = "a", class_map = {[7] = "lib.protocol.header"}}
   Pair:init({ffi.typeof("struct { uint8_t a, b; } __attribute__((packed))")})
   function Pair:a() return self:header().a end
   assert(Pair:sizeof() == 2)
   local memory = ffi.new("uint8_t[4]", 7, 2, 8, 9)
   local pair = Pair:new_from_mem(memory, 4)
   assert(Pair:new_from_mem(memory, 1) == nil)
   assert(pair:a() == 7 and pair:header().b == 2 and pair:sizeof() == 2 and pair:name() == "pair")
   assert(pair:upper_layer() == Header)
   memory[0] = 5
   assert(pair:a() == 5 and pair:upper_layer() == nil)
   local copy = pair:clone()
   assert(copy:eq(pair) and copy ~= pair)
   copy:header().b = 3
   assert(memory[1] == 2 and not copy:eq(pair))
   copy:copy(memory + 2)
   assert(memory[2] == 5 and memory[3] == 3)
   copy:copy(memory, true)
   memory[1] = 200
   assert(copy:header().b == 200)
   copy:free()
   local zero = Pair:new()
   assert(rawequal(zero, copy) and zero:a() == 0 and zero:header().b == 0 and memory[1] == 200)
   local Old = subClass(Header)
   Old._header_type = ffi.typeof("struct { uint16_t x; }")
   assert(Old:new():header().x == 0 and Old:new():sizeof() == 2)
end

return Header
