-- SPDX-License-Identifier: MIT
-- lib.macaddress: Ethernet addresses as objects of 64 bits, which compare by == and print by tostring.
local ffi = require("ffi")
local bit = require("bit")

local M = {}
M.__index = M

local mac_t = ffi.typeof("union { int64_t bits; uint8_t bytes[6]; }")

--- The address that `m` denotes: a string ("02:00:00:00:00:01"; any six pairs of hexadecimal digits), a number of 48
-- bits, whose lowest byte comes first, or such an object, which is returned. nil and a message if it is malformed.
function M:new(m)
   if ffi.istype(mac_t, m) then return m end
   local address = mac_t()
   if type(m) ~= "string" then
      address.bits = m
      return address
   end
   local count = 0
   for pair in m:gmatch("%x%x") do
      if count < 6 then address.bytes[count] = tonumber(pair, 16) end
      count = count + 1
   end
   if count ~= 6 then return nil, "malformed MAC address: "..m end
   return address
end

--- The address that is the 6 bytes at `bytes`.
function M:from_bytes(bytes)
   local address = mac_t()
   ffi.copy(address.bytes, bytes, 6)
   return address
end

function M:__tostring()
   local b = self.bytes
   return ("%02X:%02X:%02X:%02X:%02X:%02X"):format(b[0], b[1], b[2], b[3], b[4], b[5])
end

function M.__eq(a, b)
   return ffi.istype(mac_t, a) and ffi.istype(mac_t, b) and a.bits == b.bits
end

--- The bits `i` to `j` - 1 of the address as a number; bit 0 is the lowest one of the first byte.
function M:subbits(i, j)
   local mask = bit.bnot(bit.lshift(0xffffffffffffLL, j - i))
   return tonumber(bit.band(bit.rshift(self.bits, i), mask))
end

ffi.metatype(mac_t, M)

function M.selftest()
   local a = M:new("02:00:00:0a:00:ff")
   assert(tostring(a) == "02:00:00:0A:00:FF" and a == M:new("0200000a00ff"))
   assert(a ~= M:new("02:00:00:0a:00:fe") and a ~= nil)
   assert(M:new(a) == a and M:from_bytes("\2\0\0\10\0\255") == a and M:new(0x0201) == M:new("01:02:00:00:00:00"))
   assert(a:subbits(0, 8) == 2 and a:subbits(40, 48) == 255)
   assert(a:subbits(24, 28) == 10 and a:subbits(0, 31) == 0x0a000002)
   for _, bad in ipairs {"", "02:00:00:0a:00", "02:00:00:0a:00:ff:00"} do
      local none, message = M:new(bad)
      assert(none == nil and message == "malformed MAC address: "..bad)
   end
end

return M
