-- SPDX-License-Identifier: MIT
-- apps.dpdk.names: which DPDK device stands for a port that a program asks for: by number, PCI address or name. The table
-- of PCI addresses comes from the command line (--port PCI=DEVICE) and the environment (SNABB_PORTS).

local native = require("core.native")

local M = {}

--- A PCI address with its domain, in lower case: "0000:01:00.0". Other texts stay as they are.
function M.qualified (address)
   if address:match("^%x%x:%x%x%.%x$") then return "0000:"..address:lower() end
   if address:match("^%x%x%x%x:%x%x:%x%x%.%x$") then return address:lower() end
   return address
end

--- A PCI address without the domain 0000.
function M.canonical (address)
   return (M.qualified(address):gsub("^0000:(%x%x:%x%x%.%x)$", "%1"))
end

--- Is it a PCI address?
function M.is_pci (address)
   return address:match("^%x%x:%x%x%.%x$") ~= nil or address:match("^%x%x%x%x:%x%x:%x%x%.%x$") ~= nil
end

--- The device that the table has for a PCI address, or nil.
function M.mapped (address)
   return native.port_table[M.qualified(address)]
end

--- The PCI addresses in the table, sorted.
function M.addresses ()
   local all = {}
   for address in pairs(native.port_table) do all[#all + 1] = address end
   table.sort(all)
   return all
end

--- The device that stands for *port*: a number (of a --port option, counted from 0), a PCI address, or a device.
function M.device (port)
   if type(port) == "number" then
      local name = native.ports[port + 1]
      if not name then
         error(("port %s: there are %d ports; give one with `perigee snabb --port DEVICE PROGRAM`"):format(
            tostring(port), #native.ports), 0)
      end
      return M.qualified(name)
   end
   if type(port) ~= "string" or port == "" then
      error("port: expected a number or a device, got "..tostring(port), 0)
   end
   return M.mapped(port) or M.qualified(port)
end

--- What a port is called where its counters are: its PCI address, or the device's name without arguments.
function M.label (port)
   if type(port) == "string" and M.is_pci(port) then return M.qualified(port) end
   return (M.device(port):match("^[^,]*"):gsub("/", "_"))
end

function M.selftest ()
   assert(M.qualified("01:00.0") == "0000:01:00.0" and M.canonical("0000:01:00.0") == "01:00.0")
   assert(M.qualified("AB:00.1") == "0000:ab:00.1" and M.canonical("0001:01:00.0") == "0001:01:00.0")
   assert(M.qualified("net_null0") == "net_null0" and M.canonical("net_null0") == "net_null0")
   assert(M.is_pci("01:00.0") and not M.is_pci("01:00") and not M.is_pci("eth0"))
   local table_before, ports_before = native.port_table, native.ports
   native.port_table, native.ports = {["0000:01:00.0"] = "net_ring0,x=1", ["0000:00:02.0"] = "eth1"}, {"eth0"}
   assert(M.device("01:00.0") == "net_ring0,x=1" and M.device("0000:01:00.0") == "net_ring0,x=1")
   assert(M.device("02:00.0") == "0000:02:00.0" and M.device(0) == "eth0" and M.device("eth7") == "eth7")
   assert(M.label("01:00.0") == "0000:01:00.0" and M.label("net_pcap0,rx_pcap=/a") == "net_pcap0" and M.label(0) == "eth0")
   assert(table.concat(M.addresses(), " ") == "0000:00:02.0 0000:01:00.0")
   native.port_table, native.ports = table_before, ports_before
   assert(not pcall(M.device, 4096) and not pcall(M.device, "") and not pcall(M.device, nil))
end

return M
