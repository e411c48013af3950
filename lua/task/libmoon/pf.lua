-- SPDX-License-Identifier: MIT
-- pf.compile_filter(expression): a function of a frame's bytes and length that says whether it matches.
local task = require "perigee.task"

return {
  compile_filter = function(expression)
    local filter = task.filter(expression)
    return function(bytes, length) return filter:matches(bytes, length) end
  end,
}
