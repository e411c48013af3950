-- SPDX-License-Identifier: MIT
-- apps.dpdk.hardware: replacements of Snabb's hardware drivers. Whatever the device is, DPDK has a driver for it: the app
-- is apps.dpdk.port, with the PCI address that the driver was given, or the device that stands for it (--port PCI=DEVICE,
-- SNABB_PORTS). The drivers' arguments become the port's; what has no meaning with DPDK is named in a note.

local Port = require("apps.dpdk.port")
local names = require("apps.dpdk.names")

local M = {}

local printed = {}

--- Print a note about a driver's app, once.
function M.notice (driver, text)
   local line = driver..": "..text
   if not printed[line] then
      printed[line] = true
      io.stderr:write("note: ", line, "\n")
   end
end

-- Arguments that a program may have set to what they are without it, or that DPDK takes care of.
local SILENT = {
   master_stats = true, run_stats = true, linkup_wait = true, linkup_wait_recheck = true, vmdq_queueing_mode = true,
   vmdq_queuing_mode = true, sync_stats_interval = true, fc_rx_enable = true, fc_tx_enable = true, index = true,
   rxburst = true, txburst = true, packetblaster = true, use_checksum = true, enable_counters = true,
   receives_enqueued = true,
}

-- A frame's length without its Ethernet header, from what a driver calls MTU; nil: the device's own.
local function mtu_of (frame, header, port)
   if frame then return math.max(68, math.min(frame - header, 10222)) end
   -- Cards take jumbo frames under Snabb's drivers; an interface of Linux keeps its MTU.
   return names.is_pci(port) and not names.mapped(port) and 9000 or nil
end

-- The part of an app's argument that all drivers have in common.
local function common (driver, conf, known)
   local address = conf.pciaddr or conf.pciaddress or conf.ifname or conf.port
   if address == nil then error(driver..": expected a PCI address (pciaddr) or another port", 0) end
   local unknown = {}
   for key in pairs(conf) do
      if not known[key] and not SILENT[key] then unknown[#unknown + 1] = tostring(key) end
   end
   table.sort(unknown)
   return {
      port = address, address = type(address) == "string" and names.is_pci(address) and address or nil, promisc = true, group = true,
      rxcounter = conf.rxcounter, txcounter = conf.txcounter, rate_limit = conf.rate_limit, copy = conf.copy,
      descriptors = conf.ring_buffer_size or conf.ndesc or conf.recvq_size,
   }, unknown
end

local function set (...)
   local t = {pciaddr = true, pciaddress = true, ifname = true, port = true, rxcounter = true, txcounter = true,
              rate_limit = true, copy = true, ring_buffer_size = true, ndesc = true}
   for i = 1, select("#", ...) do t[select(i, ...)] = true end
   return t
end

local of = {} -- the argument of apps.dpdk.port for that of each driver, and the names of arguments without a meaning

local INTEL = set("vmdq", "macaddr", "vlan", "poolnum", "mirror", "rxq", "txq", "mtu", "wait_for_link", "mac_loopback",
                  "priority")

--- Intel 82599 and others: intel_mp, intel_app, intel1g. Without VMDq the card takes all packets, with it an app gets
--- what is for its MAC address and VLAN, without a tag if it has no VLAN.
function of.intel (driver, conf)
   local arg, unknown = common(driver, conf, INTEL)
   arg.queue, arg.transmit = conf.rxq == nil and 0 or conf.rxq, conf.txq ~= false
   arg.mac, arg.vlan, arg.mirror, arg.mac_loopback = conf.macaddr, conf.vlan, conf.mirror, conf.mac_loopback
   arg.mtu = mtu_of(conf.mtu, 14, arg.port)
   if conf.wait_for_link then arg.wait_for_link = conf.linkup_wait or 120 end
   if conf.vmdq then
      if not conf.macaddr then error(driver..": with vmdq, a MAC address (macaddr) is expected", 0) end
      arg.vmdq, arg.loopback = true, true
      arg.vlan, arg.poolnum = conf.vlan or 0, conf.poolnum or "auto"
   end
   if (conf.priority or 1) ~= 1 then unknown[#unknown + 1] = "priority" end
   return arg, unknown
end

local AVF = set("vlan", "macs", "nqueues", "queue", "mtu")

--- Intel's adaptive virtual functions, which take what is for their own address.
function of.avf (driver, conf)
   local arg, unknown = common(driver, conf, AVF)
   arg.queue, arg.vlan, arg.mtu = conf.queue or 0, conf.vlan, mtu_of(conf.mtu, 14, arg.port)
   arg.promisc = false
   for _, mac in ipairs(conf.macs or {}) do
      local first = type(mac) == "string" and tonumber(mac:match("^%x%x") or "1", 16) or 1
      if first % 2 == 0 then arg.promisc = true end
   end
   return arg, unknown
end

local SOLARFLARE = set("macaddr", "vlan", "mac_address")

--- Solarflare: filters by address and tag.
function of.solarflare (driver, conf)
   local arg, unknown = common(driver, conf, SOLARFLARE)
   arg.mac, arg.vmdq, arg.vlan = conf.macaddr, conf.macaddr ~= nil, conf.vlan
   return arg, unknown
end

local PLAIN = set("macaddr", "mac", "vlan", "queue", "rxq", "mtu", "promisc", "queues", "nqueues")

--- ConnectX-4 by its older driver, virtio: all packets of the device.
function of.plain (driver, conf)
   local arg, unknown = common(driver, conf, PLAIN)
   arg.queue = conf.queue or conf.rxq or 0
   arg.mac, arg.vlan, arg.mtu = conf.macaddr or conf.mac, conf.vlan, conf.mtu
   arg.queues = conf.queues or conf.nqueues
   return arg, unknown
end

local XDP = set("queue", "filter")

--- An interface of Linux, or what stands for a PCI address.
function of.xdp (driver, conf)
   local arg, unknown = common(driver, conf, XDP)
   arg.queue, arg.promisc = conf.queue or 0, false
   if type(arg.port) == "string" and not names.mapped(arg.port) and not names.is_pci(arg.port) then
      arg.port = "xdp:"..arg.port
   end
   if conf.filter then unknown[#unknown + 1] = "filter" end
   return arg, unknown
end

--- The argument of apps.dpdk.port for that of a driver of a *kind* (intel, avf, solarflare, plain, xdp) named *driver*, and
--- the names of arguments without a meaning there.
function M.arguments (kind, driver, conf)
   if type(conf) ~= "table" then conf = {pciaddr = conf} end
   return of[kind](driver, conf)
end

--- The argument of apps.dpdk.port, as by `arguments`, with a notice of what was done.
function M.translate (kind, driver, conf)
   local arg, unknown = M.arguments(kind, driver, conf)
   if #unknown > 0 then M.notice(driver, "these arguments do nothing with DPDK: "..table.concat(unknown, ", ")) end
   local device = names.device(arg.port)
   local shown = names.is_pci(tostring(arg.port)) and device ~= names.qualified(arg.port) and arg.port.." is "..device.."," or device
   M.notice(driver, shown.." opened by DPDK's own driver (apps.dpdk.port)")
   return arg
end

--- A class that stands for a hardware driver of a kind.
function M.driver (name, kind)
   local Class = {}
   function Class:new (conf)
      local app = Port:new(M.translate(kind, name, conf))
      app.pciaddress = app.label
      return app
   end
   function Class.port_of (conf)
      return Port.port_of((M.arguments(kind, name, conf)))
   end
   Class.driver = Class
   return Class
end

function M.selftest () require("apps.dpdk.hardware_test").run(M) end

return M
