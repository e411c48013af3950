-- SPDX-License-Identifier: MIT
-- core.timer: functions that are called at a time, in ticks of a millisecond. The API is Snabb's.
--
-- Active timers stand in a binary heap by tick and, within a tick, by the order of activation: that is the order they
-- run in, always. When many ticks have passed since the last run, they are made up for one by one: a repeating timer
-- runs once for each of its periods. Nothing is allocated when a timer repeats.
--
-- Differs from Snabb: `deactivate` within the timer's own function stops it from repeating, and a timer with a period
-- of 0 runs in the next tick (Snabb loses it when it is activated from a timer).

local ffi = require("ffi")
require("core.lib_h")
local C = ffi.C

local M = {}

--- The tick up to which timers have run, or false before the first activation.
M.ticks = false
--- Nanoseconds of a tick.
M.ns_per_tick = 1e6

local floor, ceil = math.floor, math.ceil

-- The heap: three arrays with the same index.
local n = 0
local at_tick, order, timers = {}, {}, {}
local activations = 0
-- While a timer's function runs: it, and whether it was deactivated in there.
local running, stopped = false, false

local function before (i, j)
   return at_tick[i] < at_tick[j] or at_tick[i] == at_tick[j] and order[i] < order[j]
end

local function swap (i, j)
   at_tick[i], at_tick[j] = at_tick[j], at_tick[i]
   order[i], order[j] = order[j], order[i]
   timers[i], timers[j] = timers[j], timers[i]
end

local function rise (i)
   while i > 1 do
      local parent = floor(i / 2)
      if not before(i, parent) then return end
      swap(i, parent)
      i = parent
   end
end

local function sink (i)
   while 2 * i <= n do
      local child = 2 * i
      if child < n and before(child + 1, child) then child = child + 1 end
      if not before(child, i) then return end
      swap(i, child)
      i = child
   end
end

local function remove (i)
   swap(i, n)
   timers[n] = false
   n = n - 1
   if i <= n then
      rise(i)
      sink(i)
   end
end

local function now_ticks ()
   return floor(tonumber(C.get_time_ns()) / M.ns_per_tick)
end

--- A timer: *fn* is called with the timer once *nanos* nanoseconds after its activation, or every *nanos* nanoseconds
--- if *mode* is "repeating". It does nothing until `activate`. Returns a table with name, fn, ticks, repeating.
function M.new (name, fn, nanos, mode)
   if type(name) ~= "string" then error("timer: the name must be a string, not a "..type(name), 2) end
   if type(fn) ~= "function" then error("timer "..name..": expected a function, not a "..type(fn), 2) end
   local ns = tonumber(nanos)
   if not ns or not (ns >= 0 and ns < math.huge) then
      error(("timer %s: expected nanoseconds, not %s"):format(name, tostring(nanos)), 2)
   end
   if mode ~= nil and mode ~= "repeating" and mode ~= "once" and mode ~= "non-repeating" then
      error(("timer %s: the mode is 'repeating' or nothing, not %s"):format(name, tostring(mode)), 2)
   end
   return {name = name, fn = fn, ticks = ceil(ns / M.ns_per_tick), repeating = mode == "repeating"}
end

local function is_timer (t)
   return type(t) == "table" and t.name and t.fn and t.ticks and true or false
end

local function push (timer)
   local tick = M.ticks + timer.ticks
   if running and timer.ticks == 0 then tick = tick + 1 end
   n = n + 1
   activations = activations + 1
   at_tick[n], order[n], timers[n] = tick, activations, timer
   rise(n)
end

--- Start a timer: its time runs from now on (within a timer's function: from the time that function was due).
function M.activate (timer)
   if not is_timer(timer) then error("timer: activate takes a timer as timer.new returns it", 2) end
   if not M.ticks then M.ticks = now_ticks() end
   push(timer)
end

--- Stop a timer, or the first that is due of this name. Returns true if there was one.
function M.deactivate (timer_or_name)
   local name = timer_or_name
   if is_timer(timer_or_name) then name = timer_or_name.name end
   if type(name) ~= "string" then error("timer: deactivate takes a timer or its name", 2) end
   local found
   if running and running.name == name then
      stopped = true
   end
   for i = 1, n do
      if timers[i].name == name and (not found or before(i, found)) then found = i end
   end
   if found then remove(found) end
   return found ~= nil or stopped
end

--- Stop this very timer, not another of its name. Returns true if it was to run.
function M.cancel (timer)
   local found
   if running and running == timer then stopped, found = true, true end
   for i = n, 1, -1 do
      if timers[i] == timer then
         remove(i)
         found = true
      end
   end
   return found
end

--- Run all timers that are due at *ns* nanoseconds. Timers activated meanwhile run, too, if they are due.
function M.run_to_time (ns)
   local target = floor(tonumber(ns) / M.ns_per_tick)
   if not M.ticks then M.ticks = target end
   running, stopped = false, false -- a timer that raised an error left them set
   while n > 0 and at_tick[1] <= target do
      local timer, tick = timers[1], at_tick[1]
      remove(1)
      if tick > M.ticks then M.ticks = tick end
      running, stopped = timer, false
      local fn = timer.fn
      fn(timer)
      if timer.repeating and not stopped then push(timer) end
      running, stopped = false, false
   end
   if target > M.ticks then M.ticks = target end
end

--- Run all timers that are due by the clock (`get_time_ns`). The engine calls it after every breath.
function M.run ()
   if n > 0 then
      M.run_to_time(C.get_time_ns())
   else
      M.ticks = false -- no timer: the clock need not be read, and the next activation does
   end
end

--- Does nothing: timers need no initialisation. Here for programs that were written when they did.
function M.init () end

-- The plain way: every tick looks at all timers, in the order of activation.
local function oracle (list, runtime)
   local active, log, seq = {}, {}, 0
   for _, period in ipairs(list) do
      seq = seq + 1
      active[#active + 1] = {period = period, due = period, seq = seq}
   end
   for tick = 0, runtime do
      while true do
         local first
         for _, t in ipairs(active) do
            if t.due <= tick and (not first or t.seq < first.seq) then first = t end
         end
         if not first then break end
         seq = seq + 1
         log[#log + 1] = first.period
         first.due, first.seq = tick + first.period, seq
      end
   end
   return log
end

local function test_order ()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED") or "1")
   math.randomseed(seed)
   M.ticks = 0
   local list, log, runtime = {}, {}, 300
   local function note (t) log[#log + 1] = t.ticks end
   for i = 1, 40 do
      list[i] = math.random(1, 60)
      M.activate(M.new("t"..i, note, list[i] * 1e6, "repeating"))
   end
   local now = 0
   while now < runtime do
      now = math.min(runtime, now + math.random(25))
      M.run_to_time(now * 1e6)
   end
   local expected = oracle(list, runtime)
   assert(#log == #expected, "seed "..seed)
   for i = 1, #log do assert(log[i] == expected[i], ("call %d, seed %d"):format(i, seed)) end
   for i = 1, 40 do assert(M.deactivate("t"..i)) end
   assert(n == 0 and not M.deactivate("t1"))
end

function M.selftest ()
   local saved = M.ticks
   test_order()
   -- Many frequencies: as many calls as periods have passed.
   M.ticks = 0
   local count, expected = 0, 0
   for frequency = 1, 1000 do
      M.activate(M.new("f"..frequency, function () count = count + 1 end, 1e6 * frequency, "repeating"))
      expected = expected + math.floor(5000 / frequency)
   end
   M.run_to_time(5000 * 1e6)
   assert(count == expected and M.ticks == 5000)
   for frequency = 1, 1000 do M.deactivate("f"..frequency) end
   -- Once; rounded up to ticks; same tick in order of activation.
   local log = {}
   local function note (t) log[#log + 1] = t.name end
   M.activate(M.new("b", note, 1.5e6)); M.activate(M.new("a", note, 2000000ULL)); M.activate(M.new("c", note, 1))
   M.run_to_time(5000.9e6)
   assert(#log == 0)
   M.run_to_time(5002 * 1e6)
   assert(table.concat(log) == "cba" and n == 0)
   M.run_to_time(6000 * 1e6)
   assert(#log == 3)
   -- Stopped from without and from within; started from within.
   log = {}
   local t = M.new("stop", note, 1e6, "repeating")
   M.activate(t)
   assert(M.deactivate(t) and not M.deactivate(t))
   local same = M.new("stop", note, 1e6, "repeating")
   M.activate(t); M.activate(same)
   assert(M.cancel(same) and not M.cancel(same) and M.deactivate("stop") and not M.cancel(t))
   local calls = 0
   local self_stop = M.new("self", function (self)
      calls = calls + 1
      if calls == 3 then M.deactivate(self) end
   end, 1e6, "repeating")
   M.activate(self_stop)
   M.activate(M.new("chain", function () M.activate(M.new("link", note, 0)) end, 1e6))
   M.run_to_time(6010 * 1e6)
   assert(calls == 3 and table.concat(log) == "link" and n == 0)
   -- An error in a timer reaches the caller and leaves the others as they were.
   M.activate(M.new("bad", function () error("oops") end, 1e6))
   M.activate(M.new("good", note, 1e6))
   assert(not pcall(M.run_to_time, 6020 * 1e6))
   M.run_to_time(6020 * 1e6)
   assert(table.concat(log) == "linkgood")
   for _, bad in ipairs{{1, note, 1}, {"x", 1, 1}, {"x", note, "y"}, {"x", note, -1}, {"x", note, 1, "often"}} do
      assert(not pcall(M.new, bad[1], bad[2], bad[3], bad[4]))
   end
   assert(not pcall(M.activate, {}) and not pcall(M.deactivate, {}))
   -- By the clock.
   M.ticks = false
   M.activate(M.new("now", note, 0))
   M.run()
   assert(log[#log] == "now" and M.ticks)
   M.run()
   assert(M.ticks == false)
   M.ticks = saved
end

return M
