-- SPDX-License-Identifier: MIT
--
-- apps.test.damage: feeds damaged frames to the apps that look into them: none may throw, or leak a packet, whatever
-- comes in. Snabb has no such module.

local harness = require("apps.test.harness")
local datagram = require("apps.ipv4.fragment").test_datagram
local packet6 = require("apps.ipv6.headers").test_packet

local M = {}

local random = math.random

local function one_of(list) return list[random(#list)] end

local macs = "\2\0\0\0\0\1\2\0\0\0\0\2"

-- Frames that are right, or nearly so: of what kind, by what they are for.
local kinds = {
   function (n)
      local field = one_of({0, 0x2000, 1, 0x2001, 0x4000, 3})
      return datagram(("\1"):rep(4 * random(0, 3)), field, n, random(3))
   end,
   function (n) return datagram("", 0, "\8\0" .. n .. "icmp") end,
   function (n)
      local header = string.char(one_of({17, 44, 0, 43, 60, 58}), random(0, 2), random(0, 1), random(0, 255))
      return packet6(one_of({17, 44, 0, 43, 60, 58, 6}), header .. n .. "extension")
   end,
   function (n) return packet6(58, string.char(one_of({2, 128, 129, 135, 136}), 0) .. n .. "icmp version 6") end,
   function (n) return macs .. "\8\6\0\1\8\0\6\4\0" .. string.char(random(2)) .. ("a"):rep(20) .. n end,
   function (n) return macs .. "\x81\0\0" .. string.char(random(0, 3)) .. "\8\0" .. n end,
}

-- Changes up to six bytes; makes some frames shorter or longer.
local function damage(s)
   local bytes = {s:byte(1, -1)}
   for _ = 1, random(0, 6) do bytes[random(#bytes)] = random(0, 255) end
   local how = random(6)
   local last = how == 1 and random(0, #bytes) or #bytes
   for k, byte in ipairs(bytes) do bytes[k] = string.char(byte) end
   return table.concat(bytes, "", 1, last) .. (how == 2 and ("p"):rep(random(0, 100)) or "")
end

local function frames(count)
   local list = {}
   for k = 1, count do list[k] = damage(one_of(kinds)(("d"):rep(random(0, 60)))) end
   return list
end

local one, both = {"input", "output"}, {"north", "south"}
local few = {max_concurrent_reassemblies = 5, max_fragments_per_reassembly = 3}

-- Module, class, configuration, inputs, outputs.
local cases = {
   {"apps.ipv4.fragment", "Fragmenter", {mtu = 68}, {one[1]}, {one[2]}},
   {"apps.ipv4.reassemble", "Reassembler", few, {one[1]}, {one[2]}},
   {"apps.ipv4.echo", "ICMPEcho", {address = "10.0.0.2"}, both, both},
   {"apps.ipv4.arp", "ARP", {self_ip = "97.97.97.97", next_mac = "02:00:00:00:00:07"}, both, both},
   {"apps.ipv6.fragment", "Fragmenter", {mtu = 1280, pmtud = true}, {"input", "south"}, {"output", "north"}},
   {"apps.ipv6.reassemble", "Reassembler", few, {one[1]}, {one[2]}},
   {"apps.ipv6.echo", "ICMPEcho", {address = "2001:db8::2"}, both, both},
   {"apps.ipv6.nd_light", "nd_light", {local_mac = "02:00:00:00:00:01", local_ip = "2001:db8::2",
                                       next_hop = "2001:db8::1", quiet = true}, both, both},
   {"apps.vlan.vlan", "VlanMux", {}, {"trunk", "native", "vlan1"}, {"trunk", "native", "vlan1", "vlan2"}},
   {"apps.vlan.vlan", "Untagger", {tag = 1}, {one[1]}, {one[2]}},
   {"apps.bridge.learning", "bridge", {ports = {"a", "b", "c"}}, {"a", "b", "c"}, {"a", "b", "c"}},
   {"apps.keyed_ipv6_tunnel.tunnel", "SimpleKeyedTunnel",
    {local_address = "2001:db8::2", remote_address = "2001:db8::1", local_cookie = "64", remote_cookie = "64"},
    {"encapsulated", "decapsulated"}, {"encapsulated", "decapsulated"}},
   {"apps.packet_filter.pcap_filter", "PcapFilter", {filter = "tcp or udp", state_table = "damage"}, {one[1]},
    {one[2]}},
}

--- Feeds each app with frames on all its inputs; the seed is PERIGEE_FUZZ_SEED's.
function M.selftest()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   for _, case in ipairs(cases) do
      local ok, why = xpcall(function ()
         local h = harness.new(require(case[1])[case[2]], case[3], case[4], case[5])
         for _ = 1, 2 do
            for _, input in ipairs(case[4]) do h:send(input, frames(60)) end
         end
         h:stop()
      end, debug.traceback)
      if not ok then error(("%s, seed %d: %s"):format(case[1], seed, why)) end
   end
end

return M
