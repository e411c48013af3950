-- SPDX-License-Identifier: MIT
--
-- apps.interlink.receiver: receives packets from another process, or another part of this one: see lib.interlink.
--
-- What differs from Snabb: packets are copied, since processes here have none in common.

local engine = require("core.app")
local interlink = require("lib.interlink")
local link = require("core.link")
local shm = require("core.shm")

--- Receiver: sends to `output` what the Transmitter that names the same queue has got. Configuration: `queue`, its name
--- (the app's own by default); `size`, its slots, a power of two (1024). The module is the class.
local Receiver = {
   name = "apps.interlink.Receiver",
   config = {queue = {}, size = {default = 1024}},
}

--- Creates the app; it attaches to the queue when it has a link.
function Receiver:new(conf)
   return setmetatable({attached = false, queue = conf.queue, size = conf.size}, {__index = Receiver})
end

--- Attaches to the queue, waiting while it has another receiver.
function Receiver:link()
   if self.attached then return end
   local queue = self.queue or self.appname
   self.shm_name = "group/interlink/" .. queue .. ".interlink"
   self.backlink = "interlink/receiver/" .. queue .. ".interlink"
   self.interlink = interlink.attach_receiver(self.shm_name, self.size)
   self.attached = true
   shm.alias(self.backlink, self.shm_name)
end

--- Sends on what has come, up to engine.pull_npackets packets.
function Receiver:pull()
   local o, r = self.output.output, self.interlink
   if not o then return end
   local n = 0
   while n < engine.pull_npackets and not interlink.empty(r) do
      link.transmit(o, interlink.extract(r))
      n = n + 1
   end
   interlink.pull(r)
end

--- Detaches from the queue.
function Receiver:stop()
   if not self.attached then return end
   interlink.detach_receiver(self.interlink, self.shm_name)
   shm.unlink(self.backlink)
   self.attached = false
end

--- Detaches the receivers of the process `pid`, which no longer exists.
function Receiver.shutdown(pid)
   for _, queue in ipairs(shm.children("/" .. pid .. "/interlink/receiver")) do
      local name = "/" .. pid .. "/group/interlink/" .. queue
      local ok, r = pcall(interlink.open, name)
      if ok then interlink.detach_receiver(r, name) end
      shm.unlink("/" .. pid .. "/interlink/receiver/" .. queue)
   end
end

-- Sends numbered packets from another process, and compares them here.
local function test_processes(harness)
   local worker = require("core.worker")
   local h = harness.new(Receiver, {queue = "selftest_processes", size = 64}, {}, {"output"})
   local count = 2000
   worker.start("interlink_selftest", ([[
      local c = config.new()
      local Feed = require("apps.test.harness").Feed
      config.app(c, "feed", Feed)
      config.app(c, "transmitter", require("apps.interlink.transmitter"), {queue = "selftest_processes", size = 64})
      config.link(c, "feed.output -> transmitter.input")
      engine.configure(c)
      local apps = engine.app_table
      for k = 1, %d do
         table.insert(apps.feed.queue, tostring(k):rep(k %% 100 + 1))
         if k %% 50 == 0 then engine.breathe() end
      end
      local link = require("core.link")
      repeat engine.breathe() until link.empty(apps.transmitter.input.input)
      engine.configure(config.new())
   ]]):format(count))
   local got, deadline = {}, engine.now() + 180
   while #got < count do
      engine.breathe()
      for _, s in ipairs(h:take("output")) do
         got[#got + 1] = s
         assert(s == tostring(#got):rep(#got % 100 + 1), #got)
      end
      assert(engine.now() < deadline, "the other process sent only " .. #got)
   end
   local ffi = require("ffi")
   while worker.status().interlink_selftest.alive do ffi.C.usleep(1000) end
   worker.stop("interlink_selftest")
   h:stop()
end

--- Receives packets from one app graph in another, and from another process.
function Receiver.selftest()
   local harness = require("apps.test.harness")
   require("core.clib_h")
   local Transmitter = require("apps.interlink.transmitter")
   local config = require("core.config")
   local h = harness.new(Receiver, {size = 8}, {}, {"output"})
   local c = h.config
   config.app(c, "feed", harness.Feed)
   config.app(c, "transmitter", Transmitter, {queue = "dut", size = 8})
   config.link(c, "feed.output -> transmitter.input")
   engine.configure(c)
   local sent = {}
   for k = 1, 100 do sent[k] = ("packet %d"):format(k):rep(k) end
   for k, s in ipairs(sent) do engine.app_table.feed.queue[k] = s end
   for _ = 1, 40 do engine.breathe() end
   h:expect("output", sent)
   Transmitter.shutdown(999999999)
   Receiver.shutdown(999999999)
   h:stop()
   assert(not shm.exists("group/interlink/dut.interlink"))
   test_processes(harness)
end

return Receiver
