-- SPDX-License-Identifier: MIT
-- C declaration of a counter, by the name that Snabb programs know it by.

local ffi = require("ffi")

ffi.cdef[[
struct counter { uint64_t c; };
]]

return {}
