-- SPDX-License-Identifier: MIT
-- apps.intel_mp.intel_mp: Intel cards with several queues, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local M = {}

--- Intel 82599, i210, i350; {pciaddr =, macaddr =, vlan =, rxq =}.
M.Intel = hardware.driver("Intel")
M.driver = M.Intel
--- The name that older programs know it by.
M.Intel82599 = M.Intel

function M.selftest () hardware.selftest() end

return M
