-- SPDX-License-Identifier: MIT
-- apps.dpdk.port: a DPDK port, any device that DPDK knows: packets from the device go to the app's output link, packets
-- on its input links go to the device. Packets are only copied (see core.packet) if a device does not take buffers of
-- 11 KB, or if a packet's memory is not the pool's.
--
-- The class that replaces Snabb's hardware drivers: see apps.dpdk.hardware.

local ffi = require("ffi")
local C = ffi.C
local counter = require("core.counter")
local engine = require("core.app")
local lib = require("core.lib")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")

local receive, transmit, empty, full = link.receive, link.transmit, link.empty, link.full

--- A pair of queues of a port. *port*: a number (the one of a --port option, counted from 0) or a device: a PCI
--- address, a DPDK device such as "net_pcap0,rx_pcap=FILE", a Linux interface, or "xdp:INTERFACE". *queue*: which pair,
--- from 0 on; *queues*: how many the port is opened with (as many as the apps of the graph use, if omitted). *mac*: the
--- port's MAC address. *vlan*: only packets with this tag are received, and lose it; what is sent gets it. *promisc*:
--- receive packets to any MAC address. *mtu* in bytes. *copy*: receive into the device's own buffers and copy, for a
--- device that would hold too many of Snabb's.
local Port = {
   config = {
      port = {required = true}, queue = {default = 0}, queues = {}, mac = {}, vlan = {}, promisc = {default = false},
      mtu = {}, copy = {default = false},
   },
}
Port.__index = Port

-- A port's number stands for the device of that --port option.
local function device_name (port)
   if type(port) == "number" then
      local name = native.ports[port + 1]
      if not name then
         error(("port %s: there are %d ports; give one with `perigee snabb --port DEVICE PROGRAM`"):format(
            tostring(port), #native.ports), 0)
      end
      return name
   end
   if type(port) ~= "string" or port == "" then
      error("port: expected a number or a device, got "..tostring(port), 0)
   end
   if port:match("^%x%x:%x%x%.%x$") then return "0000:"..port end
   return port
end

--- The device and the queue of an app with this argument.
function Port.port_of (arg)
   return device_name(arg.port), arg.queue
end

local function check_vlan (vlan)
   if vlan ~= nil and (type(vlan) ~= "number" or vlan < 1 or vlan > 4094 or vlan % 1 ~= 0) then
      error("vlan: expected a number from 1 to 4094, got "..tostring(vlan), 0)
   end
   return vlan
end

local printed = {} -- notes that were already printed

--- Open the queues. Errors if there is no such device, or it does not have that many queues.
function Port:new (conf)
   local name = device_name(conf.port)
   local vlan = check_vlan(conf.vlan)
   local opened, why = native.open_port(name, {
      queue = conf.queue, queues = conf.queues or engine.port_queues[name] or 1, mac = conf.mac,
      promiscuous = conf.promisc,
      mtu = conf.mtu, copy = conf.copy,
   })
   if not opened then
      local hint = tostring(why):match("has no %w+ queue") and
         "; a port has the queues of the graph that opened it: give queues = N there" or ""
      error(tostring(why)..hint, 0)
   end
   for _, note in ipairs(opened.notes) do
      if note:match("every packet is copied") and not conf.copy and not printed[note] then
         printed[note] = true
         io.stderr:write("note: ", note, "\n")
      end
   end
   -- Packets go out to the device and come back from it: this thread must not keep too many of them.
   packet.keep_at_most(2048)
   local self = {
      device = name, address = opened.address, mac = opened.mac, mtu = opened.mtu, driver = opened.driver, vlan = vlan,
      notes = opened.notes,
      queues = ffi.cast("struct perigee_snabb_port *", opened.queues),
      due = lib.throttle(1), quiet = 0, vlan_rxdrop = 0, vlan_txdrop = 0,
      shm = {
         rxpackets = {counter}, rxbytes = {counter}, rxdrop = {counter}, rxerrors = {counter}, rxcopied = {counter},
         txpackets = {counter}, txbytes = {counter}, txdrop = {counter}, txerrors = {counter}, txcopied = {counter},
         mtu = {counter, opened.mtu}, status = {counter, 2},
      },
   }
   if vlan then self.tagged_in, self.tagged_out = link.new(name..".vlan.in"), link.new(name..".vlan.out") end
   return setmetatable(self, Port)
end

--- Which of its links it sends received packets to: output, tx, or whichever there is.
function Port:link ()
   self.to = self.output.output or self.output.tx or self.output[1]
end
Port.unlink = Port.link

local tag_t = ffi.typeof("struct { uint8_t mac[12]; uint16_t tpid, tci; } *")

local function is_tagged (p, vlan)
   local header = ffi.cast(tag_t, p.data)
   return p.length >= 18 and header.tpid == 0x0081 and lib.ntohs(header.tci) % 4096 == vlan
end

local function untag (self, from, to)
   while not empty(from) and not full(to) do
      local p = receive(from)
      if is_tagged(p, self.vlan) then
         -- The addresses move up over the tag.
         local at = p.data
         C.memmove(at + 4, at, 12)
         transmit(to, packet.shiftleft(p, 4))
      else
         self.vlan_rxdrop = self.vlan_rxdrop + 1
         packet.free(p)
      end
   end
end

local function tag (self, from, to)
   local tci = lib.htons(self.vlan)
   while not empty(from) and not full(to) do
      local p = receive(from)
      if p.length < 14 or p.length + 4 > packet.max_payload then
         self.vlan_txdrop = self.vlan_txdrop + 1
         packet.free(p)
      else
         p = packet.shiftright(p, 4)
         C.memmove(p.data, p.data + 4, 12)
         local header = ffi.cast(tag_t, p.data)
         header.tpid, header.tci = 0x0081, tci
         transmit(to, p)
      end
   end
end

-- Nothing came for a while: because the device has no free packets to receive into? Then more are made, as a driver
-- of Snabb's would by allocating them.
local function feed (self)
   local made, available = native.packets(self.address)
   if available >= 512 or self.starved then return end
   local more, why = native.grow(math.max(1024, math.min(made, 65536)), self.address)
   if not more then
      self.starved = true
      io.stderr:write("note: ", self.device, " has no packets to receive into: ", tostring(why), "\n")
   end
end

--- Receive up to engine.pull_npackets packets to a link.
function Port:receive (to)
   if C.perigee_snabb_receive(self.queues, to, engine.pull_npackets) > 0 then
      self.quiet = 0
      return
   end
   self.quiet = self.quiet + 1
   if self.quiet % 64 == 1 then feed(self) end
end

--- Receive up to engine.pull_npackets packets.
function Port:pull ()
   local to = self.to
   if to then
      if self.vlan then
         self:receive(self.tagged_in)
         untag(self, self.tagged_in, to)
      else
         self:receive(to)
      end
   end
   if self.due() then self:update_counters() end
end

--- Send what is on the input links, as far as the device takes it; the rest waits in the link.
function Port:push ()
   local input = self.input
   for i = 1, #input do
      local from = input[i]
      if self.vlan then
         tag(self, from, self.tagged_out)
         from = self.tagged_out
      end
      C.perigee_snabb_transmit(self.queues, from, packet.freelist)
   end
end

--- Bring the counters in shared memory up to date; every second by itself.
function Port:update_counters ()
   local now = native.port_counts(self.address)
   local stats = self.shm
   counter.set(stats.rxpackets, now.rx_packets)
   counter.set(stats.rxbytes, now.rx_bytes)
   counter.set(stats.rxerrors, now.rx_errors + now.rx_missed + now.rx_no_buffer)
   counter.set(stats.rxdrop, now.rx_long + now.rx_dropped + self.vlan_rxdrop)
   counter.set(stats.rxcopied, now.copied_in)
   counter.set(stats.txpackets, now.tx_packets)
   counter.set(stats.txbytes, now.tx_bytes)
   counter.set(stats.txerrors, now.tx_errors)
   counter.set(stats.txdrop, now.tx_long + now.tx_no_buffer + self.vlan_txdrop)
   counter.set(stats.txcopied, now.copied_out)
   counter.set(stats.status, now.link_up and 1 or 2)
   return now
end

--- Packets that came and could not be received, as programs ask Snabb's drivers for them.
function Port:rxdrop ()
   local now = native.port_counts(self.address)
   return tonumber(now.rx_missed + now.rx_no_buffer + now.rx_long + now.rx_dropped)
end

--- Packets that could not be sent.
function Port:txdrop ()
   local now = native.port_counts(self.address)
   return tonumber(now.tx_long + now.tx_no_buffer + now.tx_errors)
end

--- Print what the device and the queues counted.
function Port:report ()
   local now = self:update_counters()
   print(("%s (%s, %s): %d received, %d sent, %d missed, %d copied in, %d copied out"):format(
      self.device, self.driver, self.mac, now.received, now.transmitted, now.rx_missed + now.rx_no_buffer,
      now.copied_in, now.copied_out))
end

--- Give the queues back; the port is closed with the last of them.
function Port:stop ()
   if self.shm and self.shm.rxpackets and ffi.istype(counter.t, self.shm.rxpackets) then self:update_counters() end
   if self.vlan then
      link.free(self.tagged_in)
      link.free(self.tagged_out)
   end
   native.close_port(self.address)
end

Port.driver = Port
Port.port = Port

--- The device that stands for a port's number or address.
Port.device_name = device_name

function Port.selftest () require("apps.dpdk.port_test").run(Port) end

return Port
