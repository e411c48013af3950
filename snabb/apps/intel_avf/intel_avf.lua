-- SPDX-License-Identifier: MIT
-- apps.intel_avf.intel_avf: Intel adaptive virtual functions, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local M = {}

--- An adaptive virtual function; {pciaddr =, nqueues =}.
M.Intel_avf = hardware.driver("Intel_avf")
--- One of its pairs of queues; {pciaddr =, queue =}.
M.IO = hardware.driver("Intel_avf.IO")
M.driver = M.Intel_avf

function M.selftest () hardware.selftest() end

return M
