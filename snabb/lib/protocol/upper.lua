-- SPDX-License-Identifier: MIT
-- lib.protocol.upper: what the protocols over IP share: the checksum over pseudo header, header and payload.
local ffi = require("ffi")
local bit = require("bit")
local ipsum = require("lib.checksum").ipsum

local bnot = bit.bnot
local u8_p = ffi.typeof("const uint8_t *")

local M = {}

--- The checksum, in host byte order, of the struct `header` of `size` bytes (an even number; its own checksum must be
-- 0) and `length` bytes at `payload`; with `ip` (a header object of lib.protocol.ipv4 or ipv6) on top of the pseudo
-- header for the protocol number `protocol`.
function M.checksum(header, size, payload, length, ip, protocol)
   local sum = 0xffff
   if ip then
      local pseudo = ip:pseudo_header(size + length, protocol)
      sum = ipsum(ffi.cast(u8_p, pseudo), ffi.sizeof(pseudo), 0)
   end
   sum = ipsum(ffi.cast(u8_p, header), size, bnot(sum))
   return (ipsum(ffi.cast(u8_p, payload), length, bnot(sum)))
end

function M.selftest()
   local lib = require("core.lib")
   local header, payload = ffi.new("uint16_t[2]"), ffi.new("uint8_t[3]", 1, 2, 3)
   ffi.copy(header, "\1\2\3\4", 4)
   assert(M.checksum(header, 4, payload, 3) == lib.csum("\1\2\3\4\1\2\3", 7))
   assert(M.checksum(header, 4, payload, 0) == lib.csum("\1\2\3\4", 4))
   local ip = {pseudo_header = function (_, length, protocol)
      return ffi.new("uint8_t[4]", 9, 8, length, protocol)
   end}
   assert(M.checksum(header, 4, payload, 3, ip, 6) == lib.csum("\9\8\7\6\1\2\3\4\1\2\3", 11))
end

return M
