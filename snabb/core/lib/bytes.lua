-- SPDX-License-Identifier: MIT
-- core.lib.bytes: bits, byte order, hex, the Internet checksum byte by byte. Part of core.lib, which re-exports it.
--
-- What differs from Snabb: `update_csum` weighs an odd last byte as RFC 1071 says, so checksums may be computed in
-- parts (all but the last of even length), and they are numbers; whole 32-bit fields read by `bitfield` are not
-- negative.
-- New: htonll, ntohll.
local ffi = require("ffi")
local bit = require("bit")
local band, bor, bnot, lshift, rshift, bswap = bit.band, bit.bor, bit.bnot, bit.lshift, bit.rshift, bit.bswap
local cast, tonumber, floor = ffi.cast, tonumber, math.floor
local uint8_p, uint32_t, uint64_t = ffi.typeof("const uint8_t *"), ffi.typeof("uint32_t"), ffi.typeof("uint64_t")

local M = {}

--- `basevalue` (default 0) with the bits set whose numbers are the values of `bitset`; its keys are comments.
-- `bits({RESET = 0, ENABLE = 4}, 32)` is 49.
function M.bits(bitset, basevalue)
   local value = basevalue or 0
   for _, n in pairs(bitset) do value = bor(value, lshift(1, n)) end
   return value
end

--- True if bit `n` of `value` is set.
function M.bitset(value, n)
   return band(value, lshift(1, n)) ~= 0
end

-- The results are in parentheses lest they be tail calls, of which LuaJIT unrolls only a few in a trace.
if ffi.abi("be") then
   function M.htonl(n) return (tonumber(cast(uint32_t, n))) end
   function M.htons(n) return (band(n, 0xffff)) end
   function M.htonll(n) return (cast(uint64_t, n)) end
else
   --- The 32-bit number `n` in network byte order, unsigned.
   function M.htonl(n) return (tonumber(cast(uint32_t, bswap(n)))) end
   --- The 16-bit number `n` in network byte order, unsigned.
   function M.htons(n) return (rshift(bswap(n), 16)) end
   --- The 64-bit `n` (number or cdata) in network byte order, a uint64_t.
   function M.htonll(n) return (bswap(cast(uint64_t, n))) end
end
local htonl, htons = M.htonl, M.htons

--- The 32-bit number `n` from network byte order, unsigned.
function M.ntohl(n) return (htonl(n)) end
--- The 16-bit number `n` from network byte order, unsigned.
function M.ntohs(n) return (htons(n)) end
--- The 64-bit `n` (number or cdata) from network byte order, a uint64_t.
function M.ntohll(n) return (M.htonll(n)) end
-- The very same functions: one trace less to inline.
M.ntohl, M.ntohs, M.ntohll = M.htonl, M.htons, M.htonll

--- Reads or, with `value`, writes `nbits` bits of the field `member` of `struct`, an integer of `size` (8, 16, 32)
-- bits in network byte order. `offset` counts from the most significant bit, as RFCs do. A written value is cut to
-- `nbits`.
function M.bitfield(size, struct, member, offset, nbits, value)
   local field = struct[member]
   if size == 16 then field = htons(field) elseif size == 32 then field = htonl(field) end
   local shift = size - (nbits + offset)
   local mask = lshift(2^nbits - 1, shift)
   if value == nil then
      return (tonumber(cast(uint32_t, rshift(band(field, mask), shift))))
   end
   field = bor(band(field, bnot(mask)), band(lshift(value, shift), mask))
   if size == 16 then field = htons(field) elseif size == 32 then field = htonl(field) end
   struct[member] = field
end

--- The bytes of the string `s` in hexadecimal: "45 00 B6".
function M.hexdump(s)
   return (s:gsub(".", function (byte) return ("%02X "):format(byte:byte()) end):sub(1, -2))
end

--- The first `n` bytes that the hexadecimal digits in the string `hex` give, as a string. Pairs of digits may be
-- separated by anything that is no such digit. Without `n`: all there are. With fewer than `n`: the error `message`
-- (default "Wanted N bytes, but only got M"), or, where `message` is false, zeros.
function M.hexundump(hex, n, message)
   local bytes, count = {}, 0
   for pair in hex:gmatch("%x%x") do
      if n and count >= n then break end
      count = count + 1
      bytes[count] = string.char(tonumber(pair, 16))
   end
   local s = table.concat(bytes)
   if n and count < n then
      if message ~= false then error(message or ("Wanted "..n.." bytes, but only got "..count), 2) end
      s = s..("\0"):rep(n - count)
   end
   return s
end

--- `n` (number or 64-bit cdata) in decimal with commas between thousands: "1,234,567.8".
function M.comma_value(n)
   if n ~= n then return "NaN" end
   local whole = type(n) == "number" and n % 1 == 0 and n >= -2^53 and n <= 2^53
   local text = whole and ("%.0f"):format(n) or tostring(n):gsub("U?LL$", "")
   local sign, digits, rest = text:match("^(%D*)(%d+)(.*)$")
   if digits == nil then return text end
   digits = digits:reverse():gsub("(%d%d%d)", "%1,"):reverse():gsub("^,", "")
   return sign..digits..rest
end

--- `value` raised to the next multiple of `size`, if it is none.
function M.align(value, size)
   local excess = value % size
   if excess == 0 then return value end
   return value + size - excess
end

--- Adds `len` bytes at `ptr` (pointer or string) to the checksum-to-be `sum` (default 0) and returns it, for
-- `finish_csum`. Only the last of several parts may be of odd length. RFC 1071; `lib.checksum` is much faster.
function M.update_csum(ptr, len, sum)
   ptr, sum = cast(uint8_p, ptr), tonumber(sum or 0)
   for i = 0, len - 2, 2 do sum = sum + ptr[i] * 256 + ptr[i + 1] end
   if len % 2 == 1 then sum = sum + ptr[len - 1] * 256 end
   return sum
end

--- The Internet checksum, in host byte order, that the `sum` made by `update_csum` gives.
function M.finish_csum(sum)
   sum = tonumber(sum)
   while sum > 0xffff do sum = sum % 65536 + floor(sum / 65536) end
   return 0xffff - sum
end

--- The Internet checksum, in host byte order, of `len` bytes at `ptr` (pointer or string).
function M.csum(ptr, len)
   return M.finish_csum(M.update_csum(ptr, len))
end

function M.selftest()
   require("core.lib").selftest()
end

return M
