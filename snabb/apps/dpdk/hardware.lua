-- SPDX-License-Identifier: MIT
-- apps.dpdk.hardware: replacements of Snabb's hardware drivers. Whatever the device is, DPDK has a driver for it: the app
-- is apps.dpdk.port, with the PCI address that the driver was given. Features of that hardware alone are left out, with a
-- note.

local Port = require("apps.dpdk.port")

local M = {}

-- The drivers' names of arguments, and the names here.
local SAME = {
   pciaddr = "port", pciaddress = "port", ifname = "port", macaddr = "mac", mac = "mac", vlan = "vlan", rxq = "queue",
   queue = "queue", mtu = "mtu", promisc = "promisc", nqueues = "queues",
}
-- Arguments that have no meaning here, or that DPDK takes care of.
local LEFT_OUT = {
   vmdq = true, txq = true, rate_limit = true, priority = true, ring_buffer_size = true, master_stats = true,
   run_stats = true, rxcounter = true, txcounter = true, wait_for_link = true, linkup_wait = true,
   linkup_wait_recheck = true, poolnum = true,
   mirror = true, rxburst = true, txburst = true, vmdq_queueing_mode = true, index = true, sendq_size = true,
   recvq_size = true, sync_stats_interval = true, macvlan = true, filter = true,
}

local printed = {}

local function notice (driver, text)
   local line = driver..": "..text
   if not printed[line] then
      printed[line] = true
      io.stderr:write("note: ", line, "\n")
   end
end

--- The argument of apps.dpdk.port for that of a driver named *driver*, and the names of arguments without a meaning there.
--- *prefix* goes before the device's name.
function M.arguments (driver, conf, prefix)
   if type(conf) ~= "table" then conf = {pciaddr = conf} end
   local arg, unknown = {queue = 0, promisc = false}, {}
   for key, value in pairs(conf) do
      if SAME[key] then
         arg[SAME[key]] = value
      elseif not LEFT_OUT[key] then
         unknown[#unknown + 1] = tostring(key)
      end
   end
   table.sort(unknown)
   if arg.port == nil then error(driver..": expected a PCI address (pciaddr) or another port", 0) end
   if prefix then arg.port = prefix..arg.port end
   return arg, unknown
end

--- The argument of apps.dpdk.port, as by `arguments`, with a notice of what was done.
function M.translate (driver, conf, prefix)
   local arg, unknown = M.arguments(driver, conf, prefix)
   if #unknown > 0 then notice(driver, "these arguments do nothing with DPDK: "..table.concat(unknown, ", ")) end
   -- A queue of the virtual machine's share of the card has a MAC address of its own: the card then has to
   -- take all packets.
   if arg.queue ~= 0 and arg.mac then arg.promisc = true end
   notice(driver, arg.port.." is opened by DPDK's own driver (apps.dpdk.port)")
   return arg
end

--- A class that stands for a hardware driver.
function M.driver (name, prefix)
   local Class = {}
   function Class:new (conf)
      return Port:new(M.translate(name, conf, prefix))
   end
   function Class.port_of (conf)
      return Port.port_of((M.arguments(name, conf, prefix)))
   end
   Class.driver = Class
   return Class
end

function M.selftest ()
   local arg = M.translate("Test", {pciaddr = "net_null3", macaddr = "02:00:00:00:00:01", rxq = 2, vmdq = true,
                                    strange = 1})
   assert(arg.port == "net_null3" and arg.mac == "02:00:00:00:00:01" and arg.queue == 2 and arg.promisc == true)
   assert(M.translate("Test", "01:00.0").port == "01:00.0")
   assert(not pcall(M.translate, "Test", {}))
   local config, engine = require("core.config"), require("core.app")
   local c = config.new()
   config.app(c, "nic", require("apps.intel.intel_app").Intel82599, {pciaddr = "net_null_hw"})
   config.app(c, "sink", require("apps.basic.basic_apps").Sink)
   config.link(c, "nic.tx -> sink.input")
   engine.configure(c)
   engine.main{done = function () return true end, no_report = true}
   assert(engine.app_table.nic.device == "net_null_hw" and engine.link_table["nic.tx -> sink.input"])
   assert(require("core.link").stats(engine.link_table["nic.tx -> sink.input"]).rxpackets == 102)
   engine.stop()
end

return M
