-- SPDX-License-Identifier: MIT
-- A Snabb program in a single file: joins two ports by a chain of forwarding apps in each direction.
--
--   perigee snabb examples/snabb/forward.lua LENGTH PORT PORT [SECONDS]
--   perigee snabb --workers 2 examples/snabb/forward.lua ...     the two directions on a thread each

local link = require("core.link")
local Port = require("apps.dpdk.port")

-- What comes in on the link `input` goes out on the link `output`.
local Forward = {}

function Forward:new ()
   return setmetatable({}, {__index = Forward})
end

function Forward:push ()
   local input, output = self.input.input, self.output.output
   while not link.empty(input) do
      link.transmit(output, link.receive(input))
   end
end

-- Apps "NAME_1" .. "NAME_n" between two links.
local function chain (c, name, n, from, to, place)
   for i = 1, n do
      local app = name.."_"..i
      config.app(c, app, Forward, nil, place)
      config.link(c, from.." -> "..app..".input")
      from = app..".output"
   end
   config.link(c, from.." -> "..to)
end

local function run (args)
   local length, left, right, seconds = tonumber(args[1]), args[2], args[3], tonumber(args[4])
   if not length or not right then
      print("Usage: forward.lua LENGTH PORT PORT [SECONDS]")
      main.exit(1)
   end
   local c = config.new()
   config.app(c, "left", Port, {port = left, promisc = true})
   config.app(c, "right", Port, {port = right, promisc = true})
   chain(c, "there", length, "left.output", "right.input")
   chain(c, "back", length, "right.output", "left.input")
   engine.configure(c)
   engine.main{duration = seconds, report = {showlinks = true}}
end

-- Other threads find the class here.
return {run = run, Forward = Forward}
