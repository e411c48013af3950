-- SPDX-License-Identifier: MIT
-- Counters that print a line per second, and a summary at the end.
--
--   local sent = counter.new("sent")              sent:add(packets, bytes)      sent:finish()
--   local device = counter.device(eth1, "rx")     device:update()               as the device itself counts
--
-- Bytes are those of frames without their FCS; bit/s count what a frame takes on the wire, 24 bytes more.
local native = require "perigee.native"
local task = require "perigee.task"

local counter = {}
counter.__index = counter

local OVERHEAD = 24 -- preamble, start of frame, FCS, gap

local function line(self, what, packets, bytes, seconds)
  local pps, bits = packets / seconds, (bytes + packets * OVERHEAD) * 8 / seconds
  return ("[%s] %s %.3f Mpps, %.1f Mbit/s"):format(self.name, what, pps / 1e6, bits / 1e6)
end

-- Options: quiet (no line per second), out (a file), every (seconds between lines).
function counter.new(name, options)
  options = options or {}
  local now = task.now()
  return setmetatable({
    name = name, quiet = options.quiet, out = options.out or io.stdout, every = options.every or 1,
    packets = 0, bytes = 0, start = now, last = now, last_packets = 0, last_bytes = 0, rates = {},
  }, counter)
end

-- Counts what the device counts itself, "rx" or "tx".
function counter.device(device, direction, options)
  local self = counter.new(options and options.name or ("%s %s"):format(device.name, direction), options)
  self.read = function()
    local stats = device:stats()
    return stats[direction .. "_packets"], stats[direction .. "_bytes"]
  end
  self.base_packets, self.base_bytes = self.read()
  return self
end

local function tick(self, now)
  local seconds = now - self.last
  local packets, bytes = self.packets - self.last_packets, self.bytes - self.last_bytes
  table.insert(self.rates, packets / seconds)
  if not self.quiet then
    self.out:write(line(self, "now", packets, bytes, seconds), "\n")
    self.out:flush()
  end
  self.last, self.last_packets, self.last_bytes = now, self.packets, self.bytes
end

function counter:add(packets, bytes)
  self.packets, self.bytes = self.packets + packets, self.bytes + (bytes or 0)
  self:update()
end

-- Prints a line if it is time; call it often.
function counter:update()
  local now = task.now()
  if now - self.last < self.every then return end
  if self.read then
    local packets, bytes = self.read()
    self.packets, self.bytes = packets - self.base_packets, bytes - self.base_bytes
  end
  tick(self, now)
end

-- Prints the summary; returns packets, bytes and the time in seconds.
function counter:finish()
  if self.read then
    local packets, bytes = self.read()
    self.packets, self.bytes = packets - self.base_packets, bytes - self.base_bytes
  end
  local seconds = math.max(task.now() - self.start, 1e-9)
  self.out:write(line(self, "average", self.packets, self.bytes, seconds),
    (", %.0f packets, %.0f bytes in %.2f s\n"):format(self.packets, self.bytes, seconds))
  self.out:flush()
  return self.packets, self.bytes, seconds
end

return counter
