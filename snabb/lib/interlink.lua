-- SPDX-License-Identifier: MIT
--
-- lib.interlink: queues of packets between processes, in shared memory: one transmitter, one receiver.
--
-- Processes here have no packets in common. So a queue holds copies, each in a slot of its own: `insert` copies a
-- packet in and frees it, `extract` makes a new one of what is in the slot. The 64 bytes before a packet come along: a
-- Snabb tree's apps.rss keeps there what it knows about the packet (apps.rss.metadata), with pointers into it, which
-- are set anew.
--
-- A queue is a ring. What the transmitter has inserted can be seen by the receiver when it calls `push`; slots that the
-- receiver has emptied can be used again when it calls `pull`. Each side works on its own copies of both indices, in a
-- cache line of its own, and looks at the other side's only when these say full or empty (as in MCRingBuffer: Lee, Bu,
-- Chandranmenon 2010). Between the slots and an index stands a memory barrier, a call that the compiler does not move
-- accesses across either.
--
-- A queue has the state of which sides are attached. Attaching waits until nobody else is attached on that side.
-- The last side to detach removes the queue; a side that comes back before that finds the packets that wait.
--
-- What differs from Snabb: copies, not pointers; fewer states; `capacity`.

local ffi = require("ffi")
local bit = require("bit")
local packet = require("core.packet")
local shm = require("core.shm")
local sync = require("core.sync")
local waitfor = require("core.lib").waitfor
require("core.lib_h")

local C = ffi.C
local band, bor = bit.band, bit.bor

ffi.cdef[[
// A packet is at most 10240 bytes long; the slot is a multiple of a cache line.
struct perigee_interlink_slot {
   uint8_t before[64];
   uint32_t length;
   uint8_t data[10300];
};
struct interlink {
   uint32_t read, write, size, state[1];
   uint8_t pad1[48];
   uint32_t lwrite, nread; // the receiver's
   uint8_t pad2[56];
   uint32_t lread, nwrite; // the transmitter's
   uint8_t pad3[56];
   struct perigee_interlink_slot slots[?];
};
]]

local M = {}

-- Bits of the state.
local RECEIVER, TRANSMITTER, REMOVED = 1, 2, 4

local function check_size(size)
   if type(size) ~= "number" or size < 2 or size > 65536 or band(size, size - 1) ~= 0 then
      error("interlink: size: expected a power of two from 2 to 65536, got " .. tostring(size), 4)
   end
end

-- Whether `side` could be attached.
local function try(r, side)
   while true do
      local state = sync.load(r.state)
      if band(state, bor(side, REMOVED)) ~= 0 then return false end
      if sync.cas(r.state, state, bor(state, side)) then return true end
   end
end

-- Maps the queue, which is made if it is not there. (shm.create would put a new one in the place of one of another
-- size.)
local function map(name, size)
   if not shm.exists(name) then return shm.create(name, "struct interlink", size) end
   local ok, r = pcall(shm.open, name, "struct interlink", false, size)
   return ok and r or nil
end

local function attach(name, size, side)
   check_size(size)
   local r, printed
   local failed = 0
   waitfor(function ()
      r = map(name, size)
      -- It may be about to be made or removed by another process, or it is smaller.
      failed = r and 0 or failed + 1
      if failed == 1000 then error(("interlink: %s has fewer slots than %d"):format(name, size), 0) end
      if not r then return false end
      if not sync.cas(ffi.cast("uint32_t *", r) + 2, 0, size) and r.size ~= size then
         local other = r.size
         shm.unmap(r)
         error(("interlink: %s has %d slots, not %d"):format(name, other, size), 0)
      end
      if try(r, side) then return true end
      shm.unmap(r)
      if not printed then
         print(("interlink: waiting for %s to become available..."):format(name))
         printed = true
      end
   end)
   return r
end

-- A function that sets the pointers of apps.rss.metadata before a packet anew, if a program has that module. Its type is that
-- module's; how it marks what is such metadata, a packet that it has seen tells.
local function relocator()
   local metadata = package.loaded["apps.rss.metadata"]
   local pointer = type(metadata) == "table" and metadata.pkt_meta_data_ptr_t
   if not pointer then return nil end
   local p = packet.from_string(("\0"):rep(60))
   local size = ffi.sizeof(metadata.pkt_meta_data_t)
   local magic = metadata.add(p).magic
   packet.free(p)
   return function (p)
      local md, data = ffi.cast(pointer, ffi.cast("uint8_t *", p) - size), p.data
      if md.magic == magic then
         md.filter_start, md.l3, md.l4 = data + md.filter_offset, data + md.l3_offset, data + md.l4_offset
      end
   end
end

local relocate

--- Attaches to the queue `name` (a path of core.shm) of `size` slots (a power of two; one stays empty) as its receiver;
--- waits while there is another one. Returns the queue. Throws if it has another size.
function M.attach_receiver(name, size)
   relocate = relocate or relocator()
   return attach(name, size, RECEIVER)
end

--- Attaches to the queue `name` as its transmitter; otherwise like `attach_receiver`.
function M.attach_transmitter(name, size)
   return attach(name, size, TRANSMITTER)
end

local function detach(r, name, side)
   local other = RECEIVER + TRANSMITTER - side
   while true do
      local state = sync.load(r.state)
      if band(state, side) == 0 then break end
      if band(state, other) ~= 0 then
         if sync.cas(r.state, state, state - side) then break end
      elseif sync.cas(r.state, state, REMOVED) then
         shm.unlink(name)
         break
      end
   end
   shm.unmap(r)
end

--- Detaches the receiver from the queue `r`, and removes it if no transmitter is attached.
function M.detach_receiver(r, name)
   detach(r, name, RECEIVER)
end

--- Detaches the transmitter from the queue `r`, and removes it if no receiver is attached.
function M.detach_transmitter(r, name)
   detach(r, name, TRANSMITTER)
end

--- For the transmitter: whether there is no free slot.
function M.full(r)
   local after = band(r.nwrite + 1, r.size - 1)
   if after ~= r.lread then return false end
   r.lread = r.read
   C.full_memory_barrier()
   return after == r.lread
end

local BEFORE = 64
local address = ffi.typeof("uint64_t")

--- For the transmitter: puts a copy of the packet `p` into the queue, which must not be full, and frees the packet.
function M.insert(r, p)
   local slot, length = r.slots[r.nwrite], p.length
   local start = ffi.cast("uint8_t *", p)
   local headroom = tonumber(band(ffi.cast(address, p), packet.packet_alignment - 1))
   if headroom >= BEFORE then
      ffi.copy(slot.before, start - BEFORE, BEFORE)
   else
      ffi.fill(slot.before, BEFORE)
      ffi.copy(slot.before + BEFORE - headroom, start - headroom, headroom)
   end
   slot.length = length
   ffi.copy(slot.data, p.data, length)
   r.nwrite = band(r.nwrite + 1, r.size - 1)
   packet.free(p)
end

--- For the transmitter: lets the receiver see what was inserted.
function M.push(r)
   if r.write == r.nwrite then return end
   C.full_memory_barrier()
   r.write = r.nwrite
end

--- For the receiver: whether there is no packet.
function M.empty(r)
   if r.nread ~= r.lwrite then return false end
   r.lwrite = r.write
   C.full_memory_barrier()
   return r.nread == r.lwrite
end

--- For the receiver: takes a packet out of the queue, which must not be empty. Returns a new packet.
function M.extract(r)
   local slot = r.slots[r.nread]
   -- Never trust another process with the length of a copy.
   local p = packet.from_pointer(slot.data, math.min(slot.length, packet.max_payload))
   ffi.copy(ffi.cast("uint8_t *", p) - BEFORE, slot.before, BEFORE)
   if relocate then relocate(p) end
   r.nread = band(r.nread + 1, r.size - 1)
   return p
end

--- For the receiver: lets the transmitter use the slots that were emptied.
function M.pull(r)
   if r.read == r.nread then return end
   C.full_memory_barrier()
   r.read = r.nread
end

--- Returns the number of packets that wait in the queue, and how many it holds.
function M.capacity(r)
   return band(r.write - r.read, r.size - 1), r.size - 1
end

--- Opens the queue `name`, which exists, without attaching: to look at it, or (not `readonly`) to detach a dead process.
function M.open(name, readonly)
   local r = shm.open(name, "struct interlink", true, 1)
   local size = r.size
   shm.unmap(r)
   return shm.open(name, "struct interlink", readonly, size)
end

local states = {
   [0] = "free to attach", [RECEIVER] = "waiting for transmitter", [TRANSMITTER] = "waiting for receiver",
   [RECEIVER + TRANSMITTER] = "in active use", [REMOVED] = "removed",
}

ffi.metatype("struct interlink", {__tostring = function (r)
   local waiting, capacity = M.capacity(r)
   return ("%d/%d (%s)"):format(waiting, capacity, states[r.state[0]] or "?")
end})

M.type = shm.register("interlink", M)

local function receive_all(r, expected)
   local n = 0
   while not M.empty(r) do
      local p = M.extract(r)
      n = n + 1
      assert(ffi.string(p.data, p.length) == expected[n], n)
      packet.free(p)
   end
   M.pull(r)
   assert(n == #expected, n)
end

-- Random inserts and extracts against a list.
local function test_list(tx, rx, seed)
   local list, next_number = {}, 0
   local pushed = 0
   for _ = 1, 5000 do
      local what = math.random(4)
      if what == 1 and not M.full(tx) then
         next_number = next_number + 1
         list[#list + 1] = tostring(next_number):rep(next_number % 50)
         M.insert(tx, packet.from_string(list[#list]))
      elseif what == 2 then
         M.push(tx)
         pushed = #list
      elseif what == 3 then
         assert(M.empty(rx) == (pushed == 0) or pushed > 0, seed)
         if not M.empty(rx) then
            local p = M.extract(rx)
            assert(ffi.string(p.data, p.length) == table.remove(list, 1), seed)
            packet.free(p)
            pushed = pushed - 1
         end
      else
         M.pull(rx)
      end
   end
   M.push(tx)
   receive_all(rx, list)
end

-- What stands before a packet comes along; pointers of a module like a tree's apps.rss.metadata are set anew.
local function test_metadata(name)
   local kept, before = package.loaded["apps.rss.metadata"], relocate
   local metadata = {pkt_meta_data_t = ffi.typeof[[struct {
      uint16_t magic; uint8_t *filter_start, *l3, *l4; uint16_t filter_offset, l3_offset, l4_offset;
   } __attribute__((packed))]]}
   metadata.pkt_meta_data_ptr_t = ffi.typeof("$ *", metadata.pkt_meta_data_t)
   function metadata.of(p)
      return ffi.cast(metadata.pkt_meta_data_ptr_t, ffi.cast("uint8_t *", p) - ffi.sizeof(metadata.pkt_meta_data_t))
   end
   function metadata.add(p)
      local md = metadata.of(p)
      md.magic, md.filter_offset, md.l3_offset, md.l4_offset = 0x1234, 4, 14, 34
      return md
   end
   package.loaded["apps.rss.metadata"], relocate = metadata, nil
   local rx, tx = M.attach_receiver(name, 8), M.attach_transmitter(name, 8)
   -- As first, with less headroom than comes along, and with too little of it for metadata.
   for _, headroom in ipairs{256, 56, 20} do
      local p = packet.shiftright(packet.from_string(("x"):rep(60)), 256 - headroom)
      assert(band(ffi.cast(address, p), 511) == headroom)
      if headroom > 20 then metadata.add(p) end
      M.insert(tx, p)
      M.push(tx)
      p = M.extract(rx)
      M.pull(rx)
      local md = metadata.of(p)
      if headroom == 20 then
         assert(md.magic ~= 0x1234)
      else
         assert(md.magic == 0x1234 and md.filter_start == p.data + 4 and md.l3 == p.data + 14 and md.l4 == p.data + 34)
      end
      packet.free(p)
   end
   M.detach_transmitter(tx, name)
   M.detach_receiver(rx, name)
   package.loaded["apps.rss.metadata"], relocate = kept, before
end

--- Passes packets through a queue, both ends of which are here; full, empty, detached and attached again.
function M.selftest()
   local name = "group/interlink/selftest.interlink"
   local tx, rx = M.attach_transmitter(name, 8), nil
   assert(tostring(tx) == "0/7 (waiting for receiver)", tostring(tx))
   local long = ("long"):rep(2560)
   for k = 1, 7 do
      assert(not M.full(tx))
      M.insert(tx, packet.from_string(k == 7 and long or tostring(k)))
   end
   assert(M.full(tx))
   rx = M.attach_receiver(name, 8)
   assert(M.empty(rx))
   M.push(tx)
   local looked = M.open(name, true)
   assert(tostring(looked) == "7/7 (in active use)", tostring(looked))
   shm.unmap(looked)
   receive_all(rx, {"1", "2", "3", "4", "5", "6", long})
   assert(not M.full(tx))
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   test_list(tx, rx, seed)
   -- The receiver goes and comes back: the packets wait.
   M.insert(tx, packet.from_string("waits"))
   M.push(tx)
   M.detach_receiver(rx, name)
   rx = M.attach_receiver(name, 8)
   M.detach_transmitter(tx, name)
   receive_all(rx, {"waits"})
   for _, size in ipairs({4, 16}) do
      local ok, err = pcall(M.attach_transmitter, name, size)
      assert(not ok and tostring(err):match("slots"), err)
   end
   M.detach_receiver(rx, name)
   assert(not shm.exists(name))
   for _, bad in ipairs({0, 1, 7, 2^20, "x"}) do assert(not pcall(M.attach_receiver, name, bad)) end
   assert(not shm.exists(name))
   test_metadata(name)
end

return M
