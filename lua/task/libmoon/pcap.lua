-- SPDX-License-Identifier: MIT
-- Captures of tcpdump's older kind, with microseconds: pcap:newWriter(name), pcap:newReader(name).
local ffi = require "ffi"
local bit = require "bit"
local buffer = require "string.buffer"
local native = require "perigee.native"
local task = require "perigee.task"
local memory = require "libmoon.memory"

local pcap = {}

ffi.cdef [[
struct libmoon_pcap_file { uint32_t magic; uint16_t major, minor; uint32_t zone, digits, snap, link; };
struct libmoon_pcap_packet { uint32_t seconds, fraction, captured, original; };
]]

local MAGIC, MAGIC_NS, FLUSH = 0xa1b2c3d4, 0xa1b23c4d, 1024 * 1024
function pcap:setInitialFilesize() end

-- Writing ---------------------------------------------------------------------------------------------------------------------

local writer = {}
writer.__index = writer

-- Times of packets are seconds after `start`, in seconds since 1970; without it, they are libmoon.getTime().
function pcap:newWriter(name, start)
  local file, why = io.open(name, "wb")
  if not file then native.throw("a capture cannot be written: " .. why) end
  local header = ffi.new("struct libmoon_pcap_file", MAGIC, 2, 4, 0, 0, 0x40000, 1)
  file:write(ffi.string(header, 24))
  return setmetatable({ file = file, out = buffer.new(), start = start or time() - task.now(), header = ffi.new "struct libmoon_pcap_packet" },
    writer)
end

function writer:write(timestamp, data, length, original)
  local at, header = self.start + timestamp, self.header
  header.seconds, header.fraction = math.floor(at), (at - math.floor(at)) * 1e6
  header.captured, header.original = length, original or length
  self.out:putcdata(header, 16):putcdata(ffi.cast("const uint8_t *", data), length)
  if #self.out > FLUSH then self:flush() end
end
function writer:writeBuf(timestamp, buf, snap)
  local size = buf:getSize()
  self:write(timestamp, buf:getBytes(), math.min(size, snap or size), size)
end
function writer:flush() self.file:write(self.out:get()) end
function writer:close()
  self:flush()
  self.file:close()
end

-- Reading ---------------------------------------------------------------------------------------------------------------------

local reader = {}
reader.__index = reader

function pcap:newReader(name)
  local file, why = io.open(name, "rb")
  if not file then native.throw("a capture cannot be read: " .. why) end
  local bytes = file:read "*a"
  file:close()
  local header = ffi.cast("const struct libmoon_pcap_file *", bytes)
  if #bytes < 24 or header.magic ~= MAGIC and header.magic ~= MAGIC_NS or header.link ~= 1 then
    native.throw(("%s is no capture of Ethernet frames in tcpdump's older format, written on a machine like this"):format(name))
  end
  return setmetatable({ bytes = bytes, offset = 24, divisor = header.magic == MAGIC_NS and 1000 or 1 }, reader)
end

-- The next packet: its header and data; nil at the end.
local function next_packet(self)
  if self.offset + 16 > #self.bytes then return nil end
  local at = ffi.cast("const uint8_t *", self.bytes) + self.offset
  local header = ffi.cast("const struct libmoon_pcap_packet *", at)
  if self.offset + 16 + header.captured > #self.bytes then return nil end
  self.offset = self.offset + 16 + header.captured
  return header, at + 16
end

local function put(buf, divisor, header, data)
  buf:setSize(header.original)
  local bytes = buf:getBytes()
  ffi.copy(bytes, data, math.min(header.captured, header.original))
  if header.original > header.captured then ffi.fill(bytes + header.captured, header.original - header.captured) end
  buf.udata64 = header.seconds * 1000000ULL + header.fraction / divisor
end

-- Fills an array that has a pool; returns how many packets there were. Their times, in us since 1970, are in udata64; what the capture cut
-- off is zeros.
function reader:read(bufs)
  local offset, n = self.offset, 0
  while n < bufs.size and next_packet(self) do n = n + 1 end
  self.offset = offset
  if n == 0 then return 0 end
  local size = bufs.size
  bufs:allocN(60, n)
  bufs:resize(size)
  for i = 0, n - 1 do put(bufs.array[i], self.divisor, next_packet(self)) end
  return n
end
function reader:readSingle(mem)
  local header, data = next_packet(self)
  if not header then return nil end
  local buf = mem:alloc(60)
  put(buf, self.divisor, header, data)
  return buf
end
function reader:reset() self.offset = 24 end
function reader:close() self.bytes = "" end

return pcap
