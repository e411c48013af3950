-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.reassembler: the common part of the reassemblers of IPv4 and IPv6; apps.ipv4.fragments has the table of
-- datagrams in the making. Snabb has no such module.

local counter = require("core.counter")
local engine = require("core.app")
local fragments = require("apps.ipv4.fragments")
local lib = require("core.lib")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")

local receive, transmit = link.receive, link.transmit

local M = {}

local schema = {
   max_concurrent_reassemblies = {default = 20000},
   max_fragments_per_reassembly = {default = 40},
   reassembly_timeout = {default = 60},
}

-- What is counted, by what a method calls it. %s is the protocol.
local counter_names = {
   needed = "in-%s-frag-needs-reassembly",
   reassembled = "in-%s-frag-reassembled",
   unneeded = "in-%s-frag-reassembly-unneeded",
   invalid = "drop-%s-frag-invalid-reassembly",
   evicted = "drop-%s-frag-random-evicted",
   memory = "memuse-%s-frag-reassembly-buffer",
}

--- Reassembler: forwards packets from `input` to `output`, but fragments only when all are there, as one packet. A
--- class of it has `step(self, o, now)`, which takes the packet in the table's box, and `complete(self, p)`, which
--- makes a datagram's first headers the whole's. (A box, since a pointer that lives while another loop runs is an
--- object that LuaJIT has to make.)
local Reassembler = {}

--- Creates a reassembler. Configuration: `max_concurrent_reassemblies` (20000), `max_fragments_per_reassembly` (40),
--- `reassembly_timeout` (60 seconds). Throws if a number is out of range.
function Reassembler:new(conf)
   local o = lib.parse(conf or {}, schema)
   o.table = fragments.new({
      key_size = self.key_size,
      max = o.max_concurrent_reassemblies,
      max_fragments = o.max_fragments_per_reassembly,
      timeout = o.reassembly_timeout,
      bury = self.bury,
   })
   return setmetatable(o, {__index = self})
end

--- Adds `n` (1 if omitted) to the counter that `counters` has under `name`.
function Reassembler:count(name, n)
   counter.add(self.shm[self.counters[name]], n)
end

--- Sends a packet that is whole.
function Reassembler:send_whole(p)
   self:complete(p)
   self:count("reassembled")
   transmit(self.output.output, p)
end

--- Takes the fragment in the table's box, whose key is set. Arguments: those of the table's `add`.
function Reassembler:add(first, length, at, more, headers, now)
   local t = self.table
   local what, index, evicted = t:add(first, length, at, more, headers, now)
   if what == "complete" then
      self:send_whole(t:take(index))
   elseif what == "invalid" then
      self:count("invalid")
   end
   if evicted then self:count("evicted") end
   packet.free(t.box[0])
end

--- Forwards the packet in the table's box, which is not a fragment.
function Reassembler:pass(o)
   self:count("unneeded")
   transmit(o, self.table.box[0])
end

--- Forwards and puts together all waiting packets.
function Reassembler:push()
   local i, o = links.one_in_one_out(self)
   local now, box = engine.now(), self.table.box
   for _ = 1, link.nreadable(i) do
      box[0] = receive(i)
      self:step(o, now)
   end
end

--- Gives up what is too old, and writes the memory in use to its counter.
function Reassembler:tick()
   local expired = self.table:expire(engine.now())
   if expired > 0 then self:count("invalid", expired) end
   counter.set(self.shm[self.counters.memory], self.table:memory())
end

--- A class of reassemblers whose counters have `protocol`, such as "ipv4", in their names; `key_size` and `bury` are as
--- for apps.ipv4.fragments.
function M.class(protocol, key_size, bury)
   local Class = setmetatable({key_size = key_size, bury = bury, shm = {}, counters = {}}, {__index = Reassembler})
   for key, name in pairs(counter_names) do
      name = name:format(protocol)
      Class.shm[name], Class.counters[key] = {counter}, name
   end
   return Class
end

--- Looks at the class. The apps' own selftests send packets.
function M.selftest()
   local Class = M.class("ipv5", 8, true)
   assert(Class.shm["in-ipv5-frag-reassembled"] and Class.counters.invalid == "drop-ipv5-frag-invalid-reassembly")
   local app = Class:new({reassembly_timeout = 5})
   assert(app.table.key_size == 8 and app.table.bury and app.table.timeout == 5 and app.table.max == 20000)
   assert(not pcall(Class.new, Class, {max_concurrent_reassemblies = 0}) and not pcall(Class.new, Class, {other = 1}))
end

return M
