-- SPDX-License-Identifier: MIT
-- apps.dpdk.port: a DPDK port, any device that DPDK knows: packets from the device go to the app's output link, packets
-- on its input links go to the device. Packets are only copied (see core.packet) if a device does not take buffers of
-- 11 KB, if a packet's memory is not the pool's, or if a multicast is for several apps.
--
-- Several apps may share a device, by queues, MAC addresses and VLANs: see apps.dpdk.card. The class that replaces Snabb's
-- hardware drivers: see apps.dpdk.hardware.

local C = require("ffi").C
local counter = require("core.counter")
local counters = require("apps.dpdk.counters")
local lib = require("core.lib")
local link = require("core.link")
local names = require("apps.dpdk.names")
local packet = require("core.packet")
local Card = require("apps.dpdk.card")

--- A part of a port. *port*: a number (the one of a --port option, counted from 0) or a device: a PCI address, a DPDK
--- device such as "net_pcap0,rx_pcap=FILE", a Linux interface, or "xdp:INTERFACE".
---
--- Which packets: *queue*, the number of a receive queue (false: none), and *transmit*, whether what comes by input links
--- is sent. Apps that have different queues share packets by flow. *mac*: the port's MAC address; with *vmdq* it is the
--- app's own, and the app gets what is sent to it, and multicasts. *vlan*: only packets with this tag are received, and
--- lose it; what is sent gets it; 0: only packets without a tag. *keep_tag*: tags stay as they are. *poolnum*: apps of
--- another number get copies of the same packets; "auto": a number of its own. *loopback*: what is sent to the MAC address of
--- another app of the device goes there. *mac_loopback*: all that is sent comes back. *mirror*: {pool = true or
--- {NUMBERS}, port = "in", "out" or "inout"}, copies of others' packets. *rss*: {index =, count =}, which part of a
--- pool's flows, if not all of its queues are this process's; *group*: other processes of the group may have some, and
--- each app finds out which part is its own.
---
--- The device: *queues*: how many it is opened with (as many as the apps of the graph use, if omitted), and then every
--- app polls its own. *descriptors* per queue. *promisc*: receive packets to any MAC address. *mtu* in bytes. *copy*: receive into
--- the device's own buffers and copy, for a device that would hold too many of Snabb's. *wait_for_link*: seconds to
--- wait for the link.
---
--- *rate_limit* in Mbit/s. *rxcounter*, *txcounter*: numbers of the counters of queues to count in, qN_rxpackets and the like.
--- *address*: what the port is called where its counters are.
local Port = {
   config = {
      port = {required = true}, queue = {default = 0}, transmit = {default = true}, queues = {}, mac = {},
      vmdq = {default = false}, vlan = {}, keep_tag = {}, poolnum = {}, loopback = {}, mac_loopback = {}, mirror = {},
      rss = {}, descriptors = {}, promisc = {default = false}, mtu = {}, copy = {default = false}, wait_for_link = {},
      rate_limit = {}, rxcounter = {}, txcounter = {}, address = {}, queue_name = {}, group = {},
   },
}
Port.__index = Port

--- The device that stands for a port's number or address.
Port.device_name = names.device

--- The device and the queue of an app with this argument, and a text for what it shares with other apps of the device:
--- those with the same may run on different threads.
function Port.port_of (arg)
   local alone = arg.poolnum == "auto" or arg.mirror or arg.mac_loopback or arg.rss or arg.queue == false or
      arg.transmit == false
   local pool = ("%s %s %s"):format(arg.vmdq and arg.mac or "any", arg.vlan or "any", arg.poolnum or "")
   return names.device(arg.port), arg.queue == nil and 0 or arg.queue, not alone and pool or false
end

local function check_vlan (vlan)
   if vlan ~= nil and (type(vlan) ~= "number" or vlan < 0 or vlan > 4094 or vlan % 1 ~= 0) then
      error("vlan: expected a number from 1 to 4094, or 0 for packets without a tag, got "..tostring(vlan), 0)
   end
end

local function check (conf)
   check_vlan(conf.vlan)
   local queue = conf.queue
   if queue ~= nil and queue ~= false and type(queue) ~= "string" and
      (type(queue) ~= "number" or queue < 0 or queue > 1023 or queue % 1 ~= 0) then
      error("queue: expected a number from 0 to 1023, or false, got "..tostring(queue), 0)
   end
   if conf.vmdq and not conf.mac then error("vmdq: expected a MAC address with it", 0) end
   if conf.mirror ~= nil and type(conf.mirror) ~= "table" then
      error("mirror: expected a table with pool or port, got "..tostring(conf.mirror), 0)
   end
end

local printed = {} -- notes that were already printed

local function print_notes (notes, conf)
   for _, note in ipairs(notes) do
      if note:match("every packet is copied") and not conf.copy and not printed[note] then
         printed[note] = true
         io.stderr:write("note: ", note, "\n")
      end
   end
end

-- Counters that several apps may count in together.
local function queue_counters (self, number, side, which)
   if not number then return end
   local all = self.card.queue_counters
   for _, what in ipairs(which) do
      local name = ("pci/%s/q%s_%s%s.counter"):format(self.label, tostring(number), side, what)
      all[name] = all[name] or {counter = counter.create(name), users = 0}
      all[name].users = all[name].users + 1
      self.counts_in[side..what] = all[name]
      self.counter_names[#self.counter_names + 1] = name
   end
end

local function make_counters (self, conf)
   local card, info = self.card, self.card.info
   local about = {mac = conf.mac or info.mac, mtu = conf.mtu or info.mtu, promisc = conf.promisc or conf.vmdq}
   card.queue_counters = card.queue_counters or {}
   card.due = card.due or lib.throttle(0.1)
   card.device_due = card.device_due or lib.throttle(1)
   card.of_device = card.of_device or {}
   -- The totals of a device are those of the thread that opened it.
   if info.first and not card.frame then card.frame = counters.device_frame(self.label, about) end
   self.stats, self.shm = card.frame, counters.app_specs(about)
   self.counts_in, self.counter_names = {}, {}
   if self.member.queue then queue_counters(self, conf.rxcounter, "rx", {"packets", "bytes", "drops"}) end
   if self.transmits then queue_counters(self, conf.txcounter, "tx", {"packets", "bytes"}) end
   if conf.queue_name then
      local name = ("pci/%s/rxdrop_%s.counter"):format(self.label, (conf.queue_name:gsub("/", "_")))
      card.queue_counters[name] = {counter = counter.create(name), users = 1}
      self.counts_in.rxdrops = card.queue_counters[name]
      self.counter_names[#self.counter_names + 1] = name
   end
end

--- Open the port, or a part of it. Errors if there is no such device, or another app has the queue.
function Port:new (conf)
   check(conf)
   local name = names.device(conf.port)
   local card, member = Card.join(name, {
      queue = conf.queue == nil and 0 or conf.queue, queues = conf.queues, mac = conf.mac, vmdq = conf.vmdq, vlan = conf.vlan,
      keep_tag = conf.keep_tag, poolnum = conf.poolnum, loopback = conf.loopback, mac_loopback = conf.mac_loopback,
      mirror = conf.mirror, rate_limit = conf.rate_limit, rss = conf.rss, group = conf.group, promisc = conf.promisc, mtu = conf.mtu,
      copy = conf.copy, descriptors = conf.descriptors,
   })
   local info = card.info
   print_notes(info.notes, conf)
   -- Packets go out to the device and come back from it: this thread must not keep too many of them.
   packet.keep_at_most(2048)
   local self = setmetatable({
      device = name, label = conf.address or names.label(conf.port), card = card, member = member,
      address = (member.own or card.sending).address, mac = info.mac, mtu = info.mtu, driver = info.driver, vlan = conf.vlan,
      macaddr = conf.mac, notes = info.notes, transmits = conf.transmit ~= false, rxq = member.queue, txq = conf.transmit ~= false,
      poolnum = member.poolnum, rxcounter = conf.rxcounter, txcounter = conf.txcounter, links_in = {}, links_out = {},
      linkup_wait = conf.wait_for_link,
   }, Port)
   member.app = self
   make_counters(self, conf)
   if conf.wait_for_link and not conf.mac_loopback then self:wait_linkup(conf.wait_for_link) end
   return self
end

--- Which of its links it sends received packets to: output, tx, or whichever there is.
function Port:link ()
   self.to = self.output.output or self.output.tx or self.output[1]
   self.member.to = self.to
end
Port.unlink = Port.link

--- Receive up to engine.pull_npackets packets.
function Port:pull ()
   local card = self.card
   if self.rxq then card:receive(self.member) end
   if card.due() then self:update_counters() end
end

--- Send what is on the input links, as far as the device takes it; the rest waits in the link.
function Port:push ()
   if not self.transmits then return end
   local input, card, member = self.input, self.card, self.member
   if member.plain then
      local queues = card.sending.queues
      for i = 1, #input do C.perigee_snabb_transmit(queues, input[i], packet.freelist) end
   else
      for i = 1, #input do card:transmit(member, input[i]) end
   end
end

-- ---- counters ----

local function device_values (card, now)
   local dropped, tx_dropped, filtered = 0, 0, card.filtered
   for _, m in ipairs(card.members) do
      dropped, tx_dropped = dropped + m.dropped, tx_dropped + m.tx_dropped
   end
   return {
      rxpackets = now.rx_packets, rxbytes = now.rx_bytes, rxerrors = now.rx_errors, rxdmapackets = now.received,
      rxdrop = now.rx_missed + now.rx_no_buffer + now.rx_long + now.rx_dropped + dropped, rxfiltered = filtered,
      txpackets = now.tx_packets, txbytes = now.tx_bytes, txerrors = now.tx_errors,
      txdrop = now.tx_long + now.tx_no_buffer + tx_dropped, rxcopied = now.copied_in, txcopied = now.copied_out,
      status = now.link_up and 1 or 2, speed = now.speed or 0,
      rxmcast = card.of_device.rxmcast or card.multicasts, rxbcast = card.of_device.rxbcast or card.broadcasts,
      txmcast = card.of_device.txmcast or 0, txbcast = card.of_device.txbcast or 0,
   }
end

local function set_all (frame, values)
   for name, value in pairs(values) do
      local c = frame[name]
      if c then counter.set(c, value) end
   end
end

-- What each app's queues have counted, in the counters of their numbers. What the device has dropped counts for its first app.
local function set_queue_counters (card, values)
   for _, shared in pairs(card.queue_counters) do shared.sum = 0 end
   local first, rx_bytes, tx_bytes = true, 0, 0
   for _, m in ipairs(card.members) do
      local app = m.app
      if app then
         local rx = app:rx_of_links()
         local tx = counters.of_links(app.links_in, app.input or {}, "rx")
         app.rx = {packets = rx.packets + rx.drops, bytes = rx.bytes, dropped = m.dropped + rx.drops}
         app.tx = {packets = tx.packets, bytes = tx.bytes}
         rx_bytes, tx_bytes = rx_bytes + rx.bytes, tx_bytes + tx.bytes
         if m.queue and first then
            app.rx.dropped = app.rx.dropped + values.rxdrop - m.dropped
            first = false
         end
         local now = {rxpackets = app.rx.packets, rxbytes = app.rx.bytes, rxdrops = app.rx.dropped,
                      txpackets = app.tx.packets, txbytes = app.tx.bytes}
         for what, shared in pairs(app.counts_in) do shared.sum = shared.sum + now[what] end
      end
   end
   for _, shared in pairs(card.queue_counters) do counter.set(shared.counter, shared.sum) end
   -- Some drivers count packets, and no bytes.
   if values.rxbytes == 0 then values.rxbytes = rx_bytes end
   if values.txbytes == 0 then values.txbytes = tx_bytes end
end

--- What came in by the app's output link: {packets =, bytes =, drops =}.
function Port:rx_of_links ()
   return counters.of_links(self.links_out, {self.to}, "tx")
end

--- Bring the counters in shared memory up to date, those of all apps that share the device; ten times a second by itself.
--- Returns what device and queues have counted.
function Port:update_counters ()
   local card = self.card
   card:look_again()
   local now = card:counts()
   if card.device_due() or not card.asked_device then
      card.asked_device = true
      card.of_device = counters.multicasts(card:device_counts())
   end
   local values = device_values(card, now)
   set_queue_counters(card, values)
   if card.frame then set_all(card.frame, values) end
   for _, m in ipairs(card.members) do
      local shm = m.app and m.app.shm
      -- Before the app is started it only says which counters it will have.
      if shm and shm.specs then set_all(shm, values) end
   end
   card.values = values
   return now
end
--- The same, as Snabb's drivers call it.
Port.sync_stats = Port.update_counters

local function value (name)
   return function (self)
      self:update_counters()
      return self.card.values[name]
   end
end

--- What the device has counted until now, as numbers.
Port.rxpackets, Port.rxbytes, Port.rxmcast, Port.rxbcast = value("rxpackets"), value("rxbytes"), value("rxmcast"), value("rxbcast")
Port.rxdrop, Port.rxerrors, Port.rxdmapackets = value("rxdrop"), value("rxerrors"), value("rxdmapackets")
Port.txpackets, Port.txbytes, Port.txmcast, Port.txbcast = value("txpackets"), value("txbytes"), value("txmcast"), value("txbcast")
Port.txdrop, Port.txerrors = value("txdrop"), value("txerrors")

--- Is the link up?
function Port:link_status () return self.card:counts().link_up end
--- The link's speed in bit/s; 0 if the device does not know it.
function Port:link_speed () return self.card:counts().speed or 0 end
--- Does the port receive packets to any address?
function Port:promisc () return counter.read(self.card.frame and self.card.frame.promisc or self.shm.promisc) == 1 end

--- Wait for the link, *timeout* seconds at most (those of the configuration, or 120). Is it up?
function Port:wait_linkup (timeout)
   local deadline = C.get_monotonic_time() + (timeout or self.linkup_wait or 120)
   while not self:link_status() do
      if C.get_monotonic_time() >= deadline then return false end
      C.usleep(10000)
   end
   return true
end

-- What an app's queue has counted, or all that share its counter.
local function counted (self, what, own)
   local shared = self.counts_in[what]
   return shared and tonumber(counter.read(shared.counter)) or own
end

--- What the app's receive queue, and those that count in the same counter, have received: {counter_id =, packets =, dropped =,
--- bytes =}.
function Port:get_rxstats ()
   self:update_counters()
   return {counter_id = self.rxcounter, packets = counted(self, "rxpackets", self.rx.packets),
           bytes = counted(self, "rxbytes", self.rx.bytes), dropped = counted(self, "rxdrops", self.rx.dropped)}
end

--- The same for what was sent: {counter_id =, packets =, bytes =}.
function Port:get_txstats ()
   self:update_counters()
   return {counter_id = self.txcounter, packets = counted(self, "txpackets", self.tx.packets),
           bytes = counted(self, "txbytes", self.tx.bytes)}
end

--- Print what the device and the queues counted.
function Port:report ()
   local now = self:update_counters()
   print(("%s (%s, %s): %d received, %d sent, %d missed, %d copied in, %d copied out"):format(
      self.device, self.driver, self.mac, now.received, now.transmitted, now.rx_missed + now.rx_no_buffer,
      now.copied_in, now.copied_out))
end
--- The same, as Snabb's drivers call it.
function Port:debug () self:report() end

--- Give the queues back; the port is closed with the last of them.
function Port:stop ()
   local card = self.card
   if self.shm and self.shm.specs then self:update_counters() end
   card:leave(self.member)
   for _, name in ipairs(self.counter_names) do
      local shared = card.queue_counters[name]
      shared.users = shared.users - 1
      if shared.users == 0 then
         card.queue_counters[name] = nil
         counter.delete(name)
      end
   end
   if #card.members == 0 and card.frame then
      require("core.shm").delete_frame(card.frame)
      card.frame = nil
   end
end

Port.driver = Port
Port.port = Port

function Port.selftest () require("apps.dpdk.port_test").run(Port) end

return Port
