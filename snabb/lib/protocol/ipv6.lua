-- SPDX-License-Identifier: MIT
-- lib.protocol.ipv6: the IPv6 header (RFC 8200), and addresses (RFC 4291).
--
-- What differs from Snabb: `pton_cidr` refuses lengths over 128 and gives a message, not an error. New: swap.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local htons, ntohs, bitfield = lib.htons, lib.ntohs, lib.bitfield

ffi.cdef [[
int perigee_ipv6_pton(int family, const char *text, void *address) __asm__("inet_pton");
const char *perigee_ipv6_ntop(int family, const void *address, char *text, uint32_t size) __asm__("inet_ntop");
int perigee_ipv6_memcmp(const void *, const void *, size_t) __asm__("memcmp");
]]
local C = ffi.C
local memcmp = C.perigee_ipv6_memcmp

local AF_INET6 = 10
local checked = header.checked
local ADDRESS_SIZE = 16
local NO_NEXT_HEADER = 59
local address_t = ffi.typeof("uint8_t[16]")
local u8_p = ffi.typeof("const uint8_t *")
local pseudo_t = ffi.typeof [[
struct {
   uint8_t src_ip[16];
   uint8_t dst_ip[16];
   uint16_t ulp_zero;
   uint16_t ulp_length;
   uint8_t zero[3];
   uint8_t next_header;
} __attribute__((packed))
]]

local Ipv6 = subClass(header)
Ipv6._name = "ipv6"
Ipv6._ulp = {
   method = "next_header",
   class_map = {
      [6] = "lib.protocol.tcp",
      [17] = "lib.protocol.udp",
      [47] = "lib.protocol.gre",
      [58] = "lib.protocol.icmp.header",
      [115] = "lib.protocol.keyed_ipv6_tunnel"
   }
}
Ipv6:init({ffi.typeof [[
struct {
   uint32_t v_tc_fl;
   uint16_t payload_length;
   uint8_t next_header;
   uint8_t hop_limit;
   uint8_t src_ip[16];
   uint8_t dst_ip[16];
} __attribute__((packed))
]]})

--- A new header from the table `config`: src, dst (addresses, uint8_t[16] or pointers; default ::), next_header
-- (default 59: none), hop_limit (default 64), traffic_class, flow_label (default 0). The payload length is 0.
function Ipv6:new(config)
   local o = Ipv6:superClass().new(self)
   o._ph = o._ph or pseudo_t()
   o:version(6)
   o:traffic_class(config.traffic_class or 0)
   o:flow_label(config.flow_label or 0)
   o:next_header(config.next_header or NO_NEXT_HEADER)
   o:hop_limit(config.hop_limit or 64)
   if config.src then o:src(config.src) end
   if config.dst then o:dst(config.dst) end
   return o
end

--- A header that is the memory at `mem`, of which `size` bytes may be used; nil if those are too few.
function Ipv6:new_from_mem(mem, size)
   local o = Ipv6:superClass().new_from_mem(self, mem, size)
   if o == nil then return nil end
   o._ph = o._ph or pseudo_t()
   return o
end

--- The address that the string `text` ("2001:db8::1") denotes, a uint8_t[16]; or false and a message.
function Ipv6:pton(text)
   local address = address_t()
   if type(text) ~= "string" or C.perigee_ipv6_pton(AF_INET6, text, address) ~= 1 then
      return false, "malformed IPv6 address: "..tostring(text)
   end
   return address
end

--- The address at `address` (uint8_t[16] or pointer) as a string, as RFC 5952 wants it.
function Ipv6:ntop(address)
   local text = ffi.new("char[46]")
   return ffi.string(C.perigee_ipv6_ntop(AF_INET6, checked(address, ADDRESS_SIZE), text, 46))
end

--- The address (uint8_t[16]) and the length (number) of the prefix that the string `text` ("2001:db8::/32") denotes;
-- or false and a message.
function Ipv6:pton_cidr(text)
   local prefix, length = tostring(text):match("^([^/]*)/(%d+)$")
   length = tonumber(length)
   local address = prefix and self:pton(prefix)
   if not address or length > 128 then return false, "malformed IPv6 prefix: "..tostring(text) end
   return address, length
end

--- The solicited-node multicast address (RFC 4291, section 2.7.1) of the address at `address`: ff02::1:ff00:0/104 and
-- its last 24 bits.
function Ipv6:solicited_node_mcast(address)
   local group = address_t(0xff, 0x02)
   group[11], group[12] = 0x01, 0xff
   ffi.copy(group + 13, ffi.cast(u8_p, checked(address, ADDRESS_SIZE)) + 13, 3)
   return group
end

--- The version, 4 bits; with `value`, sets it.
function Ipv6:version(value)
   return (bitfield(32, self:header(), "v_tc_fl", 0, 4, value))
end

--- The traffic class, 8 bits; with `value`, sets it.
function Ipv6:traffic_class(value)
   return (bitfield(32, self:header(), "v_tc_fl", 4, 8, value))
end

--- The DSCP (Differentiated Services codepoint), 6 bits; with `value`, sets it.
function Ipv6:dscp(value)
   return (bitfield(32, self:header(), "v_tc_fl", 4, 6, value))
end

--- The ECN (Explicit Congestion Notification) field, 2 bits; with `value`, sets it.
function Ipv6:ecn(value)
   return (bitfield(32, self:header(), "v_tc_fl", 10, 2, value))
end

--- The flow label, 20 bits; with `value`, sets it.
function Ipv6:flow_label(value)
   return (bitfield(32, self:header(), "v_tc_fl", 12, 20, value))
end

--- The length of what follows the header, in bytes; with `value`, sets it.
function Ipv6:payload_length(value)
   local h = self:header()
   if value == nil then return (ntohs(h.payload_length)) end
   h.payload_length = htons(value)
end

--- The number of the protocol (or extension header) that follows; with `value`, sets it.
function Ipv6:next_header(value)
   local h = self:header()
   if value == nil then return h.next_header end
   h.next_header = value
end

--- The hop limit; with `value`, sets it.
function Ipv6:hop_limit(value)
   local h = self:header()
   if value == nil then return h.hop_limit end
   h.hop_limit = value
end

--- The source address, uint8_t[16] in the header; with `address`, sets it.
function Ipv6:src(address)
   local h = self:header()
   if address == nil then return h.src_ip end
   ffi.copy(h.src_ip, checked(address, ADDRESS_SIZE), ADDRESS_SIZE)
end

--- Whether the source address is `address`.
function Ipv6:src_eq(address)
   return memcmp(checked(address, ADDRESS_SIZE), self:header().src_ip, ADDRESS_SIZE) == 0
end

--- The destination address, uint8_t[16] in the header; with `address`, sets it.
function Ipv6:dst(address)
   local h = self:header()
   if address == nil then return h.dst_ip end
   ffi.copy(h.dst_ip, checked(address, ADDRESS_SIZE), ADDRESS_SIZE)
end

--- Whether the destination address is `address`.
function Ipv6:dst_eq(address)
   return memcmp(checked(address, ADDRESS_SIZE), self:header().dst_ip, ADDRESS_SIZE) == 0
end

local swapped = address_t()

--- Exchanges source and destination.
function Ipv6:swap()
   local h = self:header()
   ffi.copy(swapped, h.dst_ip, ADDRESS_SIZE)
   ffi.copy(h.dst_ip, h.src_ip, ADDRESS_SIZE)
   ffi.copy(h.src_ip, swapped, ADDRESS_SIZE)
end

--- The pseudo header, a struct of 40 bytes, for the checksum of `length` bytes of the upper layer protocol
-- `next_header`, which are not what the header says if there are extension headers. It belongs to the object, and
-- holds until the next call.
function Ipv6:pseudo_header(length, next_header)
   local ph, h = self._ph, self:header()
   ffi.copy(ph.src_ip, h.src_ip, ADDRESS_SIZE)
   ffi.copy(ph.dst_ip, h.dst_ip, ADDRESS_SIZE)
   ph.ulp_zero = 0
   ph.ulp_length = htons(length)
   ph.next_header = next_header
   return ph
end

local function test_addresses()
   assert(Ipv6:ntop(Ipv6:pton("2001:0620:0:c101::2")) == "2001:620:0:c101::2")
   for _, bad in ipairs {"", "1.2.3.4", "2001:db8", "1::2::3", "12345::", "::g", 7} do
      local address, message = Ipv6:pton(bad)
      assert(address == false and message == "malformed IPv6 address: "..bad)
   end
   local prefix, length = Ipv6:pton_cidr("2001:db8::/32")
   assert(Ipv6:ntop(prefix) == "2001:db8::" and length == 32)
   for _, bad in ipairs {"::", "::/129", "/8", "::/", "::1/x"} do
      local none, message = Ipv6:pton_cidr(bad)
      assert(none == false and message == "malformed IPv6 prefix: "..bad)
   end
   assert(Ipv6:ntop(Ipv6:solicited_node_mcast(Ipv6:pton("2001:db8::1234:5678"))) == "ff02::1:ff34:5678")
end

function Ipv6.selftest()
   test_addresses()
   local a, b = Ipv6:pton("2001:db8::1"), Ipv6:pton("2001:db8::2")
   local h = Ipv6:new({src = a, dst = b, traffic_class = 0xb9, flow_label = 0xabcde, next_header = 17, hop_limit = 255})
   assert(ffi.string(h:header(), 40) == lib.hexundump([[
      6b9abcde 0000 11 ff 20010db8000000000000000000000001 20010db8000000000000000000000002]], 40))
   assert(h:version() == 6 and h:traffic_class() == 0xb9 and h:dscp() == 46 and h:ecn() == 1)
   assert(h:flow_label() == 0xabcde and h:sizeof() == 40 and h:upper_layer()._name == "udp")
   h:payload_length(513)
   h:dscp(1)
   h:ecn(2)
   h:flow_label(1)
   h:hop_limit(3)
   h:next_header(58)
   assert(ffi.string(h:header(), 8) == lib.hexundump("60600001 0201 3a 03", 8) and h:payload_length() == 513)
   assert(h:src_eq(a) and h:dst_eq(b) and not h:src_eq(b) and h:upper_layer()._name == "icmp")
   h:swap()
   assert(h:src_eq(b) and h:dst_eq(a))
   assert(ffi.string(h:pseudo_header(258, 58), 40) == lib.hexundump([[
      20010db8000000000000000000000002 20010db8000000000000000000000001 0000 0102 000000 3a]], 40))
   local plain = Ipv6:new({})
   assert(plain:next_header() == 59 and plain:hop_limit() == 64 and Ipv6:ntop(plain:src()) == "::")
   assert(Ipv6:new_from_mem(h:header(), 39) == nil and plain:upper_layer() == nil)
   assert(not plain:eq(h) and h:eq(h:clone()))
end

return Ipv6
