-- SPDX-License-Identifier: MIT
-- Pipes between tasks: slow ones take any values, fast ones pointers, packet rings packets (without copying).
local ffi = require "ffi"
local native = require "perigee.native"
local task = require "perigee.task"
local values = require "perigee.values"
local memory = require "libmoon.memory"
local packet = require "libmoon.packet"
local modules = require "perigee.modules"

local pipe = {}

local function class(name)
  local object = {}
  object.__index = object
  values.class("libmoon." .. name, object, function(self) return self.base end, function(base) return setmetatable({ base = base }, object) end)
  pipe[name] = object
  return object
end

-- Any values: several at once, in one message.
local slow = class "slowPipe"
function pipe:newSlowPipe() return setmetatable({ base = task.pipe(512) }, slow) end
local function unpacked(message)
  if message then return unpack(message, 1, message.n) end
end
function slow:send(...) self.base:send { n = select("#", ...), ... } end
-- Waits up to that many us.
function slow:tryRecv(us) return unpacked(self.base:receive((us or 0) / 1e6)) end
function slow:recv() return unpacked(self.base:receive()) end
function slow:count() return self.base:length() end
function slow:empty() while self.base:try_receive() do end end
function slow:delete() end
function pipe:sendToSlowPipe(to, ...) to:send(...) end

-- Pointers to memory that no garbage collector frees (memory.alloc).
local fast = class "fastPipe"
function pipe:newFastPipe(size) return setmetatable({ base = task.pipe(size or 512) }, fast) end
local function address(object)
  if ffi.istype(packet.buf_type, object) then native.throw "packets go to other tasks through a ring: pipe:newPacketRing()" end
  if type(object) ~= "cdata" then native.throw(("a fast pipe takes pointers, not a %s: use a slow pipe"):format(type(object))) end
  return ffi.cast("uint64_t", ffi.cast("uintptr_t", ffi.cast("void *", object)))
end
local function pointer(message)
  if message then return ffi.cast("void *", ffi.cast("uintptr_t", message)) end
end
function fast:send(object) self.base:send(address(object)) end
function fast:trySend(object) return self.base:try_send(address(object)) end
function fast:tryRecv(us) return pointer(self.base:receive((us or 0) / 1e6)) end
function fast:recv() return pointer(self.base:receive()) end
function fast:count() return self.base:length() end
function fast:delete() end
function pipe:sendToFastPipe(to, object) to:send(object) end

-- Packets, from any task to one. Sending never waits: all packets are taken, or none.
local ring = {}
ring.__index = ring
values.class("libmoon.packetRing", ring, function(self) return { self.base, self.size, self.used } end,
  function(plain) return setmetatable({ base = plain[1], size = plain[2] }, ring) end)
pipe.packetRing = ring
function pipe:newPacketRing(size)
  size = size or 512
  return setmetatable({ base = task.ring(size), size = size }, ring)
end

local scratch
local function send(self, bufs, mask)
  scratch = scratch or task.burst()
  if not scratch.live:empty() then scratch:free() end
  scratch.count = 0
  modules.move(bufs.batch, mask, scratch)
  self.base:try_send(scratch)
  if scratch.live:empty() then return true end
  -- What found no room goes back to its array.
  bufs.batch.count = bufs.batch.live:empty() and 0 or bufs.batch.count
  modules.move(scratch, scratch.live, bufs.batch)
  return false
end
function ring:send(bufs) return send(self, bufs, bufs.batch.live) end
function ring:sendN(bufs, n) return send(self, bufs, bufs:places(0, n)) end
function pipe:sendToPacketRing(to, bufs, n) return n and to:sendN(bufs, n) or to:send(bufs) end
function ring:recvN(bufs, n)
  local received = self.base:receive(bufs.batch, 0, n)
  bufs:received(received)
  return received
end
function ring:recv(bufs) return self:recvN(bufs, bufs.size) end
function ring:free() end
local function uncounted() native.throw "a ring's packets are not counted: receive, and see how many came" end
ring.count, ring.freeCount, ring.empty, ring.full = uncounted, uncounted, uncounted, uncounted

return pipe
