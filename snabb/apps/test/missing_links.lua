-- SPDX-License-Identifier: MIT
--
-- apps.test.missing_links: runs every app without one of its links: it works with what it has, or says which link of
-- which app is missing; and it leaks no packet. Snabb has no such module.

local config = require("core.config")
local engine = require("core.app")
local harness = require("apps.test.harness")
local netdev = require("apps.socket.netdev")
local packet = require("core.packet")
local sys = require("core.sys")

local M = {}

local i, o, both = {"input"}, {"output"}, {"north", "south"}
local tunnel = {"encapsulated", "decapsulated"}
local file = os.tmpname()
local nowhere = {write = function () end, flush = function () return true end}

-- Module, class (false: the module is it), configuration, inputs, outputs; whether it needs a network namespace.
local cases = {
   {"apps.basic.basic_apps", "Source", nil, {}, o},
   {"apps.basic.basic_apps", "Join", nil, {"a", "b"}, o},
   {"apps.basic.basic_apps", "Split", nil, {"a", "b"}, {"c", "d"}},
   {"apps.basic.basic_apps", "Sink", nil, {"a", "b"}, {}},
   {"apps.basic.basic_apps", "Tee", nil, {"a", "b"}, {"c", "d"}},
   {"apps.basic.basic_apps", "Repeater", nil, i, o},
   {"apps.basic.basic_apps", "Truncate", 10, i, o},
   {"apps.basic.basic_apps", "Sample", 2, i, o},
   {"apps.bridge.flooding", "bridge", {ports = {"a", "b", "c"}}, {"a", "b", "c"}, {"a", "b", "c"}},
   {"apps.bridge.learning", "bridge", {ports = {"a", "b", "c"}}, {"a", "b", "c"}, {"a", "b", "c"}},
   {"apps.dpdk.port", false, {port = "net_null_links"}, i, o},
   {"apps.dpdk_device.dpdk_device", false, "net_null_links", {"rx"}, {"tx"}},
   {"apps.fwd.fwd", "Fwd", nil, i, o},
   {"apps.interlink.receiver", false, {queue = "missing_links"}, {}, o},
   {"apps.interlink.transmitter", false, {queue = "missing_links"}, i, {}},
   {"apps.ipv4.arp", "ARP", {self_ip = "10.0.0.1", next_ip = "10.0.0.2"}, both, both},
   {"apps.ipv4.arp", "ARP", {self_ip = "10.0.0.1", next_mac = "02:00:00:00:00:07"}, both, both},
   {"apps.ipv4.echo", "ICMPEcho", {address = "10.0.0.2"}, both, both},
   {"apps.ipv4.fragment", "Fragmenter", {mtu = 68}, i, o},
   {"apps.ipv4.reassemble", "Reassembler", {max_concurrent_reassemblies = 5}, i, o},
   {"apps.ipv6.echo", "ICMPEcho", {address = "2001:db8::2"}, both, both},
   {"apps.ipv6.fragment", "Fragmenter", {mtu = 1280, pmtud = true}, {"input", "south"}, {"output", "north"}},
   {"apps.ipv6.nd_light", "nd_light", {local_mac = "02:00:00:00:00:01", local_ip = "2001:db8::2", quiet = true,
                                       next_hop = "2001:db8::1"}, both, both},
   {"apps.ipv6.reassemble", "Reassembler", {max_concurrent_reassemblies = 5}, i, o},
   {"apps.keyed_ipv6_tunnel.tunnel", "SimpleKeyedTunnel",
    {local_address = "2001:db8::2", remote_address = "2001:db8::1", local_cookie = "64", remote_cookie = "64"},
    tunnel, tunnel},
   {"apps.packet_filter.pcap_filter", "PcapFilter", {filter = "tcp or udp"}, i, o},
   {"apps.pcap.pcap", "PcapReader", file, {}, o},
   {"apps.pcap.pcap", "PcapWriter", "/dev/null", i, {}},
   {"apps.pcap.pcap", "StdOutput", nowhere, i, {}},
   {"apps.pcap.tap", "Tap", {filename = "/dev/null"}, i, o},
   {"apps.rate_limiter.rate_limiter", "RateLimiter", {rate = 1000, bucket_capacity = 1000}, i, o},
   {"apps.socket.raw", "RawSocket", "lo", {"rx"}, {"tx"}, true},
   {"apps.tap.tap", "Tap", "perigee0", i, o, true},
   {"apps.test.delayed_start", "Delayed_start", 0, i, o},
   {"apps.test.harness", "Feed", nil, {}, o},
   {"apps.test.harness", "Collect", nil, i, {}},
   {"apps.test.match", "Match", {}, {"rx", "comparator"}, {}},
   {"apps.test.npackets", "Npackets", {npackets = 5}, i, o},
   {"apps.test.synth", "Synth", {}, {}, o},
   {"apps.vlan.vlan", "Tagger", {tag = 1}, i, o},
   {"apps.vlan.vlan", "Untagger", {tag = 1}, i, o},
   {"apps.vlan.vlan", "VlanMux", {}, {"trunk", "native", "vlan1"}, {"trunk", "native", "vlan1", "vlan2"}},
   {"program.dump.dump", "Dump", {quiet = true, file = nowhere}, i, {}},
   {"program.example_spray.sprayer", "Sprayer", nil, i, o},
   {"program.pcap.pcap", "Limit", {count = 5}, i, o},
}

-- Classes that need no links, are no apps by themselves, or are apps.dpdk.port under other names.
local OTHERS = {["apps.csv"] = true, ["apps.bridge.base"] = true, ["apps.dpdk.hardware"] = true,
                ["apps.intel.intel_app"] = true, ["apps.intel.intel1g"] = true, ["apps.intel_avf.intel_avf"] = true,
                ["apps.intel_mp.intel_mp"] = true, ["apps.mellanox.connectx"] = true,
                ["apps.mellanox.connectx4"] = true, ["apps.solarflare.solarflare"] = true,
                ["apps.virtio_net.virtio_net"] = true, ["apps.xdp.xdp"] = true}

local macs = "\2\0\0\0\0\1\2\0\0\0\0\2"
local frames = {macs .. "\8\0" .. ("4"):rep(60), macs .. "\x86\xdd\x60" .. ("6"):rep(1500),
                macs .. "\x81\0\0\1\8\0vlan",
                macs .. "\x81\0\0\2\8\0other", "short"}

local function run(class, arg, inputs, outputs)
   local h = harness.new(class, arg, inputs, outputs)
   local ok, why = pcall(function ()
      if class == harness.Feed then h.app.queue = {"one"} end
      for _ = 1, 2 do
         for _, name in ipairs(inputs) do h:send(name, frames) end
         engine.breathe()
      end
   end)
   h:stop()
   return ok, why
end

-- All names but the one at `index`; in its place `instead`, if that is given.
local function without(names, index, instead)
   local rest = {unpack(names)}
   table.remove(rest, index)
   rest[#rest + 1] = instead
   return rest
end

local function check(case)
   local module, field, arg, inputs, outputs = unpack(case, 1, 5)
   local class = require(module)
   if field then class = class[field] end
   local function try(these, those)
      local ok, why = xpcall(function ()
         local done, message = run(class, arg, these, those)
         if not done then assert(message:match("dut: no %a+ link"), message) end
      end, debug.traceback)
      if not ok then
         error(("%s.%s with inputs %s, outputs %s: %s"):format(module, field or "", table.concat(these, ","),
                                                               table.concat(those, ","), why))
      end
   end
   assert(run(class, arg, inputs, outputs))
   for k = 1, #inputs do try(without(inputs, k), outputs) end
   for k = 1, #outputs do try(inputs, without(outputs, k)) end
   -- A link of another name, but where the app itself refuses that.
   if not class.push_link then
      for k = 1, #inputs do try(without(inputs, k, "other"), outputs) end
      for k = 1, #outputs do try(inputs, without(outputs, k, "other")) end
   end
end

-- Modules in a folder of sources.
local function modules(folder, prefix, into)
   for _, name in ipairs(sys.list(folder) or {}) do
      local status = sys.stat(folder .. "/" .. name)
      if status and status.kind == "directory" then
         modules(folder .. "/" .. name, prefix .. name .. ".", into)
      elseif name:match("%.lua$") then
         into[#into + 1] = prefix .. name:gsub("%.lua$", "")
      end
   end
   return into
end

-- Where the sources are files, none of the apps is forgotten.
local function test_complete()
   local root, listed = os.getenv("PERIGEE_SNABB"), {}
   if not root then return end
   for _, case in ipairs(cases) do
      local module = require(case[1])
      listed[case[2] and module[case[2]] or module] = true
   end
   for _, name in ipairs(modules(root .. "/apps", "apps.", {})) do
      local module = not OTHERS[name] and require(name)
      for field, class in pairs(type(module) == "table" and module or {}) do
         if type(class) == "table" and class.new and (class.pull or class.push) then
            assert(listed[class], name .. "." .. tostring(field) .. " is not in the list")
         end
      end
   end
end

--- Runs all of them. Those that open a device of Linux are left out where there can be no network namespace.
function M.selftest()
   require("program.endpoint").write_file(file, {"a packet"})
   test_complete()
   for _, case in ipairs(cases) do
      if not case[6] then check(case) end
   end
   for _, case in ipairs(cases) do
      if case[6] then
         netdev.in_namespace(function ()
            if case[1] == "apps.tap.tap" and not sys.access("/dev/net/tun", 6) then return true end
            check(case)
            return true
         end)
      end
   end
   os.remove(file)
   engine.configure(config.new())
   assert(packet.outstanding() == 0, "packets are missing")
end

return M
