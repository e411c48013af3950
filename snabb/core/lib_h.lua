-- SPDX-License-Identifier: MIT
-- C declarations of the clocks and helpers that Snabb programs call through `ffi.C`; perigee's binary exports them.

local ffi = require("ffi")

ffi.cdef[[
uint64_t get_time_ns();
double get_monotonic_time();
double get_unix_time();
void full_memory_barrier();
void sleep_ns(int nanoseconds);
unsigned int stat_mtime(const char *path);
]]

return {}
