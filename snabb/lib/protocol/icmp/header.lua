-- SPDX-License-Identifier: MIT
-- lib.protocol.icmp.header: what all messages of ICMP (RFC 792) and ICMPv6 (RFC 4443) begin with: type, code, checksum.
--
-- The upper layers are those of ICMPv6: types 2, 135 and 136.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local upper = require("lib.protocol.upper")
local htons = lib.htons

local PROTOCOL_ICMPV6 = 58

local Icmp = subClass(header)
Icmp._name = "icmp"
Icmp._ulp = {
   method = "type",
   class_map = {
      [2] = "lib.protocol.icmp.ptb",
      [135] = "lib.protocol.icmp.nd.ns",
      [136] = "lib.protocol.icmp.nd.na"
   }
}
Icmp:init({ffi.typeof "struct { uint8_t type; uint8_t code; uint16_t checksum; } __attribute__((packed))"})

--- A new header of the type `type` and the code `code` (default 0).
function Icmp:new(type, code)
   local o = Icmp:superClass().new(self)
   o:type(type or 0)
   o:code(code or 0)
   return o
end

--- The type; with `value`, sets it.
function Icmp:type(value)
   local h = self:header()
   if value == nil then return h.type end
   h.type = value
end

--- The code; with `value`, sets it.
function Icmp:code(value)
   local h = self:header()
   if value == nil then return h.code end
   h.code = value
end

-- The checksum of the message as if its own were 0.
local function compute(self, payload, length, ipv6)
   local h = self:header()
   local current = h.checksum
   h.checksum = 0
   local sum = upper.checksum(h, self:sizeof(), payload, length, ipv6, PROTOCOL_ICMPV6)
   h.checksum = current
   return sum
end

--- Computes and sets the checksum over the header and the payload, `length` bytes at `payload`; with `ipv6` (a header
-- object of lib.protocol.ipv6) also over the pseudo header, as ICMPv6 has it.
function Icmp:checksum(payload, length, ipv6)
   self:header().checksum = htons(compute(self, payload, length, ipv6))
end

--- Whether the checksum is right; arguments as for `checksum`.
function Icmp:checksum_check(payload, length, ipv6)
   return htons(compute(self, payload, length, ipv6)) == self:header().checksum
end

function Icmp.selftest()
   local ipv6 = require("lib.protocol.ipv6")
   local payload = ffi.new("uint8_t[5]", 0, 1, 0, 2, 3)
   local icmp = Icmp:new(8)
   assert(icmp:sizeof() == 4 and icmp:type() == 8 and icmp:code() == 0 and icmp:upper_layer() == nil)
   icmp:checksum(payload, 5)
   local sum = lib.csum(lib.hexundump("0800 0000 0001 0002 03", 9), 9)
   assert(lib.ntohs(icmp:header().checksum) == sum and icmp:checksum_check(payload, 5))
   payload[4] = 4
   assert(not icmp:checksum_check(payload, 5) and lib.ntohs(icmp:header().checksum) == sum)
   local ip = ipv6:new({src = ipv6:pton("2001:db8::1"), dst = ipv6:pton("2001:db8::2")})
   local echo = Icmp:new(128, 1)
   echo:checksum(payload, 5, ip)
   sum = lib.csum(lib.hexundump([[20010db8000000000000000000000001 20010db8000000000000000000000002
      00000009 0000003a 8001 0000 0001 0002 04]], 49), 49)
   assert(lib.ntohs(echo:header().checksum) == sum and echo:checksum_check(payload, 5, ip))
   assert(not echo:checksum_check(payload, 5))
   assert(Icmp:new(135):upper_layer()._name == "neighbor solicitation")
   assert(Icmp:new(136):upper_layer()._name == "neighbor advertisement")
   assert(Icmp:new(2):upper_layer()._name == "packet too big")
end

return Icmp
