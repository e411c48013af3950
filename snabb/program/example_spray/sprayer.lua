-- SPDX-License-Identifier: MIT
-- program.example_spray.sprayer: an app that drops every other packet.

local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")

local M = {}

--- Sprayer: forwards the second, fourth, sixth... packet from `input` to `output` and frees the others. No argument.
M.Sprayer = {}
local Sprayer = M.Sprayer

--- Creates a sprayer that has seen no packet.
function Sprayer:new ()
   return setmetatable({count = 0}, {__index = Sprayer})
end

--- Forwards or frees all waiting packets, as far as `output` takes it.
function Sprayer:push ()
   local i, o = links.one_in_one_out(self)
   while not link.empty(i) and not link.full(o) do
      local p = link.receive(i)
      self.count = self.count + 1
      if self.count % 2 == 0 then
         link.transmit(o, p)
      else
         packet.free(p)
      end
   end
end

function M.selftest ()
   local h = require("apps.test.harness").new(Sprayer, nil, {"input"}, {"output"})
   h:send("input", {"1", "2", "3"})
   h:expect("output", {"2"})
   h:send("input", {"4", "5"})
   h:expect("output", {"4"})
   h:stop()
end

return M
