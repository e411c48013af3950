-- SPDX-License-Identifier: MIT
-- apps.dpdk.counters: what a port shows of itself in shared memory, where drivers of Snabb do: a frame for the device,
-- "pci/ADDRESS", and one for each app, "apps/NAME".

local ffi = require("ffi")
local C = ffi.C
local counter = require("core.counter")
local link = require("core.link")
local shm = require("core.shm")
local macaddress = require("lib.macaddress")

local M = {}

-- ifType of an Ethernet interface, as Snabb's drivers have it.
local ETHERNET = 0x1000

local DEVICE = {"speed", "rxbytes", "rxpackets", "rxmcast", "rxbcast", "rxdrop", "rxerrors", "rxdmapackets", "rxfiltered",
                "txbytes", "txpackets", "txmcast", "txbcast", "txdrop", "txerrors"}

--- The frame of a device called *label*. *about* has mac, mtu and promisc. *extra*: names of more counters.
function M.device_frame (label, about, extra)
   local specs = {
      dtime = {counter, C.get_unix_time()}, mtu = {counter, about.mtu}, type = {counter, ETHERNET},
      macaddr = {counter, macaddress:new(about.mac).bits}, status = {counter, 2}, promisc = {counter, about.promisc and 1 or 2},
   }
   for _, name in ipairs(DEVICE) do specs[name] = {counter} end
   for _, name in ipairs(extra or {}) do specs[name] = {counter} end
   return shm.create_frame("pci/"..label, specs)
end

--- The counters of an app, for its `shm`.
function M.app_specs (about)
   local specs = {
      mtu = {counter, about.mtu}, type = {counter, ETHERNET}, macaddr = {counter, macaddress:new(about.mac).bits},
      status = {counter, 2}, speed = {counter}, promisc = {counter, about.promisc and 1 or 2},
   }
   for _, name in ipairs{"rxpackets", "rxbytes", "rxdrop", "rxerrors", "rxcopied", "rxfiltered", "txpackets", "txbytes",
                         "txdrop", "txerrors", "txcopied"} do
      specs[name] = {counter}
   end
   return specs
end

-- The first of these that the driver counts.
local function first_of (counts, ...)
   for i = 1, select("#", ...) do
      local value = counts[select(i, ...)]
      if value then return value end
   end
end

--- Counts of multicasts and broadcasts of a device, by the names that drivers have for them (xstats): rxmcast, rxbcast,
--- txmcast, txbcast; nil what it does not count. As in Snabb, multicasts are with broadcasts.
function M.multicasts (device)
   local found = {}
   for _, way in ipairs{"rx", "tx"} do
      local broad = first_of(device, way.."_broadcast_packets", way.."_phy_broadcast_packets", way.."_total_broadcast_packets")
      local multi = first_of(device, way.."_multicast_packets", way.."_phy_multicast_packets", way.."_total_multicast_packets")
      found[way.."bcast"] = broad
      found[way.."mcast"] = multi and multi + (broad or 0) or broad
   end
   return found
end

--- What went through links since they came into being, of those that are there now and those that were: {packets =,
--- bytes =, drops =}. *seen* is a table that the caller keeps; *side* is "rx" (taken out) or "tx" (put in).
function M.of_links (seen, links, side)
   seen.before = seen.before or {packets = 0, bytes = 0, drops = 0}
   seen.last = seen.last or {}
   local sum = {packets = seen.before.packets, bytes = seen.before.bytes, drops = seen.before.drops}
   local there = {}
   for i = 1, #links do
      local stats = link.stats(links[i])
      local key = tostring(links[i])
      there[key] = {packets = tonumber(stats[side.."packets"]), bytes = tonumber(stats[side.."bytes"]),
                    drops = tonumber(stats.txdrop)}
      -- Another link may have come to the place of one that is gone.
      local last = seen.last[key]
      if last and there[key].packets < last.packets then
         for name, n in pairs(last) do
            seen.before[name] = seen.before[name] + n
            sum[name] = sum[name] + n
         end
      end
      for name, n in pairs(there[key]) do sum[name] = sum[name] + n end
   end
   for key, last in pairs(seen.last) do
      if not there[key] then
         for name, n in pairs(last) do
            seen.before[name] = seen.before[name] + n
            sum[name] = sum[name] + n
         end
      end
   end
   seen.last = there
   return sum
end

function M.selftest ()
   local frame = M.device_frame("selftest", {mac = "02:00:00:00:00:01", mtu = 1500, promisc = true}, {"q1_rxpackets"})
   assert(shm.exists("pci/selftest/rxdrop.counter") and shm.exists("pci/selftest/q1_rxpackets.counter"))
   assert(counter.read(frame.mtu) == 1500 and counter.read(frame.promisc) == 1 and counter.read(frame.status) == 2)
   assert(tostring(macaddress:new(tonumber(counter.read(frame.macaddr)))) == "02:00:00:00:00:01")
   shm.delete_frame(frame)
   assert(not shm.exists("pci/selftest"))
   local known = M.multicasts{rx_multicast_packets = 5, rx_broadcast_packets = 2, tx_broadcast_packets = 3}
   assert(known.rxmcast == 7 and known.rxbcast == 2 and known.txmcast == 3 and M.multicasts({}).rxmcast == nil)
   -- A link that is replaced does not take its counts with it.
   local packet = require("core.packet")
   local seen, a = {}, link.new("selftest.counters")
   for _ = 1, 3 do link.transmit(a, packet.from_string("abcd")) end
   assert(M.of_links(seen, {a}, "tx").packets == 3 and M.of_links({}, {a}, "rx").packets == 0)
   assert(M.of_links(seen, {a}, "tx").bytes == 12)
   assert(M.of_links(seen, {}, "tx").packets == 3 and M.of_links(seen, {}, "tx").packets == 3)
   link.free(a)
end

return M
