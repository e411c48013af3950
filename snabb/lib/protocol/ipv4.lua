-- SPDX-License-Identifier: MIT
-- lib.protocol.ipv4: the IPv4 header without options (RFC 791, with the fields of RFC 2474 and RFC 3168), and
-- addresses.
--
-- What differs from Snabb: `checksum` covers the options, too, of a header that is in a packet's memory; `pton_cidr`
-- refuses lengths over 32 and gives a message, not an error. New: checksum_ok, swap.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local ipsum = require("lib.checksum").ipsum
local htons, ntohs, bitfield = lib.htons, lib.ntohs, lib.bitfield

ffi.cdef [[
int perigee_ipv4_pton(int family, const char *text, void *address) __asm__("inet_pton");
const char *perigee_ipv4_ntop(int family, const void *address, char *text, uint32_t size) __asm__("inet_ntop");
int perigee_ipv4_memcmp(const void *, const void *, size_t) __asm__("memcmp");
]]
local C = ffi.C
local memcmp = C.perigee_ipv4_memcmp

local AF_INET = 2
local checked = header.checked
local ADDRESS_SIZE = 4
local HEADER_SIZE = 20
local address_t = ffi.typeof("uint8_t[4]")
local u8_p = ffi.typeof("uint8_t *")
local pseudo_t = ffi.typeof [[
struct {
   uint8_t src_ip[4];
   uint8_t dst_ip[4];
   uint8_t ulp_zero;
   uint8_t ulp_protocol;
   uint16_t ulp_length;
} __attribute__((packed))
]]

local Ipv4 = subClass(header)
Ipv4._name = "ipv4"
Ipv4._ulp = {
   method = "protocol",
   class_map = {
      [1] = "lib.protocol.icmp.header",
      [6] = "lib.protocol.tcp",
      [17] = "lib.protocol.udp",
      [47] = "lib.protocol.gre",
      [58] = "lib.protocol.icmp.header"
   }
}
Ipv4:init({ffi.typeof [[
struct {
   uint16_t ihl_v_tos;
   uint16_t total_length;
   uint16_t id;
   uint16_t frag_off;
   uint8_t ttl;
   uint8_t protocol;
   uint16_t checksum;
   uint8_t src_ip[4];
   uint8_t dst_ip[4];
} __attribute__((packed))
]]})

--- A new header from the table `config`: src, dst (addresses, uint8_t[4] or pointers; default 0.0.0.0), protocol
-- (default 255), ttl, dscp, ecn, id, flags, frag_off (default 0). The total length is that of the header, and the
-- checksum is right.
function Ipv4:new(config)
   local o = Ipv4:superClass().new(self)
   o._ph = o._ph or pseudo_t()
   o._available = HEADER_SIZE
   o:version(4)
   o:ihl(HEADER_SIZE / 4)
   o:dscp(config.dscp or 0)
   o:ecn(config.ecn or 0)
   o:total_length(HEADER_SIZE)
   o:id(config.id or 0)
   o:flags(config.flags or 0)
   o:frag_off(config.frag_off or 0)
   o:ttl(config.ttl or 0)
   o:protocol(config.protocol or 0xff)
   if config.src then o:src(config.src) end
   if config.dst then o:dst(config.dst) end
   o:checksum()
   return o
end

--- A header that is the memory at `mem`, of which `size` bytes may be used; nil if those are too few.
function Ipv4:new_from_mem(mem, size)
   local o = Ipv4:superClass().new_from_mem(self, mem, size)
   if o == nil then return nil end
   o._ph = o._ph or pseudo_t()
   o._available = size
   return o
end

--- The address that the string `text` ("192.0.2.1") denotes, a uint8_t[4]; or false and a message.
function Ipv4:pton(text)
   local address = address_t()
   if type(text) ~= "string" or C.perigee_ipv4_pton(AF_INET, text, address) ~= 1 then
      return false, "malformed IPv4 address: "..tostring(text)
   end
   return address
end

--- The address at `address` (uint8_t[4] or pointer) as a string.
function Ipv4:ntop(address)
   local text = ffi.new("char[16]")
   return ffi.string(C.perigee_ipv4_ntop(AF_INET, checked(address, ADDRESS_SIZE), text, 16))
end

--- The address (uint8_t[4]) and the length (number) of the prefix that the string `text` ("192.0.2.0/24") denotes; or
-- false and a message.
function Ipv4:pton_cidr(text)
   local prefix, length = tostring(text):match("^([^/]*)/(%d+)$")
   length = tonumber(length)
   local address = prefix and self:pton(prefix)
   if not address or length > 32 then return false, "malformed IPv4 prefix: "..tostring(text) end
   return address, length
end

--- The version, 4 bits; with `value`, sets it.
function Ipv4:version(value)
   return (bitfield(16, self:header(), "ihl_v_tos", 0, 4, value))
end

--- The header's length in words of 4 bytes; with `value`, sets it.
function Ipv4:ihl(value)
   return (bitfield(16, self:header(), "ihl_v_tos", 4, 4, value))
end

--- The DSCP (Differentiated Services codepoint), 6 bits; with `value`, sets it.
function Ipv4:dscp(value)
   return (bitfield(16, self:header(), "ihl_v_tos", 8, 6, value))
end

--- The ECN (Explicit Congestion Notification) field, 2 bits; with `value`, sets it.
function Ipv4:ecn(value)
   return (bitfield(16, self:header(), "ihl_v_tos", 14, 2, value))
end

--- The length of the packet from the IPv4 header on, in bytes; with `value`, sets it.
function Ipv4:total_length(value)
   local h = self:header()
   if value == nil then return (ntohs(h.total_length)) end
   h.total_length = htons(value)
end

--- The identification, 16 bits; with `value`, sets it.
function Ipv4:id(value)
   local h = self:header()
   if value == nil then return (ntohs(h.id)) end
   h.id = htons(value)
end

--- The flags, 3 bits: 2 is DF (don't fragment), 1 is MF (more fragments); with `value`, sets them.
function Ipv4:flags(value)
   return (bitfield(16, self:header(), "frag_off", 0, 3, value))
end

--- The fragment offset, 13 bits, in units of 8 bytes; with `value`, sets it.
function Ipv4:frag_off(value)
   return (bitfield(16, self:header(), "frag_off", 3, 13, value))
end

--- The TTL (time to live); with `value`, sets it.
function Ipv4:ttl(value)
   local h = self:header()
   if value == nil then return h.ttl end
   h.ttl = value
end

--- The number of the protocol of the payload; with `value`, sets it.
function Ipv4:protocol(value)
   local h = self:header()
   if value == nil then return h.protocol end
   h.protocol = value
end

-- The length of the header with its options as far as it may be used.
local function header_length(self)
   local length = self:ihl() * 4
   if length < HEADER_SIZE or length > self._available then return HEADER_SIZE end
   return length
end

--- Computes and sets the header checksum; returns it. Must be called when the header has changed.
function Ipv4:checksum()
   local h = self:header()
   h.checksum = 0
   local sum = ipsum(ffi.cast(u8_p, h), header_length(self), 0)
   h.checksum = htons(sum)
   return sum
end

--- Whether the header checksum is right.
function Ipv4:checksum_ok()
   return ipsum(ffi.cast(u8_p, self:header()), header_length(self), 0) == 0
end

--- The source address, uint8_t[4] in the header; with `address`, sets it.
function Ipv4:src(address)
   local h = self:header()
   if address == nil then return h.src_ip end
   ffi.copy(h.src_ip, checked(address, ADDRESS_SIZE), ADDRESS_SIZE)
end

--- Whether the source address is `address`.
function Ipv4:src_eq(address)
   return memcmp(checked(address, ADDRESS_SIZE), self:header().src_ip, ADDRESS_SIZE) == 0
end

--- The destination address, uint8_t[4] in the header; with `address`, sets it.
function Ipv4:dst(address)
   local h = self:header()
   if address == nil then return h.dst_ip end
   ffi.copy(h.dst_ip, checked(address, ADDRESS_SIZE), ADDRESS_SIZE)
end

--- Whether the destination address is `address`.
function Ipv4:dst_eq(address)
   return memcmp(checked(address, ADDRESS_SIZE), self:header().dst_ip, ADDRESS_SIZE) == 0
end

local swapped = address_t()

--- Exchanges source and destination; the checksum stays right.
function Ipv4:swap()
   local h = self:header()
   ffi.copy(swapped, h.dst_ip, ADDRESS_SIZE)
   ffi.copy(h.dst_ip, h.src_ip, ADDRESS_SIZE)
   ffi.copy(h.src_ip, swapped, ADDRESS_SIZE)
end

--- Whether the header `other` has the same IHL, identification, protocol and addresses.
function Ipv4:eq(other)
   return self:ihl() == other:ihl() and self:id() == other:id() and self:protocol() == other:protocol()
      and self:src_eq(other:src()) and self:dst_eq(other:dst())
end

--- The pseudo header, a struct of 12 bytes, for the checksum of a payload of `length` bytes of the protocol
-- `protocol`. It belongs to the object, and holds until the next call.
function Ipv4:pseudo_header(length, protocol)
   local ph, h = self._ph, self:header()
   ffi.copy(ph.src_ip, h.src_ip, ADDRESS_SIZE)
   ffi.copy(ph.dst_ip, h.dst_ip, ADDRESS_SIZE)
   ph.ulp_zero = 0
   ph.ulp_protocol = protocol
   ph.ulp_length = htons(length)
   return ph
end

local function test_addresses()
   assert(Ipv4:ntop(Ipv4:pton("192.168.1.255")) == "192.168.1.255")
   for _, bad in ipairs {"", "1.2.3", "1.2.3.4.5", "256.1.1.1", "::1", "1.2.3.4 ", 7} do
      local address, message = Ipv4:pton(bad)
      assert(address == false and message == "malformed IPv4 address: "..bad)
   end
   local prefix, length = Ipv4:pton_cidr("10.1.0.0/16")
   assert(Ipv4:ntop(prefix) == "10.1.0.0" and length == 16)
   for _, bad in ipairs {"10.0.0.0", "10.0.0.0/33", "10.0.0/8", "/8", "10.0.0.0/", "10.0.0.0/8x"} do
      local none, message = Ipv4:pton_cidr(bad)
      assert(none == false and message == "malformed IPv4 prefix: "..bad)
   end
end

function Ipv4.selftest()
   test_addresses()
   local bytes = ffi.new("uint8_t[24]")
   ffi.copy(bytes, lib.hexundump("46b9 0034 591a 4000 4006 b08e c0a814a9 6b15f0b4 01010100", 24), 24)
   local h = Ipv4:new_from_mem(bytes, 24)
   assert(h:version() == 4 and h:ihl() == 6 and h:dscp() == 46 and h:ecn() == 1 and h:total_length() == 52)
   assert(h:id() == 0x591a and h:flags() == 2 and h:frag_off() == 0 and h:ttl() == 64 and h:protocol() == 6)
   assert(Ipv4:ntop(h:src()) == "192.168.20.169" and Ipv4:ntop(h:dst()) == "107.21.240.180")
   assert(not h:checksum_ok())
   -- The checksum covers the options.
   assert(h:checksum() == lib.csum(ffi.string(bytes, 10).."\0\0"..ffi.string(bytes + 12, 12), 24) and h:checksum_ok())
   h:ihl(5)
   h:dscp(0)
   h:ecn(0)
   assert(h:checksum() == 0xb08e and bytes[10] == 0xb0 and bytes[11] == 0x8e)
   assert(h:upper_layer()._name == "tcp" and Ipv4:new_from_mem(bytes, 19) == nil)
   local new = Ipv4:new({src = Ipv4:pton("10.0.0.1"), dst = Ipv4:pton("10.0.0.2"), protocol = 17, ttl = 64, id = 7,
                         flags = 1, frag_off = 0x1fff, dscp = 63, ecn = 3})
   assert(ffi.string(new:header(), 20) == lib.hexundump("45ff 0014 0007 3fff 4011", 10)
      ..lib.hexundump(bit.tohex(new:checksum(), 4), 2)..lib.hexundump("0a000001 0a000002", 8))
   assert(new:checksum_ok() and new:upper_layer()._name == "udp" and new:eq(new:clone()) and not new:eq(h))
   new:swap()
   assert(Ipv4:ntop(new:src()) == "10.0.0.2" and new:dst_eq(Ipv4:pton("10.0.0.1")) and new:checksum_ok())
   assert(ffi.string(new:pseudo_header(8, 17), 12) == lib.hexundump("0a000002 0a000001 00 11 0008", 12))
   assert(Ipv4:ntop(Ipv4:new({}):src()) == "0.0.0.0")
end

return Ipv4
