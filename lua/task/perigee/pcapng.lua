-- SPDX-License-Identifier: MIT
-- Writes captures that tcpdump and Wireshark read: pcapng with nanoseconds (draft-ietf-opsawg-pcapng).
--
--   local file = pcapng.create("eth1.pcapng", "eth1")
--   file:write(burst)                packets of a burst, or those of a mask
--   file:close()
local ffi = require "ffi"
local buffer = require "string.buffer"
local task = require "perigee.task"

ffi.cdef [[
struct perigee_pcapng_packet {
  uint32_t type, length, interface, time_high, time_low, captured, original;
};
]]

local pcapng = {}
pcapng.__index = pcapng

local FLUSH = 1024 * 1024 -- bytes that are written at once

local function word(n) return ffi.string(ffi.new("uint32_t[1]", n), 4) end
local function half(n) return ffi.string(ffi.new("uint16_t[1]", n), 2) end
local function padded(text) return text .. ("\0"):rep(-#text % 4) end
local function option(code, text) return half(code) .. half(#text) .. padded(text) end
local function block(kind, body) return word(kind) .. word(#body + 12) .. body .. word(#body + 12) end

-- Opens a file; `interface` is the name that it shows.
function pcapng.create(path, interface)
  local file, why = io.open(path, "wb")
  if not file then error("a capture cannot be written: " .. why, 2) end
  file:write(block(0x0a0d0d0a, word(0x1a2b3c4d) .. half(1) .. half(0) .. word(0xffffffff) .. word(0xffffffff)))
  -- Ethernet, no limit; options: its name, a resolution of 10^-9 s.
  file:write(block(1, half(1) .. half(0) .. word(0) .. option(2, tostring(interface)) .. option(9, "\9") .. option(0, "")))
  return setmetatable({
    file = file, out = buffer.new(), epoch = os.time() - task.now(), packets = 0, bytes = 0,
    header = ffi.new("struct perigee_pcapng_packet"),
  }, pcapng)
end

function pcapng:write(burst, mask)
  mask = mask or burst.live
  local now = (self.epoch + task.now()) * 1e9
  local out, header = self.out, self.header
  header.type, header.interface, header.time_high, header.time_low = 6, 0, math.floor(now / 2 ^ 32), now % 2 ^ 32
  for slot = 0, burst.count - 1 do
    if mask:has(slot) then
      local length = burst.length[slot]
      local padding = -length % 4
      header.length, header.captured, header.original = 32 + length + padding, length, length
      out:putcdata(header, 28):putcdata(burst.data[slot], length)
      if padding > 0 then out:put(("\0"):rep(padding)) end
      out:putcdata(ffi.cast("char *", header) + 4, 4)
      self.packets, self.bytes = self.packets + 1, self.bytes + length
    end
  end
  if #out > FLUSH then self:flush() end
end

function pcapng:flush()
  self.file:write(self.out:get())
  self.file:flush()
end

function pcapng:close()
  self:flush()
  self.file:close()
end

return pcapng
