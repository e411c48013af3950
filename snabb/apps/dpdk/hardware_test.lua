-- SPDX-License-Identifier: MIT
-- apps.dpdk.hardware_test: the selftests of apps.dpdk.hardware and apps.dpdk.control: arguments of Snabb's drivers, and
-- their apps on DPDK's software devices.

local config = require("core.config")
local counter = require("core.counter")
local engine = require("core.app")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")
local shm = require("core.shm")

local M = {}

local A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"

-- Run something with PCI addresses that stand for devices.
local function with_table (addresses, run)
   local before = native.port_table
   native.port_table = addresses
   local ok, why = pcall(run)
   native.port_table = before
   if not ok then error(why, 0) end
end

local function test_arguments (hardware)
   local function arguments (kind, conf)
      local arg, unknown = hardware.arguments(kind, "Test", conf)
      return arg, table.concat(unknown, " ")
   end
   local arg, unknown = arguments("intel", {pciaddr = "01:00.0", vmdq = true, macaddr = A, rxq = 1, rxcounter = 4, mtu = 1514,
                                            ring_buffer_size = 4096, wait_for_link = true, strange = 1, priority = 2})
   assert(arg.port == "01:00.0" and arg.mac == A and arg.vmdq and arg.queue == 1 and arg.vlan == 0 and arg.loopback)
   assert(arg.poolnum == "auto" and arg.mtu == 1500 and arg.descriptors == 4096 and arg.wait_for_link == 120)
   assert(arg.rxcounter == 4 and arg.transmit and unknown == "strange priority")
   arg, unknown = arguments("intel", {pciaddr = "01:00.0", rxq = false, txq = 0, rate_limit = 10, vmdq = false, macaddr = A})
   assert(arg.queue == false and arg.transmit and arg.rate_limit == 10 and arg.promisc and not arg.vmdq and unknown == "")
   assert(arg.mtu == 9000) -- a card of one's own
   arg = arguments("intel", {pciaddr = "net_null0", txq = false})
   assert(arg.queue == 0 and not arg.transmit and arg.mtu == nil)
   assert(not pcall(arguments, "intel", {}) and not pcall(arguments, "intel", {pciaddr = "01:00.0", vmdq = true}))
   arg = arguments("avf", {pciaddr = "01:00.0", vlan = 5, macs = {"33:33:00:00:00:01"}})
   assert(arg.vlan == 5 and not arg.promisc and arguments("avf", {pciaddr = "01:00.0", macs = {A}}).promisc)
   assert(arguments("plain", "01:00.0").port == "01:00.0")
   assert(arguments("xdp", {ifname = "eth0", queue = 3}).port == "xdp:eth0")
   arg = arguments("solarflare", {ifname = "eth0", macaddr = A, vlan = 7})
   assert(arg.vmdq and arg.vlan == 7 and arg.port == "eth0")
end

-- A program that asks for a card gets the device that stands for it, and finds the driver's counters where they always are.
local function test_mapped ()
   with_table({["0000:f8:00.0"] = "net_ring_mapped"}, function ()
      local pci = require("lib.hardware.pci")
      local info = pci.device_info("f8:00.0")
      local c = config.new()
      config.app(c, "nic", require(info.driver).driver, {pciaddr = info.pciaddress, rxcounter = 2})
      config.app(c, "source", require("apps.test.npackets").Npackets, {npackets = 10})
      config.app(c, "from", require("apps.basic.basic_apps").Source)
      config.app(c, "sink", require("apps.basic.basic_apps").Sink)
      config.link(c, "from.output -> source.input")
      config.link(c, "source.output -> nic."..info.rx)
      config.link(c, "nic."..info.tx.." -> sink.input")
      engine.configure(c)
      engine.main{done = function () return engine.app_table.nic:rxpackets() == 10 end, no_report = true}
      engine.breathe()
      local nic = engine.app_table.nic
      assert(nic.device == "net_ring_mapped" and nic:get_rxstats().packets == 10 and nic:rxdrop() == 0 and nic:txdrop() == 0)
      assert(nic:link_status() and nic:link_speed() >= 0 and nic:promisc() and nic:rxdmapackets() == 10 and nic:txpackets() == 10)
      counter.commit()
      local shown = shm.open_frame("pci/f8:00.0")
      for _, name in ipairs{"rxpackets", "txpackets", "q2_rxpackets"} do assert(counter.read(shown[name]) == 10, name) end
      assert(counter.read(shown.rxbytes) == 600 and counter.read(shown.status) == 1 and counter.read(shown.promisc) == 1)
      for _, name in ipairs{"dtime", "mtu", "speed", "type", "macaddr", "rxdrop", "rxerrors", "rxmcast", "rxbcast", "rxdmapackets",
                            "txbytes", "txmcast", "txbcast", "txdrop", "txerrors", "q2_rxbytes", "q2_rxdrops"} do
         assert(shown[name], name)
      end
      assert(nic.stats.rxpackets == shown.rxpackets and nic.shm.rxpackets)
      engine.stop()
      assert(not shm.exists("pci/f8:00.0"))
   end)
end

local function test_old_names ()
   local c = config.new()
   config.app(c, "nic", require("apps.intel.intel_app").Intel82599, {pciaddr = "net_null_hw"})
   config.app(c, "sink", require("apps.basic.basic_apps").Sink)
   config.link(c, "nic.tx -> sink.input")
   engine.configure(c)
   engine.main{done = function () return true end, no_report = true}
   assert(engine.app_table.nic.device == "net_null_hw" and engine.link_table["nic.tx -> sink.input"])
   assert(link.stats(engine.link_table["nic.tx -> sink.input"]).rxpackets == 102)
   engine.stop()
end

--- The selftest of apps.dpdk.hardware.
function M.run (hardware)
   test_arguments(hardware)
   test_mapped()
   test_old_names()
   assert(packet.outstanding() == 0)
end

local function frame (to, tag)
   local bytes = to:gsub("(%x%x):?", function (pair) return string.char(tonumber(pair, 16)) end)
   return bytes.."\2\0\0\0\0\9"..(tag or "").."\144\0"..("."):rep(46)
end

-- Queues by their names, whichever of the apps comes first; tags stay.
local function test_connectx ()
   local connectx, basic = require("apps.mellanox.connectx"), require("apps.basic.basic_apps")
   local c = config.new()
   local address = "0000:f9:00.0"
   -- "ConnectX" sorts before "io", "z" behind: the same graph in both orders.
   for _, control in ipairs{"a_control", "z_control"} do
      c = config.new()
      config.app(c, control, connectx.ConnectX, {pciaddress = address, mtu = 1522, queues = {
         {id = "one", mac = A, vlan = 7}, {id = "two", mac = A, vlan = 7}, {id = "three", mac = B, vlan = 8}}})
      for _, id in ipairs{"one", "two", "three"} do
         config.app(c, "io_"..id, connectx.IO, {pciaddress = address, queue = id})
         config.app(c, "sink_"..id, basic.Sink)
         config.link(c, ("io_%s.output -> sink_%s.input"):format(id, id))
      end
      config.app(c, "tee", basic.Tee)
      config.link(c, "tee.output -> io_one.input")
      engine.configure(c)
      local deadline = engine.now() + 180
      repeat
         engine.breathe()
         local ready = true
         for _, id in ipairs{"one", "two", "three"} do ready = ready and engine.app_table["io_"..id].nic end
      until ready or engine.now() > deadline
      local input = engine.link_table["tee.output -> io_one.input"]
      for _, bytes in ipairs{frame(A, "\129\0\0\7"), frame(B, "\129\0\0\8"), frame(B, "\129\0\0\7"), frame(A),
                             frame("ff:ff:ff:ff:ff:ff", "\129\0\0\7")} do
         link.transmit(input, packet.from_string(bytes))
      end
      for _ = 1, 4 do engine.breathe() end
      local function n (id) return link.stats(engine.link_table[("io_%s.output -> sink_%s.input"):format(id, id)]) end
      -- No IP: the first of the two; the multicast as well.
      assert(n("one").rxpackets == 2 and n("two").rxpackets == 0 and n("three").rxpackets == 1)
      assert(n("three").rxbytes == 64) -- with its tag
      local io = engine.app_table.io_three
      assert(io:rxdrop() == 0 and io:get_rxstats().packets == 1 and io:txpackets() == 5 and io.nic.card.filtered == 2)
      assert(shm.exists("pci/"..address.."/rxdrop_three.counter"))
      engine.stop()
      assert(not shm.exists("pci/"..address) and not shm.exists("group/pci/"..address.."/one"))
   end
end

--- The selftest of apps.dpdk.control.
function M.run_control ()
   local connectx = require("apps.mellanox.connectx")
   local function refused (queues, pattern)
      local ok, why = pcall(connectx.ConnectX.new, connectx.ConnectX, {pciaddress = "01:00.0", queues = queues})
      assert(not ok and tostring(why):match(pattern), tostring(why))
   end
   refused({}, "expected an array")
   refused({{id = "a", mac = A}, {id = "b"}}, "for all of them or for none")
   refused({{id = "a"}, {id = "a"}}, "id a is there twice")
   refused({{mac = A}}, "expected {id =}")
   refused({{id = "a", mac = "02"}}, "mac: expected")
   with_table({["0000:f9:00.0"] = "net_ring_connectx"}, test_connectx)
   -- Queues of a virtual function have numbers.
   local avf = require("apps.intel_avf.intel_avf")
   with_table({["0000:fa:00.0"] = "net_null_avf"}, function ()
      local c = config.new()
      config.app(c, "avf", avf.Intel_avf, {pciaddr = "fa:00.0", nqueues = 2})
      for i = 0, 1 do
         config.app(c, "io"..i, avf.IO, {pciaddr = "fa:00.0", queue = i})
         config.app(c, "sink"..i, require("apps.basic.basic_apps").Sink)
         config.link(c, ("io%d.output -> sink%d.input"):format(i, i))
      end
      engine.configure(c)
      engine.breathe()
      for i = 0, 1 do
         assert(link.stats(engine.link_table[("io%d.output -> sink%d.input"):format(i, i)]).rxpackets == 102)
      end
      engine.stop()
   end)
   assert(packet.outstanding() == 0)
end

return M
