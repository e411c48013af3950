-- SPDX-License-Identifier: MIT
--
-- apps.fwd.fwd: forwards packets unchanged. Links may be called input and output or rx and tx, or anything if there is
-- only one of each. Pushes, so that a chain of such apps is passed in one breath.

local link = require("core.link")

local nreadable, receive, transmit = link.nreadable, link.receive, link.transmit

local M = {}

--- Fwd: what comes in on `input` (or `rx`, or else the first input) goes out on `output` (or `tx`, or else the first
--- output). No argument. The field `transmitted` counts the packets.
M.Fwd = {}
local Fwd = M.Fwd

--- Creates a forwarder.
function Fwd:new()
   return setmetatable({transmitted = 0}, {__index = Fwd})
end

--- Looks the two links up whenever one comes or goes.
function Fwd:link()
   local input, output = self.input, self.output
   self.from = input.input or input.rx or input[1]
   self.to = output.output or output.tx or output[1]
end

--- Moves all waiting packets. Throws if there is no output.
function Fwd:push()
   local from, to = self.from, self.to
   if not to then error(("%s: no output link"):format(self.appname or "Fwd")) end
   local n = nreadable(from)
   for _ = 1, n do
      transmit(to, receive(from))
   end
   self.transmitted = self.transmitted + n
end

--- Prints how many packets were forwarded.
function Fwd:report()
   print(("Fwd '%s' transmitted %d packets"):format(self.appname, self.transmitted))
end

--- Forwards packets over a chain, by every pair of link names.
function M.selftest()
   local config, engine = require("core.config"), require("core.app")
   local harness = require("apps.test.harness")
   for _, names in ipairs({{"input", "output"}, {"rx", "tx"}, {"left", "right"}}) do
      local h = harness.new(Fwd, nil, {names[1]}, {names[2]})
      h:send(names[1], {"one", "two"})
      h:expect(names[2], {"one", "two"})
      assert(h.app.transmitted == 2)
   end
   local basic = require("apps.basic.basic_apps")
   local c = config.new()
   config.app(c, "source", basic.Source)
   config.app(c, "sink", basic.Sink)
   local last = "source.output"
   for k = 1, 20 do
      config.app(c, "fwd" .. k, Fwd)
      config.link(c, ("%s -> fwd%d.input"):format(last, k))
      last = ("fwd%d.output"):format(k)
   end
   config.link(c, last .. " -> sink.input")
   engine.configure(c)
   engine.breathe()
   assert(link.stats(engine.app_table.sink.input.input).rxpackets == engine.pull_npackets)
   engine.configure(config.new())
   local lost = Fwd:new()
   lost.input, lost.output = {}, {}
   lost:link()
   local ok, err = pcall(lost.push, lost)
   assert(not ok and tostring(err):match("no output link"))
end

return M
