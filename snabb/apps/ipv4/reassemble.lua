-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.reassemble: puts IPv4 fragments together (RFC 791, 3.2; RFC 815's task by the ranges of
-- apps.ipv4.fragments).
--
-- What differs from Snabb: datagrams that stay incomplete are given up after a time; an exact copy of a fragment does
-- no harm; the protocol is part of a datagram's key, as in RFC 791; the header is the first fragment's;
-- no alarms.

local bit = require("bit")
local counter = require("core.counter")
local engine = require("core.app")
local ffi = require("ffi")
local lib = require("core.lib")
local packet = require("core.packet")
local reassembler = require("apps.ipv4.reassembler")
local wire = require("apps.ipv4.wire")

local get16, put16 = wire.get16, wire.put16
local band = bit.band

local M = {}

local ethernet_size, min_header = 14, 20

--- Reassembler: forwards packets from `input` to `output`, but IPv4 fragments only when all are there, as one packet.
--- Configuration: `max_concurrent_reassemblies` (20000), `max_fragments_per_reassembly` (40), `reassembly_timeout` (60
--- seconds). Each datagram in the making needs about 11 kB. Counters: as in `shm`.
M.Reassembler = reassembler.class("ipv4", 12)
local Reassembler = M.Reassembler

-- The lengths of the header and of all of an IPv4 packet, and its field of flags and offset; nil if it is none, false
-- if its lengths are wrong.
local function parse(p)
   local d, length = p.data, p.length
   if length < ethernet_size or get16(d, 12) ~= 0x0800 then return nil end
   local header, total = d[14] % 16 * 4, get16(d, 16)
   if header < min_header or total < header or total > length - ethernet_size then return false end
   return header, total, get16(d, 20)
end

local function set_key(t)
   local d, key = t.box[0].data, t.key
   ffi.copy(key, d + 26, 8)
   key[8], key[9], key[10], key[11] = d[18], d[19], d[23], 0
end

--- Makes the first fragment's header that of the packet `out`.
function Reassembler:complete(out)
   local d = out.data
   put16(d, 16, out.length - ethernet_size)
   put16(d, 18, 0)
   put16(d, 20, 0)
   wire.ipv4_checksum(d, ethernet_size, d[14] % 16 * 4)
end

-- Takes the fragment in the table's box.
local function handle(self, header, total, field, now)
   self:count("needed")
   set_key(self.table)
   self:add(band(field, 0x1fff) * 8, total - header, ethernet_size + header, band(field, 0x2000) ~= 0,
            ethernet_size + header, now)
end

--- Takes the packet in the table's box.
function Reassembler:step(o, now)
   local box = self.table.box
   local header, total, field = parse(box[0])
   if header == false then
      packet.free(box[0])
   elseif header and band(field, 0x3fff) ~= 0 then
      handle(self, header, total, field, now)
   else
      self:pass(o)
   end
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
