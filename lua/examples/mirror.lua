-- SPDX-License-Identifier: MIT
-- Mirrors one packet in SHARE, as it is forwarded, to the port of interface MIRROR as well: for an analyser behind it.
local m = require "perigee.modules"

local MIRROR, SHARE = "mirror", 10
local port = assert(m.port(MIRROR), "no interface is called '" .. MIRROR .. "': change MIRROR in mirror.lua")

return function(worker)
  local burst, ip4, ip6 = worker:batch(), worker:mask(), worker:mask()
  local copies, chosen, none = worker:batch(), worker:mask(), worker:mask()
  local seen = 0
  while worker:next(burst) do
    m.classify(burst, ip4, ip6)
    m.ipv4_valid(burst, ip4)
    m.ipv6_valid(burst, ip6)
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

    chosen:zero()
    for slot = 0, burst.count - 1 do
      if ip4:has(slot) or ip6:has(slot) then
        seen = (seen + 1) % SHARE
        if seen == 0 then chosen:set(slot) end
      end
    end
    if not chosen:empty() then
      m.copy(burst, chosen, copies)
      for slot = 0, copies.count - 1 do copies.out_port[slot] = port end
      chosen:assign(copies.live)
      m.distribute(copies, chosen, none)
    end

    m.distribute(burst, ip4, ip6)
  end
end
