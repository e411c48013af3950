-- SPDX-License-Identifier: MIT
-- Forwards frames between two devices, both ways, a task for each direction: perigee task forward.lua eth1 eth2
local counter = require "perigee.counter"

function main(left, right)
  if not right then error("usage: perigee task forward.lua DEVICE DEVICE", 0) end
  left, right = task.device(left), task.device(right)
  task.start(forward, left:rx(), right:tx())
  task.start(forward, right:rx(), left:tx())
  task.wait()
end

function forward(from, to)
  local burst = task.burst()
  local count = counter.new(("%s to %s"):format(task.device_of(from), task.device_of(to)))
  while task.running() do
    local received, bytes = from:receive(burst, 0.1), 0
    for slot = 0, received - 1 do bytes = bytes + burst.length[slot] end
    count:add(received > 0 and to:send(burst) or 0, bytes)
  end
  count:finish()
end
