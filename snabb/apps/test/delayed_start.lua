-- SPDX-License-Identifier: MIT
--
-- apps.test.delayed_start: holds packets back for a while, so that the other side of a cable can get ready.

local engine = require("core.app")
local link = require("core.link")
local links = require("apps.links")

local M = {}

--- Delayed_start: forwards packets from `input` to `output`, from a time on. Argument: the delay in seconds.
M.Delayed_start = {}
local Delayed_start = M.Delayed_start

--- Creates the app; the delay of `delay` seconds begins now.
function Delayed_start:new(delay)
   delay = tonumber(delay) or error("Delayed_start: expected a delay in seconds")
   return setmetatable({start = engine.now() + delay}, {__index = Delayed_start})
end

--- Forwards waiting packets, once the time has come.
function Delayed_start:push()
   if engine.now() < self.start then return end
   local i, o = links.one_in_one_out(self)
   for _ = 1, link.nreadable(i) do
      link.transmit(o, link.receive(i))
   end
end

--- Sends a packet before and after the time.
function M.selftest()
   local harness = require("apps.test.harness")
   local h = harness.new(Delayed_start, 1000, {"input"}, {"output"})
   h:send("input", {"early"})
   h:expect("output", {})
   h.app.start = engine.now()
   h:send("input", {"late"})
   h:expect("output", {"early", "late"})
   h:stop()
end

return M
