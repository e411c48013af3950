-- SPDX-License-Identifier: MIT
--
-- apps.interlink.transmitter: sends packets to another process, or another part of this one: see lib.interlink.
--
-- What differs from Snabb: packets are copied, since processes here have none in common.

local interlink = require("lib.interlink")
local link = require("core.link")
local shm = require("core.shm")

--- Transmitter: what comes in on `input` comes out of the Receiver that names the same queue. Configuration: `queue`,
--- its name (the app's own by default); `size`, its slots, a power of two (1024). The module is the class.
local Transmitter = {
   name = "apps.interlink.Transmitter",
   config = {queue = {}, size = {default = 1024}},
}

--- Creates the app; it attaches to the queue when it has a link.
function Transmitter:new(conf)
   return setmetatable({attached = false, queue = conf.queue, size = conf.size}, {__index = Transmitter})
end

--- Attaches to the queue, waiting while it has another transmitter.
function Transmitter:link()
   if self.attached then return end
   local queue = self.queue or self.appname
   self.shm_name = "group/interlink/" .. queue .. ".interlink"
   self.backlink = "interlink/transmitter/" .. queue .. ".interlink"
   self.interlink = interlink.attach_transmitter(self.shm_name, self.size)
   self.attached = true
   shm.alias(self.backlink, self.shm_name)
end

--- Sends waiting packets, as far as there is room; the rest waits.
function Transmitter:push()
   local i, r = self.input.input, self.interlink
   if not i then return end
   while not link.empty(i) and not interlink.full(r) do
      interlink.insert(r, link.receive(i))
   end
   interlink.push(r)
end

--- Detaches from the queue.
function Transmitter:stop()
   if not self.attached then return end
   interlink.detach_transmitter(self.interlink, self.shm_name)
   shm.unlink(self.backlink)
   self.attached = false
end

--- Detaches the transmitters of the process `pid`, which no longer exists.
function Transmitter.shutdown(pid)
   for _, queue in ipairs(shm.children("/" .. pid .. "/interlink/transmitter")) do
      local name = "/" .. pid .. "/group/interlink/" .. queue
      local ok, r = pcall(interlink.open, name)
      if ok then interlink.detach_transmitter(r, name) end
      shm.unlink("/" .. pid .. "/interlink/transmitter/" .. queue)
   end
end

--- Sends packets from one app graph into another by a queue; more than the queue holds wait.
function Transmitter.selftest()
   local harness = require("apps.test.harness")
   local name = "selftest_transmitter"
   local h = harness.new(Transmitter, {queue = name, size = 4}, {"input"}, {})
   local r = interlink.attach_receiver("group/interlink/" .. name .. ".interlink", 4)
   h:send("input", {"1", "2", "3", "4", "5"})
   assert(interlink.capacity(r) == 3 and link.nreadable(h.app.input.input) == 2)
   local packet, ffi = require("core.packet"), require("ffi")
   for k = 1, 5 do
      assert(not interlink.empty(r))
      local p = interlink.extract(r)
      assert(ffi.string(p.data, p.length) == tostring(k))
      packet.free(p)
      interlink.pull(r)
      if k == 3 then h:send("input", {}) end
   end
   assert(interlink.empty(r) and shm.exists("interlink/transmitter/" .. name .. ".interlink"))
   h:stop()
   assert(not shm.exists("interlink/transmitter/" .. name .. ".interlink"))
   interlink.detach_receiver(r, "group/interlink/" .. name .. ".interlink")
   assert(not shm.exists("group/interlink/" .. name .. ".interlink"))
end

return Transmitter
