-- SPDX-License-Identifier: MIT
-- core.group_freelist: a lock-free queue in shared memory through which the processes of a group pass chunks of free
-- packets. The API is Snabb's. After Dmitry Vyukov, "Bounded MPMC queue".
--
-- Every slot has a sequence number that says whose turn it is: at position `pos` (which counts on from 0 and wraps at
-- 2^32) a producer may take the slot when its sequence is pos, a consumer when it is pos + 1; when done, either sets
-- it to the value that the next one waits for. Slots are filled and emptied in place, between start_... and `finish`. A process
-- that dies in between leaves a slot that nobody passes: the queue then looks full to producers and empty to
-- consumers.
--
-- Differs from Snabb: `nfree`; a list that exists keeps its size, whatever size is asked for.

local ffi = require("ffi")
local bit = require("bit")
local shm = require("core.shm")
local sync = require("core.sync")
require("core.lib_h")
local C = ffi.C

local M = {}

--- Packets of a chunk.
M.chunksize = 2048

-- 1024 chunks of 2048 packets: about two million.
local DEFAULT_SIZE = 1024
local WRAP = 2^32

-- Both positions have a cache line of their own.
ffi.cdef([[
struct group_freelist_chunk {
   uint32_t sequence[1], nfree;
   struct packet *list[]]..M.chunksize..[[];
};
struct group_freelist {
   uint32_t enqueue_pos[1], enqueue_mask;
   uint8_t pad_enqueue_pos[56];
   uint32_t dequeue_pos[1], dequeue_mask;
   uint8_t pad_dequeue_pos[56];
   uint32_t size, state[1];
   uint8_t pad_state[56];
   struct group_freelist_chunk chunk[?];
};
]])

local list_t = ffi.typeof("struct group_freelist")
local CREATED, INITIALISING, READY = 0, 1, 2
local cas, load, band, tobit = sync.cas, sync.load, bit.band, bit.tobit

local function wait_until_ready (fl, name)
   local deadline = C.get_monotonic_time() + 5
   while load(fl.state) ~= READY do
      if C.get_monotonic_time() > deadline then
         error("group_freelist: "..name.." was not initialised within 5 seconds by the process that made it", 3)
      end
   end
end

--- Open a list that another process made, of the size it has. Errors if it is not there.
function M.freelist_open (name, readonly)
   local head = shm.open(name, list_t, true, 1)
   wait_until_ready(head, name)
   local size = head.size
   shm.unmap(head)
   return shm.open(name, list_t, readonly, size)
end

--- Make a list of *size* chunks (a power of 2, 1024 if omitted), or open it if another process of the group has made
--- it.
function M.freelist_create (name, size)
   size = size or DEFAULT_SIZE
   if type(size) ~= "number" or size < 1 or size > 2^16 or size % 1 ~= 0 or band(size, size - 1) ~= 0 then
      error("group_freelist: the size must be a power of 2 up to 65536, not "..tostring(size), 2)
   end
   if shm.exists(name) then return M.freelist_open(name) end
   local fl = shm.create(name, list_t, size)
   if not cas(fl.state, CREATED, INITIALISING) then
      shm.unmap(fl)
      return M.freelist_open(name)
   end
   fl.size, fl.enqueue_mask, fl.dequeue_mask = size, size - 1, size - 1
   for i = 0, size - 1 do fl.chunk[i].sequence[0] = i end
   sync.store(fl.state, READY)
   return fl
end

--- Take a slot to fill. Returns its chunk (set `nfree` and `list[0..nfree-1]`) and the number to give to `finish`;
--- nothing if the list is full.
function M.start_add (fl)
   local mask, pos = fl.enqueue_mask, load(fl.enqueue_pos)
   while true do
      local chunk = fl.chunk[band(pos, mask)]
      local turn = tobit(load(chunk.sequence) - pos)
      if turn < 0 then return nil end
      if turn == 0 and cas(fl.enqueue_pos, pos, (pos + 1) % WRAP) then return chunk, (pos + 1) % WRAP end
      pos = load(fl.enqueue_pos)
   end
end

--- Take the oldest filled slot. Returns its chunk and the number to give to `finish` once it is emptied; nothing if
--- the list is empty.
function M.start_remove (fl)
   local mask, pos = fl.dequeue_mask, load(fl.dequeue_pos)
   while true do
      local chunk = fl.chunk[band(pos, mask)]
      local turn = tobit(load(chunk.sequence) - (pos + 1))
      if turn < 0 then return nil end
      if turn == 0 and cas(fl.dequeue_pos, pos, (pos + 1) % WRAP) then return chunk, (pos + mask + 1) % WRAP end
      pos = load(fl.dequeue_pos)
   end
end

--- Hand a slot on: *chunk* and *sequence* as start_add or start_remove returned them.
function M.finish (chunk, sequence)
   sync.store(chunk.sequence, sequence)
end

--- How many slots are filled, or being filled or emptied.
function M.occupied_chunks (fl)
   return (load(fl.enqueue_pos) - load(fl.dequeue_pos)) % WRAP
end

--- How many packets are in the list, about: those of slots in use by nobody else at this moment.
function M.nfree (fl)
   local first, sum = load(fl.dequeue_pos), 0
   for i = 0, M.occupied_chunks(fl) - 1 do
      local pos = (first + i) % WRAP
      local chunk = fl.chunk[band(pos, fl.dequeue_mask)]
      if load(chunk.sequence) == (pos + 1) % WRAP then sum = sum + chunk.nfree end
   end
   return sum
end

shm.register("group_freelist", {open = M.freelist_open, type = "group_freelist"})

ffi.metatype(list_t, {__tostring = function (fl)
   return ("%d/%d"):format(M.occupied_chunks(fl) * M.chunksize, fl.size * M.chunksize)
end})

-- Against a plain queue: random adds and removes that are finished at once, oldest first, or later.
local function test_oracle (fl, rounds, seed)
   local queue, number = {}, 0 -- numbers of the chunks in the list
   for _ = 1, rounds do
      local unfinished = {}
      for _ = 1, math.random(0, fl.size) do
         local chunk, sequence = M.start_add(fl)
         if not chunk then
            assert(#queue == fl.size, "seed "..seed)
            break
         end
         number = number + 1
         chunk.nfree = number % M.chunksize
         chunk.list[0] = ffi.cast("struct packet *", number)
         queue[#queue + 1] = number
         unfinished[#unfinished + 1] = {chunk, sequence}
      end
      while #unfinished > 0 do -- in any order
         local done = table.remove(unfinished, math.random(#unfinished))
         M.finish(done[1], done[2])
      end
      assert(M.occupied_chunks(fl) == #queue, "seed "..seed)
      for _ = 1, math.random(0, fl.size) do
         local chunk, sequence = M.start_remove(fl)
         local expected = table.remove(queue, 1)
         if not chunk then
            assert(not expected, "seed "..seed)
            break
         end
         assert(chunk.list[0] == ffi.cast("struct packet *", expected) and chunk.nfree == expected % M.chunksize)
         M.finish(chunk, sequence)
      end
   end
   while true do
      local chunk, sequence = M.start_remove(fl)
      if not chunk then break end
      M.finish(chunk, sequence)
   end
end

local function test_slots (fl)
   assert(not M.start_remove(fl))
   local a, sa = M.start_add(fl)
   local b, sb = M.start_add(fl)
   a.nfree, b.nfree = 3, 4
   M.finish(b, sb)
   assert(not M.start_remove(fl) and M.nfree(fl) == 4) -- the older one is not done
   M.finish(a, sa)
   assert(M.nfree(fl) == 7 and tostring(fl) == "4096/"..fl.size * 2048)
   local c, sc = M.start_remove(fl)
   local d, sd = M.start_remove(fl)
   assert(c == a and d == b and not M.start_remove(fl))
   M.finish(c, sc); M.finish(d, sd)
   assert(M.nfree(fl) == 0 and M.occupied_chunks(fl) == 0)
   for _ = 1, fl.size do M.finish(M.start_add(fl)) end
   assert(not M.start_add(fl))
   for _ = 1, fl.size do M.finish(M.start_remove(fl)) end
   assert(not M.start_remove(fl))
end

-- What a worker process does: it takes chunks out and puts them in again, at random several at once.
local CYCLE = [[
local freelist, shm = require("core.group_freelist"), require("core.shm")
local fl = freelist.freelist_open("group/selftest.group_freelist")
local done = shm.create("group/selftest.group_freelist.%d", "uint32_t")
local ids, count = {}, 0
math.randomseed(%d)
for i = 1, 20000 do
   for _ = 1, math.random(3) do
      local chunk, sequence = freelist.start_remove(fl)
      if chunk then
         count = count + 1
         ids[count] = chunk.nfree
         freelist.finish(chunk, sequence)
      end
   end
   for _ = 1, i == 20000 and count or math.random(0, count) do
      local chunk, sequence
      repeat chunk, sequence = freelist.start_add(fl) until chunk
      chunk.nfree = ids[count]
      count = count - 1
      freelist.finish(chunk, sequence)
   end
end
done[0] = 1
]]

-- Two processes at once: every chunk is there once at the end.
local function test_processes ()
   local worker, sys = require("core.worker"), require("core.sys")
   local fl = M.freelist_create("group/selftest.group_freelist", 8)
   for i = 1, 8 do
      local chunk, sequence = M.start_add(fl)
      chunk.nfree = i
      M.finish(chunk, sequence)
   end
   for i = 1, 2 do worker.start("selftest"..i, CYCLE:format(i, i)) end
   for i = 1, 2 do
      local name, waited = "selftest"..i, 0
      while worker.status()[name].alive do
         waited = waited + 1
         assert(waited < 6000, "a worker does not end")
         sys.sleep(0.01)
      end
      assert(worker.status()[name].status == 0)
      assert(shm.open("group/selftest.group_freelist."..i, "uint32_t", true)[0] == 1)
   end
   assert(M.nfree(fl) == 36 and fl.enqueue_pos[0] > 20000)
   local seen = {}
   for _ = 1, 8 do
      local chunk, sequence = M.start_remove(fl)
      assert(not seen[chunk.nfree])
      seen[chunk.nfree] = true
      M.finish(chunk, sequence)
   end
   assert(not M.start_remove(fl) and #seen == 8)
   shm.unmap(fl)
   for _, name in ipairs{"", ".1", ".2"} do shm.unlink("group/selftest.group_freelist"..name) end
end

function M.selftest ()
   test_processes()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED") or "1")
   math.randomseed(seed)
   local name = "selftest.group_freelist/a.group_freelist"
   local fl = M.freelist_create(name, 32)
   test_slots(fl)
   test_oracle(fl, 100, seed)
   -- The same list again, whatever size is requested, and read-only.
   local again, readonly = M.freelist_create(name, 64), M.freelist_open(name, true)
   assert(again.size == 32 and readonly.size == 32)
   M.finish(M.start_add(fl))
   assert(M.occupied_chunks(again) == 1 and tostring(readonly) == "2048/65536")
   M.finish(M.start_remove(again))
   assert(M.occupied_chunks(fl) == 0)
   -- Positions that wrap.
   local base = WRAP - 40
   fl.enqueue_pos[0], fl.dequeue_pos[0] = base, base
   for i = 0, 31 do fl.chunk[band(base + i, 31)].sequence[0] = (base + i) % WRAP end
   test_oracle(fl, 20, seed)
   assert(fl.enqueue_pos[0] < 2^31)
   assert(shm.open_frame("selftest.group_freelist").a.size == 32)
   for _, bad in ipairs{0, 3, 2^17, 1.5, "x"} do assert(not pcall(M.freelist_create, name, bad)) end
   assert(not pcall(M.freelist_open, "selftest.group_freelist/none"))
   assert(M.chunksize == 2048 and M.freelist_create("selftest.group_freelist/b").size == DEFAULT_SIZE)
   shm.unlink("selftest.group_freelist")
end

return M
