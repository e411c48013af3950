-- SPDX-License-Identifier: MIT
--
-- apps.test.npackets: lets a number of packets through and leaves the others where they are.

local link = require("core.link")
local links = require("apps.links")

local M = {}

--- Npackets: forwards packets from `input` to `output`, `npackets` in all (1000000 by default); further ones are not
--- taken from the link. The field `n` is how many may still pass.
M.Npackets = {
   config = {npackets = {default = 1000000}}
}
local Npackets = M.Npackets

--- Creates the app.
function Npackets:new(conf)
   return setmetatable({n = conf.npackets}, {__index = Npackets})
end

--- Forwards waiting packets, up to the number.
function Npackets:push()
   local i, o = links.one_in_one_out(self)
   local count = math.min(link.nreadable(i), self.n)
   for _ = 1, count do
      link.transmit(o, link.receive(i))
   end
   self.n = self.n - math.max(count, 0)
end

--- Lets five packets through.
function M.selftest()
   local harness = require("apps.test.harness")
   local h = harness.new(Npackets, {npackets = 5}, {"input"}, {"output"})
   h:send("input", {"1", "2", "3"})
   h:expect("output", {"1", "2", "3"})
   assert(h.app.n == 2)
   h:send("input", {"4", "5", "6", "7"})
   h:expect("output", {"4", "5"})
   assert(h.app.n == 0 and link.nreadable(h.app.input.input) == 2)
   h:stop()
end

return M
