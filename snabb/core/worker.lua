-- SPDX-License-Identifier: MIT
-- core.worker: processes that this process starts to run Lua code, as app networks of their own. The API is Snabb's.
--
-- A worker is the same program again, with the Lua code in the environment: SNABB_PROGRAM_LUACODE; SNABB_WORKER_NAME
-- and SNABB_WORKER_PARENT (a process number) say what it is. Its "group" folder in shared memory is its parent's
-- (core.shm), and it dies with its parent (the program asks the kernel for that when it starts with such an
-- environment). SNABB_PORTS gives it the ports of its parent's command line.
--
-- Differs from Snabb: starting a second worker of a name whose worker lives is an error; `stop` waits for the end and
-- removes the worker's shared memory; `status` has the exit status, too.

local native = require("core.native")
local shm = require("core.shm")
local sys = require("core.sys")

local M = {}

-- The environment holds at most this much in one variable (MAX_ARG_STRLEN of Linux is 128 KiB).
local CODE_MAX = 131072 - 64

local exec_path, exec_arguments = "/proc/self/exe", {"perigee", "snabb"}

-- name -> {pid =, status = nil while it runs}
local children = {}

--- Have workers run another program than this process's: *path*, with the arguments *arguments* (an array, its own name
--- first). Without arguments: this process's program again.
function M.set_exec_path (path, arguments)
   exec_path = path or "/proc/self/exe"
   exec_arguments = arguments or {path and path:match("[^/]*$") or "perigee", "snabb"}
end

local function child (name)
   return children[name] or error("no such worker: "..tostring(name), 3)
end

-- The exit status once it has ended; what it leaves in shared memory is removed then.
local function poll (info, wait)
   if info.status == nil then
      info.status = sys.reap(info.pid, wait)
      if info.status ~= nil and os.getenv("SNABB_SHM_KEEP") == nil then shm.unlink("/"..info.pid) end
   end
   return info.status
end

-- A worker has the ports of this process, those of its command line as well.
local function ports_variable ()
   return native.ports_variable ~= "" and native.ports_variable or nil
end

--- Start a worker process called *name* (a string or a number) that runs *luacode* (a string). Returns its process number. Errors if a
--- worker of this name runs already, or if the code has more than 128 KiB or does not compile.
function M.start (name, luacode)
   local text = type(name) == "number" and tostring(name) or name
   if type(text) ~= "string" or text == "" or text:find("[%z=]") then
      error("worker: expected a name, not "..tostring(name), 2)
   end
   if children[name] and poll(children[name]) == nil then error("worker "..name.." runs already", 2) end
   if type(luacode) ~= "string" or #luacode > CODE_MAX or luacode:find("%z") then
      error(("worker %s: the code must be a string of at most %d bytes without zeros"):format(name, CODE_MAX), 2)
   end
   local compiled, why = loadstring(luacode, "=worker "..text)
   if not compiled then error("worker "..text..": "..why, 2) end
   shm.mkdir(shm.resolve("group"))
   io.stdout:flush()
   local pid, reason = sys.spawn(exec_path, exec_arguments, {SNABB_PROGRAM_LUACODE = luacode, SNABB_WORKER_NAME = text,
                                                             SNABB_WORKER_PARENT = tostring(sys.getpid()),
                                                             SNABB_TREE = native.tree or nil,
                                                             SNABB_PORTS = ports_variable()})
   if not pid then error(("worker %s: cannot start %s: %s"):format(name, exec_path, reason), 2) end
   children[name] = {pid = pid}
   return pid
end

--- Kill a worker and wait for its end. Errors if there never was one of this name; one that has ended already is fine.
function M.stop (name)
   local info = child(name)
   if poll(info) == nil then
      sys.kill(info.pid, sys.signal.KILL)
      poll(info, true)
   end
end

--- All workers that this process has started: {name = {pid =, alive = (boolean), status = (exit status once it has
--- ended, 128 + the signal if it was killed)}}.
function M.status ()
   local all = {}
   for name, info in pairs(children) do
      local status = poll(info)
      all[name] = {pid = info.pid, alive = status == nil, status = status}
   end
   return all
end

--- Is this process a worker? Returns its name and its parent's process number, or nil.
function M.is_worker ()
   local name, parent = os.getenv("SNABB_WORKER_NAME"), tonumber(os.getenv("SNABB_WORKER_PARENT") or "")
   if name and parent == sys.getppid() then return name, parent end
   return nil
end

local function wait_for (condition, what)
   for _ = 1, 1000 do
      if condition() then return end
      sys.sleep(0.01)
   end
   error("timed out: "..what)
end

-- The codes of workers for the test. Each says in the group folder that it is there.
local HELLO = [[
local shm, worker, sys = require("core.shm"), require("core.worker"), require("core.sys")
local here = shm.create("group/selftest.worker/%s", "struct { uint32_t pid, parent, me; }")
local name, parent = worker.is_worker()
here.parent, here.me = parent, name == "%s" and 1 or 0
here.pid = sys.getpid()
]]

local function test_workers ()
   local t = "struct { uint32_t pid, parent, me; }"
   local pids, objects = {}, {}
   for _, name in ipairs{"w1", "w2"} do
      objects[name] = shm.create("group/selftest.worker/"..name, t)
      pids[name] = M.start(name, HELLO:format(name, name).."while true do sys.sleep(1) end")
      assert(not pcall(M.start, name, "return"))
   end
   for name, object in pairs(objects) do
      wait_for(function () return object.pid ~= 0 end, "worker "..name)
      assert(object.pid == pids[name] and object.parent == sys.getpid() and object.me == 1)
   end
   local all = M.status()
   assert(all.w1.alive and all.w2.alive and all.w1.pid == pids.w1 and shm.exists("/"..pids.w1))
   assert(sys.readlink(shm.path("/"..pids.w1).."/group"))
   M.stop("w1")
   all = M.status()
   assert(not all.w1.alive and all.w1.status == 128 + 9 and all.w2.alive and not sys.kill(pids.w1, 0))
   assert(not shm.exists("/"..pids.w1) and shm.exists("group/selftest.worker/w1"))
   M.stop("w1"); M.stop("w2")
   -- One that ends by itself, with a status; then the name can be used again.
   M.start("w1", "require('core.worker') os.exit(7)")
   wait_for(function () return not M.status().w1.alive end, "w1's end")
   assert(M.status().w1.status == 7)
   M.start("w1", "os.exit(0)")
   wait_for(function () return not M.status().w1.alive end, "w1's second end")
   assert(M.status().w1.status == 0)
   M.start(7, "os.exit(require('core.worker').is_worker() == '7' and 3 or 4)")
   wait_for(function () return not M.status()[7].alive end, "the end of worker 7")
   assert(M.status()[7].status == 3)
end

function M.selftest ()
   assert(M.is_worker() == nil)
   local long = ("-"):rep(200000)
   for _, bad in ipairs{{"", "x = 1"}, {"a"}, {"a", "this is not Lua"}, {"a", long}, {{}, ""}, {"a", "\0"}} do
      assert(not pcall(M.start, bad[1], bad[2]))
   end
   assert(not pcall(M.stop, "nobody") and next(M.status()) == nil)
   local path, arguments = exec_path, exec_arguments
   M.set_exec_path("/none/such")
   assert(not pcall(M.start, "a", "return") and next(M.status()) == nil)
   exec_path, exec_arguments = path, arguments
   test_workers()
   shm.unlink("group/selftest.worker")
end

return M
