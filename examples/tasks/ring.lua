-- SPDX-License-Identifier: MIT
-- Packets through a ring from one task to another, without copying: perigee task ring.lua [SECONDS]
local frame = require "perigee.frame"
local packet = require "perigee.packet"

function main(seconds)
  task.limit(tonumber(seconds or 1))
  local ring = task.ring(1024)
  local maker, taker = task.start(make, ring), task.start(take, ring)
  local made, taken, wrong = maker:wait(), taker:wait()
  local rest = task.burst()
  local left = 0
  repeat
    local n = ring:receive(rest)
    left = left + n
  until n == 0
  print(("%d packets made, %d taken, %d left in the ring, %d out of order"):format(made, taken, left, wrong))
  assert(made == taken + left and wrong == 0, "a packet is missing")
end

function make(ring)
  local pool, burst, made = task.pool { prototype = frame.udp { length = 60 } }, task.burst(), 0
  -- Once at least, as a task may begin after its time.
  repeat
    if pool:fill(burst, 64, 60) then
      for slot = 0, 63 do packet.ipv4(burst, slot).id = (made + slot) % 65536 end
      made = made + ring:send(burst)
    end
  until not task.running()
  return made
end

function take(ring)
  local burst, taken, wrong = task.burst(), 0, 0
  while task.running() do
    local n = ring:receive(burst, 0.1)
    for slot = 0, n - 1 do
      if packet.ipv4(burst, slot).id ~= (taken + slot) % 65536 then wrong = wrong + 1 end
    end
    taken = taken + n
  end
  return taken, wrong
end
