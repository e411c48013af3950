-- SPDX-License-Identifier: MIT
-- apps.intel.intel1g: Intel i210 and i350, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

--- Intel i210 and i350; {pciaddr =}.
local M = hardware.driver("Intel1g", "intel")
M.driver = M

function M.selftest () hardware.selftest() end

return M
