-- SPDX-License-Identifier: MIT
--
-- apps.packet_filter.pcap_filter: lets packets through that match an expression of tcpdump's filter language
-- (pcap-filter(7)), and, if asked to, the packets of flows of which one has matched.
--
-- What differs from Snabb: filters are always compiled natively (`native` changes nothing); no alarms.

local conntrack = require("apps.packet_filter.conntrack")
local counter = require("core.counter")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local pf = require("lib.pf")

local receive, transmit = link.receive, link.transmit

local M = {}

--- PcapFilter: forwards packets from `input` (or `rx`) to `output` (or `tx`) if they match, and frees the others.
--- Configuration: `filter`, the expression; `state_table`, the name of a table of flows (shared by all filters that
--- name it): a packet of a flow of which one packet has matched passes, in both directions; `native`, not used.
--- Counters: `rxerrors`, packets freed; `sessions_established`, flows that began.
M.PcapFilter = {
   config = {
      filter = {required = true},
      state_table = {},
      native = {},
      alarm_type_qualifier = {},
   }
}
local PcapFilter = M.PcapFilter

--- Compiles the filter. Throws if it is invalid.
function PcapFilter:new(conf)
   if type(conf.filter) ~= "string" then error("PcapFilter: filter: expected an expression") end
   if conf.state_table then conntrack.define(conf.state_table) end
   return setmetatable({
      filter = pf.compile(conf.filter),
      state_table = conf.state_table or false,
      shm = {rxerrors = {counter}, sessions_established = {counter}},
   }, {__index = PcapFilter})
end

--- Looks up the links under either name.
function PcapFilter:link()
   self.from = self.input.input or self.input.rx
   self.to = self.output.output or self.output.tx
end

-- Whether a packet may pass with the table of flows `name`; notes new flows.
local function stateful(self, p, name)
   local spec = conntrack.spec(p.data, p.length)
   if spec and spec:check(name) then return true end
   if not self.filter:match(p.data, p.length) then return false end
   if spec then
      spec:track(name)
      counter.add(self.shm.sessions_established)
   end
   return true
end

--- Filters all waiting packets.
function PcapFilter:push()
   local i = self.from or links.missing(self, "input", "input", "rx")
   local o = self.to or links.missing(self, "output", "output", "tx")
   local filter, name = self.filter, self.state_table
   for _ = 1, link.nreadable(i) do
      local p = receive(i)
      local pass
      if name then pass = stateful(self, p, name) else pass = filter:match(p.data, p.length) end
      if pass then
         transmit(o, p)
      else
         counter.add(self.shm.rxerrors)
         packet.free(p)
      end
   end
end

local function datagram(src, dst, sport, dport)
   local function word(n) return string.char(math.floor(n / 256), n % 256) end
   return "\2\0\0\0\0\1\2\0\0\0\0\2\8\0\x45\0\0\32\0\0\0\0\64\17\0\0\10\0\0" .. string.char(src) .. "\10\0\0" ..
      string.char(dst) .. word(sport) .. word(dport) .. "\0\12\0\0test"
end

--- Filters with and without a table of flows.
function M.selftest()
   local harness = require("apps.test.harness")
   local query, answer = datagram(1, 2, 1000, 53), datagram(2, 1, 53, 1000)
   local other = datagram(2, 1, 53, 1001)
   local expression = "udp and dst port 53"
   local function errors(h) return tonumber(counter.read(h.app.shm.rxerrors)) end

   local h = harness.new(PcapFilter, {filter = expression}, {"input"}, {"output"})
   h:send("input", {answer, query, answer, "x"})
   h:expect("output", {query})
   assert(errors(h) == 3)

   conntrack.clear()
   h = harness.new(PcapFilter, {filter = expression, state_table = "selftest"}, {"rx"}, {"tx"})
   h:send("rx", {answer, query, answer, other, query, "x"})
   h:expect("tx", {query, answer, query})
   assert(errors(h) == 3 and counter.read(h.app.shm.sessions_established) == 1)
   h:stop()
   conntrack.clear()
   assert(not pcall(PcapFilter.new, PcapFilter, {filter = "no such expression ("}))
   assert(not pcall(PcapFilter.new, PcapFilter, {}))
end

return M
