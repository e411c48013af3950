-- SPDX-License-Identifier: MIT
-- apps.solarflare.solarflare: Solarflare cards, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local M = {}

--- A Solarflare card; {ifname =}.
M.SolarFlareNic = hardware.driver("SolarFlareNic", "solarflare")
M.driver = M.SolarFlareNic

function M.selftest () hardware.selftest() end

return M
