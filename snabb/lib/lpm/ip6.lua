-- SPDX-License-Identifier: MIT
-- lib.lpm.ip6: IPv6 addresses as unions of 16 bytes in network byte order, with methods: tostring, eq, get_bit; ==
-- compares.
local ffi = require("ffi")
local bit = require("bit")
local ipv6 = require("lib.protocol.ipv6")

local M = {}
local IP6 = {}
M.IP6 = IP6
M.ip6_t = ffi.typeof("union { uint64_t u64[2]; uint16_t u16[8]; uint8_t u8[16]; }")

--- The address that the string `text` ("2001:db8::1") denotes. Errors: "Invalid IPv6 Address: TEXT".
function IP6.parse(text)
   local bytes = ipv6:pton(text)
   if not bytes then error("Invalid IPv6 Address: "..tostring(text)) end
   local ip = M.ip6_t()
   ffi.copy(ip, bytes, 16)
   return ip
end

--- The address as a string.
function IP6.tostring(ip)
   return ipv6:ntop(ip.u8)
end

--- Whether the addresses are the same.
function IP6.eq(a, b)
   if not (ffi.istype(M.ip6_t, a) and ffi.istype(M.ip6_t, b)) then return false end
   return a.u64[0] == b.u64[0] and a.u64[1] == b.u64[1]
end

--- The bit `offset` of the address, from 1, the most significant one, to 128.
function IP6.get_bit(ip, offset)
   assert(offset > 0 and offset < 129)
   return bit.band(bit.rshift(ip.u8[bit.rshift(offset - 1, 3)], 7 - bit.band(offset - 1, 7)), 1)
end

ffi.metatype(M.ip6_t, {__index = IP6, __tostring = IP6.tostring, __eq = IP6.eq})

function M.selftest()
   local ip = IP6.parse("2001:db8::1")
   assert(ip:tostring() == "2001:db8::1" and tostring(ip) == "2001:db8::1" and ip.u8[0] == 0x20 and ip.u8[15] == 1)
   assert(ip == IP6.parse("2001:0db8:0::0001") and ip ~= IP6.parse("::1") and ip ~= nil)
   assert(ip:get_bit(128) == 1 and ip:get_bit(127) == 0 and ip:get_bit(3) == 1 and ip:get_bit(1) == 0)
   for _, bad in ipairs {"", "abg::", "12345::", "1245:::", "1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7"} do
      assert(not pcall(IP6.parse, bad))
   end
   assert(not pcall(ip.get_bit, ip, 0) and not pcall(ip.get_bit, ip, 129))
end

return M
