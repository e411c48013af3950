-- SPDX-License-Identifier: MIT
-- lib.hardware.pci: queries of programs about a card before they use it. With DPDK all devices are driven alike: the answer is
-- always apps.intel_mp.intel_mp, the stand-in of apps.dpdk.port that programs know the arguments of.

local lib = require("core.lib")
local native = require("core.native")

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

--- What is known about a device: {pciaddress, vendor, device, model, interface, driver = "apps.intel_mp.intel_mp", rx =
--- "input", tx = "output", usable = "yes"}. A name that is not a PCI address is a port of another kind, whose numbers are "0x0000".
function M.device_info (address)
   local path = M.path(address)
   return {
      pciaddress = address, vendor = number_in(path.."/vendor") or "0x0000",
      device = number_in(path.."/device") or "0x0000",
      model = number_in(path.."/vendor") and "PCI device" or "software device", interface = lib.firstfile(path.."/net"),
      status = "up", driver = "apps.intel_mp.intel_mp", rx = "input", tx = "output", usable = "yes",
   }
end

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

--- All devices that a program may choose a port from: network cards on the PCI bus by address, then what `--port` names,
--- then the other interfaces of Linux.
function M.scan_devices ()
   local devices = {}
   for _, address in ipairs(lib.files_in_directory("/sys/bus/pci/devices") or {}) do
      local class = number_in(M.path(address).."/class")
      if class and class:match("^0x02") then devices[#devices + 1] = M.device_info(M.canonical(address)) end
   end
   for _, name in ipairs(native.ports) do devices[#devices + 1] = M.device_info(name) end
   add_interfaces(devices)
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
   assert(require(info.driver).driver.port_of{pciaddr = "net_null0"} == "net_null0")
   assert(info.rx == "input" and info.usable == "yes" and tonumber(info.vendor) == 0 and tonumber(info.device) == 0)
   local ports = native.ports
   native.ports = {"net_null7"}
   local devices = M.scan_devices()
   native.ports = ports
   assert(devices == M.devices)
   local found = {}
   for _, device in ipairs(devices) do found[device.pciaddress] = device end
   assert(found.net_null7 and not found.lo)
end

return M
