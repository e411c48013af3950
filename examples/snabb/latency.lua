-- SPDX-License-Identifier: MIT
-- A Snabb program with tasks beside its apps: how long does a packet take through a chain of forwarding apps?
--
--   perigee snabb examples/snabb/latency.lua LENGTH [PACKETS PER SECOND] [SECONDS]
--   perigee snabb --workers 2 examples/snabb/latency.lua ...     the chain on two threads
--
--   task generate ─ring─► app "enter" ─► LENGTH apps ─► app "leave" ─ring─► task measure
--
-- Tasks run on cores and in VMs of their own; packets cross without being copied. docs/snabb.md, docs/tasks.md.

local ffi = require("ffi")
local link = require("core.link")
local counter = require("core.counter")
local ring = require("apps.task.ring")
local frame = require("perigee.frame")
local histogram = require("perigee.histogram")
local task = require("perigee.task")

-- Where a packet carries the time at which it was sent: in its payload.
local STAMP = 14 + 20 + 8
local stamp_t = ffi.typeof("double *")

-- A task: sends packets at a rate, with the time in them, for some seconds; returns how many.
local function generate (to, rate, seconds)
   local pool = task.pool{prototype = frame.udp{length = 60}, snabb = true}
   local burst, sent, start = task.burst(), 0, task.ns()
   while task.running() do
      local passed = task.ns() - start
      local due = math.floor(math.min(passed, seconds * 1e9) * rate / 1e9) - sent
      if due >= 1 and pool:fill(burst, math.min(due, 32), 60) then
         for slot = 0, burst.count - 1 do ffi.cast(stamp_t, burst.data[slot] + STAMP)[0] = task.ns() end
         sent = sent + to:send(burst)
      elseif passed >= seconds * 1e9 then
         break
      end
   end
   return sent
end

-- A task: takes the packets, and returns a histogram of how long they took, in ns.
local function measure (from)
   local burst, latencies = task.burst(), histogram.new(100)
   local function take (wait)
      local packets = from:receive(burst, wait)
      for slot = 0, packets - 1 do
         latencies:update(task.ns() - ffi.cast(stamp_t, burst.data[slot] + STAMP)[0])
      end
      return packets
   end
   while task.running() do take(0.01) end
   -- What was in the ring at the end.
   while take(0) > 0 do end
   return latencies
end

-- What comes in on the link `input` goes out on the link `output`, and waits where that is full: a full link drops.
local Forward = {}

function Forward:new ()
   return setmetatable({}, {__index = Forward})
end

function Forward:push ()
   local input, output = self.input.input, self.output.output
   while not link.empty(input) and not link.full(output) do
      link.transmit(output, link.receive(input))
   end
end

local function chain (there, back, length)
   local c, from = config.new(), "enter.output"
   config.app(c, "enter", ring.Receiver, {ring = there})
   for i = 1, length do
      config.app(c, "forward_"..i, Forward)
      config.link(c, from.." -> forward_"..i..".input")
      from = "forward_"..i..".output"
   end
   config.app(c, "leave", ring.Sender, {ring = back})
   config.link(c, from.." -> leave.input")
   return c
end

local function run (args)
   local length, rate, seconds = tonumber(args[1]), tonumber(args[2] or 100000), tonumber(args[3] or 1)
   if not length then
      print("Usage: latency.lua LENGTH [PACKETS PER SECOND] [SECONDS]")
      main.exit(1)
   end
   local there, back = task.ring(), task.ring()
   engine.configure(chain(there, back, length))
   local meter = task.start(measure, back)
   local generator = task.start(generate, there, rate, seconds)
   -- The counters of an app on another thread are in shared memory.
   local left = counter.open("apps/leave/txpackets.counter")
   local sent
   engine.main{no_report = true, done = function ()
      if not sent and generator:ended() then sent = generator:wait() end
      return sent and counter.read(left) == sent
   end}
   -- The engine's end has asked tasks to end.
   local latencies = meter:wait()
   print(("%d sent, %d arrived through %d apps"):format(sent, latencies:count(), length))
   if latencies:count() > 0 then
      print(("latency: median %d ns, 99 %% within %d ns, at most %d ns"):format(
         latencies:median(), latencies:percentile(99), latencies:max()))
   end
end

-- Tasks and other threads find them here.
return {run = run, Forward = Forward, generate = generate, measure = measure}
