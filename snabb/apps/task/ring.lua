-- SPDX-License-Identifier: MIT
-- apps.task.ring: packets between apps and tasks (core.tasks), by rings (`task.ring()`). Not part of Snabb.
--
-- A packet is an mbuf, which a task's burst takes as it is: nothing is copied, but what lies in other memory than Snabb's
-- packets (a task's own pool; `ffi.new`; packets made before there was a ring), is shared, or starts where no packet may.
-- That is counted in rxcopied and txcopied. `task.pool{snabb = true}` makes packets that need no copy.

local ffi = require("ffi")
local C = ffi.C
local counter = require("core.counter")
local engine = require("core.app")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")

local M = {}

local BURST = 64

-- Bursts of apps that have stopped: they are the VM's until it ends.
local spare = {}

local function start (class, conf, shm)
   local task = require("perigee.task")
   local is_ring = type(conf.ring) == "cdata" and ffi.istype("perigee_ring *", conf.ring)
   if not is_ring then error("ring: expected a ring of tasks, as task.ring() makes it; found a "..type(conf.ring), 0) end
   local pool, why = native.pool()
   if not pool then error(why, 0) end
   packet.keep_at_most(2048)
   return setmetatable({
      task = task, ring = conf.ring, burst = table.remove(spare) or task.burst(), shm = shm,
      pool = ffi.cast("struct perigee_snabb_pool *", pool), handed = ffi.new("struct perigee_snabb_handed"), missed = 0,
   }, {__index = class})
end

-- Packets were dropped, or wait, as none was free: more are made, as Snabb's allocation would.
local function feed (self)
   local missed = self.handed.no_buffer
   if missed == self.missed then return end
   self.missed = missed
   local made = native.packets()
   local more, why = native.grow(math.max(1024, math.min(made, 65536)))
   if not more and not self.starved then
      self.starved = true
      io.stderr:write("note: app ", tostring(self.appname), " has no packets to copy to: ", tostring(why), "\n")
   end
end

--- Sender: sends what comes in on its links to a task, as far as the ring has room; the rest waits in the link, which
--- drops when it is full. *ring*: the ring. Counters: txpackets, txbytes, txcopied, txdrop (over 10,240 bytes).
M.Sender = {config = {ring = {required = true}}}
local Sender = M.Sender

--- Makes the app.
function Sender:new (conf)
   return start(Sender, conf, {txpackets = {counter}, txbytes = {counter}, txcopied = {counter}, txdrop = {counter}})
end

--- Sends what waits.
function Sender:push ()
   local burst, ring, handed, input = self.burst, self.ring, self.handed, self.input
   for i = 1, #input do
      local from = input[i]
      repeat
         -- What the ring did not take the last time goes first.
         if burst.live:empty() then
            if C.perigee_snabb_to_batch(from, burst, BURST, self.pool, packet.freelist, handed) == 0 then break end
         end
         ring:try_send(burst)
      until not burst.live:empty() or link.empty(from)
   end
   feed(self)
   self:update_counters()
end

--- Brings the counters up to date.
function Sender:update_counters ()
   local shm, handed = self.shm, self.handed
   counter.set(shm.txpackets, handed.packets)
   counter.set(shm.txbytes, handed.bytes)
   counter.set(shm.txcopied, handed.copied)
   counter.set(shm.txdrop, handed.too_long)
end

--- Frees what the ring has not taken.
function Sender:stop ()
   self.burst:free()
   table.insert(spare, self.burst)
end

--- Receiver: sends what comes from tasks to its output link. *ring*: the ring, of which it is the only receiver.
--- Counters: rxpackets, rxbytes, rxcopied, rxdrop (over 10,240 bytes, or no packet free to copy to).
M.Receiver = {config = {ring = {required = true}}}
local Receiver = M.Receiver

--- Makes the app. Errors when another app, or a task, receives from the ring.
function Receiver:new (conf)
   local self = start(Receiver, conf,
                      {rxpackets = {counter}, rxbytes = {counter}, rxcopied = {counter}, rxdrop = {counter}})
   -- Takes the ring's end.
   self.ring:receive(self.burst, 0, 1)
   return self
end

--- Takes what has come, up to engine.pull_npackets packets and as many as the link has room for.
function Receiver:pull ()
   local to = self.output.output or self.output.tx or self.output[1]
   if not to then return end
   local burst, ring = self.burst, self.ring
   local left = math.min(engine.pull_npackets, link.nwritable(to))
   -- Of the first call, if something waited then.
   if left > 0 and not burst.live:empty() then
      left = left - C.perigee_snabb_from_batch(burst, to, self.pool, self.handed)
   end
   while left > 0 do
      local want = math.min(left, BURST)
      local got = ring:receive(burst, 0, want)
      C.perigee_snabb_from_batch(burst, to, self.pool, self.handed)
      left = left - got
      if got < want then break end
   end
   feed(self)
   self:update_counters()
end

--- Brings the counters up to date.
function Receiver:update_counters ()
   local shm, handed = self.shm, self.handed
   counter.set(shm.rxpackets, handed.packets)
   counter.set(shm.rxbytes, handed.bytes)
   counter.set(shm.rxcopied, handed.copied)
   counter.set(shm.rxdrop, handed.too_long + handed.no_buffer)
end

--- Frees what is on its way, and lets another receive from the ring.
function Receiver:stop ()
   self.burst:free()
   table.insert(spare, self.burst)
   self.task.leave(self.ring)
end

function M.selftest () require("apps.task.ring_test").run(M) end

return M
