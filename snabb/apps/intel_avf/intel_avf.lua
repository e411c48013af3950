-- SPDX-License-Identifier: MIT
-- apps.intel_avf.intel_avf: Intel adaptive virtual functions, by DPDK: see apps.dpdk.hardware. With *nqueues*, queues are
-- set up by one app and used by others: see apps.dpdk.control.

local control = require("apps.dpdk.control")
local hardware = require("apps.dpdk.hardware")

local M = {}

local Whole = hardware.driver("Intel_avf", "avf")

--- An adaptive virtual function; {pciaddr =, vlan =, macs =, ring_buffer_size =}; with nqueues it only sets up that many queues,
--- numbered from 0.
M.Intel_avf = {}
local Intel_avf = M.Intel_avf

--- Makes the app.
function Intel_avf:new (conf)
   if not conf.nqueues then return Whole:new(conf) end
   local arg = hardware.translate("avf", "Intel_avf", conf)
   local queues = {}
   for i = 0, conf.nqueues - 1 do queues[i + 1] = {id = i, vlan = conf.vlan} end
   return control.publish(conf.pciaddr, queues, {descriptors = arg.descriptors, mtu = arg.mtu, promisc = arg.promisc,
                                                 strip = true})
end

--- The device and the queue of an app with this argument; nil if it only sets queues up.
function Intel_avf.port_of (conf)
   if not conf.nqueues then return Whole.port_of(conf) end
end

--- One of its pairs of queues; {pciaddr =, queue =}.
M.IO = {config = {pciaddr = {required = true}, queue = {required = true}}}
local IO = M.IO
--- Makes the app. It waits for the app that sets the queues up.
function IO:new (conf) return control.io("Intel_avf.IO", conf.pciaddr, conf.queue) end
--- The device and the queue of an app with this argument.
function IO.port_of (conf) return control.port_of(conf.pciaddr, conf.queue) end

M.driver = M.Intel_avf

function M.selftest () hardware.selftest() end

return M
