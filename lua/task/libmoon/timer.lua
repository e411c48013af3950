-- SPDX-License-Identifier: MIT
-- Timers of some seconds: running(), expired(), timeLeft(), reset([seconds]), wait(), busyWait().
local task = require "perigee.task"

local timer = {}
timer.__index = timer

function timer:new(seconds)
  seconds = seconds or 0
  return setmetatable({ time = seconds, stop = task.now() + seconds }, timer)
end

function timer:running() return task.now() < self.stop end
function timer:expired() return task.now() >= self.stop end
function timer:timeLeft() return self.stop - task.now() end
function timer:reset(seconds) self.stop = task.now() + (seconds or self.time) end

-- Both return early, with false, when the tasks are to end. Short times are waited for on the core.
function timer:busyWait()
  while not self:expired() and task.running() do end
  return task.running()
end
function timer:wait()
  local left = self:timeLeft()
  if left > 0.005 then task.sleep(left - 0.002) end
  return self:busyWait()
end

return timer
