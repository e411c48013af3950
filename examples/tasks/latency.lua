-- SPDX-License-Identifier: MIT
-- Latency from one device to another: a probe at a time, its time in the packet: perigee task latency.lua eth1 eth2 [PROBES] [SECONDS APART]
local ffi = require "ffi"
local frame = require "perigee.frame"
local histogram = require "perigee.histogram"
local packet = require "perigee.packet"

ffi.cdef "struct latency_probe { uint32_t magic, number; double sent; } __attribute__((packed));"
local MAGIC, PORT = 0x70726f62, 9

function main(from, to, probes, apart)
  if not to then error("usage: perigee task latency.lua FROM TO [PROBES] [SECONDS APART]", 0) end
  local out, back = task.device(from), task.device(to)
  out:link(5)
  back:link(5)
  local pool = task.pool { prototype = frame.udp { source_mac = out.mac, destination_mac = back.mac, destination_port = PORT, length = 60 } }
  local burst, latencies, lost = task.burst(), histogram.new(), 0
  for number = 1, tonumber(probes or 1000) do
    if not task.running() then break end
    assert(pool:fill(burst, 1, 60))
    local probe = ffi.cast("struct latency_probe *", packet.udp(burst, 0) + 1)
    probe.magic, probe.number, probe.sent = MAGIC, number, task.ns()
    burst:checksums()
    out:tx():send(burst)
    local sample = answer(back:rx(), burst, number)
    if sample then latencies:update(sample) else lost = lost + 1 end
    task.sleep(tonumber(apart or 0))
  end
  print(("latency in ns: %s; lost: %d"):format(latencies, lost))
end

-- The time that the probe took; nil if it does not come.
function answer(queue, burst, number)
  local limit = task.now() + 0.1
  repeat
    local n = queue:receive(burst, 0.1)
    local now = task.ns()
    for slot = 0, n - 1 do
      local udp = packet.udp(burst, slot)
      if udp and packet.ntohs(udp.destination) == PORT then
        local probe = ffi.cast("struct latency_probe *", udp + 1)
        if probe.magic == MAGIC and probe.number == number then
          burst:free()
          return now - probe.sent
        end
      end
    end
  until task.now() > limit or not task.running()
end
