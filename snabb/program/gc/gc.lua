-- SPDX-License-Identifier: MIT
-- program.gc: removes what processes that are gone have left in shared memory.

local lib = require("core.lib")
local shm = require("core.shm")
local sys = require("core.sys")

local M = {}

--- Run the program: *args* are options.
function M.run (args)
   local dry = false
   local function usage (code)
      print(require("program.gc.README_inc"))
      main.exit(code)
   end
   args = lib.dogetopt(args, {n = function () dry = true end, h = function () usage(0) end}, "nh",
                       {["dry-run"] = "n", help = "h"})
   if #args > 0 then usage(1) end
   local gone = {}
   if dry then
      for _, process in ipairs(shm.processes()) do
         if not process.alive then gone[#gone + 1] = process.pid end
      end
   else
      gone = shm.gc()
   end
   for _, pid in ipairs(gone) do print(shm.root.."/"..pid) end
end

function M.selftest ()
   local pid = assert(sys.spawn("/bin/true", {"true"}, {}))
   sys.reap(pid, true)
   shm.mkdir("/"..pid.."/links/x")
   assert(io.open(shm.root.."/"..pid.."/.process", "w")):close() -- the mark that a process leaves
   M.run({"--dry-run"})
   assert(shm.exists("/"..pid))
   M.run({})
   assert(not shm.exists("/"..pid))
   local exit_code = require("program.endpoint").exit_code
   assert(exit_code(M.run, {"-h"}) == 0 and exit_code(M.run, {"x"}) == 1)
end

return M
