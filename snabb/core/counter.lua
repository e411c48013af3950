-- SPDX-License-Identifier: MIT
-- core.counter: 64-bit counters in shared memory, for other processes to read. The API is Snabb's.
--
-- A process counts in a private copy of each counter and publishes all of them from time to time with `commit` (the
-- engine does so every 100 breaths). Shared objects lie on pages of their own, so that counting in them directly would touch
-- one cache set and one TLB entry for each; the private copies lie densely, in blocks of 512.
--
-- Differs from Snabb: slots of deleted counters are used again, and private copies are dense.

local ffi = require("ffi")
local shm = require("core.shm")
require("core.counter_h")

local M = {}

local counter_t = ffi.typeof("struct counter")
local counter_ptr = ffi.typeof("struct counter *")
local BLOCK = 512
local block_t = ffi.typeof("struct { struct counter private[512]; struct counter *public[512]; }")

--- The C type of a counter: `struct { uint64_t c; }`.
M.t = counter_t

--- The name of the kind of object in shared memory: "counter".
M.type = shm.register("counter", M)

local blocks = {}    -- of private counters, and where each is published
local high = 0       -- slots ever used: slot n is blocks[floor(n / BLOCK) + 1].private[n % BLOCK]
local free_slots = {}
local by_name = {}   -- name -> {counter =, slot = (nil for one opened for reading), public =}

local function take_slot ()
   local slot = table.remove(free_slots)
   if not slot then
      slot = high
      high = high + 1
      if slot % BLOCK == 0 then
         local memory = block_t()
         -- References made once, as each would be an allocation.
         blocks[#blocks + 1] = {memory = memory, private = memory.private, public = memory.public}
      end
   end
   return slot, blocks[math.floor(slot / BLOCK) + 1], slot % BLOCK
end

--- Make a counter of this name (see core.shm). *initial* is its first value, 0 if omitted. A name that this process has
--- made or opened already gives the same counter again, as it stands.
function M.create (name, initial)
   local known = by_name[name]
   if known then return known.counter end
   local public = shm.create(name, counter_t)
   local slot, block, i = take_slot()
   local counter = block.private + i
   counter.c = initial or 0
   public.c = counter.c
   block.public[i] = public
   by_name[name] = {counter = counter, slot = slot, public = public}
   return counter
end

--- Open another process's counter for reading. A name that this process knows gives the counter that it has.
function M.open (name)
   local known = by_name[name]
   if known then return known.counter end
   local public = shm.open(name, counter_t, true)
   by_name[name] = {counter = public, public = public}
   return public
end

--- Give a counter up: unmap it, and if this process made it, remove it. Nobody may use it afterwards. Errors if there
--- is no counter of this name.
function M.delete (name)
   local known = by_name[name]
   if not known then error("counter not found for deletion: "..tostring(name), 2) end
   by_name[name] = nil
   if known.slot then
      local block = blocks[math.floor(known.slot / BLOCK) + 1]
      block.public[known.slot % BLOCK] = nil
      block.private[known.slot % BLOCK].c = 0
      free_slots[#free_slots + 1] = known.slot
      shm.unlink(name)
   end
   shm.unmap(known.public)
end

local function commit_block (block, n)
   local private, public = block.private, block.public
   for i = 0, n - 1 do
      if public[i] ~= nil then public[i].c = private[i].c end
   end
end

--- Publish the values of all counters that this process made.
function M.commit ()
   local left = high
   for b = 1, #blocks do
      commit_block(blocks[b], left < BLOCK and left or BLOCK)
      left = left - BLOCK
   end
end

--- Set a counter's value.
function M.set (counter, value)
   counter.c = value
end

--- Add *value* (1 if omitted) to a counter; the sum wraps at 2^64.
function M.add (counter, value)
   counter.c = counter.c + (value or 1)
end

--- A counter's value, a uint64_t; `tonumber` makes a Lua number of it.
function M.read (counter)
   return counter.c
end

-- Digits in groups of three.
ffi.metatype(counter_t, {__tostring = function (counter)
   local digits = tostring(counter.c):match("%d+")
   local text = digits:reverse():gsub("(%d%d%d)", "%1,"):reverse()
   return (text:gsub("^,", ""))
end})

local function test_many ()
   -- More than a block, half of them deleted and made again: values stay with their names.
   local n, made = 3 * BLOCK + 7, {}
   for i = 1, n do made[i] = M.create("selftest.counter/many/"..i..".counter", i) end
   for i = 2, n, 2 do M.delete("selftest.counter/many/"..i..".counter") end
   local before = high
   for i = 2, n, 2 do made[i] = M.create("selftest.counter/many/"..i..".counter", 2 * i) end
   assert(high == before)
   for i = 1, n do
      M.add(made[i], 1000)
      assert(M.read(made[i]) == (i % 2 == 0 and 2 * i or i) + 1000)
   end
   M.commit()
   for _, i in ipairs{1, 2, BLOCK, BLOCK + 1, n - 1, n} do
      local public = shm.open("selftest.counter/many/"..i..".counter", counter_t, true)
      assert(public.c == M.read(made[i]))
      shm.unmap(public)
   end
   for i = 1, n do M.delete("selftest.counter/many/"..i..".counter") end
   M.commit()
end

function M.selftest ()
   local a, b = M.create("selftest.counter/a.counter"), M.create("selftest.counter/b.counter", 7)
   local public = shm.open("selftest.counter/a.counter", counter_t, true)
   assert(M.read(a) == 0 and M.read(b) == 7 and ffi.typeof(a) ~= nil)
   M.set(a, 42)
   M.add(a); M.add(a, 5); M.add(b)
   assert(M.read(a) == 48 and M.read(b) == 8 and public.c == 0)
   M.commit()
   assert(public.c == 48 and ffi.istype("uint64_t", M.read(a)))
   assert(M.create("selftest.counter/a.counter", 99) == a and M.read(a) == 48)
   assert(M.open("selftest.counter/a.counter") == a)
   -- The largest value, and what comes after it.
   M.set(b, 0xffffffffffffffffULL)
   assert(tostring(b) == "18,446,744,073,709,551,615")
   M.add(b)
   assert(M.read(b) == 0 and tostring(b) == "0" and tostring(a) == "48")
   M.set(b, 123456)
   assert(tostring(b) == "123,456")
   -- In a frame.
   local frame = shm.create_frame("selftest.counter/frame", {drops = {M, 3}, sent = {M}})
   M.add(frame.drops)
   M.commit()
   local raw = shm.open("selftest.counter/frame/drops.counter", counter_t, true)
   assert(raw.c == 4 and M.read(frame.sent) == 0)
   shm.unmap(raw)
   shm.delete_frame(frame)
   assert(not shm.exists("selftest.counter/frame"))
   assert(not pcall(M.delete, "selftest.counter/frame/drops.counter") and not pcall(M.open, "selftest.counter/none"))
   M.delete("selftest.counter/a.counter"); M.delete("selftest.counter/b.counter")
   assert(public.c == 48)
   shm.unmap(public)
   test_many()
   -- Somebody else's counter is read where it is, and deleting it here leaves it there.
   local theirs = shm.create("selftest.counter/theirs.counter", counter_t)
   local seen = M.open("selftest.counter/theirs.counter")
   theirs.c = 5
   M.commit()
   assert(M.read(seen) == 5 and theirs.c == 5)
   M.delete("selftest.counter/theirs.counter")
   assert(shm.exists("selftest.counter/theirs.counter"))
   assert(ffi.istype(counter_ptr, a))
   shm.unlink("selftest.counter")
end

return M
