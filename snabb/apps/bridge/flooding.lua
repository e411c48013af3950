-- SPDX-License-Identifier: MIT
--
-- apps.bridge.flooding: a bridge that sends each packet to all ports that it may go to.

local base = require("apps.bridge.base")
local class = require("lib.lua.class")
local link = require("core.link")

local M = {}

--- bridge: sends packets from a port to all other ports outside its split-horizon group. Configuration: that of
--- apps.bridge.base; `config` is not used.
M.bridge = class.subClass(base.bridge)
local bridge = M.bridge
bridge._name = "flooding bridge"

--- Floods all waiting packets, port by port.
function bridge:push()
   local ports = self._ports
   for k = 1, #ports do
      local port = ports[k]
      local l_in, flood = port.l_in, port.flood
      for _ = 1, l_in and link.nreadable(l_in) or 0 do
         base.flood(link.receive(l_in), flood)
      end
   end
end

--- Floods with and without groups.
function M.selftest()
   local harness = require("apps.test.harness")
   local names = {"a", "b", "c", "d"}
   local h = harness.new(bridge, {ports = {"a", "b"}, split_horizon_groups = {x = {"c", "d"}}}, names, names)
   h:send("a", {"from a"})
   h:send("c", {"from c", "again"})
   h:expect("a", {"from c", "again"})
   h:expect("b", {"from a", "from c", "again"})
   h:expect("c", {"from a"})
   h:expect("d", {"from a"})
   h = harness.new(bridge, {split_horizon_groups = {x = {"a", "b"}}}, {"a"}, {"a", "b"})
   h:send("a", {"nowhere to go"})
   h:expect("b", {})
   h:stop()
end

return M
