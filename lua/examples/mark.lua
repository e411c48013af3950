-- SPDX-License-Identifier: MIT
-- A module in C in the fast path: mark.c, built beside this script as mark.so.
local m = require "perigee.modules"
local mark = m.native(SCRIPT_FOLDER .. "/mark.so", "mark", 1)

return function(worker)
  local burst, ip4, ip6 = worker:batch(), worker:mask(), worker:mask()
  while worker:next(burst) do
    m.classify(burst, ip4, ip6)
    m.ipv4_valid(burst, ip4)
    m.ipv6_valid(burst, ip6)
    mark(burst, ip4)
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
