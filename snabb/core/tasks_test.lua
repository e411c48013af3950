-- SPDX-License-Identifier: MIT
-- core.tasks_test: the selftest of core.tasks, and the tasks that it starts.

local packet = require("core.packet")

local M = {}

--- A task: gives back what it got, from a VM in which Snabb's modules are.
function M.echo (...)
   local p = packet.from_string("abc")
   assert(p.length == 3 and memory.dma_alloc)
   packet.free(p)
   return ...
end

--- A task: counts until it is to end; returns true.
function M.count (pipe)
   local task, n = require("perigee.task"), 0
   while task.running() do
      n = n + 1
      pipe:try_send(n)
      task.sleep(0.001)
   end
   return n > 0
end

--- A task that throws.
function M.fail () error("this is on purpose", 0) end

--- A task: says what libmoon's names mean in it.
function M.names ()
   return require("libmoon.log") == require("log"), require("libmoon.memory") == require("memory"),
          require("core.memory") == memory, require("device") == require("libmoon.device") -- luacheck: ignore
end

local function test_values (task)
   local histogram = require("perigee.histogram").new(10)
   histogram:update(25, 3)
   local results = {task.start(M.echo, 1, "two", {three = {true}}, 4LL, nil, histogram):wait()}
   assert(results[1] == 1 and results[2] == "two" and results[3].three[1] == true and results[4] == 4LL)
   assert(results[5] == nil and results[6]:count() == 3 and results[6]:min() == 20)
   assert(task.start("core.tasks_test.echo", 7):wait() == 7)
   for _, bad in ipairs{"nothing.here", "core.tasks_test.nothing", function () end, 7} do
      local ok, why = pcall(task.start, bad)
      assert(not ok and (why:match("there is no function") or why:match("put it in the table") or why:match("expected a function")), why)
   end
   local ok, why = pcall(task.start, M.echo, function () end)
   assert(not ok and why:match("an argument of core.tasks_test.echo%[1%] is a function"), why)
   local same_log, same_memory, snabbs, same_device = task.start(M.names):wait()
   -- Snabb has a module `log` of its own, and only a global `memory`.
   assert(not same_log and same_memory and snabbs and same_device)
   assert(require("memory").createMemPool and memory.dma_alloc and require("perigee.lib.json").decode)
end

-- The engine and tasks end together.
local function test_engine (task)
   local engine, config = require("core.app"), require("core.config")
   engine.configure(config.new())
   local pipe = task.pipe()
   local counter = task.start(M.count, pipe)
   assert(pipe:receive(180) == 1 and not counter:ended())
   engine.main{duration = 0.01, no_report = true, keep_tasks = true}
   assert(task.running() and not counter:ended())
   engine.main{duration = 0.01, no_report = true}
   assert(not task.running() and counter:wait() == true and counter:ended())
   -- New ones may be started, and end the engine.
   pipe = task.pipe()
   counter = task.start(M.count, pipe)
   assert(task.running() and pipe:receive(180) == 1)
   task.limit(0.02)
   engine.main{no_report = true}
   assert(counter:wait() == true and not task.running())
end

-- What a task throws, the program gets.
local function test_errors (task)
   local engine = require("core.app")
   for _, wait in ipairs{function (t) t:wait() end, function () engine.main{no_report = true} end} do
      local ok, why = pcall(wait, task.start(M.fail))
      assert(not ok and why:match("^task core.tasks_test.fail: this is on purpose\n"), why)
      task.wait()
   end
end

-- A device is opened once; each of its queues is a task's or an app's.
local function test_devices (task)
   local engine, config, Port = require("core.app"), require("core.config"), require("apps.dpdk.port")
   local device = task.device("net_null_tasks", {rx = 3, tx = 3})
   assert(device.driver == "net_null" and not pcall(device.rx, device, 4))
   local function graph (queue)
      local c = config.new()
      config.app(c, "nic", Port, {port = "net_null_tasks", queue = queue})
      engine.configure(c)
   end
   graph(0)
   local burst = task.burst()
   local ok, why = pcall(device:rx(1).receive, device:rx(1), burst)
   assert(not ok and why:match("receive queue 0 of port net_null_tasks is already in use by .*: an app has it"), why)
   assert(device:rx(2):receive(burst) == 64)
   assert(device:tx(2):send(burst) == 64)
   ok, why = pcall(graph, 1)
   assert(not ok and tostring(why):match("queue 1 of port net_null_tasks is already in use.*give this app another `queue`"), why)
   engine.stop()
   -- What one leaves another may have.
   task.leave(device:rx(2))
   task.leave(device:tx(2))
   graph(1)
   engine.stop()
   assert(device:rx(1):receive(burst) == 64 and device:tx(1):send(burst) == 64)
   assert(not pcall(graph, 0) and pcall(graph, 2))
   engine.stop()
   -- A device of the graph's has its queues from there.
   local c = config.new()
   config.app(c, "nic", Port, {port = "net_null_graphs", queues = 2})
   engine.configure(c)
   ok, why = pcall(task.device, "net_null_graphs", {rx = 3})
   assert(not ok and why:match("has 2 receive queues, and 3 were asked for"), why)
   device = task.device("net_null_graphs", {rx = 2, tx = 2})
   assert(device:rx(2):receive(burst) == 64)
   burst:free()
   engine.stop()
end

function M.run (tasks)
   assert(tasks.has_module("perigee.task") and tasks.has_module("device") and tasks.has_module("libmoon.stats"))
   assert(not tasks.has_module("core.packet") and not tasks.has_module("perigee.nothing") and not tasks.has_module("host"))
   local task = require("perigee.task")
   task.quiet = true
   assert(package.loaded["perigee.task"] == task and rawget(_G, "task") == nil)
   test_values(task)
   test_engine(task)
   test_errors(task)
   test_devices(task)
end

return M
