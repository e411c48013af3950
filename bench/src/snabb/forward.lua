-- SPDX-License-Identifier: MIT
-- forward: what comes in by either of two interfaces goes out by the other; runs on Snabb and on perigee.
--
-- snsh forward.lua APP FIRST SECOND PACKETS WARM-UP SECONDS
--
-- The interfaces are the two ends of one cable, so that what leaves by one arrives at the other: PACKETS packets of 60 bytes are
-- sent by each at first, and then go round for as long as the program runs. So nothing but the program and Linux's part of the
-- work limits the rate. Prints `forward packets P cpu C wall W`: packets that went through the program, and how long that took in
-- seconds of the process's CPU time, Linux's part included, and of the clock.

local link = require("core.link")

local kind, first, second, packets, warm_up, seconds = unpack(main.parameters)
packets, warm_up, seconds = tonumber(packets), tonumber(warm_up), tonumber(seconds)

-- By name: what makes an app for an interface; its class, its argument, the names of its input and output.
local kinds = {}
function kinds.raw (interface)
   return require("apps.socket.raw").RawSocket, interface, "rx", "tx"
end
function kinds.tap (interface)
   return require("apps.tap.tap").Tap, interface, "input", "output"
end
function kinds.port (interface)
   return require("apps.dpdk.port"), {port = interface}, "input", "output"
end
function kinds.xdp (interface)
   return require("apps.xdp.xdp").driver, {ifname = interface}, "input", "output"
end
if kind == "xdp" then
   -- Before the first packet is made, as it asks for.
   local xdp = require("apps.xdp.xdp")
   if xdp.snabb_enable_xdp then xdp.snabb_enable_xdp() end
end

-- Sends so many packets, once.
local Start = {}
Start.__index = Start
function Start:new (count)
   return setmetatable({count = count}, Start)
end
function Start:pull ()
   while self.count > 0 do
      local p = packet.allocate()
      packet.resize(p, 60)
      -- To a group's address that nobody listens to, by a type of frame that is free for experiments (IEEE 802).
      for i, byte in ipairs{0x03, 0, 0, 0, 0, 1, 0x02, 0, 0, 0, 0, 1, 0x88, 0xb5} do p.data[i - 1] = byte end
      link.transmit(self.output.output, p)
      self.count = self.count - 1
   end
end

-- What comes from a port and what there is to start with, to the other port.
local Join = {}
Join.__index = Join
function Join:new ()
   return setmetatable({}, Join)
end
function Join:push ()
   local output = self.output.output
   for i = 1, #self.input do
      local input = self.input[i]
      while not link.empty(input) do link.transmit(output, link.receive(input)) end
   end
end

local c = config.new()
local ports = {}
for i, interface in ipairs{first, second} do
   local class, arg, input, output = kinds[kind](interface)
   ports[i] = {name = "port"..i, input = input, output = output}
   config.app(c, ports[i].name, class, arg)
   config.app(c, "start"..i, Start, packets)
   config.app(c, "join"..i, Join)
end
for i, from in ipairs(ports) do
   local to = ports[3 - i]
   config.link(c, from.name.."."..from.output.." -> join"..i..".input")
   config.link(c, "start"..i..".output -> join"..i..".start")
   config.link(c, "join"..i..".output -> "..to.name.."."..to.input)
end

engine.busywait = true
engine.configure(c)

local function forwarded ()
   local sum = 0
   for i = 1, 2 do sum = sum + tonumber(link.stats(engine.app_table["join"..i].output.output).txpackets) end
   return sum
end

local function run (duration)
   engine.main{duration = duration, no_report = true, measure_latency = false}
end

run(warm_up)
local sum, cpu, wall = forwarded(), os.clock(), engine.now()
run(seconds)
sum, cpu, wall = forwarded() - sum, os.clock() - cpu, engine.now() - wall
print(("forward packets %d cpu %.6f wall %.6f"):format(sum, cpu, wall))
