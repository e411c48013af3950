-- SPDX-License-Identifier: MIT
-- Sends every frame back to where it came from, MAC addresses swapped: perigee task reflect.lua eth1 [QUEUES]
local ffi = require "ffi"
local packet = require "perigee.packet"

function main(name, queues)
  if not name then error("usage: perigee task reflect.lua DEVICE [QUEUES]", 0) end
  queues = tonumber(queues or 1)
  local device = task.device(name, { rx = queues, tx = queues })
  local reflectors, sum = {}, 0
  for queue = 1, queues do reflectors[queue] = task.start(reflect, device:rx(queue), device:tx(queue)) end
  for _, reflector in ipairs(reflectors) do sum = sum + (reflector:wait() or 0) end
  print(("%d frames sent back"):format(sum))
end

function reflect(from, to)
  local burst, mac, sent = task.burst(), ffi.new("uint8_t[6]"), 0
  while task.running() do
    for slot = 0, from:receive(burst, 0.1) - 1 do
      local ethernet = packet.ethernet(burst, slot)
      ffi.copy(mac, ethernet.source, 6)
      ffi.copy(ethernet.source, ethernet.destination, 6)
      ffi.copy(ethernet.destination, mac, 6)
    end
    sent = sent + to:send(burst)
  end
  return sent
end
