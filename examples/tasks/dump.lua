-- SPDX-License-Identifier: MIT
-- Writes what arrives to a file that tcpdump and Wireshark read: perigee task dump.lua eth1 eth1.pcapng ['udp and port 53']
local pcapng = require "perigee.pcapng"

function main(name, path, expression)
  if not path then error("usage: perigee task dump.lua DEVICE FILE [EXPRESSION]", 0) end
  local filter = expression and task.filter(expression)
  local file = pcapng.create(path, name)
  local queue, burst, mask = task.device(name):rx(), task.burst(), task.mask()
  while task.running() do
    if queue:receive(burst, 0.1) > 0 then
      mask:assign(burst.live)
      if filter then filter:match(burst, mask) end
      file:write(burst, mask)
    end
  end
  file:close()
  print(("%d packets, %d bytes in %s"):format(file.packets, file.bytes, path))
end
