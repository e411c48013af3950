-- SPDX-License-Identifier: MIT
--
-- apps.ipv6.reassemble: puts IPv6 fragments together (RFC 8200, 4.5; overlapping ones are dropped, RFC 5722; an atomic
-- one is a packet by itself, RFC 6946).
--
-- What differs from Snabb: headers before the fragment header are understood; an exact copy of a fragment does no harm;
-- what arrives after an overlap is dropped too until the timeout, as the RFC has it; no alarms.

local bit = require("bit")
local counter = require("core.counter")
local engine = require("core.app")
local ffi = require("ffi")
local headers = require("apps.ipv6.headers")
local lib = require("core.lib")
local packet = require("core.packet")
local reassembler = require("apps.ipv4.reassembler")
local wire = require("apps.ipv4.wire")

ffi.cdef("void *memmove(void *to, const void *from, size_t n);")

local C = ffi.C
local get16, put16 = wire.get16, wire.put16
local band = bit.band

local M = {}

--- Reassembler: forwards packets from `input` to `output`, but IPv6 fragments only when all are there, as one packet.
--- Configuration: `max_concurrent_reassemblies` (20000), `max_fragments_per_reassembly` (40), `reassembly_timeout` (60
--- seconds). Each datagram in the making needs about 11 kB. Counters: as in `shm`.
M.Reassembler = reassembler.class("ipv6", 36, true)
local Reassembler = M.Reassembler

--- Sets the length in the header of the packet `p`.
function Reassembler:complete(p)
   put16(p.data, 18, p.length - 54)
end

-- A packet that is one fragment loses its fragment header, which is at `at`.
local function atomic(self, p, at)
   local last = 54 + get16(p.data, 18)
   C.memmove(p.data + at, p.data + at + 8, last - at - 8)
   self:send_whole(packet.resize(p, last - 8))
end

-- Puts the key into the table; returns where the packet ends, and its field of offset and flags. The field that named
-- the fragment header names then what is behind it: the first fragment's headers are the whole's.
local function prepare(t, at, field)
   local d = t.box[0].data
   d[field] = d[at]
   ffi.copy(t.key, d + 22, 32)
   ffi.copy(t.key + 32, d + at + 4, 4)
   return 54 + get16(d, 18), get16(d, at + 2)
end

-- Takes the packet in the table's box, whose fragment header is at `at`, and named by the field at `field`.
local function handle(self, at, field, now)
   local t = self.table
   self:count("needed")
   local last, offset = prepare(t, at, field)
   local more = band(offset, 1) ~= 0
   local first = band(offset, 0xfff8)
   if first == 0 and not more then return atomic(self, t.box[0], at) end
   self:add(first, last - at - 8, at + 8, more, at, now)
end

-- The offset of the fragment header and of the field that names it; nil if there is none; false if the packet's length
-- is wrong, or the fragment header is cut off.
local function find_fragment(p)
   local d, length = p.data, p.length
   if length < 14 or get16(d, 12) ~= 0x86dd then return nil end
   if not headers.valid(d, length) then return false end
   local at, field, protocol = headers.upper(d)
   if protocol ~= headers.fragment then return nil end
   if at + 8 > 54 + get16(d, 18) then return false end
   return at, field
end

--- Takes the packet in the table's box.
function Reassembler:step(o, now)
   local box = self.table.box
   local at, field = find_fragment(box[0])
   if at then
      handle(self, at, field, now)
   elseif at == nil then
      self:pass(o)
   else
      packet.free(box[0])
   end
end

local packet6 = headers.test_packet

-- A fragment of a UDP packet, as bytes.
local function fragment(id, first, more, data, before)
   before = before or ""
   local header = "\17\0" .. string.char(math.floor(first / 256), first % 256 + (more and 1 or 0)) .. "\0\0\0" ..
      string.char(id)
   return packet6(before == "" and 44 or 0, before .. header .. data)
end

local function is(h, name, n)
   assert(counter.read(h.app.shm[name]) == n, name .. tostring(counter.read(h.app.shm[name])))
end

local function test_orders(harness, data)
   local Fragmenter = require("apps.ipv6.fragment").Fragmenter
   local options = "\17\0\1\4\0\0\0\0" -- hop-by-hop, then UDP
   for _, whole in ipairs({packet6(17, data), packet6(0, options .. data)}) do
      local h = harness.new(Fragmenter, {mtu = 1280}, {"input"}, {"output"})
      h:send("input", {whole})
      local parts = h:take("output")
      assert(#parts == 4)
      h = harness.new(Reassembler, {}, {"input"}, {"output"})
      for _, order in ipairs({{1, 2, 3, 4}, {4, 3, 2, 1}, {2, 4, 1, 3}, {3, 1, 4, 2}, {1, 1, 2, 2, 3, 4}}) do
         for k, which in ipairs(order) do
            h:send("input", {parts[which]})
            h:expect("output", k == #order and {whole} or {})
         end
      end
      is(h, "in-ipv6-frag-reassembled", 5)
      is(h, "in-ipv6-frag-needs-reassembly", 22)
      assert(h.app.table:count() == 0)
      h:stop()
   end
end

local function test_bad(harness, data)
   local h = harness.new(Reassembler, {max_concurrent_reassemblies = 3, reassembly_timeout = 30}, {"input"}, {"output"})
   local whole = {packet6(17, data), packet6(58, ""), "not IPv6", ("\0"):rep(60), packet6(0, "\44\9cut off")}
   h:send("input", whole)
   h:expect("output", whole)
   is(h, "in-ipv6-frag-reassembly-unneeded", 5)
   h:send("input", {fragment(1, 0, true, data:sub(1, 16)), fragment(1, 8, false, data:sub(1, 16)), -- overlap
                    fragment(1, 0, true, data:sub(1, 16)), fragment(1, 16, false, "end"), -- dropped after it
                    fragment(2, 0, true, data:sub(1, 15)), packet6(44, "\17\0\0\0\0"), packet6(17, "cut"):sub(1, 56)})
   h:expect("output", {})
   is(h, "drop-ipv6-frag-invalid-reassembly", 2)
   -- Atomic fragments are whole, whatever else has their identification.
   h:send("input", {fragment(1, 0, false, "atomic"), fragment(9, 0, false, "atomic", "\44\0\1\4\0\0\0\0") .. "padding"})
   h:expect("output", {packet6(17, "atomic"), packet6(0, "\17\0\1\4\0\0\0\0atomic")})
   local many = {}
   for k = 11, 20 do many[#many + 1] = fragment(k, 0, true, data:sub(1, 8)) end
   h:send("input", many)
   is(h, "drop-ipv6-frag-random-evicted", 9)
   local real_now, later = engine.now, engine.now() + 31
   engine.now = function () return later end
   h.app:tick()
   engine.now = real_now
   assert(h.app.table:count() == 0)
   assert(counter.read(h.app.shm["memuse-ipv6-frag-reassembly-buffer"]) > 3 * 10240)
   h:stop()
end

--- Puts packets together that the fragmenter cut, in several orders; refuses overlaps; forwards what is whole.
function M.selftest()
   local harness = require("apps.test.harness")
   local data = ffi.string(lib.random_bytes(4000), 4000)
   test_orders(harness, data)
   test_bad(harness, data)
   assert(not pcall(Reassembler.new, Reassembler, {max_concurrent_reassemblies = 0}))
end

return M
