-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.fragment: cuts IPv4 packets that are too long for a link (RFC 791, 3.2).
--
-- What differs from Snabb: what is a fragment already keeps its identification, its offset and its "more fragments"
-- flag; options that are not to be copied are in the first fragment only; Ethernet padding is not taken for data; no
-- alarms.

local bit = require("bit")
local counter = require("core.counter")
local ffi = require("ffi")
local lib = require("core.lib")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local wire = require("apps.ipv4.wire")

local receive, transmit = link.receive, link.transmit
local get16, put16 = wire.get16, wire.put16
local band, bor = bit.band, bit.bor

local M = {}

local ethernet_size, min_header, max_header = 14, 20, 60
local dont_fragment, more_fragments, offset_mask = 0x4000, 0x2000, 0x1fff

--- Fragmenter: forwards packets from `input` to `output`, and cuts IPv4 packets that are longer than the MTU; frees
--- those that must not be cut, or whose length is wrong. Configuration: `mtu`, the MTU in bytes without the Ethernet
--- header, 68 at least. Counters: `out-ipv4-frag`, fragments; `out-ipv4-frag-not`, packets that were not cut.
M.Fragmenter = {}
local Fragmenter = M.Fragmenter
Fragmenter.shm = {
   ["out-ipv4-frag"] = {counter},
   ["out-ipv4-frag-not"] = {counter},
}

local schema = {mtu = {required = true}}
local first_id = false

--- Makes the identifications of the fragmenters that are created from now on the same in each run, for tests.
function M.use_deterministic_first_fragment_id()
   first_id = 0x4242
end

--- Creates a fragmenter. Throws if the MTU is below 68 bytes.
function Fragmenter:new(conf)
   local o = lib.parse(conf, schema)
   if type(o.mtu) ~= "number" or o.mtu < 68 then
      error(("Fragmenter: mtu: expected at least 68 bytes, got %s"):format(tostring(o.mtu)))
   end
   o.next_fragment_id = first_id or math.random(0, 0xffff)
   -- The header of the next fragment, and that of all but the first.
   o.header, o.later = ffi.new("uint8_t[74]"), ffi.new("uint8_t[74]")
   o.box = ffi.new("struct packet *[1]")
   return setmetatable(o, {__index = Fragmenter})
end

--- Returns the identification for the next packet to be cut.
function Fragmenter:fresh_fragment_id()
   self.next_fragment_id = band(self.next_fragment_id + 1, 0xffff)
   return self.next_fragment_id
end

--- Is called with a packet that is too long and must not be cut; it is freed afterwards. Does nothing.
function Fragmenter:unfragmentable_packet(_) end

-- Copies a header of `size` bytes without the options that only the first fragment has (RFC 791: the copied flag).
-- Returns its new size, or nil if its options make no sense.
local function later_header(from, to, size)
   ffi.copy(to, from, ethernet_size + min_header)
   if size == min_header then return size end
   local at, out, last = ethernet_size + min_header, ethernet_size + min_header, ethernet_size + size
   while at < last do
      local kind = from[at]
      if kind == 0 then break end
      if kind == 1 then
         at = at + 1
      else
         local length = at + 1 < last and from[at + 1] or 0
         if length < 2 or at + length > last then return nil end
         if kind >= 128 then
            ffi.copy(to + out, from + at, length)
            out = out + length
         end
         at = at + length
      end
   end
   while (out - ethernet_size) % 4 ~= 0 do
      to[out] = 0
      out = out + 1
   end
   to[ethernet_size] = 0x40 + (out - ethernet_size) / 4
   return out - ethernet_size
end

-- Sends a fragment of the packet in self.box: `header` bytes of the header self.header, the `length` bytes at `at`.
local function send(self, header, at, length, id, field)
   local p = packet.from_pointer(self.header, ethernet_size + header)
   packet.append(p, self.box[0].data + at, length)
   local d = p.data
   put16(d, 16, header + length)
   put16(d, 18, id)
   put16(d, 20, field)
   wire.ipv4_checksum(d, ethernet_size, header)
   counter.add(self.shm["out-ipv4-frag"])
   transmit(self.output.output, p)
end

-- Sends the packet in self.box in fragments. (A box and numbers, since pointers that live across a loop are objects
-- that have to be made.)
local function cut(self, size, total)
   local field, id = get16(self.box[0].data, 20), get16(self.box[0].data, 18)
   if band(field, dont_fragment) ~= 0 then return self:unfragmentable_packet(self.box[0]) end
   ffi.copy(self.header, self.box[0].data, ethernet_size + max_header)
   local later = later_header(self.header, self.later, size)
   if not later then return end
   if band(field, bor(more_fragments, offset_mask)) == 0 then id = self:fresh_fragment_id() end
   local base, more = band(field, offset_mask), band(field, more_fragments)
   local at, left, header, mtu = 0, total - size, size, self.mtu
   while left > 0 do
      local length, flag = mtu - header, more_fragments
      if length >= left then
         length, flag = left, more
      else
         length = length - length % 8
      end
      send(self, header, ethernet_size + size + at, length, id, bor(flag, base + at / 8))
      if at == 0 then
         header = later
         ffi.copy(self.header, self.later, ethernet_size + max_header)
      end
      at, left = at + length, left - length
   end
end

-- The lengths of the header and of all of an IPv4 packet; nil if it is none, false if its lengths are wrong.
local function parse(p)
   local d, length = p.data, p.length
   if length < ethernet_size or get16(d, 12) ~= 0x0800 then return nil end
   local size, total = d[14] % 16 * 4, get16(d, 16)
   if size < min_header or total < size or total > length - ethernet_size then return false end
   return size, total
end

-- Takes the packet in self.box.
local function step(self, o)
   local box, mtu = self.box, self.mtu
   local size, total = parse(box[0])
   if size == false then
      packet.free(box[0])
   elseif size and total > mtu then
      cut(self, size, total)
      packet.free(box[0])
   else
      -- What is behind the datagram is padding, which must not make the frame too long.
      if size and box[0].length > mtu + ethernet_size then packet.resize(box[0], total + ethernet_size) end
      counter.add(self.shm["out-ipv4-frag-not"])
      transmit(o, box[0])
   end
end

--- Forwards and cuts all waiting packets.
function Fragmenter:push()
   local box = self.box
   local i, o = links.one_in_one_out(self)
   for _ = 1, link.nreadable(i) do
      box[0] = receive(i)
      step(self, o)
   end
end

local macs = "\2\0\0\0\0\1\2\0\0\0\0\2\8\0"

local function datagram(options, field, data, id)
   local total = 20 + #options + #data
   local s = macs .. string.char(0x45 + #options / 4) .. "\0" .. string.char(math.floor(total / 256), total % 256) ..
      string.char(0, id or 7, math.floor(field / 256), field % 256) .. "\64\17\0\0\10\0\0\1\10\0\0\2" .. options .. data
   local p = ffi.new("uint8_t[?]", #s + 1)
   ffi.copy(p, s, #s)
   wire.ipv4_checksum(p, 14, 20 + #options)
   return ffi.string(p, #s)
end

--- Returns the bytes of an Ethernet frame with an IPv4 header, for tests: `options` and `data` are strings, `field` is
--- that of flags and offset, `id` the identification.
M.test_datagram = datagram

local function test_sizes(harness, data)
   for _, mtu in ipairs({68, 100, 576, 1500}) do
      local h = harness.new(Fragmenter, {mtu = mtu}, {"input"}, {"output"})
      for size = 0, 2000, 97 do
         h:send("input", {datagram("", 0, data:sub(1, size))})
         local got, parts, at = h:take("output"), {}, 0
         for k, s in ipairs(got) do
            local p = ffi.cast("const uint8_t *", s)
            assert(#s <= mtu + 14 and get16(p, 16) == #s - 14 and wire.finish(wire.sum(p + 14, 20, 0)) == 0)
            assert(get16(p, 20) == (k < #got and 0x2000 or 0) + at / 8)
            at = at + #s - 34
            parts[k] = s:sub(35)
         end
         assert(table.concat(parts) == data:sub(1, size) and (size + 20 > mtu) == (#got > 1))
      end
      h:stop()
   end
end

--- Cuts packets of many sizes, with options, and fragments; refuses what must not be cut.
function M.selftest()
   local harness = require("apps.test.harness")
   local data = ffi.string(lib.random_bytes(2000), 2000)
   test_sizes(harness, data)
   first_id = 0x4242
   local h = harness.new(Fragmenter, {mtu = 68}, {"input"}, {"output"})
   first_id = false
   local not_cut = {"short", datagram("", 0x4000, data:sub(1, 48)), datagram("", 0, "pad") .. ("\0"):rep(40),
                    ("\0"):rep(500)}
   h:send("input", not_cut)
   h:expect("output", not_cut)
   h:send("input", {datagram("", 0, "pad") .. ("\0"):rep(100)})
   h:expect("output", {datagram("", 0, "pad")})
   local wrong = datagram("", 0, data:sub(1, 100))
   h:send("input", {datagram("", 0x4000, data:sub(1, 49)), wrong:sub(1, 113), wrong:sub(1, 33),
                    macs .. "\x44" .. wrong:sub(16), datagram("\x83\200\0\0", 0, data:sub(1, 100))})
   h:expect("output", {})
   -- No operation, an option of 3 bytes that is not copied, one of 4 that is.
   h:send("input", {datagram("\1\7\3\4\x83\4\4\9", 0, data:sub(1, 80))})
   local expected = {datagram("\1\7\3\4\x83\4\4\9", 0x2000, data:sub(1, 40)),
                     datagram("\x83\4\4\9", 5, data:sub(41, 80))}
   for k, s in ipairs(h:take("output")) do
      local p = ffi.new("uint8_t[100]")
      ffi.copy(p, s, #s)
      put16(p, 18, 7)
      wire.ipv4_checksum(p, 14, p[14] % 16 * 4)
      assert(ffi.string(p, #s) == expected[k] and s:sub(19, 20) == "\x42\x43", k)
   end
   h:send("input", {datagram("", 0x2064, data:sub(1, 96), 99)}) -- a fragment itself
   h:expect("output", {datagram("", 0x2064, data:sub(1, 48), 99), datagram("", 0x206a, data:sub(49, 96), 99)})
   assert(counter.read(h.app.shm["out-ipv4-frag"]) == 4 and counter.read(h.app.shm["out-ipv4-frag-not"]) == 5)
   h:stop()
   for _, bad in ipairs({{mtu = 67}, {mtu = "x"}, {}}) do assert(not pcall(Fragmenter.new, Fragmenter, bad)) end
end

return M
