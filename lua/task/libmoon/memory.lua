-- SPDX-License-Identifier: MIT
-- Pools and arrays of buffers, for programs of libmoon.
--
--   local mem = memory.createMemPool(function(buf) buf:getUdpPacket():fill { pktLength = 60 } end)
--   local bufs = mem:bufArray()     bufs:alloc(60)     for i, buf in ipairs(bufs) do ... end     queue:send(bufs)
--
-- An array is a batch of perigee and, for each of its places, which slot of the batch is meant: as a rule the one of the same number.
local ffi = require "ffi"
local native = require "perigee.native"
local task = require "perigee.task"
local modules = require "perigee.modules"
local packet = require "libmoon.packet"
local C = ffi.C
local host = native.host

local memory = {}

ffi.cdef [[
typedef struct libmoon_bufs {
  perigee_batch *batch;
  perigee_pool *pool;  /* null: the array is for receiving */
  int32_t size;        /* places that are used */
  int32_t maxSize;     /* places that there are */
  int32_t n;           /* places that ipairs visits: those that were allocated or received */
  int32_t moves;       /* how often packets had changed places when these had the slots of their numbers */
  libmoon_buf array[256];
} libmoon_bufs;
void *malloc(size_t);
void free(void *);
]]

local LARGEST = 256
local bufs = {}
local bufs_type
local slots = ffi.typeof "libmoon_buf"

-- Packets that changed from one array to another, of all arrays: without any, places have the slots of their numbers.
local moves = ffi.new "int32_t[1]"

-- Every place means the slot of its number.
local function straighten(self)
  for i = 0, self.maxSize - 1 do
    self.array[i].batch, self.array[i].slot = self.batch, i
  end
  self.moves = moves[0]
end

local function new(n, pool)
  n = n or 63
  if n < 1 or n > LARGEST then native.throw(("an array of %s buffers: 1 to %d are possible"):format(n, LARGEST)) end
  local self = bufs_type()
  self.batch, self.pool, self.size, self.maxSize = task.burst(), pool, n, n
  straighten(self)
  return self
end

-- Packets ---------------------------------------------------------------------------------------------------------------------

-- Waits for buffers that are on their way. A loop of its own: in `fill`, it would keep the caller's from being compiled.
local function fill_later(self, size, n, filled)
  while filled ~= n do
    if filled == 0xffffffff then native.throw(ffi.string(C.perigee_failure(C.perigee_task_context(host)))) end
    if C.perigee_task_running(host, 0) == 0 then
      self.n = filled
      return
    end
    filled = C.perigee_task_fill(host, self.pool, self.batch, n, size)
  end
end

-- New packets of `size` bytes, copies of the pool's prototype.
local function fill(self, size, n)
  if self.pool == nil then native.throw "the array has no pool: make it by mem:bufArray(), not by memory.bufArray()" end
  if self.moves ~= moves[0] then straighten(self) end
  self.n = n
  local filled = C.perigee_task_fill(host, self.pool, self.batch, n, size)
  if filled ~= n then fill_later(self, size, n, filled) end
end
function bufs:alloc(size) fill(self, size, self.size) end
function bufs:allocN(size, n)
  self:resize(n)
  fill(self, size, n)
end

function bufs:resize(n)
  if n > self.maxSize then native.throw(("an array for %d buffers cannot be made larger, to %d"):format(self.maxSize, n)) end
  self.size = n
end

-- For what fills the batch: `n` packets are in its first slots now.
function bufs:received(n)
  if self.moves ~= moves[0] then straighten(self) end
  self.n = n
end

-- A mask of the packets in places from..to-1, if they are not all that there are.
local some
local function places(self, from, to)
  some = some or task.mask()
  some:zero()
  for i = from, math.min(to, self.maxSize) - 1 do
    if self.array[i].batch == self.batch then some:set(self.array[i].slot) end
  end
  return some
end
function bufs:places(from, to) return places(self, from, to) end

function bufs:freeAll() self.batch:free() end
function bufs:free(n)
  if n == nil or n >= self.n then return self.batch:free() end
  self.batch:free(places(self, 0, n))
end
function bufs:freeAfter(n) self.batch:free(places(self, n, self.maxSize)) end

-- Checksums are written at once, in software: all of them, whichever is asked for, but for IP alone.
function bufs:offloadUdpChecksums() self.batch:checksums() end
bufs.offloadTcpChecksums = bufs.offloadUdpChecksums
function bufs:offloadIPChecksums(ipv4)
  if ipv4 == false then return end
  local live = self.batch.live
  for i = 0, self.n - 1 do
    local buf = self.array[i]
    if live:has(buf.slot) then packet.getIP4Packet(buf).ip4:calculateChecksum() end
  end
end
function bufs:offloadIPSec() native.throw "IPsec offloads are not there" end

function bufs:setVlans(vlan, priority, dei)
  for i = 0, self.n - 1 do self.array[i]:setVlan(vlan, priority, dei) end
end

-- Puts a packet of another array into a place: it moves to this array's batch, and the place that it was in means it, too.
local crowded
local function put(self, i, buf)
  if i < 0 or i >= self.maxSize then native.throw(("there is no place %d in an array of %d buffers"):format(i + 1, self.maxSize)) end
  if not ffi.istype(slots, buf) then native.throw(("expected a packet buffer, found a %s"):format(type(buf))) end
  if buf.batch ~= self.batch then
    if self.batch.live:empty() then
      self.batch.count = 0
    elseif self.batch.count == LARGEST then
      -- Close the gaps that packets have left.
      crowded = crowded or task.burst()
      local order = {}
      for place = 0, self.maxSize - 1 do
        if self.array[place].batch == self.batch and self.batch.live:has(self.array[place].slot) then order[self.array[place].slot] = place end
      end
      modules.move(self.batch, self.batch.live, crowded)
      self.batch.count = 0
      modules.move(crowded, crowded.live, self.batch)
      crowded.count = 0
      local slot = 0
      for old = 0, LARGEST - 1 do
        if order[old] then
          self.array[order[old]].slot = slot
          slot = slot + 1
        end
      end
    end
    modules.move(buf.batch, packet.only(buf), self.batch)
    buf.batch, buf.slot = self.batch, self.batch.count - 1
  end
  local place = self.array[i]
  place.batch, place.slot, place.udata64, place.stamp = buf.batch, buf.slot, buf.udata64, buf.stamp
  moves[0] = moves[0] + 1
  if i >= self.n then self.n = i + 1 end
end

local function step(self, i)
  if i < self.n then return i + 1, self.array[i] end
end

bufs_type = ffi.metatype("libmoon_bufs", {
  __index = function(self, key)
    if type(key) == "number" then
      if key >= 1 and key <= self.maxSize then return self.array[key - 1] end
      return nil
    end
    return bufs[key]
  end,
  __newindex = function(self, key, value)
    if type(key) ~= "number" then native.throw(("an array of buffers has no field %s"):format(tostring(key))) end
    put(self, key - 1, value)
  end,
  __len = function(self) return self.size end,
  __ipairs = function(self) return step, self, 0 end,
})

-- For a function that is given an array: is it one?
function memory.isBufArray(value) return ffi.istype(bufs_type, value) end

function memory.bufArray(n)
  if n == memory then n = nil end
  return new(n, nil)
end
memory.createBufArray = memory.bufArray

-- Pools -----------------------------------------------------------------------------------------------------------------------

local pool = {}
pool.__index = pool
function pool:bufArray(n) return new(n, self.pool) end
function pool:retain() end

-- A single packet is in an array of its own, which is used again once the packet is gone.
local singles = {}
function pool:alloc(size)
  local found
  for _, single in ipairs(singles) do
    if single.batch.live:empty() then found = single break end
  end
  if not found then
    found = new(1)
    table.insert(singles, found)
  end
  found.pool = self.pool
  found:alloc(size)
  return found[1]
end

local ROOM = 1522 -- bytes that the function which fills the prototype may write

-- (function), (n, function), or a table { n =, func =, bufSize =, socket = }. The function is called once: all packets start as copies of
-- what it makes.
function memory.createMemPool(...)
  local first, second = ...
  local options = type(first) == "table" and first or type(first) == "function" and { func = first } or { n = first, func = second }
  local room = math.max(options.bufSize or 2048, 256)
  local buffers = math.max(options.n or 2047, 511)
  local plain = task.pool { buffers = buffers, room = room }
  if not options.func then return setmetatable({ pool = plain, n = buffers }, pool) end
  local size = math.min(ROOM, room - 128)
  local draft = new(1, task.pool { buffers = 63, room = room })
  draft:alloc(size)
  options.func(draft[1])
  -- Zeros at the end need no copying.
  local frame = draft.batch:frame(draft[1].slot):gsub("%z+$", "")
  draft:freeAll()
  return setmetatable({ pool = task.pool { buffers = buffers, room = room, prototype = frame }, n = buffers }, pool)
end
function memory.freeMemPools() end
function memory.enableCache() end

-- Plain memory ----------------------------------------------------------------------------------------------------------------

-- Memory that no garbage collector frees, as a pointer of that type.
function memory.alloc(ctype, size) return ffi.cast(ctype, C.malloc(size)) end
function memory.free(pointer) C.free(ffi.cast("void *", pointer)) end
memory.allocHuge, memory.freeHuge = memory.alloc, memory.free
function memory.fence() end
function memory.testAllocationSpace() end

return memory
