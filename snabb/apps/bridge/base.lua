-- SPDX-License-Identifier: MIT
--
-- apps.bridge.base: the common part of Ethernet bridges: ports, split-horizon groups, and which port may send to
-- which.
--
-- A packet from a free port may leave by all other ports; one from a port of a split-horizon group by all ports outside
-- that group. Ports and groups have numbers from 1; the group of free ports is 0.
--
-- What differs from Snabb: groups are numbered in the order of their names, so that two runs are the same; a port may
-- have only an input or only an output; frames shorter than an Ethernet header are freed.

local class = require("lib.lua.class")
local link = require("core.link")
local packet = require("core.packet")

local transmit, clone, free = link.transmit, packet.clone, packet.free

local M = {}

--- bridge: the class that bridges derive from; not an app by itself. Configuration: `ports`, an array of the names of
--- free ports; `split_horizon_groups`, a table of groups by name, each an array of port names; `config`, a table for
--- the deriving class. A port is the input and the output link of its name.
M.bridge = class.subClass(nil)
local bridge = M.bridge
bridge._name = "base bridge"
bridge.config = {
   ports = {default = {}},
   split_horizon_groups = {default = {}},
   config = {default = {}},
}

local function add_port(self, name, group)
   if self._ports[name] then error(("%s: duplicate definition of port %s"):format(self._name, tostring(name))) end
   local port = {name = name, group = group, handle = #self._ports + 1, flood = {}}
   self._ports[name], self._ports[port.handle] = port, port
   if group ~= 0 then table.insert(self._groups[group].ports, port.handle) end
end

local function add_groups(self, groups)
   local names = {}
   for name in pairs(groups) do names[#names + 1] = name end
   table.sort(names, function (a, b) return tostring(a) < tostring(b) end)
   for handle, name in ipairs(names) do
      local group = {name = name, handle = handle, ports = {}}
      self._groups[name], self._groups[handle] = group, group
      for _, port in ipairs(groups[name]) do add_port(self, port, handle) end
   end
end

--- Creates the ports and groups of a bridge of the class `self`. Throws if a port is named twice.
function bridge:new(conf)
   if self == bridge then error("base bridge: expected a class that derives from it") end
   local o = bridge:superClass().new(self)
   o._conf, o._ports, o._groups, o._dst_ports = conf, {}, {}, {}
   conf.config = conf.config or {}
   for _, name in ipairs(conf.ports or {}) do add_port(o, name, 0) end
   add_groups(o, conf.split_horizon_groups or {})
   for from, port in ipairs(o._ports) do
      local to = {}
      for handle, other in ipairs(o._ports) do
         if handle ~= from and (port.group == 0 or port.group ~= other.group) then to[#to + 1] = handle end
      end
      o._dst_ports[from] = to
   end
   return o
end

--- Looks up the links of all ports, whenever a link comes or goes.
function bridge:link()
   for _, port in ipairs(self._ports) do
      port.l_in, port.l_out = self.input[port.name], self.output[port.name]
   end
   for from, port in ipairs(self._ports) do
      port.flood = {}
      for _, to in ipairs(self._dst_ports[from]) do
         table.insert(port.flood, self._ports[to].l_out)
      end
   end
end

--- Sends the packet `p` to all links of the array `outputs`; frees it if there is none.
function M.flood(p, outputs)
   local n = #outputs
   if n == 0 then
      free(p)
      return
   end
   for k = 1, n - 1 do
      transmit(outputs[k], clone(p))
   end
   transmit(outputs[n], p)
end

--- Prints ports, groups and where packets from each port may go.
function bridge:info()
   local ports = self._ports
   local function say(indent, name, handle) print(("\t"):rep(indent) .. ("%s(%d)"):format(name, handle)) end
   print("Free ports:")
   for handle, port in ipairs(ports) do
      if port.group == 0 then say(1, port.name, handle) end
   end
   print("Split-horizon groups:")
   for handle, group in ipairs(self._groups) do
      say(1, group.name, handle)
      for _, member in ipairs(group.ports) do say(2, ports[member].name, member) end
   end
   print("Forwarding tables:")
   for from, port in ipairs(ports) do
      say(1, port.name, from)
      for _, to in ipairs(self._dst_ports[from]) do say(2, ports[to].name, to) end
   end
end

--- Checks the numbers of ports and groups, and which may send to which.
function M.selftest()
   local Test = class.subClass(bridge)
   Test._name = "test bridge"
   local b = Test:new({ports = {"a", "b"}, split_horizon_groups = {y = {"e"}, x = {"c", "d"}}})
   local order = {}
   for handle, port in ipairs(b._ports) do
      order[handle] = port.name .. port.group .. ":" .. table.concat(b._dst_ports[handle], ",")
   end
   assert(table.concat(order, " ") == "a0:2,3,4,5 b0:1,3,4,5 c1:1,2,5 d1:1,2,5 e2:1,2,3,4")
   assert(b._groups.x.handle == 1 and table.concat(b._groups.x.ports, ",") == "3,4")
   assert(not pcall(bridge.new, bridge, {ports = {}}))
   local ok, err = pcall(Test.new, Test, {ports = {"a"}, split_horizon_groups = {x = {"a"}}})
   assert(not ok and tostring(err):match("duplicate definition of port a"), err)
end

return M
