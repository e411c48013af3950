-- SPDX-License-Identifier: MIT
-- apps.virtio_net.virtio_net: virtio network devices, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local M = {}

--- A virtio network device; {pciaddr =}.
M.VirtioNet = hardware.driver("VirtioNet", "plain")
M.driver = M.VirtioNet

function M.selftest () hardware.selftest() end

return M
