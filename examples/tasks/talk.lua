-- SPDX-License-Identifier: MIT
-- Tasks that talk: values through pipes, and values that all tasks see: perigee task talk.lua [MESSAGES]
local histogram = require "perigee.histogram"

function main(messages)
  messages = tonumber(messages or 1000)
  local questions, answers = task.pipe(), task.pipe()
  task.shared.greeting = { text = "question" }
  local other = task.start(answer, questions, answers)
  local times = histogram.new(0.01)
  for i = 1, messages do
    local start = task.ns()
    questions:send { number = i, values = { 1, 2, 3 } }
    local reply = answers:receive()
    assert(reply.square == i * i, "a wrong answer")
    times:update((task.ns() - start) / 2000)
  end
  questions:send(nil)
  local answered, text = other:wait()
  print(("%d answered; the last was to: %s"):format(answered, text))
  print("one way, us: " .. tostring(times))
end

function answer(questions, answers)
  local answered, text = 0, nil
  while task.running() do
    local question = questions:receive()
    if question == nil then break end
    answers:send { square = question.number ^ 2 }
    answered, text = answered + 1, task.shared.greeting.text .. " " .. question.number
  end
  return answered, text
end
