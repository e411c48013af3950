-- SPDX-License-Identifier: MIT
-- apps.mellanox.connectx: Mellanox ConnectX cards, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local Nothing = {}

local M = {}

--- The app that sets a ConnectX card up for its IO apps: DPDK does that when the first of these is started.
M.ConnectX = {}
--- Makes an app that does nothing.
function M.ConnectX:new () return setmetatable({}, {__index = Nothing}) end
--- One pair of queues of a ConnectX card; {pciaddress =, queue =}.
M.IO = hardware.driver("ConnectX.IO")
M.driver = M.ConnectX

function M.selftest () hardware.selftest() end

return M
