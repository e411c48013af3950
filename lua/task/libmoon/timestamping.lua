-- SPDX-License-Identifier: MIT
-- Latencies of single packets: timestamper:measureLatency([size,] [function(buf)]) sends a PTP packet and waits for it. Returns ns, or nil
-- if it did not come, and how many packets were received meanwhile.
--
-- Time is taken in software, right before the packet is handed to the device and right after it came from it.
local bit = require "bit"
local native = require "perigee.native"
local task = require "perigee.task"
local memory = require "libmoon.memory"
local log = require "libmoon.log"
require "libmoon.device"

local timestamping = {}
local timestamper = {}
timestamper.__index = timestamper

function timestamping:newTimestamper(tx, rx, mem, udp)
  if not native.shared "libmoon.software stamps" then
    native.set_shared("libmoon.software stamps", "said")
    log:info "Latencies are measured in software: they contain the time that devices and this program take for a packet."
  end
  mem = mem or memory.createMemPool(function(buf)
    local pkt = udp and buf:getUdpPtpPacket() or buf:getPtpPacket()
    pkt:fill { ethSrc = tx, udpDst = 319, pktLength = udp and 76 or 60 }
  end)
  if udp then rx:filterUdpTimestamps() else rx:filterL2Timestamps() end
  return setmetatable({ tx = tx, rx = rx, txBufs = mem:bufArray(1), rxBufs = memory.bufArray(128), seq = 1, udp = udp }, timestamper)
end
function timestamping:newUdpTimestamper(tx, rx, mem) return self:newTimestamper(tx, rx, mem, true) end
function timestamping.syncClocks() end

local function view(self, buf) return self.udp and buf:getUdpPtpPacket() or buf:getPtpPacket() end

-- Is it the packet with that number? It may have got a VLAN tag.
local function is(self, buf, seq)
  local bytes, length, at = buf:getBytes(), buf:getSize(), 14
  if length < 50 then return false end
  if bytes[12] == 0x81 and bytes[13] == 0 then at = 18 end
  if self.udp then
    if bytes[at - 2] ~= 8 or bytes[at - 1] ~= 0 or bytes[at + 9] ~= 17 then return false end
    at = at + bit.band(bytes[at], 15) * 4 + 8
  elseif bytes[at - 2] ~= 0x88 or bytes[at - 1] ~= 0xf7 then
    return false
  end
  return length >= at + 32 and bytes[at + 1] == 2 and bytes[at + 30] * 256 + bytes[at + 31] == seq
end

-- `longest`: how long to wait, in ms (15).
function timestamper:measureLatency(size, modify, longest)
  if type(size) ~= "number" then size, modify, longest = nil, size, modify end
  size, longest = size or (self.udp and 76 or 60), longest or 15
  local seq, bufs = self.seq, self.txBufs
  self.seq = (seq + 1) % 65536
  bufs:alloc(size)
  if #bufs == 0 or bufs.n == 0 then return nil, 0 end
  local buf = bufs[1]
  local pkt = view(self, buf)
  pkt.ptp:setVersion(2)
  pkt.ptp:setMessageType(0)
  pkt.ptp:setSequenceID(seq)
  if modify then modify(buf) end
  if self.udp then
    pkt:setLength(size)
    bufs:offloadUdpChecksums()
  end
  -- A device that leads back to itself takes packets only while others are received.
  local sent, received
  received = 0
  repeat
    sent = task.ns()
    if self.tx:trySend(bufs) == 1 then break end
    received = received + self.rx:tryRecv(self.rxBufs, 0)
    self.rxBufs:freeAll()
  until not task.running()
  local stop = sent + longest * 1e6
  repeat
    local n = self.rx:tryRecv(self.rxBufs, 100)
    local now = task.ns()
    received = received + n
    for i = 1, n do
      if is(self, self.rxBufs[i], seq) then
        self.rxBufs:freeAll()
        return now - sent, received
      end
    end
    self.rxBufs:freeAll()
  until now >= stop or not task.running()
  return nil, received
end

return timestamping
