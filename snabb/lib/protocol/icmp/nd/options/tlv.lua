-- SPDX-License-Identifier: MIT
-- lib.protocol.icmp.nd.options.tlv: an option of Neighbor Discovery (RFC 4861, section 4.6): type, length, data.
--
-- What differs from Snabb: an option of a type other than source and target link-layer address is named "unknown" and
-- has no `option()`, where Snabb ends the process.
local ffi = require("ffi")
require("lib.lua.class")

local HEADER_SIZE = 2

local Tlv = subClass(nil)
Tlv._name = "unknown"
-- By type.
Tlv._types = {
   [1] = {name = "src_ll_addr", class = "lib.protocol.icmp.nd.options.lladdr"},
   [2] = {name = "tgt_ll_addr", class = "lib.protocol.icmp.nd.options.lladdr"}
}

-- Structs by their size: types are never freed.
local struct_types = {}

local function struct_type(size)
   local t = struct_types[size]
   if not t then
      t = ffi.typeof("struct { struct { uint8_t type, length; } tlv; uint8_t data[$]; }", size - HEADER_SIZE)
      struct_types[size] = t
   end
   return t
end

local function describe(o, type)
   local known = Tlv._types[type]
   o._name = known and known.name or nil
   o._option = known and require(known.class):new_from_mem(o._tlv.data, o:length() * 8 - HEADER_SIZE) or nil
end

--- A new option of the type `type` (1: source, 2: target link-layer address) of `data`, a
-- lib.protocol.icmp.nd.options.lladdr object or cdata such as uint8_t[6]. Errors: "tlv: unsupported type", or a size
-- that is no multiple of 8 bytes.
function Tlv:new(type, data)
   if not Tlv._types[type] then error("tlv: unsupported type "..tostring(type)) end
   if _G.type(data) == "table" then data = data:addr() end
   local size = HEADER_SIZE + ffi.sizeof(data)
   if size % 8 ~= 0 then error("tlv: the option has "..size.." bytes, not a multiple of 8") end
   local o = Tlv:superClass().new(self)
   o._tlv = struct_type(size)()
   o._tlv.tlv.type, o._tlv.tlv.length = type, size / 8
   ffi.copy(o._tlv.data, data, size - HEADER_SIZE)
   describe(o, type)
   return o
end

--- The option that is the memory at `mem`, of which `size` bytes may be used; nil if those are too few or the length
-- is 0.
function Tlv:new_from_mem(mem, size)
   if size < HEADER_SIZE then return nil end
   local bytes = ffi.cast("uint8_t *", mem)
   local length = bytes[1] * 8
   if length == 0 or length > size then return nil end
   local o = Tlv:superClass().new(self)
   o._tlv = ffi.cast(ffi.typeof("$ *", struct_type(length)), mem)
   describe(o, bytes[0])
   return o
end

--- "src_ll_addr", "tgt_ll_addr" or "unknown".
function Tlv:name()
   return self._name
end

--- The type; with `value`, sets it first. Errors: "tlv: unsupported type".
function Tlv:type(value)
   if value ~= nil then
      if not Tlv._types[value] then error("tlv: unsupported type "..tostring(value)) end
      self._tlv.tlv.type = value
      self._name = Tlv._types[value].name
   end
   return self._tlv.tlv.type
end

--- The length of the whole option, in units of 8 bytes.
function Tlv:length()
   return self._tlv.tlv.length
end

--- The option's data, uint8_t[] in the option.
function Tlv:data()
   return self._tlv.data
end

--- The whole option: a struct (of `new`) or a pointer to one (of `new_from_mem`), `length` * 8 bytes.
function Tlv:tlv()
   return self._tlv
end

--- The object of what the option is about, of lib.protocol.icmp.nd.options.lladdr; nil for an unknown type.
function Tlv:option()
   return self._option
end

function Tlv.selftest()
   local ethernet = require("lib.protocol.ethernet")
   local nd = require("lib.protocol.icmp.nd.header")
   local lladdr = require("lib.protocol.icmp.nd.options.lladdr")
   local mac = ethernet:pton("02:00:00:00:00:01")
   local option = Tlv:new(1, mac)
   assert(ffi.sizeof(option:tlv()) == 8 and ffi.string(option:tlv(), 8) == "\1\1\2\0\0\0\0\1")
   assert(option:name() == "src_ll_addr" and option:length() == 1 and option:type() == 1)
   assert(ethernet:ntop(option:option():addr()) == "02:00:00:00:00:01")
   option:type(2)
   assert(option:name() == "tgt_ll_addr" and option:tlv().tlv.type == 2)
   assert(ffi.string(Tlv:new(2, lladdr:new(mac)):tlv(), 8) == "\2\1\2\0\0\0\0\1")
   assert(not pcall(Tlv.new, Tlv, 3, mac) and not pcall(Tlv.new, Tlv, 1, ffi.new("uint8_t[7]")))
   assert(not pcall(option.type, option, 3))

   local memory = ffi.new("uint8_t[32]", 5, 1)
   ffi.copy(memory + 8, option:tlv(), 8)
   memory[16], memory[17] = 2, 2
   local options = nd.options(nil, memory, 32)
   assert(#options == 3 and options[1]:name() == "unknown" and options[1]:option() == nil and options[1]:type() == 5)
   assert(options[2]:name() == "tgt_ll_addr" and options[3]:length() == 2)
   options[2]:option():addr(ethernet:pton("02:00:00:00:00:02"))
   assert(memory[15] == 2)
   assert(#nd.options(nil, memory, 0) == 0)
   for _, bad in ipairs {0, 3, 255} do
      memory[17] = bad
      local none, message = nd.options(nil, memory, 32)
      assert(#none == 0 and message == "corrupt ND options")
   end
   assert(Tlv:new_from_mem(memory, 1) == nil)
end

return Tlv
