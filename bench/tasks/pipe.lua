-- SPDX-License-Identifier: MIT
-- How long a value takes through a pipe from one core to another, and how many packets a ring takes, as one line of JSON.
local frame = require "perigee.frame"
local histogram = require "perigee.histogram"

function main(messages, seconds)
  -- On a virtual machine the two cores may or may not share caches, and that changes: the median of some rounds, and the best.
  local rounds, rates = 9, {}
  for i = 1, rounds do rates[i] = ring(tonumber(seconds) / rounds) end
  table.sort(rates)
  local result = '{"pipe_us": %.4f, "ring_mpps": %.4f, "ring_best_mpps": %.4f}'
  print(result:format(pipe(tonumber(messages)), rates[(rounds + 1) / 2], rates[rounds]))
end

-- Half of the median time to an answer: a table there, a number back.
function pipe(messages)
  local there, back, times = task.pipe(), task.pipe(), histogram.new(0.001)
  local other = task.start(answer, there, back)
  for i = 1, messages do
    local start = task.ns()
    there:send { number = i, text = "value" }
    assert(back:receive() == i)
    -- The compiler and the other core's first steps are no part of it.
    if i > messages / 10 then times:update((task.ns() - start) / 2000) end
  end
  there:send { number = 0 }
  other:wait()
  return times:median()
end

function answer(there, back)
  while true do
    local number = there:receive().number
    if number == 0 then return end
    back:send(number)
  end
end

function ring(seconds)
  local packets = task.ring(2048)
  local maker = task.start(make, packets)
  local burst, taken = task.burst(), 0
  local start = task.now()
  while task.now() - start < seconds do taken = taken + packets:receive(burst, 0, 64) end
  local rate = taken / (task.now() - start) / 1e6
  task.shared.over = true
  repeat until packets:receive(burst, 0.01) == 0
  maker:wait()
  task.shared.over = nil
  return rate
end

function make(packets)
  local pool, burst, rounds = task.pool { prototype = frame.udp { length = 60 }, buffers = 8191 }, task.burst(), 0
  while rounds % 64 ~= 0 or not task.shared.over do
    if pool:fill(burst, 64, 60) then packets:try_send(burst) end
    rounds = rounds + 1
  end
end
