-- SPDX-License-Identifier: MIT
-- core.link_h: declarations that Snabb programs expect after they require it: `struct link` (core.link declares it,
-- unless it is being loaded right now) and the size of a link's ring.

local ffi = require("ffi")

ffi.cdef[[
enum { LINK_RING_SIZE = 1024, LINK_MAX_PACKETS = 1023 };
]]

local declared, size = pcall(ffi.sizeof, "struct link")
if not declared or not size then require("core.link") end

return {}
