-- SPDX-License-Identifier: MIT
-- lib.tsc: a counter for measuring time intervals.
--
-- What differs from Snabb: there is one source, "system", the monotonic clock, which counts nanoseconds; "rdtsc",
-- Snabb's default, means the same here. (Linux reads that clock without a system call, from the processor's counter.)
local ffi = require("ffi")
local lib = require("core.lib")

ffi.cdef [[
struct perigee_tsc_timespec { int64_t sec, nsec; };
int perigee_tsc_clock_gettime(int, struct perigee_tsc_timespec *) __asm__("clock_gettime");
]]
local C = ffi.C

local CLOCK_MONOTONIC = 1
local TICKS_PER_SECOND = 1000000000ULL
local now = ffi.new("struct perigee_tsc_timespec")
local uint64_t = ffi.typeof("uint64_t")

local M = {}
local Tsc = {}

-- The default source of `new`.
M.default_source = "system"

--- The counter's value now, a uint64_t, in nanoseconds.
function M.time_ns()
   C.perigee_tsc_clock_gettime(CLOCK_MONOTONIC, now)
   return ffi.cast(uint64_t, now.sec) * TICKS_PER_SECOND + ffi.cast(uint64_t, now.nsec)
end
M.rdtsc = M.time_ns

--- The counter's value now as a number of seconds, for those who do not want 64-bit cdata.
function M.seconds()
   C.perigee_tsc_clock_gettime(CLOCK_MONOTONIC, now)
   return tonumber(now.sec) + tonumber(now.nsec) * 1e-9
end

--- A counter object. `arg`: {source = "system" or "rdtsc"}. Errors: "tsc: unknown time source".
function M.new(arg)
   local source = lib.parse(arg, {source = {default = M.default_source}}).source
   if source ~= "system" and source ~= "rdtsc" then
      error("tsc: unknown time source '"..tostring(source).."', expected 'system' or 'rdtsc'")
   end
   return setmetatable({}, {__index = Tsc})
end

--- The source: "system".
function Tsc:source() return "system" end

--- The function that gives the counter's value.
function Tsc:time_fn() return M.time_ns end

--- The counter's value now, a uint64_t.
function Tsc:stamp() return M.time_ns() end

--- Ticks per second, a uint64_t.
function Tsc:tps() return TICKS_PER_SECOND end

--- `ticks` in nanoseconds.
function Tsc:to_ns(ticks) return ticks end

function M.selftest()
   local tsc = M.new()
   local before, seconds = tsc:stamp(), M.seconds()
   local after = tsc:time_fn()()
   assert(after >= before and tsc:to_ns(after - before) == after - before)
   assert(math.abs(seconds - tonumber(before) / tonumber(tsc:tps())) < 60)
   assert(ffi.istype(uint64_t, before) and ffi.istype(uint64_t, tsc:tps()))
   assert(M.new({source = "rdtsc"}):source() == "system")
   assert(not pcall(M.new, {source = "sundial"}) and not pcall(M.new, {sauce = 1}))
end

return M
