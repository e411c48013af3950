-- SPDX-License-Identifier: MIT
-- core.link_h: what Snabb programs expect to be declared once they require it: `struct link` (core.link declares it, unless
-- it is being loaded right now) and the size of a link's ring.

local ffi = require("ffi")

ffi.cdef[[
enum { LINK_RING_SIZE = 1024, LINK_MAX_PACKETS = 1023 };
]]

if not pcall(ffi.typeof, "struct link") then require("core.link") end

return {}
