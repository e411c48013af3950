-- SPDX-License-Identifier: MIT
-- core.link: links, rings of 1024 slots that hold up to 1023 packets on their way from one app to the next. The API is
-- Snabb's.
--
-- Differs from Snabb, for speed: only bytes and drops are counted for each packet; packets follow from the ring's
-- indices, and what was received from what was transmitted and is no longer there. `l.stats` brings the counters up to
-- date when it is looked at, and the engine does so before it publishes them. An empty ring starts at slot 0 again, so
-- that links stay in the cache; and the two indices have different C types, so that LuaJIT keeps both in registers: a
-- store to one cannot be to the other.

local ffi = require("ffi")
local bit = require("bit")
local native = require("core.native")
local counter = require("core.counter")
local packet = require("core.packet")
local shm = require("core.shm")
local band, tobit = bit.band, bit.tobit
local C = ffi.C

local M = {}

--- Most packets in a link: 1023.
M.max = tonumber(C.LINK_MAX_PACKETS)
local size, max = 1023, 1023

local link_ptr = ffi.typeof("struct link *")
local free = packet.free

-- By the link's id: its counters, and the link.
local frames, links = {}, {}
local in_use = {} -- by the folder of counters

-- ---- the fast part ----

local function nothing_there ()
   error("link.receive: the link is empty; ask link.empty first", 3)
end

--- Take the packet at the front of the link. Errors if there is none: see `empty`.
function M.receive (l)
   local read = l.read
   -- Free where `empty` was asked: the compiler sees that it is the same question.
   if l.write == read then nothing_there() end
   local p = l.packets[band(read, size)]
   l.read = tobit(read + 1)
   return p
end

--- The packet at the front of the link, which stays there; nil if the link is empty.
function M.front (l)
   if l.write == l.read then return nil end
   return l.packets[band(l.read, size)]
end

--- Put a packet at the end of the link. If the link is full, the packet is freed and counted as dropped.
function M.transmit (l, p)
   local write = l.write
   if write - l.read >= max then
      l.drops = l.drops + 1
      free(p)
   else
      l.packets[band(write, size)] = p
      l.write = write + 1
      l.bytes = l.bytes + p.length
   end
end

--- Are there no packets in the link?
function M.empty (l)
   return l.write == l.read
end

--- Is there no room in the link?
function M.full (l)
   return l.write - l.read >= max
end

--- Packets in the link.
function M.nreadable (l)
   return tonumber(l.write - l.read)
end

--- Packets for which there is room.
function M.nwritable (l)
   return max - tonumber(l.write - l.read)
end

-- ---- counters ----

local function waiting_bytes (l)
   local sum, read = 0, l.read
   for i = 0, tonumber(l.write - read) - 1 do
      sum = sum + l.packets[band(read + i, size)].length
   end
   return sum
end

-- Indices run on for as long as the link is not empty; they are brought down before 32 bits are full.
local function rewind (l)
   local read = l.read
   if l.write == read then
      l.read, l.counted, l.write = 0, 0, 0
   else
      local down = read - band(read, size)
      l.read, l.counted = read - down, l.counted - down
      l.write = l.write - down
   end
end

--- Bring a link's counters up to date; returns them.
function M.settle (l)
   local stats = frames[l.id]
   local received = l.read - l.counted
   stats.rxpackets.c = stats.rxpackets.c + received
   stats.txbytes.c = stats.txbytes.c + l.bytes
   stats.txdrop.c = stats.txdrop.c + l.drops
   stats.txpackets.c = stats.rxpackets.c + (l.write - l.read)
   stats.rxbytes.c = stats.txbytes.c - waiting_bytes(l)
   l.counted, l.bytes, l.drops = l.read, 0, 0
   rewind(l)
   return stats
end
local settle = M.settle

--- Settle all links: those of the graph, and those that apps have made for themselves. The engine does so when it
--- publishes counters, long before a link's indices are at their end.
function M.settle_all ()
   for _, l in pairs(links) do settle(l) end
end

--- The link's counters as numbers: rxpackets, rxbytes, txpackets, txbytes, txdrop.
function M.stats (l)
   local stats, result = settle(l), {}
   for name, c in pairs(stats) do
      if name ~= "dtime" and type(name) == "string" and ffi.istype(counter.t, c) then
         result[name] = tonumber(counter.read(c))
      end
   end
   return result
end

-- `l.stats` is the frame of counters, as it was in Snabb's structure.
local function index (l, name)
   if name == "stats" then return settle(l) end
   error("a link has no field '"..tostring(name).."'", 2)
end

ffi.metatype("struct link", {__index = index})

-- ---- making links ----

local free_ids, last_id = {}, 0

--- A new link of this name, with its counters in shared memory under links/NAME (*folder*NAME, if it is given); under
--- links/NAME#2 and so on as long as other links have that name.
function M.new (name, folder)
   local l = ffi.cast(link_ptr, native.new_link())
   local id = table.remove(free_ids)
   if not id then
      last_id = last_id + 1
      id = last_id
   end
   l.id = id
   local base, n = (folder or "links/")..name, 1
   folder = base
   while in_use[folder] do
      n = n + 1
      folder = base.."#"..n
   end
   in_use[folder] = true
   links[id] = l
   frames[id] = shm.create_frame(folder, {
      dtime = {counter, C.get_unix_time()}, rxpackets = {counter}, rxbytes = {counter},
      txpackets = {counter}, txbytes = {counter}, txdrop = {counter},
   })
   return l
end

--- Free a link, the packets in it and its counters.
function M.free (l)
   while l.write ~= l.read do free(M.receive(l)) end
   local id = l.id
   local frame = frames[id]
   in_use[frame.path:sub(1, -2)] = nil
   shm.delete_frame(frame)
   frames[id], links[id] = nil, nil
   table.insert(free_ids, id)
   native.free_link(tonumber(ffi.cast("uintptr_t", l)))
end

-- ---- selftest ----

-- Random operations against a list.
local function test_against_list (l, seed)
   math.randomseed(seed)
   local list, sent, received, dropped, bytes_in, bytes_out = {}, 0, 0, 0, 0, 0
   local before = M.stats(l)
   for step = 1, 20000 do
      for _ = 1, math.random(0, 3) do
         local p = packet.allocate()
         packet.resize(p, math.random(1, 200))
         p.data[0] = step % 256
         local length = p.length
         if #list < max then
            sent, bytes_in = sent + 1, bytes_in + length
            table.insert(list, {step % 256, length})
         else
            dropped = dropped + 1
         end
         M.transmit(l, p)
      end
      for _ = 1, math.random(0, step % 4000 < 2000 and 2 or 5) do
         assert(M.empty(l) == (#list == 0) and M.nreadable(l) == #list and M.nwritable(l) == max - #list)
         if #list > 0 then
            local want = table.remove(list, 1)
            assert(M.front(l).data[0] == want[1])
            local p = M.receive(l)
            assert(p.data[0] == want[1] and p.length == want[2], "seed "..seed..", step "..step)
            received, bytes_out = received + 1, bytes_out + p.length
            packet.free(p)
         end
      end
      assert(M.full(l) == (#list == max))
      if step % 97 == 0 then
         local s = M.stats(l)
         assert(s.txpackets - before.txpackets == sent and s.rxpackets - before.rxpackets == received)
         assert(s.txbytes - before.txbytes == bytes_in and s.rxbytes - before.rxbytes == bytes_out)
         assert(s.txdrop - before.txdrop == dropped, "seed "..seed..", step "..step)
      end
   end
   while not M.empty(l) do packet.free(M.receive(l)) end
end

function M.selftest ()
   local l = M.new("selftest.x -> selftest.y")
   local outstanding = packet.outstanding()
   assert(M.empty(l) and not M.full(l) and M.front(l) == nil and M.nwritable(l) == 1023)
   local p = packet.from_string("abc")
   M.transmit(l, p)
   assert(M.front(l) == p and M.nreadable(l) == 1 and not M.empty(l))
   assert(counter.read(l.stats.txpackets) == 1 and counter.read(l.stats.rxpackets) == 0)
   assert(M.receive(l) == p and M.empty(l))
   packet.free(p)
   assert(counter.read(l.stats.rxbytes) == 3 and counter.read(l.stats.txbytes) == 3)
   -- Full: what does not fit is freed and counted.
   for _ = 1, 1030 do M.transmit(l, packet.from_string("0123456789")) end
   assert(M.full(l) and M.nreadable(l) == 1023 and counter.read(l.stats.txdrop) == 7)
   local s = M.stats(l)
   assert(s.txpackets == 1024 and s.rxpackets == 1 and s.txbytes == 3 + 10230 and s.rxbytes == 3 and s.txdrop == 7)
   while not M.empty(l) do packet.free(M.receive(l)) end
   assert(packet.outstanding() == outstanding)
   test_against_list(l, tonumber(os.getenv("PERIGEE_FUZZ_SEED") or 1))
   -- Near the end of 32 bits.
   l.read, l.counted, l.write = 2^31 - 3, 2^31 - 3, 2^31 - 3
   local seen = M.stats(l).rxpackets
   assert(l.read == 0 and l.write == 0)
   for _ = 1, 5 do M.transmit(l, packet.from_string("x")) end
   packet.free(M.receive(l))
   assert(M.stats(l).rxpackets == seen + 1 and M.nreadable(l) == 4)
   assert(not pcall(function () return l.nothing end))
   local other = M.new("selftest.z -> selftest.z")
   assert(not pcall(M.receive, other) and M.empty(other) and M.stats(other).rxpackets == 0)
   M.free(other)
   -- Links of the same name count for themselves; apps' own links are settled with the others.
   other = M.new("selftest.x -> selftest.y")
   M.transmit(other, packet.from_string("y"))
   other.read, other.counted, other.write = 2^30, 2^30, 2^30 + 1 -- the same slot
   M.settle_all()
   assert(other.read == 0 and other.write == 1 and M.stats(other).txpackets == 1 and M.stats(l).rxpackets == seen + 1)
   assert(shm.exists("links/selftest.x -> selftest.y#2/txbytes.counter"))
   M.free(other)
   assert(M.stats(l).rxpackets == seen + 1 and not shm.exists("links/selftest.x -> selftest.y#2"))
   -- What is still in a link is freed with it.
   M.free(l)
   assert(packet.outstanding() == outstanding)
   assert(not shm.exists("links/selftest.x -> selftest.y"))
end

return M
