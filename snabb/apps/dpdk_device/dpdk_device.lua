-- SPDX-License-Identifier: MIT
-- apps.dpdk_device.dpdk_device: a port by its number, as programs have it that were written for the compatibility layer
-- between Snabb and libmoon. The number counts the --port options; a text is a device, as for apps.dpdk.port.

local Port = require("apps.dpdk.port")

--- A port by its number, or {port = NUMBER, queue =, ...} as for apps.dpdk.port.
local M = {}

--- Open the port's queues.
function M:new (arg)
   if type(arg) ~= "table" then arg = {port = arg} end
   return Port:new(require("core.lib").parse(arg, Port.config))
end

--- The device and the queue of an app with this argument.
function M.port_of (arg)
   if type(arg) ~= "table" then arg = {port = arg} end
   return Port.port_of(arg)
end

M.dpdk_device, M.DPDKDevice, M.driver = M, M, M

function M.selftest ()
   assert(not pcall(M.new, M, 77) and not pcall(M.new, M, nil) and not pcall(M.new, M, {}))
   local app = M:new("net_null_number")
   assert(app.device == "net_null_number" and app.mac)
   app.shm = nil
   app:stop()
end

return M
