-- SPDX-License-Identifier: MIT
-- A Snabb program in a single file, in the style of Snabb's own sources: every packet of a port goes back to it, with the MAC
-- addresses exchanged, through a chain of forwarding apps.
--
--   perigee snabb examples/snabb/echo.lua PORT [LENGTH [SECONDS]]

module(..., package.seeall)

local ffi = require("ffi")
local link = require("core.link")
local Port = require("apps.dpdk.port")

Forward = {}

function Forward:new ()
   return setmetatable({}, {__index = Forward})
end

function Forward:push ()
   for _ = 1, link.nreadable(self.input.input) do
      link.transmit(self.output.output, link.receive(self.input.input))
   end
end

local header_t = ffi.typeof("struct { uint8_t destination[6], source[6]; } *")
local saved = ffi.new("uint8_t[6]")

-- The last of the chain: turns frames round.
Swap = setmetatable({}, {__index = Forward})

function Swap:new ()
   return setmetatable({}, {__index = Swap})
end

function Swap:push ()
   while not link.empty(self.input.input) do
      local p = link.receive(self.input.input)
      if p.length >= 14 then
         local header = ffi.cast(header_t, p.data)
         ffi.copy(saved, header.destination, 6)
         ffi.copy(header.destination, header.source, 6)
         ffi.copy(header.source, saved, 6)
      end
      link.transmit(self.output.output, p)
   end
end

function run (args)
   local port, length, seconds = args[1], tonumber(args[2] or 1), tonumber(args[3])
   if not port or not length then
      print("Usage: echo.lua PORT [LENGTH [SECONDS]]")
      main.exit(1)
   end
   local c = config.new()
   config.app(c, "port", Port, {port = port})
   local from = "port.output"
   for i = 1, length do
      config.app(c, "forward"..i, Forward)
      config.link(c, from.." -> forward"..i..".input")
      from = "forward"..i..".output"
   end
   config.app(c, "swap", Swap)
   config.link(c, from.." -> swap.input")
   config.link(c, "swap.output -> port.input")
   engine.configure(c)
   engine.main{duration = seconds, report = {showlinks = true}}
end
