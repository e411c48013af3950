-- SPDX-License-Identifier: MIT
--
-- apps.ipv6.fragment: cuts IPv6 packets that are too long for a path (RFC 8200, 4.5), and learns path MTUs (RFC 8201).
--
-- What differs from Snabb: headers that every fragment must repeat are repeated; what is a fragment already stays one,
-- with its identification and offset; an MTU below 1280 bytes or above our own, as a "packet too big" may say, is not
-- believed; the number of path MTUs is bounded; Ethernet padding is not taken for data; no alarms.

local counter = require("core.counter")
local ctable = require("lib.ctable")
local engine = require("core.app")
local ffi = require("ffi")
local headers = require("apps.ipv6.headers")
local lib = require("core.lib")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local wire = require("apps.ipv4.wire")

local receive, transmit = link.receive, link.transmit
local get16, put16, get32, put32 = wire.get16, wire.put16, wire.get32, wire.put32

local M = {}

--- Fragmenter: forwards packets from `input` to `output`, and cuts IPv6 packets that are longer than the MTU; frees
--- those whose length is wrong. Configuration: `mtu`, the MTU in bytes without the Ethernet header, 1280 at least;
--- `pmtud`, whether to learn the MTUs of paths from ICMPv6 "packet too big" messages, which then are looked for on the
--- way from `south` to `north`; `pmtu_timeout`, how long one is believed (600 seconds); `pmtu_local_addresses`, the
--- addresses (text) that such messages must be for (any without one). Counters: as in `shm`.
M.Fragmenter = {}
local Fragmenter = M.Fragmenter
Fragmenter.shm = {
   ["out-ipv6-frag"] = {counter},
   ["out-ipv6-frag-not"] = {counter},
   ["ipv6-pmtud-ptb-received"] = {counter},
   ["ipv6-pmtud-ptb-valid"] = {counter},
   ["ipv6-pmtud-ptb-invalid-csum"] = {counter},
   ["ipv6-pmtud-ptb-invalid"] = {counter},
}

local schema = {
   mtu = {required = true},
   pmtud = {default = false},
   pmtu_timeout = {default = 600},
   pmtu_local_addresses = {default = {}},
}
local min_mtu, max_paths = 1280, 65536
local address_t = ffi.typeof("struct { uint8_t bytes[16]; }")
local path_t = ffi.typeof("struct { double learned; uint16_t mtu; }")
local first_id = false

--- Makes the identifications of the fragmenters that are created from now on the same in each run, for tests.
function M.use_deterministic_first_fragment_id()
   first_id = 0x42424242
end

local function new_paths()
   return ctable.new({key_type = address_t, value_type = path_t, initial_size = 128})
end

--- Creates a fragmenter. Throws if the MTU is below 1280 bytes, or an address is invalid.
function Fragmenter:new(conf)
   local o = lib.parse(conf, schema)
   if type(o.mtu) ~= "number" or o.mtu < min_mtu then
      error(("Fragmenter: mtu: expected at least 1280 bytes, got %s"):format(tostring(o.mtu)))
   end
   o.next_fragment_id = first_id or math.random(0, 0xffff) * 0x10000 + math.random(0, 0xffff)
   o.box = ffi.new("struct packet *[1]")
   if o.pmtud then
      o.paths, o.npaths, o.address, o.path = new_paths(), 0, address_t(), path_t()
      o.next_expiry = 0
      o.locals = {}
      for k, address in ipairs(o.pmtu_local_addresses) do o.locals[k] = wire.ipv6("pmtu_local_addresses", address) end
   end
   return setmetatable(o, {__index = Fragmenter})
end

--- Returns the identification for the next packet to be cut.
function Fragmenter:fresh_fragment_id()
   self.next_fragment_id = (self.next_fragment_id + 1) % 2^32
   return self.next_fragment_id
end

--- Is called with a packet that is too long and cannot be cut; it is freed afterwards. Does nothing.
function Fragmenter:unfragmentable_packet(_) end

-- Sends a fragment of the packet in self.box: its first `at` bytes, a fragment header, the `length` bytes at `data`.
local function send(self, at, field, protocol, id, offset, data, length)
   local p = packet.from_pointer(self.box[0].data, at)
   p.length = at + 8
   local out = p.data
   out[field] = headers.fragment
   out[at], out[at + 1] = protocol, 0
   put16(out, at + 2, offset)
   put32(out, at + 4, id)
   packet.append(p, self.box[0].data + data, length)
   put16(out, 18, at + 8 + length - 54)
   counter.add(self.shm["out-ipv6-frag"])
   transmit(self.output.output, p)
end

-- Sends the packet in self.box in fragments. (A box and numbers, since pointers that live across a loop are objects
-- that have to be made.)
local function cut(self, mtu)
   local at, field, protocol = headers.per_fragment(self.box[0].data)
   local room = at and mtu + 14 - at - 8 or 0
   if room < 8 then return self:unfragmentable_packet(self.box[0]) end
   local payload, left = at, 54 + get16(self.box[0].data, 18) - at
   local id, base, more
   if protocol == headers.fragment then
      if left < 8 then return self:unfragmentable_packet(self.box[0]) end
      local d = self.box[0].data
      id, base, protocol = get32(d, at + 4), get16(d, at + 2), d[at]
      more, payload, left = base % 2, at + 8, left - 8
      base = base - base % 8
   else
      id, base, more = self:fresh_fragment_id(), 0, 0
   end
   while left > 0 do
      local length, flag = room - room % 8, 1
      if room >= left then length, flag = left, more end
      send(self, at, field, protocol, id, base + flag, payload, length)
      payload, left, base = payload + length, left - length, base + length
   end
end

-- The length of an IPv6 packet from its header on, and the MTU of its path; nil if it is none, false if its length is
-- wrong.
local function parse(self, p)
   local d, length = p.data, p.length
   if length < 14 or get16(d, 12) ~= 0x86dd then return nil end
   if not headers.valid(d, length) then return false end
   local total = 40 + get16(d, 18)
   if not self.pmtud then return total, self.mtu end
   ffi.copy(self.address.bytes, d + 38, 16)
   local entry = self.paths:lookup_ptr(self.address)
   return total, entry and entry.value.mtu or self.mtu
end

-- Takes the packet in self.box.
local function step(self, o)
   local box = self.box
   local total, mtu = parse(self, box[0])
   if total == false then
      packet.free(box[0])
   elseif total and total > mtu then
      cut(self, mtu)
      packet.free(box[0])
   else
      -- What is behind the packet is padding, which must not make the frame too long.
      if total and box[0].length > mtu + 14 then packet.resize(box[0], total + 14) end
      counter.add(self.shm["out-ipv6-frag-not"])
      transmit(o, box[0])
   end
end

local function push_output(self, i, o)
   local box = self.box
   for _ = 1, link.nreadable(i) do
      box[0] = receive(i)
      step(self, o)
   end
end

local function is_local(self, address)
   local locals = self.locals
   for k = 1, #locals do
      if wire.same(locals[k], address, 16) then return true end
   end
   return #locals == 0
end

local function learn(self, address, mtu)
   if self.npaths >= max_paths then self.paths, self.npaths = new_paths(), 0 end
   ffi.copy(self.address.bytes, address, 16)
   if not self.paths:lookup_ptr(self.address) then self.npaths = self.npaths + 1 end
   self.path.mtu, self.path.learned = mtu, engine.now()
   self.paths:add(self.address, self.path, "update_allowed")
end

--- Looks at a packet from the south. Returns true if it was a "packet too big" for us, and is to be freed.
function Fragmenter:process_ptb(p)
   local d, c = p.data, self.shm
   if p.length < 62 or get16(d, 12) ~= 0x86dd or not headers.valid(d, p.length) then return false end
   if d[20] ~= headers.icmp6 or d[54] ~= 2 or get16(d, 18) < 8 then return false end
   counter.add(c["ipv6-pmtud-ptb-received"])
   if not is_local(self, d + 38) then return false end
   local size = get16(d, 18)
   if wire.icmp6_checksum(d + 14, d + 54, size) ~= 0 then
      counter.add(c["ipv6-pmtud-ptb-invalid-csum"])
      return true
   end
   -- The original packet is behind 8 bytes of ICMPv6: its source is at 70, its destination at 86.
   local mtu = get32(d, 58)
   if size < 48 or mtu < min_mtu or mtu > self.mtu or not is_local(self, d + 70) then
      counter.add(c["ipv6-pmtud-ptb-invalid"])
      return true
   end
   counter.add(c["ipv6-pmtud-ptb-valid"])
   learn(self, d + 86, mtu)
   return true
end

--- Forgets path MTUs that were learned too long ago.
function Fragmenter:expire_pmtu()
   local oldest = engine.now() - self.pmtu_timeout
   local keep, n = new_paths(), 0
   for entry in self.paths:iterate() do
      if entry.value.learned >= oldest then
         keep:add(entry.key, entry.value)
         n = n + 1
      end
   end
   if n < self.npaths then self.paths, self.npaths = keep, n end
end

--- Forwards and cuts all waiting packets; learns path MTUs.
function Fragmenter:push()
   push_output(self, links.one_in_one_out(self))
   if not self.pmtud then return end
   local south = self.input.south
   local north = south and links.output(self, "north")
   for _ = 1, south and link.nreadable(south) or 0 do
      local p = receive(south)
      if self:process_ptb(p) then packet.free(p) else transmit(north, p) end
   end
   local now = engine.now()
   if now >= self.next_expiry then
      self.next_expiry = now + self.pmtu_timeout / 10
      if self.npaths > 0 then self:expire_pmtu() end
   end
end

local packet6 = headers.test_packet

local function fragment(id, field, protocol, data)
   return string.char(protocol) .. "\0" .. string.char(math.floor(field / 256), field % 256) .. id .. data
end

local function test_cut(harness, data)
   first_id = 0x42424242
   local h = harness.new(Fragmenter, {mtu = 1280}, {"input"}, {"output"})
   first_id = false
   local not_cut = {"short", packet6(17, data:sub(1, 1240)), packet6(17, "pad") .. "\0\0", ("\0"):rep(2000)}
   h:send("input", not_cut)
   h:expect("output", not_cut)
   h:send("input", {packet6(17, "pad") .. ("\0"):rep(2000)})
   h:expect("output", {packet6(17, "pad")})
   h:send("input", {packet6(17, data:sub(1, 1241)), packet6(17, data):sub(1, 1500), packet6(17, ""):sub(1, 53),
                    packet6(0, "\17\255" .. data)})
   local id = "\x42\x42\x42\x43"
   h:expect("output", {packet6(44, fragment(id, 1, 17, data:sub(1, 1232))),
                       packet6(44, fragment(id, 1232, 17, data:sub(1233, 1241)))})
   local options = "\17\0\1\4\0\0\0\0"
   h:send("input", {packet6(0, options .. data:sub(1, 1300))})
   id = "\x42\x42\x42\x44"
   options = "\44\0\1\4\0\0\0\0"
   h:expect("output", {packet6(0, options .. fragment(id, 1, 17, data:sub(1, 1224))),
                       packet6(0, options .. fragment(id, 1224, 17, data:sub(1225, 1300)))})
   h:send("input", {packet6(44, fragment("same", 0x1001, 17, data:sub(1, 1240)))})
   h:expect("output", {packet6(44, fragment("same", 0x1001, 17, data:sub(1, 1232))),
                       packet6(44, fragment("same", 0x1001 + 1232, 17, data:sub(1233, 1240)))})
   assert(counter.read(h.app.shm["out-ipv6-frag"]) == 6 and counter.read(h.app.shm["out-ipv6-frag-not"]) == 5)
   h:stop()
end

-- A "packet too big" about a packet to the address 9.
local function too_big(mtu, original, spoil)
   local icmp = "\2\0\0\0" .. string.char(0, 0, math.floor(mtu / 256), mtu % 256) .. original:sub(15)
   local s = packet6(58, icmp, 1)
   local p = ffi.new("uint8_t[?]", #s)
   ffi.copy(p, s, #s)
   put16(p, 56, wire.icmp6_checksum(p + 14, p + 54, #icmp) + (spoil or 0))
   return ffi.string(p, #s)
end

-- `s` with another byte at the offset `at`.
local function poke(s, at, byte)
   return s:sub(1, at) .. string.char(byte) .. s:sub(at + 2)
end

local function test_pmtud(harness, data)
   local h = harness.new(Fragmenter, {mtu = 1500, pmtud = true, pmtu_local_addresses = {"2001:db8::1"}},
                         {"input", "south"}, {"output", "north"})
   local function pieces()
      h:send("input", {packet6(17, data:sub(1, 1460), 9), packet6(17, data:sub(1, 1460), 8)})
      return #h:take("output")
   end
   local original = packet6(17, data:sub(1, 100), 9)
   assert(pieces() == 2)
   h:send("south", {too_big(1400, original, 1), too_big(1279, original), too_big(1501, original),
                    too_big(1400, poke(original, 37, 7)),
                    too_big(1400, original:sub(1, 40))})
   h:expect("north", {})
   assert(pieces() == 2)
   h:send("south", {too_big(1400, original)})
   h:expect("north", {})
   assert(pieces() == 3 and h.app.npaths == 1)
   local through = {packet6(58, "\1\0\0\0\0\0\0\0"), packet6(17, "x"), "short", poke(too_big(1300, original), 53, 5)}
   h:send("south", through)
   h:expect("north", through)
   local c = h.app.shm
   assert(counter.read(c["ipv6-pmtud-ptb-invalid-csum"]) == 1 and counter.read(c["ipv6-pmtud-ptb-valid"]) == 1)
   assert(counter.read(c["ipv6-pmtud-ptb-invalid"]) == 4 and counter.read(c["ipv6-pmtud-ptb-received"]) == 7)
   local real_now, later = engine.now, engine.now() + 601
   engine.now = function () return later end
   h.app:expire_pmtu()
   engine.now = real_now
   assert(h.app.npaths == 0 and pieces() == 2)
   h:stop()
end

--- Cuts packets and fragments; learns, disbelieves and forgets path MTUs.
function M.selftest()
   local harness = require("apps.test.harness")
   local data = ffi.string(lib.random_bytes(2000), 2000)
   test_cut(harness, data)
   test_pmtud(harness, data)
   for _, bad in ipairs({{mtu = 1279}, {}, {mtu = 1280, pmtud = true, pmtu_local_addresses = {"x"}}}) do
      assert(not pcall(Fragmenter.new, Fragmenter, bad))
   end
end

return M
