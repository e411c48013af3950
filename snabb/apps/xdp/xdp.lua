-- SPDX-License-Identifier: MIT
-- apps.xdp.xdp: Linux interfaces through AF_XDP sockets, by DPDK: see apps.dpdk.hardware.

local hardware = require("apps.dpdk.hardware")

local M = {}

--- A Linux interface through an AF_XDP socket; {ifname =, queue =}.
M.XDP = hardware.driver("XDP", "xdp")
M.driver = M.XDP
--- Snabb asks for permission to use its XDP app; not needed here. Does nothing.
function M.snabb_enable_xdp () end

--- What Snabb's tests of its XDP app begin with: they need two cards, whose settings they change. Ends with 43, skipped.
function M.selftest_init () require("core.main").exit(43) end

function M.selftest () hardware.selftest() end

return M
