-- SPDX-License-Identifier: MIT
-- Counts what arrives, a line per second and a sum at the end: perigee task count.lua eth1 [SECONDS]
local counter = require "perigee.counter"

function main(name, seconds)
  if not name then error("usage: perigee task count.lua DEVICE [SECONDS]", 0) end
  local device = task.device(name)
  if seconds then task.limit(tonumber(seconds)) end
  local queue, burst, count = device:rx(), task.burst(), counter.new("received on " .. name)
  local function look(wait)
    local packets, bytes = queue:receive(burst, wait), 0
    for slot = 0, packets - 1 do bytes = bytes + burst.length[slot] end
    count:add(packets, bytes)
    return packets
  end
  while task.running() do look(0.1) end
  -- What has arrived before the end counts, up to a hundred bursts.
  for _ = 1, 100 do
    if look(0) == 0 then break end
  end
  count:finish()
  local missed = device:stats().rx_missed
  if missed > 0 then print(("%d packets were lost before they were received: this task is too slow"):format(missed)) end
end
