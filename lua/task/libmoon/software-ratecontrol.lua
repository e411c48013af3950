-- SPDX-License-Identifier: MIT
-- A queue that sends packets one by one, at exact times: limiter:new(queue, mode, ns). Modes: cbr and poisson with a gap of `ns` from
-- packet to packet (on average), custom with that of buf:setDelay. It sends on the core of the task that calls it.
local native = require "perigee.native"
local values = require "perigee.values"
local device = require "libmoon.device"

local limiter = {}
limiter.__index = limiter

function limiter:new(queue, mode, ns)
  mode = mode or "custom"
  if mode ~= "cbr" and mode ~= "poisson" and mode ~= "custom" then
    native.throw(("a limiter of mode %s: expected cbr, poisson or custom"):format(tostring(mode)))
  end
  return setmetatable({ queue = queue, mode = mode, ns = tonumber(ns), state = {} }, limiter)
end

local function gap_of(self)
  local ns = self.ns
  if self.mode == "cbr" then return function() return ns end end
  if self.mode == "poisson" then return function() return -math.log(1 - math.random()) * ns end end
  return function(buf) return (tonumber(buf.udata64) + buf.pkt_len + 24) * 0.8 end
end

function limiter:sendN(bufs, n)
  self.gap = self.gap or gap_of(self)
  return device.__paced(self.queue, bufs, n, self.state, self.gap)
end
function limiter:send(bufs) return self:sendN(bufs, bufs.n) end
function limiter:stop() end

values.class("libmoon.limiter", limiter, function(self) return { self.queue, self.mode, self.ns } end,
  function(plain) return limiter:new(plain[1], plain[2], plain[3]) end)

return limiter
