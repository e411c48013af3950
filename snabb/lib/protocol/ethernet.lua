-- SPDX-License-Identifier: MIT
-- lib.protocol.ethernet: the Ethernet II header, and Ethernet addresses (MAC addresses).
-- Source: IEEE 802.3; RFC 2464 for the mapping of IPv6 multicast addresses.
local ffi = require("ffi")
local bit = require("bit")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local ipv6 = require("lib.protocol.ipv6")
local htons, ntohs = lib.htons, lib.ntohs

ffi.cdef [[
int perigee_ethernet_memcmp(const void *, const void *, size_t) __asm__("memcmp");
]]
local memcmp = ffi.C.perigee_ethernet_memcmp

local checked = header.checked
local ADDRESS_SIZE = 6
local address_t = ffi.typeof("uint8_t[6]")
local u8_p = ffi.typeof("const uint8_t *")

local Ethernet = subClass(header)
Ethernet._name = "ethernet"
Ethernet._ulp = {
   method = "type",
   class_map = {
      [0x0800] = "lib.protocol.ipv4",
      [0x8100] = "lib.protocol.dot1q",
      [0x86dd] = "lib.protocol.ipv6"
   }
}
Ethernet:init({ffi.typeof [[
struct {
   uint8_t ether_dhost[6];
   uint8_t ether_shost[6];
   uint16_t ether_type;
} __attribute__((packed))
]]})

--- A new header from the table `config`: dst, src (addresses, uint8_t[6] or pointers), type (number). Default: zeros.
function Ethernet:new(config)
   local o = Ethernet:superClass().new(self)
   if config.dst then o:dst(config.dst) end
   if config.src then o:src(config.src) end
   if config.type then o:type(config.type) end
   return o
end

--- The address that the string `text` ("02:00:00:00:00:01") denotes, a uint8_t[6].
-- Errors: "invalid mac address TEXT".
function Ethernet:pton(text)
   local address = address_t()
   local pattern = "^(%x%x):(%x%x):(%x%x):(%x%x):(%x%x):(%x%x)$"
   local bytes = type(text) == "string" and {text:match(pattern)} or {}
   if #bytes ~= ADDRESS_SIZE then error("invalid mac address "..tostring(text)) end
   for i, byte in ipairs(bytes) do address[i - 1] = tonumber(byte, 16) end
   return address
end

--- The address at `address` (uint8_t[6] or pointer) as a string, in lower case.
function Ethernet:ntop(address)
   local a = ffi.cast(u8_p, checked(address, ADDRESS_SIZE))
   return ("%02x:%02x:%02x:%02x:%02x:%02x"):format(a[0], a[1], a[2], a[3], a[4], a[5])
end

--- The multicast address that belongs to the IPv6 multicast address `ip` (RFC 2464, section 7).
-- Errors: "invalid multicast address", if it is none.
function Ethernet:ipv6_mcast(ip)
   local from = ffi.cast(u8_p, checked(ip, 16))
   if from[0] ~= 0xff then error("invalid multicast address: "..ipv6:ntop(ip)) end
   local address = address_t(0x33, 0x33)
   ffi.copy(address + 2, from + 12, 4)
   return address
end

--- Whether `address` is that of a group (multicast or broadcast).
function Ethernet:is_mcast(address)
   return bit.band(address[0], 1) ~= 0
end

local BROADCAST = address_t(0xff, 0xff, 0xff, 0xff, 0xff, 0xff)

--- Whether `address` is the broadcast address.
function Ethernet:is_bcast(address)
   return memcmp(checked(address, ADDRESS_SIZE), BROADCAST, ADDRESS_SIZE) == 0
end

--- The source address, uint8_t[6] in the header; with `address`, sets it.
function Ethernet:src(address)
   local h = self:header()
   if address == nil then return h.ether_shost end
   ffi.copy(h.ether_shost, checked(address, ADDRESS_SIZE), ADDRESS_SIZE)
end

--- Whether the source address is `address`.
function Ethernet:src_eq(address)
   return memcmp(checked(address, ADDRESS_SIZE), self:header().ether_shost, ADDRESS_SIZE) == 0
end

--- The destination address, uint8_t[6] in the header; with `address`, sets it.
function Ethernet:dst(address)
   local h = self:header()
   if address == nil then return h.ether_dhost end
   ffi.copy(h.ether_dhost, checked(address, ADDRESS_SIZE), ADDRESS_SIZE)
end

--- Whether the destination address is `address`.
function Ethernet:dst_eq(address)
   return memcmp(checked(address, ADDRESS_SIZE), self:header().ether_dhost, ADDRESS_SIZE) == 0
end

local swapped = address_t()

--- Exchanges source and destination.
function Ethernet:swap()
   local h = self:header()
   ffi.copy(swapped, h.ether_dhost, ADDRESS_SIZE)
   ffi.copy(h.ether_dhost, h.ether_shost, ADDRESS_SIZE)
   ffi.copy(h.ether_shost, swapped, ADDRESS_SIZE)
end

--- The type of what follows, such as 0x0800; with `value`, sets it.
function Ethernet:type(value)
   local h = self:header()
   if value == nil then return (ntohs(h.ether_type)) end
   h.ether_type = htons(value)
end

function Ethernet.selftest()
   local a, b = Ethernet:pton("02:00:00:00:0a:Bc"), Ethernet:pton("ff:ff:ff:ff:ff:ff")
   assert(Ethernet:ntop(a) == "02:00:00:00:0a:bc" and not Ethernet:is_mcast(a) and not Ethernet:is_bcast(a))
   assert(Ethernet:is_mcast(b) and Ethernet:is_bcast(b) and Ethernet:is_mcast(Ethernet:pton("01:00:5e:00:00:01")))
   for _, bad in ipairs {"", "02:00:00:00:00", "02:00:00:00:00:00:00", "02:00:00:00:00:0g", "2:0:0:0:0:0", "zz", 7} do
      local ok, message = pcall(Ethernet.pton, Ethernet, bad)
      assert(not ok and message:find("invalid mac address "..bad, 1, true), bad)
   end
   local group = Ethernet:ipv6_mcast(ipv6:pton("ff02::1:ff12:3456"))
   assert(Ethernet:ntop(group) == "33:33:ff:12:34:56")
   assert(not pcall(Ethernet.ipv6_mcast, Ethernet, ipv6:pton("2001:db8::1")))
   local h = Ethernet:new({src = a, dst = b, type = 0x86dd})
   assert(h:sizeof() == 14 and h:type() == 0x86dd and h:upper_layer() == ipv6)
   assert(ffi.string(h:header(), 14) == lib.hexundump("ffffffffffff 020000000abc 86dd", 14))
   assert(h:src_eq(a) and h:dst_eq(b) and not h:src_eq(b) and not h:dst_eq(a))
   h:swap()
   assert(h:src_eq(b) and h:dst_eq(a) and Ethernet:ntop(h:dst()) == "02:00:00:00:0a:bc")
   for _, method in ipairs {"src", "dst", "src_eq", "dst_eq"} do
      assert(not pcall(h[method], h, "7") and not pcall(h[method], h, "1234567"), method)
   end
   h:src("123456")
   assert(h:src_eq("123456"))
   h:type(0x1234)
   assert(h:upper_layer() == nil)
   h:free()
   assert(ffi.string(Ethernet:new({}):header(), 14) == ("\0"):rep(14))
end

return Ethernet
