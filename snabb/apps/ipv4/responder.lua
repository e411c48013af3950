-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.responder: the common part of the apps that answer pings of IPv4 and IPv6. Snabb has no such module.

local counter = require("core.counter")
local link = require("core.link")
local links = require("apps.links")

local receive, transmit, nreadable = link.receive, link.transmit, link.nreadable

local M = {}

--- Responder: between `south` (the world) and `north`: passes packets on in both directions, but answers echo requests
--- from the south for one of our addresses. A class of it has `add_address(addresses, address)`, and `make_answer(self,
--- p)`: if the packet is a request for us, it makes it the answer and returns true.
local Responder = {}

--- Creates the app. Configuration: `address`, and `addresses`, an array. Throws if an address is invalid.
function Responder:new(conf)
   local addresses = {}
   if conf.address then self.add_address(addresses, conf.address) end
   for _, address in ipairs(conf.addresses or {}) do self.add_address(addresses, address) end
   return setmetatable({addresses = addresses}, {__index = self})
end

--- If the packet `p` is an echo request for us, makes it the answer, sends that south and returns true; else returns
--- false, and the packet still belongs to the caller.
function Responder:respond_to_echo_request(p)
   if not self:make_answer(p) then return false end
   local c, names, length = self.shm, self.counters, p.length
   counter.add(c[names.in_bytes], length)
   counter.add(c[names.in_packets])
   counter.add(c[names.out_bytes], length)
   counter.add(c[names.out_packets])
   transmit(self.output.south, p)
   return true
end

--- Answers, and passes on, all waiting packets. Throws if a link is missing that packets may have to take.
function Responder:push()
   local south, north = self.input.south, self.input.north
   local to_south = links.output(self, "south")
   if south then
      local to_north = links.output(self, "north")
      for _ = 1, nreadable(south) do
         local p = receive(south)
         if not self:respond_to_echo_request(p) then transmit(to_north, p) end
      end
   end
   for _ = 1, north and nreadable(north) or 0 do
      transmit(to_south, receive(north))
   end
end

--- A class of responders whose counters have `protocol`, such as "icmpv4", in their names.
function M.class(protocol)
   local Class = setmetatable({shm = {}, counters = {}}, {__index = Responder})
   for _, direction in ipairs({"in", "out"}) do
      for _, what in ipairs({"bytes", "packets"}) do
         local name = ("%s-%s-echo-%s"):format(direction, protocol, what)
         Class.shm[name], Class.counters[direction .. "_" .. what] = {counter}, name
      end
   end
   return Class
end

--- Looks at the class. The apps' own selftests send packets.
function M.selftest()
   local Class = M.class("icmpv5")
   assert(Class.shm["in-icmpv5-echo-bytes"] and Class.shm["out-icmpv5-echo-packets"])
   assert(Class.counters.out_bytes == "out-icmpv5-echo-bytes")
   function Class.add_address(addresses, address) table.insert(addresses, address) end
   local app = Class:new({address = 1, addresses = {2, 3}})
   assert(#app.addresses == 3 and app.addresses[3] == 3 and app.push == Responder.push)
end

return M
