-- SPDX-License-Identifier: MIT
-- core.packet: packets, and the free ones. The API is Snabb's.
--
-- A packet is a C structure, `struct packet {uint16_t length; uint8_t data[10240];}`, that lies in a DPDK buffer: every
-- one in a window of 512 bytes of which the part before the packet, `p & 511` bytes, is its headroom: 256 at first.
-- shiftleft, shiftright and prepend move the packet itself as long as it stays in its window, so the packet that they
-- return must be used.
--
-- Differs from Snabb: what a thread has free beyond a limit goes back to a pool that devices and other threads take
-- from.

local ffi = require("ffi")
local bit = require("bit")
local native = require("core.native")
require("core.clib_h")
local C = ffi.C
local band, bor, max = bit.band, bit.bor, math.max

local M = {}

local packet_ptr = ffi.typeof("struct packet *")
local address = ffi.typeof("int64_t")
local WINDOW, HEADROOM = 512, 256
--- Packets lie in windows of this many bytes, aligned to it.
M.packet_alignment = WINDOW
--- Bytes free before a new packet.
M.default_headroom = HEADROOM
--- Packets start at even addresses.
M.minimum_alignment = 2

--- The C type of a packet.
M.packet_t = ffi.typeof("struct packet")
--- Most bytes of a packet: 10240.
M.max_payload = tonumber(C.PACKET_PAYLOAD_SIZE)
local max_payload = M.max_payload

-- struct perigee_snabb_pool *, if something needed DPDK: a port, a ring. Packets before that are ordinary memory, which no device
-- sees: it is sent copies, and what is sent or spilled is gone.
local pool
local fl = ffi.cast("struct perigee_snabb_freelist *", native.freelist())
M.freelist = fl

-- ---- free packets ----

local step = 1000

-- Packets from the pool, which has those that devices and other threads gave back.
local function take (n)
   if pool == nil then return 0 end
   local got = C.perigee_snabb_take(pool, fl.list + fl.nfree, n)
   fl.nfree = fl.nfree + got
   return got
end

--- Make more free packets: 1000 the first time, then twice as many as before each time, at most a million.
--- Errors when there are that many, or no memory.
function M.preallocate_step ()
   local made, why, early = native.grow(step)
   if not made then error("packet allocation overflow: "..tostring(why), 2) end
   step = math.min(step * 2, 256000)
   if early then
      local window = ffi.cast("char *", early)
      for i = 0, made - 1 do
         fl.list[fl.nfree + i] = ffi.cast(packet_ptr, window + i * C.PACKET_STRIDE + HEADROOM)
      end
      fl.nfree = fl.nfree + made
   else
      pool = ffi.cast("struct perigee_snabb_pool *", native.pool())
      take(made)
   end
end

-- Cold: the stack is empty.
local function refill ()
   -- Other threads may take what this one has made.
   for _ = 1, 100 do
      if take(256) > 0 then return end
      M.preallocate_step()
      if fl.nfree > 0 then return end
   end
   error("packet allocation overflow: all packets are in use", 3)
end

-- Cold: the stack is larger than this thread should keep.
local function spill ()
   if pool == nil then pool = ffi.cast("struct perigee_snabb_pool *", native.pool()) end
   local n = tonumber(fl.nfree) - tonumber(fl.max) / 2
   n = math.floor(n)
   -- The oldest go: those on top are warm.
   C.perigee_snabb_give(pool, fl.list, n)
   C.memmove(fl.list, fl.list + n, (tonumber(fl.nfree) - n) * ffi.sizeof("void *"))
   fl.nfree = fl.nfree - n
end

--- Keep at most *n* free packets in this thread; the others go back to where devices and other threads find them.
function M.keep_at_most (n)
   fl.max = n
   if pool == nil then pool = ffi.cast("struct perigee_snabb_pool *", native.pool()) end
   if fl.nfree >= fl.max then spill() end
end

--- An empty packet, with 256 bytes of headroom. Its data are whatever was there before.
function M.allocate ()
   if fl.nfree == 0 then refill() end
   local n = fl.nfree - 1
   fl.nfree = n
   local p = fl.list[n]
   p.length = 0
   return p
end
local allocate = M.allocate

-- The packet with its headroom as at first.
local function fresh (p)
   return ffi.cast(packet_ptr, bor(band(ffi.cast(address, p), -512LL), 256LL))
end

--- Free a packet without counting it.
function M.free_internal (p)
   local n = fl.nfree
   if n >= fl.max then
      spill()
      n = fl.nfree
   end
   fl.list[n] = fresh(p)
   fl.nfree = n + 1
end

--- Count a packet as freed that something else frees, such as a device after sending it.
function M.account_free (p)
   local length = p.length
   fl.frees = fl.frees + 1
   fl.bytes = fl.bytes + length
   fl.padded = fl.padded + max(length, 60)
end

--- Free a packet: its length and headroom are reset, and it counts in engine.frees, freebytes and freebits (bits on a
--- wire: at least 60 bytes, and 24 more for preamble, checksum and gap).
function M.free (p)
   local length = p.length
   local n = fl.nfree
   if n >= fl.max then
      spill()
      n = fl.nfree
   end
   fl.frees = fl.frees + 1
   fl.bytes = fl.bytes + length
   fl.padded = fl.padded + max(length, 60)
   fl.list[n] = fresh(p)
   fl.nfree = n + 1
end

-- Packets of other NUMA nodes go back to their pools; where there is one node, there are none.
local several_nodes = native.several_nodes

--- Move what was counted since the last time to the engine's counters *frees*, *bytes* and *bits*.
function M.settle (frees, bytes, bits)
   if several_nodes and pool ~= nil then C.perigee_snabb_sweep(pool, fl, tonumber(fl.frees)) end
   frees.c = frees.c + fl.frees
   bytes.c = bytes.c + fl.bytes
   bits.c = bits.c + (fl.padded + fl.frees * 24) * 8
   fl.frees, fl.bytes, fl.padded = 0, 0, 0
end

--- A new packet, from more memory if there is none free.
function M.new_packet () return allocate() end

-- ---- what is in a packet ----

local function too_long (length)
   error("packet payload overflow: "..tonumber(length).." bytes, at most "..max_payload.." are possible", 3)
end

--- Copy a packet to memory at *to*, which has to have room for a packet. Returns the copy.
function M.clone_to_memory (to, p)
   to = ffi.cast(packet_ptr, to)
   local length = p.length
   to.length = length
   ffi.copy(to.data, p.data, length)
   return to
end

--- A copy of a packet, with 256 bytes of headroom.
function M.clone (p)
   local q = allocate()
   local length = p.length
   q.length = length
   -- 64 bytes are copied in line, and there is always room for them.
   if length <= 64 then
      ffi.copy(q.data, p.data, 64)
   else
      ffi.copy(q.data, p.data, length)
   end
   return q
end

--- Add *length* bytes at *pointer* (or of a string) behind the packet's. Errors above max_payload. Returns the packet.
function M.append (p, pointer, length)
   local before = p.length
   if length < 0 or before + length > max_payload then too_long(before + length) end
   ffi.copy(p.data + before, pointer, length)
   p.length = before + length
   return p
end

local function headroom (p)
   return tonumber(band(ffi.cast(address, p), 511LL))
end
--- Bytes free before the packet.
M.headroom = headroom

-- The packet *bytes* further on, if that is in its window and even; else nil.
local function moved (p, bytes)
   local room = headroom(p) + bytes
   if room >= 0 and room < WINDOW and band(room, 1) == 0 then
      return ffi.cast(packet_ptr, ffi.cast("uint8_t *", p) + bytes)
   end
end

--- Drop *bytes* bytes at the packet's start. The packet returned is to be used from then on.
function M.shiftleft (p, bytes)
   local length = p.length
   if bytes < 0 or bytes > length then
      error("shiftleft by "..tonumber(bytes).." bytes: the packet has "..tonumber(length), 2)
   end
   local q = moved(p, bytes)
   if not q then
      q = fresh(p)
      C.memmove(q.data, p.data + bytes, length - bytes)
   end
   q.length = length - bytes
   return q
end

--- Make room for *bytes* bytes, whose content is not defined, at the packet's start. Errors above max_payload. The
--- packet returned is to be used from then on.
function M.shiftright (p, bytes)
   local length = p.length
   if bytes < 0 or length + bytes > max_payload then too_long(length + bytes) end
   local q = moved(p, -bytes)
   if not q then
      q = fresh(p)
      C.memmove(q.data + bytes, p.data, length)
   end
   q.length = length + bytes
   return q
end
local shiftright = M.shiftright

--- Put *length* bytes at *pointer* before the packet's. Errors above max_payload. The packet returned is to be used.
function M.prepend (p, pointer, length)
   p = shiftright(p, length)
   ffi.copy(p.data, pointer, length)
   return p
end

--- A new packet of *length* bytes at *pointer*.
function M.from_pointer (pointer, length)
   if length < 0 or length > max_payload then too_long(length) end
   return M.append(allocate(), pointer, length)
end

--- A new packet of the bytes of a string.
function M.from_string (text)
   return M.from_pointer(text, #text)
end

--- Change the packet's length to *length*; bytes that are added are zero. Errors above max_payload. Returns the packet.
function M.resize (p, length)
   if length < 0 or length > max_payload then too_long(length) end
   local before = p.length
   if length > before then ffi.fill(p.data + before, length - before) end
   p.length = length
   return p
end

--- Pointer to the packet's data.
function M.data (p) return p.data end
--- Bytes of data in the packet.
function M.length (p) return p.length end

--- For several processes on one machine Snabb shares free packets; here each process has a pool of its own, which
--- devices and threads share already. Does nothing.
function M.enable_group_freelist () end
--- See enable_group_freelist. Does nothing.
function M.rebalance_freelists () end
--- See enable_group_freelist. Does nothing.
function M.initialize () end
--- Gives the free packets of this thread back.
function M.shutdown ()
   if pool ~= nil and fl.nfree > 0 then
      C.perigee_snabb_give(pool, fl.list, tonumber(fl.nfree))
      fl.nfree = 0
   end
end

--- Packets that are neither in the pool nor on this thread's stack: in links, apps, devices and other threads.
function M.outstanding ()
   local total, available = native.packets()
   return total - available - tonumber(fl.nfree)
end

-- ---- selftest ----

local function same (p, text)
   assert(p.length == #text, "length "..p.length.." instead of "..#text)
   assert(ffi.string(p.data, p.length) == text)
end

-- Random operations against strings.
local function test_against_strings (seed)
   math.randomseed(seed)
   local function random_text (n)
      local bytes = {}
      for i = 1, n do bytes[i] = string.char(math.random(0, 255)) end
      return table.concat(bytes)
   end
   local p, text = allocate(), ""
   for step = 1, 3000 do
      local n, what = math.random(0, 130), math.random(1, 6)
      local piece = random_text(n)
      if #text > 6000 then what = 3 n = #text - 10 end
      if what == 1 then
         p, text = M.append(p, piece, n), text..piece
      elseif what == 2 then
         p, text = M.prepend(p, piece, n), piece..text
      elseif what == 3 then
         n = math.min(n, #text)
         p, text = M.shiftleft(p, n), text:sub(n + 1)
      elseif what == 4 then
         p = M.shiftright(p, n)
         ffi.copy(p.data, piece, n)
         text = piece..text
      elseif what == 5 then
         local longer = math.random(0, #text + 50)
         p, text = M.resize(p, longer), text:sub(1, longer)..("\0"):rep(longer - #text)
      else
         local q = M.clone(p)
         assert(headroom(q) == HEADROOM)
         M.free(p)
         p = q
      end
      assert(p.length == #text and ffi.string(p.data, #text) == text, "seed "..seed..", step "..step)
      assert(headroom(p) % 2 == 0 and headroom(p) < WINDOW)
   end
   M.free(p)
end

function M.selftest ()
   local p = allocate()
   assert(p.length == 0 and headroom(p) == HEADROOM)
   local before = M.outstanding()
   same(M.append(p, "hello", 5), "hello")
   -- What the earlier layer did wrong: append copied to the place after the new length.
   same(M.append(p, " world", 6), "hello world")
   -- The packet itself moves, in even steps, inside its window.
   local q = M.shiftleft(p, 6)
   assert(ffi.cast("char *", q) - ffi.cast("char *", p) == 6)
   same(q, "world")
   same(M.prepend(q, "new ", 4), "new world")
   q = M.prepend(q, "", 0)
   p = M.from_string("0123456789")
   local odd = M.shiftleft(p, 3)
   assert(headroom(odd) == HEADROOM)
   same(odd, "3456789")
   -- As far as the window goes, then back to the default.
   local far = M.shiftright(odd, 256)
   assert(headroom(far) == 0 and far.length == 263)
   far = M.shiftright(far, 2)
   assert(headroom(far) == HEADROOM and far.length == 265)
   assert(ffi.string(far.data + 258, 7) == "3456789")
   M.free(far)
   -- resize fills with zeros and returns the packet; the earlier layer did neither.
   p = M.from_string("abc")
   ffi.fill(p.data + 3, 10, 0xee)
   same(M.resize(p, 6), "abc\0\0\0")
   same(M.resize(p, 2), "ab")
   assert(M.resize(p, max_payload) == p and p.length == max_payload)
   assert(not pcall(M.append, p, "x", 1) and not pcall(M.prepend, p, "xy", 2) and not pcall(M.resize, p, 10241))
   assert(not pcall(M.shiftright, p, 1) and not pcall(M.shiftleft, p, 10241))
   assert(not pcall(M.from_string, ("x"):rep(10241)))
   same(M.resize(p, 0), "")
   -- A full packet at the end of its window keeps to its buffer.
   p = M.shiftleft(M.resize(p, 300), 254)
   assert(headroom(p) == 510)
   M.resize(p, max_payload)
   p.data[max_payload - 1] = 7
   local neighbor = allocate()
   assert(neighbor.length == 0)
   M.free(neighbor)
   -- Freed packets come back last in, first out, empty and with the default headroom.
   M.free(p)
   local again = allocate()
   assert(ffi.cast("int64_t", again) == ffi.cast("int64_t", fresh(p)) and again.length == 0)
   -- Copies.
   local copy = M.clone(M.append(again, ("z"):rep(100), 100))
   same(copy, ("z"):rep(100))
   local memory = ffi.new("struct packet")
   same(M.clone_to_memory(memory, copy), ("z"):rep(100))
   assert(M.length(copy) == 100 and M.data(copy)[99] == string.byte("z"))
   M.free(copy) M.free(again) M.free(q)
   -- Frees are counted; bits as they are on a wire.
   local counts = ffi.new("struct { uint64_t c; }[3]")
   M.settle(counts[0], counts[1], counts[2])
   for i = 0, 2 do counts[i].c = 0 end
   M.free(M.from_string("x")) M.free(M.from_string(("y"):rep(1000)))
   M.settle(counts[0], counts[1], counts[2])
   assert(counts[0].c == 2 and counts[1].c == 1001 and counts[2].c == (60 + 24 + 1000 + 24) * 8)
   -- More than there are at first, and back.
   local many = {}
   for i = 1, 2500 do many[i] = allocate() end
   for i = 1, 2500 do M.free(many[i]) end
   assert(M.outstanding() == before - 1)
   M.keep_at_most(100)
   assert(fl.nfree <= 100 and M.outstanding() == before - 1)
   for i = 1, 2500 do many[i] = allocate() end
   for i = 1, 2500 do M.free(many[i]) end
   assert(fl.nfree <= 100 and M.outstanding() == before - 1)
   test_against_strings(tonumber(os.getenv("PERIGEE_FUZZ_SEED") or 1))
   assert(M.outstanding() == before - 1)
end

return M
