-- SPDX-License-Identifier: MIT
-- Answers ARP requests for an address, and pings of it: perigee task arp.lua eth1 10.0.0.9
local ffi = require "ffi"
local frame = require "perigee.frame"
local packet = require "perigee.packet"

local ARP, IPV4, ECHO_REQUEST = 0x0806, 0x0800, 8

function main(name, address)
  if not address then error("usage: perigee task arp.lua DEVICE ADDRESS", 0) end
  local device = task.device(name)
  local burst, reply, requests, echoes = task.burst(), task.mask(), 0, 0
  local mine, mac = frame.address(address), frame.mac(device.mac)
  print(("%s is at %s on %s"):format(address, device.mac, name))
  while task.running() do
    local n = device:rx():receive(burst, 0.1)
    reply:zero()
    for slot = 0, n - 1 do
      local ethernet = packet.ethernet(burst, slot)
      local kind = packet.ntohs(ethernet.type)
      if kind == ARP and answer_arp(burst, slot, mine, mac) then
        reply:set(slot)
        requests = requests + 1
      elseif kind == IPV4 and answer_echo(burst, slot, mine) then
        reply:set(slot)
        echoes = echoes + 1
      end
      if reply:has(slot) then
        ffi.copy(ethernet.destination, ethernet.source, 6)
        ffi.copy(ethernet.source, mac, 6)
      end
    end
    if n > 0 then
      burst:free(task.mask_without(burst.live, reply))
      device:tx():send(burst)
    end
  end
  print(("%d ARP requests and %d echo requests answered"):format(requests, echoes))
end

-- Turns a request for our address into its answer.
function answer_arp(burst, slot, mine, mac)
  local arp = packet.arp(burst, slot)
  if not arp or packet.ntohs(arp.operation) ~= 1 or ffi.string(arp.target, 4) ~= mine then return false end
  arp.operation = packet.htons(2)
  ffi.copy(arp.target_mac, arp.sender_mac, 10)
  ffi.copy(arp.sender_mac, mac, 6)
  ffi.copy(arp.sender, mine, 4)
  return true
end

-- Turns an echo request to our address into its reply; the checksum changes by the type alone (RFC 1624).
function answer_echo(burst, slot, mine)
  local ip = packet.ipv4(burst, slot)
  if not ip or ip.protocol ~= 1 or ffi.string(ip.destination, 4) ~= mine then return false end
  local icmp = packet.icmp(burst, slot)
  if not icmp or icmp.type ~= ECHO_REQUEST then return false end
  icmp.type = 0
  ffi.copy(ip.destination, ip.source, 4)
  ffi.copy(ip.source, mine, 4)
  burst:checksums()
  return true
end
