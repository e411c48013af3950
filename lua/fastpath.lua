-- SPDX-License-Identifier: MIT
-- What every worker does with every burst of packets. Change it, then `perigee reload`.
--
-- A mask is a set of packets of the burst. Each module narrows it to those that go on; the rest it drops, or gives to the
-- slow path, each under a reason that `perigee show drops` counts.
local m = require "perigee.modules"

return function(worker)
  local burst, ip4, ip6 = worker:batch(), worker:mask(), worker:mask()
  while worker:next(burst) do       -- any queue's; between two rounds: flushes, table swaps, counters, sleep when idle
    m.classify(burst, ip4, ip6)     -- the rest leaves: ARP, broadcasts, unknown types
    m.ipv4_valid(burst, ip4)        -- bad headers are dropped, each under its reason
    m.ipv6_valid(burst, ip6)
    m.filter(burst, ip4, ip6)       -- only where the configuration has filters
    m.urpf(burst, ip4, ip6)         -- only where an interface has urpf: sources without a route are dropped
    m.multicast(burst, ip4, ip6)    -- only where there are multicast routes: groups leave here, copied and sent
    m.ipv4_lookup(burst, ip4)       -- local, unresolved, no route: to the slow path
    m.ipv6_lookup(burst, ip6)
    m.mtu(burst, ip4, ip6)          -- too big: to the slow path, as it came
    m.redirect(burst, ip4, ip6)     -- out by where it came in: some are shown to the slow path
    m.ttl(burst, ip4)               -- expired: to the slow path, as it came
    m.hop_limit(burst, ip6)
    m.apply(burst, ip4, ip6)        -- MAC addresses and VLAN tag of the next hop
    m.distribute(burst, ip4, ip6)   -- one transmit buffer per port
  end
end
