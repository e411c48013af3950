-- SPDX-License-Identifier: MIT
-- lib.lpm.ip4: IPv4 addresses as numbers of 32 bits in host byte order.
local bit = require("bit")
local band, bxor, rshift = bit.band, bit.bxor, bit.rshift

local M = {}

--- The number of the address that the string `text` ("192.0.2.1") denotes. Errors: "Invalid IP TEXT".
function M.parse(text)
   local a, b, c, d = tostring(text):match("^(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)%.(%d%d?%d?)$")
   a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
   if not a or a > 255 or b > 255 or c > 255 or d > 255 then error("Invalid IP "..tostring(text)) end
   return ((a * 256 + b) * 256 + c) * 256 + d
end

--- The number of the address and the length of the prefix that the string `text` ("192.0.2.0/24") denotes.
-- Errors: "Invalid prefix TEXT".
function M.parse_cidr(text)
   local address, length = tostring(text):match("^([^/]+)/(%d%d?)$")
   length = tonumber(length)
   if not length or length > 32 then error("Invalid prefix "..tostring(text)) end
   return M.parse(address), length
end

--- The address `ip` as a string.
function M.tostring(ip)
   return ("%d.%d.%d.%d"):format(rshift(ip, 24), band(rshift(ip, 16), 255), band(rshift(ip, 8), 255), band(ip, 255))
end

--- Whether the addresses are the same.
function M.eq(a, b)
   return a == b
end

--- The bit `offset` of the address, from 0, the most significant one, to 31.
function M.get_bit(ip, offset)
   assert(offset >= 0 and offset < 32)
   return band(rshift(ip, 31 - offset), 1)
end

--- The address with all but its first `length` bits set to 0.
function M.masked(ip, length)
   if length >= 32 then return ip end
   return ip - ip % 2^(32 - length)
end

--- How many leading bits the addresses have in common, 0 to 32.
function M.commonlength(a, b)
   local difference = bxor(a, b) % 2^32
   local length = 32
   while difference > 0 do
      difference = rshift(difference, 1)
      length = length - 1
   end
   return length
end

function M.selftest()
   for _, text in ipairs {"0.0.0.0", "255.255.255.255", "1.2.3.4", "192.0.2.255", "128.0.0.1"} do
      assert(M.tostring(M.parse(text)) == text)
   end
   assert(M.parse("255.1.1.254") == 255 * 2^24 + 2^16 + 2^8 + 254)
   for _, bad in ipairs {"", "1.2.3", "1.2.3.256", "1.2.3.4.5", "a.b.c.d", "1.2.3.4/5", "1,2,3,4"} do
      local ok, message = pcall(M.parse, bad)
      assert(not ok and message:find("Invalid IP "..bad, 1, true))
   end
   local ip, length = M.parse_cidr("10.1.0.0/16")
   assert(ip == M.parse("10.1.0.0") and length == 16 and select(2, M.parse_cidr("0.0.0.0/0")) == 0)
   for _, bad in ipairs {"1.2.3.4", "1.2.3.4/33", "1.2.3/8", "1.2.3.4/", "/8"} do
      assert(not pcall(M.parse_cidr, bad))
   end
   local p = M.parse
   local ends = p("128.0.0.1")
   assert(M.get_bit(ends, 0) == 1 and M.get_bit(ends, 1) == 0 and M.get_bit(ends, 31) == 1)
   assert(M.masked(p("216.1.1.1"), 8) == p("216.0.0.0") and M.masked(p("216.1.1.1"), 0) == 0)
   assert(M.masked(p("255.255.255.255"), 1) == p("128.0.0.0") and M.masked(p("1.2.3.5"), 31) == p("1.2.3.4"))
   assert(M.masked(p("255.1.2.3"), 32) == p("255.1.2.3") and M.eq(1, 1) and not M.eq(1, 2))
   assert(M.commonlength(p("255.0.0.0"), p("255.0.0.0")) == 32 and M.commonlength(p("255.0.0.0"), p("255.0.0.1")) == 31)
   assert(M.commonlength(p("255.0.0.0"), p("255.128.0.3")) == 8 and M.commonlength(0, p("128.0.0.0")) == 0)
end

return M
