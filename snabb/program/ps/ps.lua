-- SPDX-License-Identifier: MIT
-- program.ps: lists the processes that have a folder in shared memory and run.
--
-- Differs from Snabb: names and commands are shown, workers below their parents.

local lib = require("core.lib")
local sys = require("core.sys")
local instances = require("program.top.instances")

local M = {}

--- The text that shows a list of processes (see program.top.instances).
function M.text (processes, quiet)
   local lines, known = {}, {}
   for _, process in ipairs(processes) do known[process.pid] = true end
   local function show (process, depth)
      local worker = depth > 0
      if worker and quiet then return end
      if quiet then
         lines[#lines + 1] = tostring(process.pid)
      else
         lines[#lines + 1] = ("%s%d %s%s"):format(worker and ("  "):rep(depth).."\\_ " or "", process.pid,
                             process.name and process.name.." " or "", process.command or "")
      end
      for _, other in ipairs(processes) do
         if other.parent == process.pid and depth < 16 then show(other, depth + 1) end
      end
   end
   for _, process in ipairs(processes) do
      if not (process.parent and known[process.parent]) then show(process, 0) end
   end
   return table.concat(lines, "\n")
end

--- Run the program: *args* are options.
function M.run (args)
   local quiet = false
   local function usage (code)
      print(require("program.ps.README_inc"))
      main.exit(code)
   end
   args = lib.dogetopt(args, {q = function () quiet = true end, h = function () usage(0) end}, "qh",
                       {quiet = "q", help = "h"})
   if #args > 0 then usage(1) end
   local running = {}
   for _, process in ipairs(instances.list()) do
      if process.alive and process.active and process.pid ~= sys.getpid() then running[#running + 1] = process end
   end
   local text = M.text(running, quiet)
   if text ~= "" then print(text) end
end

function M.selftest ()
   local list = {{pid = 3, command = "w", parent = 5}, {pid = 5, command = "a b", name = "n"}, {pid = 8, parent = 3},
                 {pid = 9, parent = 77, command = "orphan"}}
   assert(M.text(list) == "5 n a b\n  \\_ 3 w\n    \\_ 8 \n9 orphan")
   assert(M.text(list, true) == "5\n9" and M.text({}) == "")
   M.run({"-q"})
   local exit_code = require("program.endpoint").exit_code
   assert(exit_code(M.run, {"-h"}) == 0 and exit_code(M.run, {"x"}) == 1)
end

return M
