-- SPDX-License-Identifier: MIT
-- core.tasks: perigee's tasks (`perigee task`, docs/tasks.md) beside the apps of a program: functions that run in this
-- process on cores and in VMs of their own. Not part of Snabb; programs reach it by `require("perigee.task")`, or by the
-- names of libmoon's modules.
--
-- A task's VM is one of Snabb's: it has all modules that the program has. A function that becomes a task is found there
-- by the names of its module and of the field in it; the program's own file is loaded for that, without `run`.
--
-- The engine and the tasks end together: `engine.main` returns when tasks are asked to end, and asks them to end when it
-- returns (unless it has the option *keep_tasks*). When all have ended, new ones may be started.

local ffi = require("ffi")
local native = require("core.native")
local C = ffi.C

local M = {}

-- What runs a task's function in this VM, once perigee's modules are in it.
local run_task

--- Is this the name of a module that tasks have: `perigee.task`, `libmoon.device`, `device`?
function M.has_module (name)
   return native.task_module(name)
end

-- ---- functions by their names ----

-- The module of a function, and its field there.
local function place_of (f)
   local threads = require("core.threads")
   local found, place = pcall(threads.find_class, f, "")
   if found and place[2] then return place[1], place[2] end
   for name, value in pairs(_G) do
      if value == f and type(name) == "string" then
         -- libmoon's modules have some that they start themselves.
         local module = debug.getinfo(f, "S").source:match("^=(libmoon%..+)$")
         return module or require("core.main").program_name, name
      end
   end
end

-- A field of the program's, or a global that its file makes.
local function of_program (field)
   local program = require("core.main").program_name
   local module = program and package.loaded[program]
   local f = type(module) == "table" and rawget(module, field) or rawget(_G, field)
   return type(f) == "function" and f or nil
end

-- "run" of the program's own, or "lib.mine.generator.run".
local function name_of (f)
   local throw = require("perigee.native").throw
   if type(f) == "string" then
      if not M.find(f) then
         throw("there is no function "..f.." to start as a task: expected the name of a field of what the program returns, or MODULE.FIELD")
      end
      return f
   end
   if type(f) ~= "function" then throw("expected a function to start as a task, or its name; found a "..type(f)) end
   local module, field = place_of(f)
   if not field then
      throw("the new task would not find this function, in a VM of its own: put it in the table that the program (or a module) returns")
   end
   return module == require("core.main").program_name and field or module.."."..field
end

--- The function of a name; nil if there is none.
function M.find (name)
   local f = of_program(name)
   if f then return f end
   local module, field = name:match("^(.+)%.([^.]+)$")
   if not module or not pcall(require, module) then return nil end
   local loaded = package.loaded[module]
   f = type(loaded) == "table" and rawget(loaded, field) or rawget(_G, field)
   return type(f) == "function" and f or nil
end

-- ---- the engine and tasks ----

local task

local interrupted = ffi.cast("const int32_t *", native.interrupted)

--- Errors if a task has thrown, with its message; ends the process if a task or a signal asked for that.
function M.check ()
   if native.thread ~= 1 then return end
   if C.perigee_snabb_load(interrupted) ~= 0 then require("core.main").interrupted() end
   local code = native.exit_code()
   if code then require("core.main").exit(code) end
   local why = native.task_failure()
   if why then error(why, 0) end
end

--- What `engine.main` asks after every breath, instead of *done*: is it to end?
function M.until_they_end (done)
   local running = task.running
   return function ()
      return not running() or done and done()
   end
end

--- `engine.main` has ended: tasks are to end, unless its *options* say otherwise. Errors as `check`.
function M.engine_ended (options)
   if not options.keep_tasks then task.stop() end
   M.check()
end

-- ---- this VM among the tasks ----

-- DPDK is started by the program's own thread.
local function started ()
   local ok, why = native.start_dpdk()
   if not ok then error(why, 0) end
   if native.thread ~= 1 then return end
   local main = require("core.main")
   native.set_program(package.path, main.program_name or nil, main.program_file or nil)
   -- Tasks take what this thread has too much of.
   require("core.packet").keep_at_most(2048)
end

--- Puts perigee's modules for tasks into this VM, once.
function M.attach ()
   if run_task then return end
   run_task = native.attach_tasks{name_of = name_of, find = M.find, started = started, waited = M.check}
   task = require("perigee.task")
   if native.thread == 1 then require("core.app").tasks = M end
end

--- A task's whole life in its VM.
function M.run ()
   local main = require("core.main")
   local path, module, file = native.program()
   package.path = path
   if file then main.program_module(file) end
   main.program_name = module or false
   require("core.packet").keep_at_most(2048)
   M.attach()
   if module then
      -- As in the program: its functions, and the globals that its file makes.
      local loaded, why = pcall(require, module)
      if not loaded then error(why, 0) end
   end
   native.task_done(run_task(native.task_name, native.task_arguments))
end

function M.selftest () require("core.tasks_test").run(M) end

return M
