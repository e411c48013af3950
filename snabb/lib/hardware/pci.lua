-- SPDX-License-Identifier: MIT
-- lib.hardware.pci: queries of programs about a card before they use it. With DPDK there is only one answer:
-- apps.dpdk.port.

local lib = require("core.lib")

local M = {}

--- A PCI address with its domain: "0000:01:00.0".
function M.qualified (address)
   return address:match("^%x%x:%x%x%.%x$") and "0000:"..address or address
end

--- A PCI address without the domain 0000.
function M.canonical (address)
   return (address:gsub("^0000:", ""))
end

--- Folder of a device in sysfs.
function M.path (address)
   return "/sys/bus/pci/devices/"..M.qualified(address)
end

local function number_in (file)
   return lib.can_read(file) and lib.firstline(file) or nil
end

--- What is known about a device: {pciaddress, vendor, device, model, interface, driver = "apps.dpdk.port", rx =
--- "input", tx = "output", usable = true}. A name that is not a PCI address is a port of another kind.
function M.device_info (address)
   local path = M.path(address)
   return {
      pciaddress = address, vendor = number_in(path.."/vendor"), device = number_in(path.."/device"),
      model = number_in(path.."/vendor") and "PCI device" or "software device", interface = lib.firstfile(path.."/net"),
      status = "up", driver = "apps.dpdk.port", rx = "input", tx = "output", usable = true,
   }
end

--- The devices that scan_devices found the last time.
M.devices = {}

--- All network devices on the PCI bus, by address.
function M.scan_devices ()
   local devices = {}
   for _, address in ipairs(lib.files_in_directory("/sys/bus/pci/devices") or {}) do
      local class = number_in(M.path(address).."/class")
      if class and class:match("^0x02") then devices[#devices + 1] = M.device_info(M.canonical(address)) end
   end
   M.devices = devices
   return devices
end

--- Kernel drivers are unbound by the user who starts the program (dpdk-devbind.py). Does nothing.
function M.unbind_device_from_linux () end
--- See unbind_device_from_linux. Does nothing.
function M.set_bus_master () end

function M.selftest ()
   assert(M.qualified("01:00.0") == "0000:01:00.0" and M.canonical("0000:01:00.0") == "01:00.0")
   assert(M.qualified("net_null0") == "net_null0")
   local info = M.device_info("net_null0")
   assert(info.driver == "apps.dpdk.port" and require(info.driver).driver and info.rx == "input" and info.usable)
   assert(M.scan_devices() == M.devices)
end

return M
