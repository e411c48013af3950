-- SPDX-License-Identifier: MIT
-- lib.protocol.icmp.ptb: what follows the ICMPv6 header of Packet Too Big (RFC 4443, section 3.2): the MTU. The packet
-- that was too big, as far as it is quoted, is the payload.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")

local Ptb = subClass(header)
Ptb._name = "packet too big"
Ptb._ulp = {}
Ptb:init({ffi.typeof "struct { uint32_t mtu; } __attribute__((packed))"})

--- A new header with the MTU `mtu` (default 0).
function Ptb:new(mtu)
   local o = Ptb:superClass().new(self)
   o:mtu(mtu or 0)
   return o
end

--- The MTU in bytes; with `value`, sets it first.
function Ptb:mtu(value)
   local h = self:header()
   if value ~= nil then h.mtu = lib.htonl(value) end
   return (lib.ntohl(h.mtu))
end

function Ptb.selftest()
   local ptb = Ptb:new(1280)
   assert(ptb:sizeof() == 4 and ffi.string(ptb:header(), 4) == "\0\0\5\0")
   assert(ptb:mtu() == 1280 and ptb:mtu(9000) == 9000)
   assert(ptb:upper_layer() == nil)
end

return Ptb
