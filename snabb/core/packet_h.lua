-- SPDX-License-Identifier: MIT
-- core.packet_h: declarations that Snabb programs expect after they require it: `struct packet` (core.packet
-- declares it, unless it is being loaded right now) and PACKET_PAYLOAD_SIZE.

local ffi = require("ffi")

ffi.cdef[[
enum { PACKET_PAYLOAD_SIZE = 10240 };
]]

local declared, size = pcall(ffi.sizeof, "struct packet")
if not declared or not size then require("core.packet") end

return {}
