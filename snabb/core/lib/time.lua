-- SPDX-License-Identifier: MIT
-- core.lib.time: waiting, and closures that report when time has passed. Part of core.lib, which re-exports it.
local ffi = require("ffi")
local C = ffi.C

ffi.cdef [[
struct perigee_lib_timespec { int64_t sec, nsec; };
int perigee_lib_clock_gettime(int, struct perigee_lib_timespec *) __asm__("clock_gettime");
int perigee_lib_usleep(unsigned int) __asm__("usleep");
]]

local CLOCK_MONOTONIC = 1
local timespec = ffi.new("struct perigee_lib_timespec")

local M = {}

-- Nanoseconds of the monotonic clock. A number holds them exactly for the first 104 days of uptime, to 2 ns thereafter.
local function monotonic_ns()
   C.perigee_lib_clock_gettime(CLOCK_MONOTONIC, timespec)
   return tonumber(timespec.sec) * 1e9 + tonumber(timespec.nsec)
end

-- The engine's clock, in seconds. core.app is not loaded before it is needed: it depends on core.lib.
local engine
local function engine_now()
   engine = engine or require("core.app") -- once: a call of require in every breath would leave compiled code
   return engine.now()
end

--- A function that returns true when `duration` has passed since the call of `timer`, else false. With the `mode`
-- "repeating", the duration then starts again at the deadline. The unit is that of `timefun` (default: nanoseconds of
-- the monotonic clock).
function M.timer(duration, mode, timefun)
   timefun = timefun or monotonic_ns
   local deadline = timefun() + duration
   if mode == nil then
      return function () return timefun() >= deadline end
   elseif mode ~= "repeating" then
      error("timer: unknown mode '"..tostring(mode).."', expected 'repeating' or none", 2)
   end
   return function ()
      if timefun() < deadline then return false end
      deadline = deadline + duration
      return true
   end
end

--- A function that returns true at most once in `seconds` of the engine's clock.
function M.throttle(seconds)
   local deadline = engine_now()
   return function ()
      local now = engine_now()
      if now <= deadline then return false end
      deadline = now + seconds
      return true
   end
end

--- A function that returns true once `seconds` of the engine's clock have passed since the call of `timeout`.
function M.timeout(seconds)
   local deadline = engine_now() + seconds
   return function () return engine_now() > deadline end
end

--- Returns when the function `condition` returns a true value; asks it every 100 microseconds.
function M.waitfor(condition)
   while not condition() do C.perigee_lib_usleep(100) end
end

--- Asks the function `test` up to `attempts` times, `interval` microseconds apart, and returns when it returns a true
-- value. Prints progress. Errors: "timeout waiting for NAME".
function M.waitfor2(name, test, attempts, interval)
   io.write("Waiting for ", name, ".")
   for _ = 1, attempts do
      if test() then
         print(" ok")
         return
      end
      C.perigee_lib_usleep(interval)
      io.write(".")
      io.flush()
   end
   print("")
   error("timeout waiting for "..name)
end

function M.selftest()
   require("core.lib").selftest()
end

return M
