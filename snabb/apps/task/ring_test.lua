-- SPDX-License-Identifier: MIT
-- apps.task.ring_test: the selftest of apps.task.ring, and the tasks that it starts.

local ffi = require("ffi")
local counter = require("core.counter")
local config = require("core.config")
local engine = require("core.app")
local link = require("core.link")
local packet = require("core.packet")
local task = require("perigee.task")

local M = {}

--- A task: sends back what comes, by another ring, with its first byte one higher.
function M.reflect (from, to)
   local burst, sum = task.burst(), 0
   while task.running() do
      if from:receive(burst, 0.01) > 0 then
         for slot = 0, burst.count - 1 do burst.data[slot][0] = burst.data[slot][0] + 1 end
         sum = sum + burst.live:count()
         to:send(burst)
      end
   end
   return sum
end

--- A task: receives from a ring, says so, and keeps it until it is to end.
function M.hold (from, pipe)
   from:receive(task.burst())
   pipe:send(true)
   while task.running() do task.sleep(0.01) end
end

--- A task: sends *n* packets of 100 bytes from a pool; *snabb*: the program's.
function M.generate (to, n, snabb)
   local pool = task.pool{prototype = ("g"):rep(100), snabb = snabb, buffers = 1023}
   local burst, sent = task.burst(), 0
   while sent < n and task.running() do
      if pool:fill(burst, math.min(50, n - sent), 100) then sent = sent + to:send(burst) end
   end
   return sent
end

-- Sends numbered packets; the test's own app.
local Source = {}
M.Source = Source
function Source:new (conf) return setmetatable({left = conf.packets}, {__index = Source}) end
function Source:pull ()
   local to = self.output.output
   for _ = 1, math.min(self.left, 100, link.nwritable(to)) do
      local p = packet.from_string(("\1"):rep(60 + self.left % 1000))
      ffi.cast("uint32_t *", p.data + 10)[0] = self.left
      self.left = self.left - 1
      link.transmit(to, p)
   end
end

local Check = {}
M.Check = Check
function Check:new () return setmetatable({n = 0, bytes = 0}, {__index = Check}) end
function Check:push ()
   local from = self.input.input
   while not link.empty(from) do
      local p = link.receive(from)
      self.n, self.bytes, self.first = self.n + 1, self.bytes + p.length, p.data[0]
      local number = ffi.cast("uint32_t *", p.data + 10)[0]
      if self.last and number >= self.last then self.disorder = true end
      self.last = number
      packet.free(p)
   end
end

local function run_until (condition)
   local timeout = require("core.lib").timeout(180)
   engine.main{done = function () return condition() or timeout() end, no_report = true, keep_tasks = true}
   assert(condition(), "timed out")
end

local function test_there_and_back (ring)
   local there, back, n = task.ring(), task.ring(100), 20000
   local c = config.new()
   config.app(c, "source", Source, {packets = n})
   config.app(c, "send", ring.Sender, {ring = there})
   config.app(c, "receive", ring.Receiver, {ring = back})
   config.app(c, "check", Check)
   config.link(c, "source.output -> send.input")
   config.link(c, "receive.output -> check.input")
   local reflector = task.start(M.reflect, there, back)
   engine.configure(c)
   local check = engine.app_table.check
   run_until(function () return check.n == n end)
   assert(check.first == 2 and not check.disorder and check.last == 1)
   local sent, got = engine.app_table.send.shm, engine.app_table.receive.shm
   assert(counter.read(sent.txpackets) == n and counter.read(got.rxpackets) == n)
   assert(counter.read(sent.txbytes) == check.bytes and counter.read(got.rxbytes) == check.bytes)
   -- Packets are mbufs of one pool here and there; early ones have been used up or copied.
   assert(counter.read(got.rxcopied) == 0 and counter.read(sent.txcopied) <= 4000)
   task.stop()
   assert(reflector:wait() == n)
   engine.stop()
end

-- From a task's own pool packets are copied, from the program's not.
local function test_pools (ring)
   for _, snabb in ipairs{false, true} do
      local to, n = task.ring(64), 5000
      local c = config.new()
      config.app(c, "receive", ring.Receiver, {ring = to})
      config.app(c, "check", Check)
      config.link(c, "receive.output -> check.input")
      local generator = task.start(M.generate, to, n, snabb)
      engine.configure(c)
      local check = engine.app_table.check
      run_until(function () return check.n == n end)
      local shm = engine.app_table.receive.shm
      assert(check.bytes == n * 100 and check.first == ("g"):byte() and counter.read(shm.rxdrop) == 0)
      assert(counter.read(shm.rxcopied) == (snabb and 0 or n), tostring(counter.read(shm.rxcopied)))
      task.stop()
      assert(generator:wait() == n)
      engine.stop()
   end
end

-- A ring has one receiver: an app, or a task.
local function test_receivers (ring)
   local to, pipe = task.ring(64), task.pipe()
   local holder = task.start(M.hold, to, pipe)
   assert(pipe:receive(180) == true)
   local c = config.new()
   config.app(c, "second", ring.Receiver, {ring = to})
   local ok, why = pcall(engine.configure, c)
   assert(not ok and why:match("is used by task apps.task.ring_test.hold"), why)
   task.stop()
   holder:wait()
   engine.configure(c) -- its end has given the ring back
   config.app(c, "third", ring.Sender, {ring = to})
   engine.configure(c)
   engine.stop()
end

-- A full ring: packets wait in the link, then it drops; what waits is freed with the apps.
local function test_full (ring)
   local to = task.ring(10)
   local c = config.new()
   config.app(c, "source", Source, {packets = 3000})
   config.app(c, "send", ring.Sender, {ring = to})
   config.link(c, "source.output -> send.input")
   engine.configure(c)
   local l = engine.link_table["source.output -> send.input"]
   -- Memory that is no packet of Snabb's is copied, and stays its owner's.
   local mine = ffi.new("struct packet")
   mine.length = 60
   link.transmit(l, mine)
   engine.app_table.send:push()
   local shm = engine.app_table.send.shm
   assert(link.empty(l) and counter.read(shm.txcopied) == 1 and counter.read(shm.txpackets) == 1)
   for _ = 1, 500 do engine.breathe() end
   assert(link.full(l) or engine.app_table.source.left == 0)
   engine.stop()
   local burst, got = task.burst(), 0
   repeat
      local n = to:receive(burst)
      got = got + n
   until n == 0
   burst:free()
   assert(got == 10)
end

function M.run (ring)
   task.quiet = true
   assert(not pcall(ring.Sender.new, ring.Sender, {ring = 7}) and not pcall(ring.Receiver.new, ring.Receiver, {}))
   require("core.packet").keep_at_most(2048)
   local made = task.ring(1) -- DPDK is there from now on
   assert(made)
   local before = packet.outstanding()
   test_there_and_back(ring)
   test_pools(ring)
   test_receivers(ring)
   test_full(ring)
   assert(packet.outstanding() == before, packet.outstanding().." packets are out, "..before.." were")
end

return M
