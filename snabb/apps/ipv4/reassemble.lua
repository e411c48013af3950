-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.reassemble: puts IPv4 fragments together (RFC 791, 3.2; RFC 815's task by the ranges of apps.ipv4.fragments).
--
-- What differs from Snabb: datagrams that stay incomplete are given up after a time; an exact copy of a fragment does no harm;
-- the protocol is part of what tells datagrams apart, as RFC 791 has it; the header is the first fragment's; no alarms.

local bit = require("bit")
local counter = require("core.counter")
local engine = require("core.app")
local ffi = require("ffi")
local fragments = require("apps.ipv4.fragments")
local lib = require("core.lib")
local link = require("core.link")
local packet = require("core.packet")
local wire = require("apps.ipv4.wire")

local receive, transmit = link.receive, link.transmit
local get16, put16 = wire.get16, wire.put16
local band = bit.band

local M = {}

local ethernet_size, min_header = 14, 20

--- Reassembler: forwards packets from `input` to `output`, but IPv4 fragments only when all are there, as one packet.
--- Configuration: `max_concurrent_reassemblies` (20000), `max_fragments_per_reassembly` (40), `reassembly_timeout` (60
--- seconds). Each datagram in the making needs about 11 kB. Counters: as in `shm`.
M.Reassembler = {}
local Reassembler = M.Reassembler
Reassembler.shm = {
   ["in-ipv4-frag-needs-reassembly"] = {counter},
   ["in-ipv4-frag-reassembled"] = {counter},
   ["in-ipv4-frag-reassembly-unneeded"] = {counter},
   ["drop-ipv4-frag-invalid-reassembly"] = {counter},
   ["drop-ipv4-frag-random-evicted"] = {counter},
   ["memuse-ipv4-frag-reassembly-buffer"] = {counter},
}

local schema = {
   max_concurrent_reassemblies = {default = 20000},
   max_fragments_per_reassembly = {default = 40},
   reassembly_timeout = {default = 60},
}

--- Creates a reassembler. Throws if a number is out of range.
function Reassembler:new(conf)
   local o = lib.parse(conf or {}, schema)
   o.table = fragments.new({
      key_size = 12,
      max = o.max_concurrent_reassemblies,
      max_fragments = o.max_fragments_per_reassembly,
      timeout = o.reassembly_timeout,
   })
   o.key = ffi.new("uint8_t[12]")
   return setmetatable(o, {__index = Reassembler})
end

-- `header`, `total`: the lengths that the packet's IPv4 header says.
local function handle(self, p, header, total, now)
   local d, key = p.data, self.key
   ffi.copy(key, d + 26, 8)
   key[8], key[9], key[10] = d[18], d[19], d[23]
   local field = get16(d, 20)
   local what, a, b = self.table:add(key, band(field, 0x1fff) * 8, total - header, d + ethernet_size + header,
                                     band(field, 0x2000) ~= 0, d, ethernet_size + header, now)
   local evicted = a
   if what == "complete" then
      evicted = b
      local out = self.table:take(a)
      put16(out.data, 16, out.length - ethernet_size)
      put16(out.data, 18, 0)
      put16(out.data, 20, 0)
      wire.ipv4_checksum(out.data + ethernet_size, out.data[14] % 16 * 4)
      counter.add(self.shm["in-ipv4-frag-reassembled"])
      transmit(self.output.output, out)
   elseif what == "invalid" then
      counter.add(self.shm["drop-ipv4-frag-invalid-reassembly"])
   end
   if evicted then counter.add(self.shm["drop-ipv4-frag-random-evicted"]) end
end

--- Forwards and puts together all that waits.
function Reassembler:push()
   local i, o = self.input.input, self.output.output
   local now = engine.now()
   for _ = 1, link.nreadable(i) do
      local p = receive(i)
      local d, length = p.data, p.length
      if length < ethernet_size or get16(d, 12) ~= 0x0800 then
         counter.add(self.shm["in-ipv4-frag-reassembly-unneeded"])
         transmit(o, p)
      else
         local header, total = d[14] % 16 * 4, get16(d, 16)
         if length < ethernet_size + min_header or header < min_header or total < header or total > length - ethernet_size then
            packet.free(p)
         elseif band(get16(d, 20), 0x3fff) == 0 then
            counter.add(self.shm["in-ipv4-frag-reassembly-unneeded"])
            transmit(o, p)
         else
            counter.add(self.shm["in-ipv4-frag-needs-reassembly"])
            handle(self, p, header, total, now)
            packet.free(p)
         end
      end
   end
end

--- Gives up what is too old, and writes the memory in use to its counter.
function Reassembler:tick()
   local expired = self.table:expire(engine.now())
   if expired > 0 then counter.add(self.shm["drop-ipv4-frag-invalid-reassembly"], expired) end
   counter.set(self.shm["memuse-ipv4-frag-reassembly-buffer"], self.table:memory())
end

local function is(h, name, n)
   assert(counter.read(h.app.shm[name]) == n, name .. tostring(counter.read(h.app.shm[name])))
end

local function test_orders(harness, datagram, data)
   local Fragmenter = require("apps.ipv4.fragment").Fragmenter
   local whole = datagram("", 0, data, 0)
   local h = harness.new(Fragmenter, {mtu = 600}, {"input"}, {"output"})
   h:send("input", {whole})
   local parts = h:take("output")
   assert(#parts == 4)
   h = harness.new(Reassembler, {}, {"input"}, {"output"})
   local orders = {{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 4, 1, 3}, {3, 1, 4, 2}, {1, 1, 2, 2, 3, 4}}
   for _, order in ipairs(orders) do
      for k, which in ipairs(order) do
         h:send("input", {parts[which]})
         h:expect("output", k == #order and {whole} or {})
      end
   end
   is(h, "in-ipv4-frag-reassembled", 5)
   is(h, "in-ipv4-frag-needs-reassembly", 22)
   assert(h.app.table:count() == 0)
   h:stop()
end

--- Puts packets together that the fragmenter cut, in several orders; refuses overlaps; forwards what is whole.
function M.selftest()
   local harness = require("apps.test.harness")
   local datagram = require("apps.ipv4.fragment").test_datagram
   local data = ffi.string(lib.random_bytes(2000), 2000)
   test_orders(harness, datagram, data)
   local h = harness.new(Reassembler, {max_concurrent_reassemblies = 3, reassembly_timeout = 30}, {"input"}, {"output"})
   local whole = {datagram("", 0, "whole"), datagram("", 0x4000, "whole"), "not IPv4", ("\0"):rep(60)}
   h:send("input", whole)
   h:expect("output", whole)
   is(h, "in-ipv4-frag-reassembly-unneeded", 4)
   h:send("input", {datagram("", 0x2000, data:sub(1, 16)), datagram("", 1, data:sub(1, 16)), -- overlap
                    datagram("", 0x2000, data:sub(1, 15)), datagram("", 0x2000, data:sub(1, 16)):sub(1, 40),
                    datagram("", 0x1fff, data:sub(1, 16))})
   h:expect("output", {})
   is(h, "drop-ipv4-frag-invalid-reassembly", 3)
   -- The options of the first fragment; padding behind a fragment.
   h:send("input", {datagram("", 2, "end") .. ("\0"):rep(9), datagram("\1\1\1\0", 0x2000, data:sub(1, 16))})
   h:expect("output", {datagram("\1\1\1\0", 0, data:sub(1, 16) .. "end", 0)})
   local many = {}
   for k = 1, 10 do many[k] = datagram("", 0x2000, data:sub(1, 8), k) end
   h:send("input", many)
   is(h, "drop-ipv4-frag-random-evicted", 7)
   assert(h.app.table:count() == 3)
   local real_now, later = engine.now, engine.now() + 31
   engine.now = function () return later end
   h.app:tick()
   engine.now = real_now
   assert(h.app.table:count() == 0)
   is(h, "drop-ipv4-frag-invalid-reassembly", 6)
   assert(counter.read(h.app.shm["memuse-ipv4-frag-reassembly-buffer"]) > 3 * 10240)
   h:stop()
   assert(not pcall(Reassembler.new, Reassembler, {max_concurrent_reassemblies = 0}))
end

return M
