-- SPDX-License-Identifier: MIT
-- apps.mellanox.connectx4: Mellanox ConnectX-4 cards, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local M = {}

--- A ConnectX-4 card; {pciaddress =}.
M.ConnectX4 = hardware.driver("ConnectX4", "plain")
M.driver = M.ConnectX4

function M.selftest () hardware.selftest() end

return M
