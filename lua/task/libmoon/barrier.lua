-- SPDX-License-Identifier: MIT
-- Barriers: wait() returns when `n` tasks wait. Used again and again.
local task = require "perigee.task"
local values = require "perigee.values"

local barrier = {}
local object = {}
object.__index = object
values.class("libmoon.barrier", object, function(self) return { state = self.state, gates = self.gates } end,
  function(plain) return setmetatable(plain, object) end)

function barrier:new(n)
  local self = setmetatable({ state = task.pipe(1), gates = { task.pipe(4096), task.pipe(4096) } }, object)
  self.state:send { n = n, arrived = 0, round = 0 }
  return self
end

-- Two gates take turns, so that a fast task's next round takes nothing of a slow one's.
function object:wait()
  local state = self.state:receive()
  if not state then return end
  local gate = self.gates[state.round % 2 + 1]
  state.arrived = state.arrived + 1
  if state.arrived < state.n then
    self.state:send(state)
    gate:receive()
  else
    for _ = 2, state.n do gate:send(true) end
    state.arrived, state.round = 0, state.round + 1
    self.state:send(state)
  end
end

function object:reinit(n)
  local state = self.state:receive()
  if not state then return end
  state.n, state.arrived, state.round = n, 0, state.round + 1
  self.state:send(state)
end

return barrier
