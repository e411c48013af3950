-- SPDX-License-Identifier: MIT
-- A module in plain Lua: drops UDP packets to ports on a list, before they are looked up. The rest is lua/fastpath.lua.
--
-- The loop over packets compiles to machine code: no closure, no table and no string is made per packet.
local m = require "perigee.modules"
local packet = require "perigee.packet"

local BLOCKED = { [9] = true, [1900] = true, [11211] = true }
local LISTED = m.reason("blocklist", "port_listed")

local function blocklist(burst, mask, doomed)
  doomed:zero()
  for slot = 0, burst.count - 1 do
    if mask:has(slot) then
      local ip = packet.ipv4(burst, slot)
      if ip ~= nil and ip.protocol == 17 then
        local udp = packet.udp(burst, slot)
        if udp ~= nil and BLOCKED[packet.ntohs(udp.destination)] then doomed:set(slot) end
      end
    end
  end
  if not doomed:empty() then
    m.drop(burst, doomed, LISTED)
    mask:remove(doomed)
  end
end

return function(worker)
  local burst, ip4, ip6, doomed = worker:batch(), worker:mask(), worker:mask(), worker:mask()
  while worker:next(burst) do
    m.classify(burst, ip4, ip6)
    m.ipv4_valid(burst, ip4)
    m.ipv6_valid(burst, ip6)
    blocklist(burst, ip4, doomed)
    m.filter(burst, ip4, ip6)
    m.urpf(burst, ip4, ip6)
    m.multicast(burst, ip4, ip6)
    m.ipv4_lookup(burst, ip4)
    m.ipv6_lookup(burst, ip6)
    m.mtu(burst, ip4, ip6)
    m.redirect(burst, ip4, ip6)
    m.ttl(burst, ip4)
    m.hop_limit(burst, ip6)
    m.apply(burst, ip4, ip6)
    m.distribute(burst, ip4, ip6)
  end
end
