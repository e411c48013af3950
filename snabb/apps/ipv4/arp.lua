-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.arp: finds out the MAC address of the next hop, and answers requests for ours (RFC 826).
--
-- What differs from Snabb: addresses may be text as well as bytes; a sender's address must not be a group address;
-- packets shorter than an Ethernet header are freed on both sides; no alarms.

local bit = require("bit")
local counter = require("core.counter")
local engine = require("core.app")
local ffi = require("ffi")
local lib = require("core.lib")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local shm = require("core.shm")
local wire = require("apps.ipv4.wire")

local receive, transmit, nreadable = link.receive, link.transmit, link.nreadable
local get16, put16, same = wire.get16, wire.put16, wire.same
local copy = ffi.copy

local M = {}

local arp_ethertype, ipv4_ethertype = 0x0806, 0x0800
local request, reply = 1, 2
local interval = 3 -- seconds between requests
local frame_size = 42

--- ARP: a next hop's MAC address for the packets that go south. Packets from `north` get the next hop's MAC address and
--- our own and go `south`; they wait until the address is known. Packets from `south` go `north`, but ARP, which ends
--- here. Configuration: `self_ip`, our IPv4 address; `self_mac`, our MAC address (a random one by default); `next_mac`,
--- the next hop's; or `next_ip`, its IPv4 address, to be resolved; `shared_next_mac_key`, the path of a shared memory
--- object through which several processes tell each other the address. Addresses are arrays of bytes or text. Counters:
--- as in `shm`.
M.ARP = {}
local ARP = M.ARP
ARP.shm = {
   ["next-hop-macaddr-v4"] = {counter},
   ["in-arp-request-bytes"] = {counter},
   ["in-arp-request-packets"] = {counter},
   ["out-arp-request-bytes"] = {counter},
   ["out-arp-request-packets"] = {counter},
   ["in-arp-reply-bytes"] = {counter},
   ["in-arp-reply-packets"] = {counter},
   ["out-arp-reply-bytes"] = {counter},
   ["out-arp-reply-packets"] = {counter},
}

local schema = {
   self_mac = {default = false},
   self_ip = {required = true},
   next_mac = {default = false},
   next_ip = {default = false},
   alarm_notification = {default = false},
   shared_next_mac_key = {},
}

local mac_t = ffi.typeof("uint8_t[6]")
local broadcast, unknown = mac_t(255, 255, 255, 255, 255, 255), mac_t()

local function random_mac()
   local mac = mac_t()
   copy(mac, lib.random_bytes(6), 6)
   mac[0] = bit.bor(bit.band(mac[0], 0xfc), 2) -- locally administered, not a group
   return mac
end

-- A new ARP packet of `oper`ation; the other arguments are the addresses of Ethernet and of ARP's sender and target.
local function make(oper, dst, src, sha, spa, tha, tpa)
   local p = packet.resize(packet.allocate(), frame_size)
   local d = p.data
   copy(d, dst, 6)
   copy(d + 6, src, 6)
   put16(d, 12, arp_ethertype)
   put16(d, 14, 1) -- Ethernet
   put16(d, 16, ipv4_ethertype)
   d[18], d[19] = 6, 4
   put16(d, 20, oper)
   copy(d + 22, sha, 6)
   copy(d + 28, spa, 4)
   copy(d + 32, tha, 6)
   copy(d + 38, tpa, 4)
   return p
end

--- Creates the app. Throws if there is no way to know the next hop, or an address is invalid.
function ARP:new(conf)
   local o = lib.parse(conf, schema)
   o.self_mac = o.self_mac and wire.mac("self_mac", o.self_mac) or random_mac()
   o.self_ip = wire.ipv4("self_ip", o.self_ip)
   o.next_ip = o.next_ip and wire.ipv4("next_ip", o.next_ip)
   if o.next_mac then
      o.next_mac = wire.mac("next_mac", o.next_mac)
   elseif not o.next_ip then
      error("ARP: expected next_mac, or next_ip to resolve")
   end
   return setmetatable(o, {__index = ARP})
end

local function count(self, bytes, packets, p)
   counter.add(self.shm[bytes], p.length)
   counter.add(self.shm[packets])
end

--- Prints that an address is being resolved.
function ARP:arp_resolving()
   print(("ARP: Resolving '%s'"):format(wire.ip_text(self.next_ip, 4)))
end

--- Sends a request for the next hop's address to the link `output`.
function ARP:send_arp_request(output)
   local p = make(request, broadcast, self.self_mac, self.self_mac, self.self_ip, unknown, self.next_ip)
   count(self, "out-arp-request-bytes", "out-arp-request-packets", p)
   transmit(output, p)
end

--- Sends a request if the address is not known and the last request was some seconds ago.
function ARP:maybe_send_arp_request(output)
   if self.next_mac then return end
   local now = engine.now()
   if now < (self.next_request or now) then return end
   self:arp_resolving()
   self:send_arp_request(output)
   self.next_request = now + interval
end

-- The address is known: from a reply, or (`shared`) from another process.
local function resolved(self, mac, shared)
   print(("ARP: '%s' resolved (%s)"):format(wire.ip_text(self.next_ip, 4), wire.mac_text(mac)))
   self.next_mac = mac
   local number = ffi.new("union { uint64_t number; uint8_t bytes[8]; }")
   copy(number.bytes, mac, 6)
   counter.set(self.shm["next-hop-macaddr-v4"], number.number)
   if not self.shared_next_mac_key or shared then return end
   local ok, object = pcall(shm.create, self.shared_next_mac_key, mac_t)
   if not ok then ok, object = pcall(shm.open, self.shared_next_mac_key, mac_t) end
   if not ok then
      print("ARP: cannot share the next hop's address: " .. tostring(object))
      return
   end
   copy(object, mac, 6)
   shm.unmap(object)
end

local function next_mac_from_others(self)
   local ok, object = pcall(shm.open, self.shared_next_mac_key, mac_t)
   -- All zeros: made by another process that has not written it yet. The object stays mapped, and follows changes.
   if not ok then return end
   if same(object, unknown, 6) then
      shm.unmap(object)
   else
      resolved(self, ffi.cast("uint8_t *", object), true)
   end
end

local function handle_arp(self, p, south)
   local d = p.data
   if p.length < frame_size then return end
   if get16(d, 14) ~= 1 or get16(d, 16) ~= ipv4_ethertype or d[18] ~= 6 or d[19] ~= 4 then return end
   local oper, sha, spa, tpa = get16(d, 20), d + 22, d + 28, d + 38
   if oper == request then
      count(self, "in-arp-request-bytes", "in-arp-request-packets", p)
      if sha[0] % 2 == 0 and same(tpa, self.self_ip, 4) then
         local answer = make(reply, sha, self.self_mac, self.self_mac, self.self_ip, sha, spa)
         count(self, "out-arp-reply-bytes", "out-arp-reply-packets", answer)
         transmit(south, answer)
      end
   elseif oper == reply then
      count(self, "in-arp-reply-bytes", "in-arp-reply-packets", p)
      if sha[0] % 2 == 0 and self.next_ip and same(spa, self.next_ip, 4) then
         local mac = mac_t()
         copy(mac, sha, 6)
         resolved(self, mac, false)
      end
   end
end

local function push_north(self, from, south, north)
   for _ = 1, nreadable(from) do
      local p = receive(from)
      if p.length >= 14 and get16(p.data, 12) ~= arp_ethertype then
         transmit(north, p)
      else
         if p.length >= 14 then handle_arp(self, p, south) end
         packet.free(p)
      end
   end
end

local function push_south(self, from, south)
   local next_mac, self_mac = self.next_mac, self.self_mac
   for _ = 1, nreadable(from) do
      local p = receive(from)
      if p.length >= 14 then
         copy(p.data, next_mac, 6)
         copy(p.data + 6, self_mac, 6)
         transmit(south, p)
      else
         packet.free(p)
      end
   end
end

--- Asks for the address if that is due; passes packets in both directions.
function ARP:push()
   local input = self.input
   local to_south = links.output(self, "south")
   self:maybe_send_arp_request(to_south)
   if input.south then push_north(self, input.south, to_south, links.output(self, "north")) end
   if self.next_mac then
      if input.north then push_south(self, input.north, to_south) end
   elseif self.shared_next_mac_key then
      next_mac_from_others(self)
   end
end

local ours, peer, host = "\2\0\0\0\0\1", "\2\0\0\0\0\2", "\2\0\0\0\0\3"

local function arp(dst, src, oper, sha, spa, tha, tpa)
   return dst .. src .. "\8\6\0\1\8\0\6\4\0" .. string.char(oper) .. sha .. spa .. tha .. tpa
end

local function test_resolution(harness)
   local all, none = ("\xff"):rep(6), ("\0"):rep(6)
   local h = harness.new(ARP, {self_mac = ours, self_ip = "10.0.0.1", next_ip = ffi.new("uint8_t[4]", 10, 0, 0, 2)},
                         {"north", "south"}, {"north", "south"})
   local data = none .. none .. "\8\0data"
   h:send("north", {data})
   h:expect("south", {arp(all, ours, 1, ours, "\10\0\0\1", none, "\10\0\0\2")})
   h:send("south", {arp(ours, peer, 2, peer, "\10\0\0\9", ours, "\10\0\0\1"), -- another's
                    arp(ours, peer, 2, all, "\10\0\0\2", ours, "\10\0\0\1"), -- a group address
                    arp(ours, peer, 2, peer, "\10\0\0\2", ours, "\10\0\0\1"):sub(1, 41)})
   h:expect("south", {})
   h:send("south", {arp(all, host, 1, host, "\10\0\0\7", none, "\10\0\0\1"), -- for us
                    arp(all, host, 1, host, "\10\0\0\7", none, "\10\0\0\2"), -- for another
                    arp(ours, peer, 2, peer, "\10\0\0\2", ours, "\10\0\0\1"), "not for us, but IP", "runt"})
   h:expect("south", {arp(host, ours, 2, ours, "\10\0\0\1", host, "\10\0\0\7"), peer .. ours .. "\8\0data"})
   h:expect("north", {"not for us, but IP"})
   h:send("north", {data, "short"})
   h:expect("south", {peer .. ours .. "\8\0data"})
   local c = h.app.shm
   local function is(name, packets)
      assert(counter.read(c[name .. "-packets"]) == packets and counter.read(c[name .. "-bytes"]) == packets * 42, name)
   end
   is("out-arp-request", 1)
   is("in-arp-reply", 3)
   is("in-arp-request", 2)
   is("out-arp-reply", 1)
   assert(counter.read(c["next-hop-macaddr-v4"]) == 0x020000000002ULL)
   h:stop()
end

-- Two apps: one gets the reply and tells the other.
local function test_sharing(harness)
   local key, none = "group/selftest-next-mac", ("\0"):rep(6)
   shm.unlink(key)
   local conf = {self_mac = ours, self_ip = "10.0.0.1", next_ip = "10.0.0.2", shared_next_mac_key = key}
   local h = harness.new(ARP, conf, {"north", "south"}, {"north", "south"})
   local config = require("core.config")
   config.app(h.config, "other", ARP, conf)
   config.app(h.config, "in_other", harness.Feed)
   config.app(h.config, "out_other", harness.Collect)
   config.link(h.config, "in_other.output -> other.north")
   config.link(h.config, "other.south -> out_other.input")
   engine.configure(h.config)
   h:send("other", {none .. none .. "\8\0waits"})
   h:take("other")
   h:send("south", {arp(ours, peer, 2, peer, "\10\0\0\2", ours, "\10\0\0\1")})
   engine.breathe()
   engine.breathe()
   h:expect("other", {peer .. ours .. "\8\0waits"})
   h:stop()
   shm.unlink(key)
end

--- Resolves an address, answers, and passes packets.
function M.selftest()
   local harness = require("apps.test.harness")
   local real_print = print
   rawset(_G, "print", function () end)
   local ok, err = xpcall(function ()
      test_resolution(harness)
      test_sharing(harness)
   end, debug.traceback)
   rawset(_G, "print", real_print)
   if not ok then error(err, 0) end
   local h = harness.new(ARP, {self_ip = "10.0.0.1", next_mac = peer}, {"north"}, {"south"})
   h:send("north", {("\0"):rep(14)})
   local sent = h:take("south")
   assert(#sent == 1 and sent[1]:sub(1, 6) == peer and sent[1]:byte(7) % 4 == 2)
   h:stop()
   for _, bad in ipairs({{self_ip = "10.0.0.1"}, {self_ip = "10.0.0", next_mac = peer}, {next_mac = peer},
                         {self_ip = "10.0.0.1", next_mac = "x"}}) do
      assert(not pcall(ARP.new, ARP, bad))
   end
end

return M
