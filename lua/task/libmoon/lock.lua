-- SPDX-License-Identifier: MIT
-- Locks between tasks: l:lock(), l:unlock(), l:tryLock(us), l(f, ...) calls f while it has the lock.
-- A lock is a pipe with one message in it: who has taken it has the lock.
local ffi = require "ffi"
local native = require "perigee.native"
local task = require "perigee.task"
local values = require "perigee.values"

local lock = {}
local object = {}
object.__index = object
values.class("libmoon.lock", object, function(self) return self.pipe end, function(pipe) return setmetatable({ pipe = pipe }, object) end)

function lock:new()
  local self = setmetatable({ pipe = task.pipe(1) }, object)
  self.pipe:send(true)
  return self
end

-- The lock of that name; the first task that asks makes it.
function lock.named(name)
  name = "libmoon.lock\0" .. name
  local text = native.shared(name)
  if not text then text = native.share_once(name, values.encode_all("a lock", lock:new())) end
  return (values.decode_all(text))
end

-- Waits until the lock is free, or the tasks are to end.
function object:lock() self.pipe:receive() end
function object:unlock() self.pipe:try_send(true) end
-- Waits up to that many us; did it get the lock?
function object:tryLock(us) return self.pipe:receive(math.max(us or 0, 0) / 1e6) ~= nil end

function object:__call(f, ...)
  self:lock()
  local ok, why = pcall(f, ...)
  self:unlock()
  if not ok then error(why, 0) end
end

return lock
