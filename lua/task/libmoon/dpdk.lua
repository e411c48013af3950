-- SPDX-License-Identifier: MIT
-- Old names of libmoon's functions: dpdk.launchLua, dpdk.running and others.
local libmoon = require "libmoon.libmoon"

return setmetatable({
  __name = "dpdk",
  launchLua = libmoon.startTask,
  launchLuaOnCore = libmoon.startTaskOnCore,
  waitForSlaves = libmoon.waitForTasks,
  skipInit = function() end,
  init = function() return true end,
}, { __index = libmoon })
