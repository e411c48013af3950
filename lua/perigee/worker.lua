-- SPDX-License-Identifier: MIT
-- The worker, batches and masks as a script sees them.
--
--   worker:next(burst)                     the next burst of any queue; false once the loop is to end. Between two rounds over the
--                                          queues the host does what is due: flushes, table swaps, counters, sleep when idle. It is
--                                          an empty burst where none came and what a gather holds has waited long enough
--   worker.queues, worker.id, worker:running(), worker:receive(queue, burst), worker:housekeeping()   the same, step by step
--   worker:batch(), worker:mask(), worker:gather(size, timeout_us)      made and owned by the host
--   burst.count, burst.length[slot], burst.data[slot], ...              see perigee.h; slots count from 0
--   burst:checksums(mask)                  writes checksums after headers were written: of all packets, or of a mask's
--   burst:changed()                        after writing burst.length or burst.l3, or through a pointer that was kept
--   mask:has(slot), mask:set(slot), mask:clear(slot), mask:empty(), mask:count(), mask:assign(other),
--   mask:remove(other), mask:add(other), mask:keep(other)
local ffi = require "ffi"
local bit = require "bit"
local C = ffi.C
local band, bor, bnot, lshift, rshift = bit.band, bit.bor, bit.bnot, bit.lshift, bit.rshift

local worker = {}
worker.__index = worker
function worker:receive(queue, burst) return C.perigee_worker_receive(self, queue - 1, burst) end
function worker:running() return C.perigee_worker_running(self) ~= 0 end

-- Garbage is collected between two rounds, in steps that keep pace with what was allocated: pauses are short, and the host knows
-- them. A cycle begins when the heap has doubled since the end of the last one. LuaJIT's own steps would come in the middle of a
-- burst; they are left to heaps that grow tenfold within a millisecond.
local goal, before, collecting = 0, 0, false

local function collect(self)
  local kb, steps = collectgarbage("count"), 0
  if goal == 0 then goal = 2 * kb end
  if collecting or kb >= goal then
    collecting = true
    -- A step looks at about two KB of the heap.
    for _ = 1, 16 + 4 * math.max(kb - before, 0) do
      steps = steps + 1
      if collectgarbage("step", 0) then
        collecting, goal = false, 2 * collectgarbage("count")
        break
      end
    end
    collectgarbage("restart", -1)
  end
  before = collectgarbage("count")
  C.perigee_worker_collected(self, steps, before)
end

local function failed(self, level)
  error(ffi.string(C.perigee_failure(C.perigee_worker_context(self))), level)
end

local function between_rounds(self, due)
  if due < 0 then failed(self, 4) end
  collect(self)
end

-- Out of the loop that `worker:next` is compiled into, as a trace of its own.
local function collect_and_go_on(self, burst, packets)
  while packets == -2 do
    collect(self)
    packets = C.perigee_worker_next(self, burst)
  end
  -- Called as a tail, so it has its caller's place on the stack.
  if packets == -1 then failed(self, 3) end
  return packets ~= 0
end

function worker:next(burst)
  local packets = C.perigee_worker_next(self, burst)
  if packets > 0 then return true end
  return collect_and_go_on(self, burst, packets)
end

function worker:housekeeping()
  local due = C.perigee_worker_housekeeping(self)
  if due ~= 0 then between_rounds(self, due) end
end
-- What the host could not make is an error: a pointer to nothing would crash whatever uses it.
local function made(pointer)
  return pointer ~= nil and pointer or error("the host made nothing: call it as a method of the worker, worker:batch()", 3)
end
function worker:batch() return made(C.perigee_worker_batch(self)) end
function worker:mask() return made(C.perigee_worker_mask(self)) end
function worker:gather(size, timeout_us) return made(C.perigee_worker_gather(self, size, timeout_us * 1000)) end
ffi.metatype("perigee_worker", worker)

local mask = {}
mask.__index = mask
-- Slots count from 0 to 255; beyond them there is other memory, which FFI would read and write.
local function wrong(slot)
  error(("found slot %s, expected 0 to 255"):format(tostring(slot)), 3)
end
function mask:has(slot)
  if not (slot >= 0 and slot <= 255) then wrong(slot) end
  return band(rshift(self.word[rshift(slot, 6)], band(slot, 63)), 1ULL) ~= 0ULL
end
function mask:set(slot)
  if not (slot >= 0 and slot <= 255) then wrong(slot) end
  local i = rshift(slot, 6)
  self.word[i] = bor(self.word[i], lshift(1ULL, band(slot, 63)))
end
function mask:clear(slot)
  if not (slot >= 0 and slot <= 255) then wrong(slot) end
  local i = rshift(slot, 6)
  self.word[i] = band(self.word[i], bnot(lshift(1ULL, band(slot, 63))))
end
function mask:empty() return bor(bor(self.word[0], self.word[1]), bor(self.word[2], self.word[3])) == 0ULL end
function mask:zero() self.word[0], self.word[1], self.word[2], self.word[3] = 0ULL, 0ULL, 0ULL, 0ULL end
function mask:assign(other)
  local from = other.word
  self.word[0], self.word[1], self.word[2], self.word[3] = from[0], from[1], from[2], from[3]
end
function mask:add(other) for i = 0, 3 do self.word[i] = bor(self.word[i], other.word[i]) end end
function mask:keep(other) for i = 0, 3 do self.word[i] = band(self.word[i], other.word[i]) end end
function mask:remove(other) for i = 0, 3 do self.word[i] = band(self.word[i], bnot(other.word[i])) end end
function mask:count()
  local n = 0
  for i = 0, 3 do
    local w = self.word[i]
    while w ~= 0ULL do
      w = band(w, w - 1)
      n = n + 1
    end
  end
  return n
end
ffi.metatype("perigee_mask", mask)

return worker
