-- SPDX-License-Identifier: MIT
-- apps.intel_mp.intel_mp: Intel cards with several queues, by DPDK: see apps.dpdk.hardware.

local descriptors = require("apps.dpdk.descriptors")
local hardware = require("apps.dpdk.hardware")

local M = {}

--- Intel 82599, i210, i350; {pciaddr =, macaddr =, vlan =, rxq =}. After `init`, an instance has a ring of descriptors of
--- *ring_buffer_size*: see apps.dpdk.descriptors.
M.Intel = hardware.driver("Intel", "intel")
local new = M.Intel.new
--- Opens the port.
function M.Intel:new (conf)
   local port = new(self, conf)
   port.init = function (port) descriptors.attach(port, type(conf) == "table" and conf.ring_buffer_size or nil) end
   return port
end
M.driver = M.Intel
--- The name that older programs know it by.
M.Intel82599 = M.Intel

function M.selftest () hardware.selftest() end

return M
