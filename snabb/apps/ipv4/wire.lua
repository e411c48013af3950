-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.wire: bytes of protocols: fields in network order, the Internet checksum (RFC 1071), and addresses as
-- programs give them (text, binary strings, or arrays of bytes). For the apps of IPv4 and IPv6. Snabb has no such
-- module.

local bit = require("bit")
local ffi = require("ffi")

ffi.cdef[[
int inet_pton(int af, const char *src, void *dst);
const char *inet_ntop(int af, const void *src, char *dst, uint32_t size);
int memcmp(const void *a, const void *b, size_t n);
]]

local C = ffi.C
local band, bnot, rshift = bit.band, bit.bnot, bit.rshift
local AF_INET, AF_INET6 = 2, 10

local M = {}

--- Returns the 16-bit field at `p[at]`.
function M.get16(p, at)
   return p[at] * 256 + p[at + 1]
end

--- Sets the 16-bit field at `p[at]` to `n`.
function M.put16(p, at, n)
   p[at], p[at + 1] = rshift(n, 8), band(n, 0xff)
end

--- Returns the 32-bit field at `p[at]`, 0 to 2^32 - 1.
function M.get32(p, at)
   return p[at] * 0x1000000 + p[at + 1] * 0x10000 + p[at + 2] * 0x100 + p[at + 3]
end

--- Sets the 32-bit field at `p[at]` to `n`.
function M.put32(p, at, n)
   p[at], p[at + 1] = band(rshift(n, 24), 0xff), band(rshift(n, 16), 0xff)
   p[at + 2], p[at + 3] = band(rshift(n, 8), 0xff), band(n, 0xff)
end

--- Returns `sum` plus the 16-bit words of the `length` bytes at `p` (an odd last byte counts as the first of a word).
--- To be finished by M.finish; `length` + what was summed before may be up to 2^32 bytes.
function M.sum(p, length, sum)
   for k = 0, length - 2, 2 do
      sum = sum + p[k] * 256 + p[k + 1]
   end
   if length % 2 == 1 then sum = sum + p[length - 1] * 256 end
   return sum
end

--- Returns the Internet checksum of words that add up to `sum`.
function M.finish(sum)
   while sum > 0xffff do sum = sum % 0x10000 + math.floor(sum / 0x10000) end
   return band(bnot(sum), 0xffff)
end

--- Returns the checksum of the `length` bytes of an ICMPv6 message at `p`, with the pseudo header (RFC 8200, 8.1) of
--- the IPv6 header at `ip6`: 0 if the checksum inside is right.
function M.icmp6_checksum(ip6, p, length)
   return M.finish(M.sum(p, length, M.sum(ip6 + 8, 32, length + 58)))
end

-- The words of the first 20 bytes at p[at]: no loop, so that compiled code of a packet's way has none.
local function sum20(p, at)
   return 256 * (p[at] + p[at + 2] + p[at + 4] + p[at + 6] + p[at + 8] + p[at + 10] + p[at + 12] + p[at + 14] +
                 p[at + 16] + p[at + 18]) +
          p[at + 1] + p[at + 3] + p[at + 5] + p[at + 7] + p[at + 9] + p[at + 11] + p[at + 13] + p[at + 15] +
          p[at + 17] + p[at + 19]
end

local function fold(sum)
   sum = band(sum, 0xffff) + rshift(sum, 16)
   return band(bnot(band(sum, 0xffff) + rshift(sum, 16)), 0xffff)
end

--- Returns the checksum of the IPv4 header of `length` bytes (20 at least) at `p[at]`: 0 if the one inside is right.
function M.ipv4_sum(p, at, length)
   local sum = sum20(p, at)
   if length > 20 then sum = M.sum(p + at + 20, length - 20, sum) end
   return fold(sum)
end

--- Computes the checksum of the IPv4 header of `length` bytes (20 at least) at `p[at]` and puts it in.
function M.ipv4_checksum(p, at, length)
   M.put16(p, at + 10, 0)
   M.put16(p, at + 10, M.ipv4_sum(p, at, length))
end

--- Returns whether the `n` bytes at `a` and at `b` are the same.
function M.same(a, b, n)
   return C.memcmp(a, b, n) == 0
end

local function bytes_of(what, given, n, parse)
   local out = ffi.new("uint8_t[?]", n)
   if type(given) == "cdata" or (type(given) == "string" and #given == n) then
      ffi.copy(out, given, n)
   elseif type(given) ~= "string" or not parse(given, out) then
      error(("%s: expected %d bytes or text, got %s"):format(what, n, tostring(given)), 3)
   end
   return out
end

--- Returns a MAC address as an array of 6 bytes. `given`: text like 02:00:00:00:00:01, a string of 6 bytes, or an array
--- of them; `what` is what errors call it.
function M.mac(what, given)
   return bytes_of(what, given, 6, function (text, out)
      local digits = {text:match("^(%x%x?):(%x%x?):(%x%x?):(%x%x?):(%x%x?):(%x%x?)$")}
      for k, d in ipairs(digits) do out[k - 1] = tonumber(d, 16) end
      return #digits == 6
   end)
end

--- The 4 bytes of an IPv4 address, like `mac`.
function M.ipv4(what, given)
   return bytes_of(what, given, 4, function (text, out) return C.inet_pton(AF_INET, text, out) == 1 end)
end

--- The 16 bytes of an IPv6 address, like `mac`.
function M.ipv6(what, given)
   return bytes_of(what, given, 16, function (text, out) return C.inet_pton(AF_INET6, text, out) == 1 end)
end

--- Returns the text of the IPv4 or IPv6 address of `n` bytes (4 or 16) at `p`.
function M.ip_text(p, n)
   local buffer = ffi.new("char[64]")
   return ffi.string(C.inet_ntop(n == 4 and AF_INET or AF_INET6, p, buffer, 64))
end

--- Returns the text of the MAC address at `p`.
function M.mac_text(p)
   return ("%02x:%02x:%02x:%02x:%02x:%02x"):format(p[0], p[1], p[2], p[3], p[4], p[5])
end

--- Checks fields, the checksum of RFC 1071's example, and addresses.
function M.selftest()
   local p = ffi.new("uint8_t[24]")
   M.put16(p, 0, 0xabcd)
   M.put32(p, 2, 0xfedcba98)
   assert(M.get16(p, 0) == 0xabcd and M.get32(p, 2) == 0xfedcba98 and M.get16(p, 4) == 0xba98)
   ffi.copy(p, "\0\1\xf2\3\xf4\xf5\xf6\xf7", 8)
   assert(M.finish(M.sum(p, 8, 0)) == 0x220d and M.finish(M.sum(p, 7, 0)) == 0x2304)
   -- The header in RFC 1624's manner: what is put in makes the sum 0.
   ffi.copy(p, "\x45\0\0\x73\0\0\x40\0\x40\x11\0\0\xc0\xa8\0\1\xc0\xa8\0\xc7\1\1\1\0", 24)
   M.ipv4_checksum(p, 0, 20)
   assert(M.get16(p, 10) == 0xb861 and M.ipv4_sum(p, 0, 20) == 0 and M.finish(M.sum(p, 20, 0)) == 0)
   M.ipv4_checksum(p, 0, 24)
   assert(M.ipv4_sum(p, 0, 24) == 0 and M.finish(M.sum(p, 24, 0)) == 0)
   assert(M.mac_text(M.mac("m", "2:0:0:a:b:FF")) == "02:00:00:0a:0b:ff")
   assert(M.mac_text(M.mac("m", "\2\0\0\0\0\1")) == "02:00:00:00:00:01")
   assert(M.ip_text(M.ipv4("a", "10.0.0.1"), 4) == "10.0.0.1" and M.ip_text(M.ipv4("a", "\1\2\3\4"), 4) == "1.2.3.4")
   assert(M.ip_text(M.ipv6("a", "2001:db8:0::1"), 16) == "2001:db8::1")
   assert(M.ip_text(M.ipv6("a", M.ipv6("a", "::1")), 16) == "::1")
   for _, bad in ipairs({"", "1.2.3", "02:00:00:00:00", "fe80::x", 7}) do
      for _, parse in ipairs({M.mac, M.ipv4, M.ipv6}) do
         local ok, err = pcall(parse, "address", bad)
         assert(not ok and tostring(err):match("address: expected"), err)
      end
   end
end

return M
