-- SPDX-License-Identifier: MIT
-- TCP SYNs from random addresses, to see what a host or a firewall of one's own makes of them:
--   perigee task syn_flood.lua eth1 02:00:00:00:00:02 10.0.0.2 [PORT] [RATE] [SECONDS]
-- Send it only to machines that are yours.
local counter = require "perigee.counter"
local frame = require "perigee.frame"
local packet = require "perigee.packet"

function main(name, mac, address, port, rate, seconds)
  if not address then error("usage: perigee task syn_flood.lua DEVICE MAC ADDRESS [PORT] [RATE] [SECONDS]", 0) end
  local device = task.device(name)
  if seconds then task.limit(tonumber(seconds)) end
  local queue = device:tx()
  if rate then queue:rate(rate) end
  local pool = task.pool { prototype = frame.tcp { source_mac = device.mac, destination_mac = mac, source = "10.0.0.1", destination = address,
    destination_port = tonumber(port or 80), flags = "S", length = 60 } }
  local burst, count = task.burst(), counter.new("SYNs on " .. name)
  math.randomseed(1)
  while task.running() do
    if pool:fill(burst, 32, 60) then
      for slot = 0, 31 do
        local ip, tcp = packet.ipv4(burst, slot), packet.tcp(burst, slot)
        -- 10.0.0.0/8 but its first 65,536 addresses, where the machines are.
        ip.source[1], ip.source[2], ip.source[3] = math.random(1, 255), math.random(0, 255), math.random(1, 254)
        tcp.source, tcp.sequence = math.random(1024, 65535), math.random(0, 2 ^ 31)
      end
      burst:checksums()
      local sent = queue:send(burst)
      count:add(sent, sent * 60)
    end
  end
  count:finish()
end
