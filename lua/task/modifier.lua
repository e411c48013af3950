-- SPDX-License-Identifier: MIT
-- The host's end of a script that changes frames before they are sent: takes away what is for tasks alone, and returns what makes
-- of the script's function one that is called with a pointer.
local ffi = require "ffi"
local native = require "perigee.native"
local task = require "perigee.task"

for _, name in ipairs { "start", "start_on", "device", "pool", "ring", "stop", "limit" } do
  task[name] = function()
    native.throw(("task.%s is for scripts of `perigee task`: this one describes frames and changes them"):format(name))
  end
end

-- The generator has figures to give when it ends.
-- luacheck: ignore os
os.exit = function()
  native.throw("os.exit was called, and a script cannot end the generator: expected it to return or to throw an error")
end

return function(modify)
  local burst, last
  return function(pointer, first, seconds)
    -- It is the same one nearly always.
    if pointer ~= last then burst, last = ffi.cast("perigee_batch *", pointer), pointer end
    modify(burst, first, seconds)
  end
end
