-- SPDX-License-Identifier: MIT
-- chain: source -> N forwarding apps -> sink, measured in the process itself; runs on Snabb and on perigee.
--
-- snsh chain.lua N BYTES WARM-UP SECONDS
--
-- Prints one line, `chain packets P cpu C wall W`: packets that the sink freed, and how long that took in seconds of the
-- process's CPU time and of the clock.

local basic = require("apps.basic.basic_apps")
local counter = require("core.counter")
local link = require("core.link")

local apps, bytes, warm_up, seconds = unpack(main.parameters)
apps, bytes, warm_up, seconds = tonumber(apps), tonumber(bytes), tonumber(warm_up), tonumber(seconds)

local empty, receive, transmit = link.empty, link.receive, link.transmit

-- What comes in goes out.
local Forward = {}
Forward.__index = Forward
function Forward:new ()
   return setmetatable({}, Forward)
end
function Forward:push ()
   local input, output = self.input.input, self.output.output
   while not empty(input) do
      transmit(output, receive(input))
   end
end

-- Apps named so that their order by name is that of the chain.
local c = config.new()
config.app(c, "a_source", basic.Source, bytes)
local from = "a_source.output"
for i = 1, apps do
   local name = ("f_%03d"):format(i)
   config.app(c, name, Forward)
   config.link(c, from.." -> "..name..".input")
   from = name..".output"
end
config.app(c, "z_sink", basic.Sink)
config.link(c, from.." -> z_sink.input")

engine.busywait = true
engine.configure(c)

local function run (duration)
   engine.main{duration = duration, no_report = true, measure_latency = false}
end

-- Both commit their counters each 100 breaths; `frees` is one of those that both count at each packet.
run(warm_up)
local frees, cpu, wall = counter.read(engine.frees), os.clock(), engine.now()
run(seconds)
frees, cpu, wall = counter.read(engine.frees) - frees, os.clock() - cpu, engine.now() - wall
print(("chain packets %d cpu %.6f wall %.6f"):format(tonumber(frees), cpu, wall))
