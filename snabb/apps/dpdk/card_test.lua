-- SPDX-License-Identifier: MIT
-- apps.dpdk.card_test: the selftest of apps.dpdk.card: pools, flows, loops and mirrors, on a device that gives back what
-- it is sent (rte_ring behind an Ethernet port).

local ffi = require("ffi")
local config = require("core.config")
local counter = require("core.counter")
local engine = require("core.app")
local link = require("core.link")
local packet = require("core.packet")
local shm = require("core.shm")

local M = {}

local RING = "net_ring_card"
local A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"
local EVERYBODY, GROUP = "\255\255\255\255\255\255", "\1\0\94\0\0\1"

local function bytes_of (mac) return (mac:gsub("(%x%x):?", function (pair) return string.char(tonumber(pair, 16)) end)) end

-- An app that sends the packets in *to_send* and keeps those that it gets.
local Keeper = {}
function Keeper:new () return setmetatable({to_send = {}, got = {}}, {__index = Keeper}) end
function Keeper:pull ()
   while self.to_send[1] do link.transmit(self.output.output, table.remove(self.to_send, 1)) end
end
function Keeper:push ()
   while not link.empty(self.input.input) do
      local p = link.receive(self.input.input)
      table.insert(self.got, ffi.string(p.data, p.length))
      packet.free(p)
   end
end

-- A graph of ports with a keeper behind each; *args* by name. The port that sends is "w", which takes nothing in.
local function graph (args, device)
   local Port = require("apps.dpdk.port")
   local c = config.new()
   local function add (name, class, arg)
      arg.port = arg.port or not class and (device or RING) or nil
      config.app(c, name, class or Port, arg)
      config.app(c, "k_"..name, Keeper)
      config.link(c, "k_"..name..".output -> "..name..".input")
      config.link(c, name..".output -> k_"..name..".input")
   end
   for name, arg in pairs(args) do
      local class = arg.class
      arg.class = nil
      add(name, class, arg)
   end
   engine.configure(c)
   return engine.app_table
end

-- Takes the apps whose names match a pattern out of the graph that runs, and their links.
local function leave_out (pattern)
   local c = config.new()
   for name, app in pairs(engine.configuration.apps) do
      if not name:match(pattern) then c.apps[name] = app end
   end
   for spec in pairs(engine.configuration.links) do
      if not spec:match(pattern) then c.links[spec] = true end
   end
   engine.configure(c)
end

local function breathe (n)
   for _ = 1, n or 4 do engine.breathe() end
end

local function frame (to, vlan, rest)
   local tag = vlan and "\129\0"..string.char(math.floor(vlan / 256), vlan % 256) or ""
   return to..bytes_of("02:00:00:00:00:99")..tag..(rest or "\144\0"..("."):rep(46))
end

local function send (app, ...)
   for _, bytes in ipairs{...} do table.insert(app.to_send, packet.from_string(bytes)) end
   breathe()
end

-- What a keeper has got since it was last asked.
local function got (apps, name)
   local list = apps["k_"..name].got
   apps["k_"..name].got = {}
   return list
end

local function is (list, ...)
   local want = {...}
   assert(#list == #want, ("%d packets, expected %d"):format(#list, #want))
   for i, bytes in ipairs(want) do assert(list[i] == bytes, "packet "..i) end
end

-- Addresses and VLANs choose the app; a tag that the app has a VLAN for goes on the way in and comes on the way out.
local function test_pools ()
   local a, b = bytes_of(A), bytes_of(B)
   local apps = graph{
      w = {queue = false}, a = {vmdq = true, mac = A}, b7 = {vmdq = true, mac = B, vlan = 7},
      b8 = {vmdq = true, mac = B, vlan = 8, keep_tag = true},
   }
   assert(apps.a.card == apps.b7.card and apps.a.card.shared)
   send(apps.k_w, frame(a), frame(b, 7), frame(b, 8), frame(b), frame(a, 9), frame(bytes_of("02:00:00:00:00:0c")), "short")
   is(got(apps, "a"), frame(a), frame(a, 9))
   is(got(apps, "b7"), frame(b))
   is(got(apps, "b8"), frame(b, 8))
   assert(apps.a.card.filtered == 3)
   -- Multicasts: to all of the VLAN, and to those that look at none.
   send(apps.k_w, frame(EVERYBODY), frame(EVERYBODY, 7), frame(GROUP, 8))
   is(got(apps, "a"), frame(EVERYBODY), frame(EVERYBODY, 7), frame(GROUP, 8))
   is(got(apps, "b7"), frame(EVERYBODY))
   is(got(apps, "b8"), frame(GROUP, 8))
   is(got(apps, "w"))
   -- Sent with the tag of its VLAN; those who keep tags have put them in themselves.
   send(apps.k_b7, frame(a))
   is(got(apps, "a"), frame(a, 7))
   send(apps.k_b8, frame(b, 8))
   is(got(apps, "b8"), frame(b, 8))
   assert(apps.a:rxmcast() == 3 and apps.a:rxbcast() == 2 and counter.read(apps.a.stats.rxfiltered) == 3)
   engine.stop()
   assert(not shm.exists("pci/"..RING))
end

local function flow_frame (i)
   local address = "\10\0"..string.char(math.floor(i / 200), i % 200)
   return frame(bytes_of(A), nil, "\8\0\69\0\0\40\0\0\0\0\64\17\0\0"..address.."\10\9\9\9\0\80\0\81"..("x"):rep(20))
end

-- More queues than the device has: flows are spread here, and each stays where it is.
local function test_flows ()
   -- Opened with one queue, for the app that only sends.
   graph{w = {queue = false}}
   local apps = graph{w = {queue = false}, q0 = {queue = 0}, q1 = {queue = 1}, q2 = {queue = 2}}
   assert(apps.q0.card.shared and #apps.q0.card.receiving == 1)
   local where, n = {}, {q0 = 0, q1 = 0, q2 = 0}
   for _ = 1, 2 do
      for i = 0, 299 do send(apps.k_w, flow_frame(i)) end
      for name in pairs(n) do
         for _, bytes in ipairs(got(apps, name)) do
            assert((where[bytes] or name) == name)
            where[bytes] = name
            n[name] = n[name] + 1
         end
      end
   end
   assert(n.q0 + n.q1 + n.q2 == 600 and n.q0 > 120 and n.q1 > 120 and n.q2 > 120, n.q0.." "..n.q1.." "..n.q2)
   -- What is not IP goes to the first queue.
   send(apps.k_w, frame(EVERYBODY))
   is(got(apps, "q0"), frame(EVERYBODY))
   -- One app goes: the others have its flows.
   leave_out("q2")
   for i = 0, 299 do send(apps.k_w, flow_frame(i)) end
   local left, right = #got(apps, "q0"), #got(apps, "q1")
   assert(left + right == 300 and left > 90 and right > 90)
   engine.stop()
end

-- A device with queues enough is polled by each app; one that has had more queues than it needs now loses nothing.
local function test_own_queues ()
   local apps = graph({q0 = {queue = 0}, q5 = {queue = 5}}, "net_null_card")
   assert(not apps.q0.card.shared and #apps.q0.card.receiving == 2 and apps.q0.member.own ~= apps.q5.member.own)
   breathe(1)
   assert(#got(apps, "q0") == 102 and #got(apps, "q5") == 102)
   local card = apps.q0.card
   local c = config.new()
   c.apps.q0, c.apps.k_q0 = engine.configuration.apps.q0, engine.configuration.apps.k_q0
   for spec in pairs(engine.configuration.links) do
      if spec:match("q0") then c.links[spec] = true end
   end
   engine.configure(c)
   assert(card.shared and #card.receiving == 2)
   engine.stop()
   -- One pool in front of queues of their own.
   apps = graph({q0 = {queue = 0, vmdq = true, mac = A}, q1 = {queue = 1, vmdq = true, mac = A}}, "net_null_card")
   assert(not apps.q0.card.shared and apps.q0.member.filters)
   breathe(1)
   assert(#got(apps, "q0") == 0 and apps.q0.card.filtered == 204) -- empty frames are to nobody's address
   engine.stop()
end

-- The drivers of Intel's cards: pools of their own, loops between them, mirrors, counters.
local function test_intel ()
   local Intel = require("apps.intel_mp.intel_mp").Intel
   local a, b = bytes_of(A), bytes_of(B)
   local function nic (arg)
      arg.class, arg.pciaddr, arg.vmdq = Intel, RING, true
      return arg
   end
   local apps = graph{a = nic{macaddr = A, rxcounter = 1, txcounter = 2}, b = nic{macaddr = B, rxcounter = 3}}
   assert(apps.a.poolnum == 0 and apps.b.poolnum == 1)
   -- To another app, on the card; to the wire, which brings it back, and nobody wants it.
   send(apps.k_a, frame(b), frame(bytes_of("02:00:00:00:00:0c")))
   is(got(apps, "b"), frame(b))
   local sent = apps.a:get_txstats()
   assert(sent.packets == 2 and sent.counter_id == 2 and sent.bytes == 120, sent.packets)
   assert(apps.a:txpackets() == 1 and apps.a.card.filtered == 1)
   -- A multicast goes to the others and to the wire, from which it comes back to all.
   send(apps.k_a, frame(EVERYBODY))
   is(got(apps, "b"), frame(EVERYBODY), frame(EVERYBODY))
   is(got(apps, "a"), frame(EVERYBODY))
   assert(apps.b:get_rxstats().packets == 3 and apps.b:get_rxstats().dropped == 0)
   assert(counter.read(counter.open("pci/"..RING.."/q3_rxpackets.counter")) == 3)
   -- Tagged frames are for no app without a VLAN.
   apps = graph{a = nic{macaddr = A}, w = nic{macaddr = B, vlan = 7}, m = nic{macaddr = "02:00:00:00:00:0e",
                mirror = {pool = {0}}}, n = nic{macaddr = "02:00:00:00:00:0f", mirror = {pool = true, port = "out"}}}
   local number = {}
   for name, app in pairs(apps) do number[app.poolnum or name] = name end
   assert(number[0] == "a" and number[3] == "w", "pools in the order of names")
   send(apps.k_w, frame(a), frame(b))
   is(got(apps, "a"))
   send(apps.k_n, frame(a))
   is(got(apps, "a"), frame(a))
   is(got(apps, "m"), frame(a))
   -- The first two left by the port; the second came back, for a pool; the third did not leave, but a pool got it.
   local copies = got(apps, "n")
   table.sort(copies)
   is(copies, frame(a, 7), frame(a), frame(b, 7), frame(b, 7))
   is(got(apps, "w"), frame(b))
   engine.stop()
   local looped = graph{a = nic{macaddr = A, mac_loopback = true}, b = nic{macaddr = B, mac_loopback = true}}
   send(looped.k_a, frame(a), frame(b))
   is(got(looped, "a"), frame(a))
   is(got(looped, "b"), frame(b))
   assert(looped.a:txpackets() == 0)
   engine.stop()
end

-- Receiving or sending may be left out; a limit leaves packets in the link.
local function test_one_way_and_limit ()
   local apps = graph{r = {transmit = false}, w = {queue = false, rate_limit = 0.01}}
   send(apps.k_r, frame(EVERYBODY))
   assert(link.nreadable(apps.r.input.input) == 1)
   is(got(apps, "r"))
   -- 10,264 bytes may go at once: 121 frames of 60 bytes and 24 around them, and 15 more for each second that this
   -- takes.
   local some = {}
   for i = 1, 400 do some[i] = frame(EVERYBODY) end
   send(apps.k_w, unpack(some))
   local n = #got(apps, "r")
   assert(n >= 102 and n < 400 and link.nreadable(apps.w.input.input) > 0, n)
   -- What the last breath has sent is in the ring: it would stay there.
   leave_out("w")
   breathe()
   engine.stop()
end

local function test_refusals ()
   local Port = require("apps.dpdk.port")
   local function refused (arg, pattern)
      arg.port = "net_null_refused"
      local ok, why = pcall(Port.new, Port, arg)
      assert(not ok and tostring(why):match(pattern), tostring(why))
   end
   refused({vmdq = true}, "vmdq: expected a MAC address")
   refused({vmdq = true, mac = "02:00"}, "mac")
   refused({vlan = 5000}, "vlan: expected")
   refused({queue = -1}, "queue: expected")
   refused({mirror = 1}, "mirror: expected")
   local first = Port:new{port = "net_null_refused", vmdq = true, mac = A}
   refused({vmdq = true, mac = A}, "queue 0 is already in use by another app")
   local second = Port:new{port = "net_null_refused", vmdq = true, mac = B}
   first.shm, second.shm = nil, nil
   first:stop()
   second:stop()
end

-- Which apps may run on other threads than those that they share a device with.
local function test_threads ()
   local Port, placement, devices = require("apps.dpdk.port"), require("core.placement"), require("core.devices")
   local function placed (args)
      local c = config.new()
      for i, arg in ipairs(args) do
         arg.port = arg.port or RING
         local worker = arg.worker
         arg.worker = nil
         config.app(c, "p"..i, Port, arg, worker and {worker = worker})
      end
      return devices.together(c, placement.assign(c, 2))
   end
   local spread, apart = placed{{queue = 0}, {queue = 1}}
   assert(spread.p1 ~= spread.p2 and apart[RING])
   for _, args in ipairs{
      {{vmdq = true, mac = A}, {vmdq = true, mac = B}}, {{queue = 0}, {queue = 0, vlan = 7}},
      {{transmit = false}, {queue = false}}, {{queue = 0, poolnum = "auto"}, {queue = 1, poolnum = "auto"}},
   } do
      local place, split = placed(args)
      assert(place.p1 == place.p2 and not next(split))
   end
   local near = placed{{queue = 0}, {queue = 0, vlan = 7, worker = 2}}
   assert(near.p1 == 2 and near.p2 == 2)
   local ok, why = pcall(placed, {{queue = 0, worker = 1}, {queue = 0, vlan = 7, worker = 2}})
   assert(not ok and why:match("p1 and p2 share net_ring_card by addresses"), why)
end

function M.run ()
   test_pools()
   test_flows()
   test_own_queues()
   test_intel()
   test_one_way_and_limit()
   test_refusals()
   test_threads()
   assert(packet.outstanding() == 0, packet.outstanding().." packets are missing")
end

return M
