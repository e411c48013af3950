-- SPDX-License-Identifier: MIT
-- Two tasks, each on a core and in a VM of its own: perigee task examples/tasks/hello.lua Ada Grace
function main(...)
  local names = { ... }
  if #names == 0 then names = { "world" } end
  local tasks = {}
  for _, name in ipairs(names) do table.insert(tasks, task.start(greet, name)) end
  for _, greeter in ipairs(tasks) do print(greeter:wait()) end
end

-- What a task's function returns is what `wait` returns.
function greet(name)
  return ("Hello, %s, from %s, task %d"):format(name, task.name, task.id)
end
