-- SPDX-License-Identifier: MIT
-- lib.hardware.pci: queries of programs about a card before they use it. An address may stand for another device (--port
-- PCI=DEVICE, SNABB_PORTS): it is there even if there is no such card.
--
-- The driver of a card is the one that Snabb has for it; of everything else it is apps.intel_mp.intel_mp, whose arguments
-- programs know. Whichever it is, DPDK does the work.

local lib = require("core.lib")
local names = require("apps.dpdk.names")
local native = require("core.native")

local M = {}

--- A PCI address with its domain: "0000:01:00.0".
M.qualified = names.qualified

--- A PCI address without the domain 0000.
M.canonical = names.canonical

--- Folder of a device in sysfs.
function M.path (address)
   return "/sys/bus/pci/devices/"..M.qualified(address)
end

local function number_in (file)
   return lib.can_read(file) and lib.firstline(file) or nil
end

-- Cards that Snabb has another driver for, by vendor and device.
local DRIVERS = {
   ["0x8086:0x154c"] = "apps.intel_avf.intel_avf", ["0x8086:0x1889"] = "apps.intel_avf.intel_avf",
   ["0x1924:0x0903"] = "apps.solarflare.solarflare",
   ["0x15b3:0x1013"] = "apps.mellanox.connectx", ["0x15b3:0x1017"] = "apps.mellanox.connectx",
   ["0x15b3:0x1019"] = "apps.mellanox.connectx", ["0x15b3:0x101d"] = "apps.mellanox.connectx",
   ["0x15b3:0x1021"] = "apps.mellanox.connectx",
}

--- What is known about a device: {pciaddress, vendor, device, model, interface, driver, rx, tx (names of links), status,
--- usable = "yes"}. A name that is not a PCI address is a port of another kind.
function M.device_info (address)
   local info = {pciaddress = M.canonical(address), rx = "input", tx = "output", usable = "yes",
                 driver = "apps.intel_mp.intel_mp"}
   local mapped = names.mapped(address)
   if mapped or not names.is_pci(address) then
      info.vendor, info.device, info.status = "0x0000", "0x0000", "up"
      info.model = "software device"
      return info
   end
   local path = M.path(address)
   info.vendor, info.device = number_in(path.."/vendor"), number_in(path.."/device")
   if not info.vendor then
      error(("No such device: %s: there is no card at this address, and no device stands for it: give one with --port %s=DEVICE")
               :format(address, info.pciaddress), 0)
   end
   info.model, info.interface = "PCI device", lib.firstfile(path.."/net")
   info.status = info.interface and number_in(path.."/net/"..info.interface.."/operstate")
   info.driver = DRIVERS[info.vendor..":"..tostring(info.device)] or info.driver
   if info.driver == "apps.solarflare.solarflare" then info.rx, info.tx = "rx", "tx" end
   return info
end

--- The driver's module for a card of this vendor and device.
function M.which_driver (vendor, device)
   return DRIVERS[tostring(vendor)..":"..tostring(device)] or "apps.intel_mp.intel_mp"
end

--- The names of the links that a driver takes packets from, and sends them to.
function M.which_link_names (driver)
   if driver == "apps.solarflare.solarflare" then return "rx", "tx" end
   return "input", "output"
end

--- Can a program have the device of which `device_info` returned this?
function M.is_usable (info) return info.driver ~= nil end

--- The devices that scan_devices found the last time.
M.devices = {}

-- Interfaces of Linux that are no cards, such as veth. (In a network namespace /sys may still show another one's.)
local function add_interfaces (devices)
   local file = io.open("/proc/self/net/dev")
   if not file then return end
   for line in file:lines() do
      local name = line:match("^%s*([^%s:]+):")
      if name and name ~= "lo" and not lib.can_read("/sys/class/net/"..name.."/device/vendor") then
         local info = M.device_info(name)
         info.interface = name
         devices[#devices + 1] = info
      end
   end
   file:close()
end

--- All devices that a program may choose a port from: network cards on the PCI bus and addresses that stand for other devices,
--- by address, then what `--port` names without one, then the other interfaces of Linux.
function M.scan_devices ()
   local devices, addresses = {}, names.addresses()
   for _, address in ipairs(lib.files_in_directory("/sys/bus/pci/devices") or {}) do
      local class = number_in(M.path(address).."/class")
      if class and class:match("^0x02") and not names.mapped(address) then addresses[#addresses + 1] = address end
   end
   table.sort(addresses)
   for i, address in ipairs(addresses) do devices[i] = M.device_info(address) end
   local mapped = {}
   for _, device in pairs(native.port_table) do mapped[device] = true end
   for _, name in ipairs(native.ports) do
      if not mapped[name] then devices[#devices + 1] = M.device_info(name) end
   end
   add_interfaces(devices)
   M.devices = devices
   return devices
end

--- Kernel drivers are unbound by the user who starts the program (dpdk-devbind.py). Does nothing.
function M.unbind_device_from_linux () end
--- See unbind_device_from_linux. Does nothing.
function M.set_bus_master () end
--- See unbind_device_from_linux. Does nothing.
function M.reset_device () end

function M.selftest ()
   assert(M.qualified("01:00.0") == "0000:01:00.0" and M.canonical("0000:01:00.0") == "01:00.0")
   assert(M.qualified("net_null0") == "net_null0")
   local info = M.device_info("net_null0")
   assert(require(info.driver).driver.port_of{pciaddr = "net_null0"} == "net_null0")
   assert(info.rx == "input" and info.usable == "yes" and tonumber(info.vendor) == 0 and tonumber(info.device) == 0)
   local table_before, ports = native.port_table, native.ports
   native.port_table, native.ports = {["0000:f7:00.0"] = "net_null6"}, {"net_null6", "net_null7"}
   info = M.device_info("f7:00.0")
   assert(info.pciaddress == "f7:00.0" and info.driver == "apps.intel_mp.intel_mp")
   local devices = M.scan_devices()
   native.port_table, native.ports = table_before, ports
   assert(devices == M.devices)
   local found = {}
   for _, device in ipairs(devices) do found[device.pciaddress] = device end
   assert(found["f7:00.0"] and found.net_null7 and not found.net_null6 and not found.lo)
   local ok, why = pcall(M.device_info, "f7:00.0")
   assert(not ok and why:match("^No such device: f7:00.0.*%-%-port f7:00.0=DEVICE"), why)
end

return M
