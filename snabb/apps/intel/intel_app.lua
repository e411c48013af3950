-- SPDX-License-Identifier: MIT
-- apps.intel.intel_app: Intel 82599 and X540, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local M = {}

--- Intel 82599; {pciaddr =, macaddr =, vlan =, rxq =}.
M.Intel82599 = hardware.driver("Intel82599", "intel")
M.driver = M.Intel82599

function M.selftest () hardware.selftest() end

return M
