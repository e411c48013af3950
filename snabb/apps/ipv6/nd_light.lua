-- SPDX-License-Identifier: MIT
--
-- apps.ipv6.nd_light: as much of IPv6 neighbor discovery (RFC 4861) as a next hop needs: finds out its MAC address, and
-- answers solicitations of ours.
--
-- What differs from Snabb: solicitations from the unspecified address are answered to all nodes (7.2.4);
-- advertisements' checksums are verified, and the target's link-layer address may be among other options; `retrans`
-- gives the last solicitation its time to be answered.

local class = require("lib.lua.class")
local counter = require("core.counter")
local engine = require("core.app")
local ffi = require("ffi")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local wire = require("apps.ipv4.wire")

local receive, transmit, nreadable = link.receive, link.transmit, link.nreadable
local get16, put16, same = wire.get16, wire.put16, wire.same
local copy = ffi.copy

local M = {}

local solicitation, advertisement = 135, 136
local source_option, target_option = 1, 2
-- Ethernet, IPv6, then an ICMPv6 message of 24 bytes with one option of 8.
local icmp_offset, target_offset, option_offset, frame_size = 54, 62, 78, 86

--- nd_light: a next hop's MAC address for the packets that go south. Packets from `north` get the next hop's MAC
--- address and ours and go `south`; they are freed until the address is known. Packets from `south` go `north`, but
--- neighbor solicitations and advertisements, which end here. Configuration: `local_mac`, `local_ip`, ours; `next_hop`,
--- the next hop's IPv6 address; `remote_mac`, its MAC address, which is then not asked for; `delay`, milliseconds
--- between solicitations (1000); `retrans`, how often one is repeated before the app throws (for ever by default);
--- `quiet`, not to print what happens. Addresses are text, strings of bytes or arrays of bytes. Counters: as in `shm`;
--- `status` is 1 when the address is known, else 2.
M.nd_light = class.subClass(nil)
local nd_light = M.nd_light
nd_light._name = "Partial IPv6 neighbor discovery"
nd_light.config = {
   local_mac = {required = true},
   remote_mac = {},
   local_ip = {required = true},
   next_hop = {required = true},
   delay = {default = 1000},
   retrans = {},
   quiet = {default = false},
}
nd_light.shm = {
   status = {counter, 2},
   rxerrors = {counter},
   txerrors = {counter},
   txdrop = {counter},
   ns_checksum_errors = {counter},
   ns_target_address_errors = {counter},
   na_duplicate_errors = {counter},
   na_target_address_errors = {counter},
   nd_protocol_errors = {counter},
}

-- Fills the frame at `d` (of frame_size zeros) with a message to `dst_ip`, but no checksum.
local function fill(d, dst_mac, src_mac, dst_ip, src_ip, kind, target, option)
   copy(d, dst_mac, 6)
   copy(d + 6, src_mac, 6)
   put16(d, 12, 0x86dd)
   d[14] = 0x60
   put16(d, 18, frame_size - icmp_offset)
   d[20], d[21] = 58, 255
   copy(d + 22, src_ip, 16)
   copy(d + 38, dst_ip, 16)
   d[icmp_offset] = kind
   copy(d + target_offset, target, 16)
   d[option_offset], d[option_offset + 1] = option, 1
   copy(d + option_offset + 2, src_mac, 6)
end

local function set_checksum(d)
   put16(d, icmp_offset + 2, 0)
   put16(d, icmp_offset + 2, wire.icmp6_checksum(d + 14, d + icmp_offset, frame_size - icmp_offset))
end

local function frame_template()
   return ffi.new("uint8_t[?]", frame_size)
end

-- A solicitation of the next hop goes to its solicited-node address, ff02::1:ffXX:XXXX (RFC 4291, 2.7.1).
local function make_solicitation(self)
   local group, mac = wire.ipv6("group", "ff02::1:ff00:0"), wire.mac("group", "33:33:ff:00:00:00")
   copy(group + 13, self.next_hop + 13, 3)
   copy(mac + 3, self.next_hop + 13, 3)
   local d = frame_template()
   fill(d, mac, self.local_mac, group, self.local_ip, solicitation, self.next_hop, source_option)
   set_checksum(d)
   return d
end

local function set_remote_mac(self, mac)
   local header = ffi.new("uint8_t[14]")
   copy(header, mac, 6)
   copy(header + 6, self.local_mac, 6)
   put16(header, 12, 0x86dd)
   self._eth_header = header
end

local function configure(self, conf)
   self.local_mac = wire.mac("nd_light: local_mac", conf.local_mac)
   self.local_ip = wire.ipv6("nd_light: local_ip", conf.local_ip)
   self.next_hop = wire.ipv6("nd_light: next_hop", conf.next_hop)
   local delay = conf.delay or 1000
   if type(delay) ~= "number" or delay <= 0 then error("nd_light: delay: expected a number of milliseconds") end
   self.delay, self.retrans, self.quiet = delay / 1000, conf.retrans, conf.quiet
   self.solicitation, self.nsent, self.due = make_solicitation(self), 0, nil
   self.advertisement = frame_template()
   local zeros = ffi.new("uint8_t[16]")
   fill(self.advertisement, zeros, self.local_mac, zeros, self.local_ip, advertisement, self.local_ip, target_option)
   if conf.remote_mac then set_remote_mac(self, wire.mac("nd_light: remote_mac", conf.remote_mac)) end
   return self
end

--- Creates the app. Throws if an address is invalid.
function nd_light:new(conf)
   return configure(nd_light:superClass().new(self), conf)
end

--- Takes another configuration; a next hop's address that is known stays known.
function nd_light:reconfig(conf)
   local old = self.next_hop
   configure(self, conf)
   if not conf.remote_mac and not same(old, self.next_hop, 16) then
      self._eth_header = nil
      counter.set(self.shm.status, 2)
   end
end

local function say(self, ...)
   if not self.quiet then print("nd_light: " .. string.format(...)) end
end

local function send(self, template)
   transmit(self.output.south, packet.from_pointer(template, frame_size))
end

local function solicit(self)
   if self._eth_header then return end
   local now = engine.now()
   if now < (self.due or now) then return end
   if self.retrans and self.nsent > self.retrans then
      error(("ND for next hop %s has failed"):format(wire.ip_text(self.next_hop, 16)))
   end
   say(self, "Sending neighbor solicitation for next-hop %s", wire.ip_text(self.next_hop, 16))
   send(self, self.solicitation)
   self.nsent, self.due = self.nsent + 1, now + self.delay
end

local function bad(self, what)
   counter.add(self.shm[what])
   counter.add(self.shm.rxerrors)
end

-- Checks the options behind the target (4.6: none has length 0). Returns the offset of the option `wanted`, or false if
-- it is not there, or nil if they are malformed.
local function find_option(d, last, wanted)
   local at, found = option_offset, false
   while at < last do
      local size = at + 1 < last and d[at + 1] * 8 or 0
      if size == 0 or at + size > last then return nil end
      if d[at] == wanted then found = at end
      at = at + size
   end
   return found
end

local all_nodes, all_nodes_mac = wire.ipv6("group", "ff02::1"), wire.mac("group", "33:33:00:00:00:01")
local unspecified = ffi.new("uint8_t[16]")

local function handle_solicitation(self, d, last)
   if wire.icmp6_checksum(d + 14, d + icmp_offset, last - icmp_offset) ~= 0 then
      return bad(self, "ns_checksum_errors")
   end
   if not same(d + target_offset, self.local_ip, 16) then return bad(self, "ns_target_address_errors") end
   if find_option(d, last, source_option) == nil then return bad(self, "nd_protocol_errors") end
   local a = self.advertisement
   if same(d + 22, unspecified, 16) then -- who asks wants our address for itself
      copy(a, all_nodes_mac, 6)
      copy(a + 38, all_nodes, 16)
      a[icmp_offset + 4] = 0x20 -- override
   else
      copy(a, d + 6, 6)
      copy(a + 38, d + 22, 16)
      a[icmp_offset + 4] = 0x40 -- solicited
   end
   set_checksum(a)
   send(self, a)
end

local function handle_advertisement(self, d, last)
   if self._eth_header then return bad(self, "na_duplicate_errors") end
   local solicited = d[icmp_offset + 4] % 128 >= 64
   if not solicited or not same(d + target_offset, self.next_hop, 16) then
      return bad(self, "na_target_address_errors")
   end
   local option = find_option(d, last, target_option)
   if not option or d[option + 1] ~= 1 or d[option + 2] % 2 == 1 or
      wire.icmp6_checksum(d + 14, d + icmp_offset, last - icmp_offset) ~= 0 then
      return bad(self, "nd_protocol_errors")
   end
   set_remote_mac(self, d + option + 2)
   say(self, "Resolved next-hop %s to %s", wire.ip_text(self.next_hop, 16), wire.mac_text(d + option + 2))
   counter.set(self.shm.status, 1)
end

-- Takes a packet from the south if it is neighbor discovery, and returns true then; the packet still belongs to the
-- caller.
local function handle(self, p)
   local d = p.data
   if p.length < icmp_offset + 4 or get16(d, 12) ~= 0x86dd or d[20] ~= 58 then return false end
   local kind = d[icmp_offset]
   if kind ~= solicitation and kind ~= advertisement then return false end
   local size = get16(d, 18)
   local last = icmp_offset + size
   -- 7.1.1, 7.1.2: a router would have lowered the hop limit.
   if d[21] ~= 255 or d[icmp_offset + 1] ~= 0 or size < 24 or last > p.length then
      bad(self, "nd_protocol_errors")
   elseif kind == solicitation then
      handle_solicitation(self, d, last)
   else
      handle_advertisement(self, d, last)
   end
   return true
end

local function push_south(self, from, south)
   local header = self._eth_header
   for _ = 1, nreadable(from) do
      local p = receive(from)
      if not header then
         counter.add(self.shm.txdrop)
         packet.free(p)
      elseif p.length < 14 then
         counter.add(self.shm.txerrors)
         packet.free(p)
      else
         copy(p.data, header, 14)
         transmit(south, p)
      end
   end
end

--- Asks for the next hop's address if that is due; passes packets in both directions.
function nd_light:push()
   local down = links.output(self, "south")
   local south, north = self.input.south, self.input.north
   local up = south and links.output(self, "north")
   solicit(self)
   for _ = 1, south and nreadable(south) or 0 do
      local p = receive(south)
      if handle(self, p) then packet.free(p) else transmit(up, p) end
   end
   if north then push_south(self, north, down) end
end

local function address(n) return ffi.string(wire.ipv6("a", "2001:db8::" .. n), 16) end

local function mac(n) return "\2\0\0\0\0" .. string.char(n) end

-- A message as bytes; `changes` are bytes to put in before the checksum.
local function message(kind, dst_mac, src_mac, dst_ip, src_ip, target, option, flags, changes)
   local d = frame_template()
   fill(d, dst_mac, src_mac, dst_ip, src_ip, kind, target, option)
   d[icmp_offset + 4] = flags
   for at, byte in pairs(changes or {}) do d[at] = byte end
   set_checksum(d)
   return ffi.string(d, frame_size)
end

local function test_messages(harness)
   local me, hop, me_mac, hop_mac = address(1), address("123:4567"), mac(1), mac(2)
   local h = harness.new(nd_light, {local_mac = "02:00:00:00:00:01", local_ip = "2001:db8::1", next_hop = hop,
                                    quiet = true},
                         {"north", "south"}, {"north", "south"})
   local c = h.app.shm
   local group, group_mac = ffi.string(wire.ipv6("g", "ff02::1:ff23:4567"), 16), "\x33\x33\xff\x23\x45\x67"
   local data = ("\0"):rep(12) .. "\x86\xdddata"
   h:send("north", {data})
   h:expect("south", {message(solicitation, group_mac, me_mac, group, me, hop, source_option, 0)})
   assert(counter.read(c.txdrop) == 1 and counter.read(c.status) == 2)
   local function ask(src, target, changes)
      return message(solicitation, me_mac, mac(9), me, src, target, source_option, 0, changes)
   end
   local function advertise(...) return message(advertisement, me_mac, hop_mac, me, hop, ...) end
   h:send("south", {ask(address(9), me), ask(("\0"):rep(16), me)})
   h:expect("south", {message(advertisement, mac(9), me_mac, address(9), me, me, target_option, 0x40),
                      message(advertisement, "\x33\x33\0\0\0\1", me_mac, ffi.string(all_nodes, 16), me, me,
                              target_option, 0x20)})
   h:send("south", {ask(address(9), address(2)), ask(address(9), me):sub(1, -2) .. "!",
                    ask(address(9), me, {[21] = 64}),
                    ask(address(9), me, {[79] = 0}), ask(address(9), me, {[79] = 2}), advertise(hop, target_option, 0),
                    advertise(address(3), target_option, 0x40), advertise(hop, source_option, 0x40),
                    advertise(hop, target_option, 0x40):sub(1, -2) .. "!",
                    advertise(hop, target_option, 0x40):sub(1, 85)})
   h:expect("south", {})
   local counts = {ns_target_address_errors = 1, ns_checksum_errors = 1, nd_protocol_errors = 6,
                   na_target_address_errors = 2, rxerrors = 10}
   for name, n in pairs(counts) do assert(counter.read(c[name]) == n, name) end
   h:send("south", {advertise(hop, target_option, 0x60), advertise(hop, target_option, 0x60), "other", data})
   h:expect("north", {"other", data})
   h:send("north", {data, "short"})
   h:expect("south", {hop_mac .. me_mac .. "\x86\xdddata"})
   assert(counter.read(c.status) == 1 and counter.read(c.na_duplicate_errors) == 1 and counter.read(c.txerrors) == 1)
   h.app:reconfig({local_mac = me_mac, local_ip = me, next_hop = hop, quiet = true})
   assert(h.app._eth_header)
   h.app:reconfig({local_mac = me_mac, local_ip = me, next_hop = address(7), quiet = true})
   assert(not h.app._eth_header and counter.read(c.status) == 2)
   h:stop()
end

local function test_retransmission(harness)
   local h = harness.new(nd_light, {local_mac = mac(1), local_ip = address(1), next_hop = address(2), retrans = 2,
                                    delay = 500, quiet = true}, {"north"}, {"south"})
   local real_now, time = engine.now, engine.now() + 100
   h.app.due = nil
   engine.now = function () return time end
   local before = nreadable(h.app.output.south)
   for k = 1, 3 do
      h.app:push()
      h.app:push()
      assert(nreadable(h.app.output.south) - before == k)
      time = time + 0.5
   end
   local ok, err = pcall(h.app.push, h.app)
   engine.now = real_now
   assert(not ok and tostring(err):match("ND for next hop 2001:db8::2 has failed"), err)
   h.app.retrans = nil
   h:stop()
end

--- Resolves an address, answers, passes packets, refuses what is wrong, and gives up.
function M.selftest()
   local harness = require("apps.test.harness")
   test_messages(harness)
   test_retransmission(harness)
   local h = harness.new(nd_light, {local_mac = mac(1), local_ip = address(1), next_hop = address(2),
                                    remote_mac = mac(2)},
                         {"north"}, {"south"})
   h:send("north", {("\0"):rep(14)})
   h:expect("south", {mac(2) .. mac(1) .. "\x86\xdd"})
   h:stop()
   for _, name in ipairs({"local_mac", "local_ip", "next_hop", "remote_mac"}) do
      local conf = {local_mac = mac(1), local_ip = address(1), next_hop = address(2)}
      conf[name] = "nonsense"
      local ok, err = pcall(nd_light.new, nd_light, conf)
      assert(not ok and tostring(err):match(name .. ": expected"), err)
   end
end

return M
