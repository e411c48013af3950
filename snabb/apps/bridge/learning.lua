-- SPDX-License-Identifier: MIT
--
-- apps.bridge.learning: a bridge that learns behind which port an address is (IEEE 802.1D, 7.8), with split-horizon
-- groups.
--
-- What differs from Snabb: written in Lua alone, over a table of its own (apps.bridge.mac_table); a port may lack a
-- link; frames shorter than an Ethernet header are freed.

local bit = require("bit")
local base = require("apps.bridge.base")
local class = require("lib.lua.class")
local engine = require("core.app")
local link = require("core.link")
local mac_table = require("apps.bridge.mac_table")
local packet = require("core.packet")

local nreadable, receive, transmit = link.nreadable, link.receive, link.transmit
local free = packet.free
local flood = base.flood
local band = bit.band

local M = {}

--- bridge: sends a packet to the port behind which its destination was seen, or, if it was not seen, to all ports that
--- it may go to. Multicast goes to all of them. Configuration: that of apps.bridge.base; in `config` the table
--- `mac_table` with `size` (256 addresses), `timeout` (60 seconds), `resize_max` (65536), `copy_on_resize` (true) and
--- `verbose` (false).
M.bridge = class.subClass(base.bridge)
local bridge = M.bridge
bridge._name = "learning bridge"

--- Creates a bridge that knows no address yet.
function bridge:new(conf)
   local o = bridge:superClass().new(self, conf)
   o._mac_table = mac_table.new(o._conf.config.mac_table)
   o._maintenance = engine.now()
   return o
end

-- A frame from `port`: learn where its source is, and send it on.
local function forward(self, port, p, now)
   local macs, data = self._mac_table, p.data
   if p.length < 14 then
      free(p)
      return
   end
   if band(data[6], 1) == 0 then macs:insert(data + 6, port.handle, port.group, now) end
   if band(data[0], 1) ~= 0 then
      flood(p, port.flood)
      return
   end
   local to, group = macs:lookup(data, now)
   if not to then
      flood(p, port.flood)
   elseif to == port.handle or (group ~= 0 and group == port.group) then
      free(p)
   else
      local l_out = self._ports[to].l_out
      if l_out then transmit(l_out, p) else free(p) end
   end
end

--- Forwards all waiting packets, port by port.
function bridge:push()
   local ports, now = self._ports, engine.now()
   for k = 1, #ports do
      local port = ports[k]
      local l_in = port.l_in
      for _ = 1, l_in and nreadable(l_in) or 0 do
         forward(self, port, receive(l_in), now)
      end
   end
end

--- Sweeps outdated addresses out, four times in a timeout, and once a second if the table overflows.
function bridge:tick()
   local now, macs = engine.now(), self._mac_table
   local interval = macs.overflow and math.min(1, macs.config.timeout / 4) or macs.config.timeout / 4
   if now - self._maintenance < interval then return end
   self._maintenance = now
   macs:maintain(now)
end

local function frame(dst, src, text)
   local function mac(n) return n == "all" and ("\xff"):rep(6) or "\2\0\0\0\0" .. string.char(n) end
   return mac(dst) .. mac(src) .. "\8\0" .. text
end

local function test_forwarding(harness, names)
   local h = harness.new(bridge, {ports = {"a", "b"}, split_horizon_groups = {x = {"c", "d"}}}, names, names)
   local function step(from, data, to)
      h:send(from, {data})
      for _, name in ipairs(names) do h:expect(name, to:find(name, 1, true) and {data} or {}) end
   end
   step("a", frame(2, 1, "unknown"), "bcd")
   step("b", frame(1, 2, "learned"), "a")
   step("a", frame(2, 1, "learned both"), "b")
   step("c", frame(9, 3, "unknown, from a group"), "ab")
   step("d", frame(3, 4, "into the same group"), "")
   step("d", frame(1, 4, "out of the group"), "a")
   step("a", frame(1, 5, "to the port it came from"), "")
   step("b", frame("all", 2, "broadcast"), "acd")
   step("b", frame(1, 3, "moved"), "a")
   step("a", frame(3, 1, "after the move"), "b")
   step("a", frame(2, 1, ""):sub(1, 13), "")
   step("a", frame(7, "all", "group address as a source"), "bcd")
   step("b", frame("all", 2, "was not learned"), "acd")
   assert(h.app._mac_table.count == 5)
   local real_now, later = engine.now, engine.now() + 61
   engine.now = function () return later end
   link.transmit(h.app.input.a, packet.from_string(frame(2, 1, "forgotten")))
   h.app._maintenance = later
   h.app:push()
   h.app._maintenance = 0
   h.app:tick()
   engine.now = real_now
   assert(h.app._mac_table.count == 1)
   for _, name in ipairs({"b", "c", "d"}) do
      assert(nreadable(h.app.output[name]) == 1)
   end
   h:stop()
end

--- Sends frames from every kind of port; lets addresses age; gives the table more than fits.
function M.selftest()
   local harness = require("apps.test.harness")
   test_forwarding(harness, {"a", "b", "c", "d"})
   local h = harness.new(bridge, {ports = {"a", "b"}, config = {mac_table = {size = 4, resize_max = 4}}}, {"a"}, {"b"})
   local frames = {}
   for k = 1, 100 do frames[k] = frame(200, k, "many") end
   h:send("a", frames)
   h:expect("b", frames)
   assert(h.app._mac_table.count <= 16)
   h:stop()
   assert(not pcall(bridge.new, bridge, {ports = {"a"}, config = {mac_table = {timeout = "x"}}}))
end

return M
