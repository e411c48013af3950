-- SPDX-License-Identifier: MIT
-- Lets through what matches an expression like tcpdump's, and counts: perigee task filter.lua eth1 eth2 'udp and port 53'
function main(from, to, expression)
  if not expression then error("usage: perigee task filter.lua FROM TO EXPRESSION", 0) end
  local filter = task.filter(expression)
  from, to = task.device(from):rx(), task.device(to):tx()
  local burst, mask, passed, dropped = task.burst(), task.mask(), 0, 0
  while task.running() do
    local received = from:receive(burst, 0.1)
    if received > 0 then
      mask:assign(burst.live)
      filter:match(burst, mask)
      local others = task.mask_without(burst.live, mask)
      burst:free(others)
      local sent = to:send(burst)
      passed, dropped = passed + sent, dropped + received - sent
    end
  end
  print(("%d passed, %d dropped"):format(passed, dropped))
end
