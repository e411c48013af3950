-- SPDX-License-Identifier: MIT
-- Who talks to whom, and how much: packets and bytes per flow, the largest first: perigee task flows.lua eth1 [SECONDS] [LINES]
local ffi = require "ffi"
local frame = require "perigee.frame"
local packet = require "perigee.packet"

local NAMES = { [1] = "icmp", [6] = "tcp", [17] = "udp", [58] = "icmp6" }

function main(name, seconds, lines)
  if not name then error("usage: perigee task flows.lua DEVICE [SECONDS] [LINES]", 0) end
  if seconds then task.limit(tonumber(seconds)) end
  local queue, burst, flows, others = task.device(name):rx(), task.burst(), {}, 0
  local function look(wait)
    local packets = queue:receive(burst, wait)
    for slot = 0, packets - 1 do
      local key = key_of(burst, slot)
      if key then
        local flow = flows[key]
        if not flow then
          flow = { packets = 0, bytes = 0, key = key }
          flows[key] = flow
        end
        flow.packets, flow.bytes = flow.packets + 1, flow.bytes + burst.length[slot]
      else
        others = others + 1
      end
    end
    return packets
  end
  while task.running() do look(0.1) end
  -- What has arrived before the end counts, up to a hundred bursts.
  for _ = 1, 100 do
    if look(0) == 0 then break end
  end
  report(flows, others, tonumber(lines or 20))
end

-- Addresses, protocol and ports as they lie in the packet; nil for what is not IP.
function key_of(burst, slot)
  local ethernet = packet.ethernet(burst, slot)
  local kind = ethernet and packet.ntohs(ethernet.type)
  local addresses, protocol
  if kind == 0x0800 then
    local ip = packet.ipv4(burst, slot)
    if not ip then return nil end
    addresses, protocol = ffi.string(ip.source, 8), ip.protocol
  elseif kind == 0x86dd then
    local ip = packet.ipv6(burst, slot)
    if not ip then return nil end
    addresses, protocol = ffi.string(ip.source, 32), ip.next_header
  else
    return nil
  end
  local ports = (protocol == 6 or protocol == 17) and packet.udp(burst, slot)
  return string.char(protocol) .. addresses .. (ports and ffi.string(ports, 4) or "")
end

function report(flows, others, lines)
  local sorted = {}
  for _, flow in pairs(flows) do table.insert(sorted, flow) end
  table.sort(sorted, function(a, b) return a.bytes > b.bytes or a.bytes == b.bytes and a.key < b.key end)
  print(("%d flows, %d packets of no flow"):format(#sorted, others))
  for i = 1, math.min(lines, #sorted) do
    local flow = sorted[i]
    local protocol, rest = flow.key:byte(), flow.key:sub(2)
    local size = #rest >= 32 and 16 or 4
    local source, destination = frame.text(rest:sub(1, size)), frame.text(rest:sub(size + 1, 2 * size))
    local ports = rest:sub(2 * size + 1)
    local port = function(at) return #ports == 4 and " port " .. ports:byte(at) * 256 + ports:byte(at + 1) or "" end
    print(("%-6s %s%s > %s%s: %d packets, %d bytes"):format(NAMES[protocol] or protocol, source, port(1), destination, port(3),
      flow.packets, flow.bytes))
  end
end
