-- SPDX-License-Identifier: MIT
-- lib.protocol.udp: the UDP header (RFC 768).
--
-- What differs from Snabb: a checksum that comes out as 0 is sent as 0xffff, as RFC 768 says; `length` may be given to
-- `new`.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local upper = require("lib.protocol.upper")
local htons, ntohs = lib.htons, lib.ntohs

local PROTOCOL = 17
local HEADER_SIZE = 8

local Udp = subClass(header)
Udp._name = "udp"
Udp._ulp = {}
Udp:init({ffi.typeof [[
struct {
   uint16_t src_port;
   uint16_t dst_port;
   uint16_t len;
   uint16_t checksum;
} __attribute__((packed))
]]})

--- A new header from the table `config`: src_port, dst_port (default 0), length (default 8, that of the header alone).
-- The checksum is 0: none.
function Udp:new(config)
   local o = Udp:superClass().new(self)
   o:src_port(config.src_port or 0)
   o:dst_port(config.dst_port or 0)
   o:length(config.length or HEADER_SIZE)
   return o
end

--- The source port; with `value`, sets it first.
function Udp:src_port(value)
   local h = self:header()
   if value ~= nil then h.src_port = htons(value) end
   return (ntohs(h.src_port))
end

--- The destination port; with `value`, sets it first.
function Udp:dst_port(value)
   local h = self:header()
   if value ~= nil then h.dst_port = htons(value) end
   return (ntohs(h.dst_port))
end

--- The length of header and payload in bytes; with `value`, sets it first.
function Udp:length(value)
   local h = self:header()
   if value ~= nil then h.len = htons(value) end
   return (ntohs(h.len))
end

--- The checksum. With `payload` (a pointer to `length` bytes), computes and sets it first; with `ip` (a header object
-- of lib.protocol.ipv4 or ipv6), it covers the pseudo header, too.
function Udp:checksum(payload, length, ip)
   local h = self:header()
   if payload ~= nil then
      h.checksum = 0
      local sum = upper.checksum(h, HEADER_SIZE, payload, length, ip, PROTOCOL)
      h.checksum = sum == 0 and 0xffff or htons(sum)
   end
   return (ntohs(h.checksum))
end

--- Whether the header `other` has the same ports and length.
function Udp:eq(other)
   return self:src_port() == other:src_port() and self:dst_port() == other:dst_port()
      and self:length() == other:length()
end

function Udp.selftest()
   local ipv4, ipv6 = require("lib.protocol.ipv4"), require("lib.protocol.ipv6")
   local udp = Udp:new({src_port = 1234, dst_port = 53})
   assert(ffi.string(udp:header(), 8) == lib.hexundump("04d2 0035 0008 0000", 8) and udp:upper_layer() == nil)
   local payload = ffi.new("uint8_t[3]", 1, 2, 3)
   udp:length(11)
   local ip = ipv4:new({src = ipv4:pton("192.0.2.1"), dst = ipv4:pton("192.0.2.2")})
   local expected = lib.csum(lib.hexundump("c0000201 c0000202 0011 000b 04d2 0035 000b 0000 010203", 23), 23)
   assert(udp:checksum(payload, 3, ip) == expected and udp:checksum() == expected and udp:length() == 11)
   local ip6 = ipv6:new({src = ipv6:pton("2001:db8::1"), dst = ipv6:pton("2001:db8::2")})
   expected = lib.csum(lib.hexundump([[20010db8000000000000000000000001 20010db8000000000000000000000002
      0000000b 00000011 04d2 0035 000b 0000 010203]], 51), 51)
   assert(udp:checksum(payload, 3, ip6) == expected)
   -- Without a pseudo header; the payload makes the sum 0xffff.
   payload[0], payload[1] = bit.rshift(0xffff - 0x04d2 - 0x35 - 10, 8), bit.band(0xffff - 0x04d2 - 0x35 - 10, 255)
   udp:length(10)
   assert(udp:checksum(payload, 2) == 0xffff)
   assert(udp:src_port() == 1234 and udp:dst_port() == 53 and udp:eq(udp:clone()) and not udp:eq(Udp:new({})))
end

return Udp
