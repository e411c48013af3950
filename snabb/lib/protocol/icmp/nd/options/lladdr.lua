-- SPDX-License-Identifier: MIT
-- lib.protocol.icmp.nd.options.lladdr: the Ethernet address in a Source or Target Link-Layer Address option (RFC 4861,
-- section 4.6.1; RFC 2464, section 6).
local ffi = require("ffi")
require("lib.lua.class")

local checked = require("lib.protocol.header").checked

local ADDRESS_SIZE = 6
local lladdr_t = ffi.typeof("struct { uint8_t lladdr[6]; }")
local lladdr_ptr_t = ffi.typeof("$ *", lladdr_t)

local Lladdr = subClass(nil)
Lladdr._name = "ll_addr"

--- A new object with a copy of the Ethernet address at `address`.
function Lladdr:new(address)
   local o = Lladdr:superClass().new(self)
   o._own = lladdr_t()
   o._lladdr = ffi.cast(lladdr_ptr_t, o._own)
   o:addr(address)
   return o
end

--- An object that is the memory at `mem`, of which `size` bytes may be used; nil if those are too few.
function Lladdr:new_from_mem(mem, size)
   if size < ADDRESS_SIZE then return nil end
   local o = Lladdr:superClass().new(self)
   o._lladdr = ffi.cast(lladdr_ptr_t, mem)
   return o
end

--- "ll_addr".
function Lladdr:name()
   return self._name
end

--- The address, uint8_t[6]; with `address`, sets it first.
function Lladdr:addr(address)
   if address ~= nil then ffi.copy(self._lladdr.lladdr, checked(address, ADDRESS_SIZE), ADDRESS_SIZE) end
   return self._lladdr.lladdr
end

function Lladdr.selftest()
   local memory = ffi.new("uint8_t[6]", 2, 0, 0, 0, 0, 1)
   local copy, view = Lladdr:new(memory), Lladdr:new_from_mem(memory, 6)
   memory[5] = 9
   assert(copy:addr()[5] == 1 and view:addr()[5] == 9 and view:name() == "ll_addr")
   assert(ffi.sizeof(copy:addr()) == 6 and Lladdr:new_from_mem(memory, 5) == nil)
end

return Lladdr
