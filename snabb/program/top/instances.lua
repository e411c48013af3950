-- SPDX-License-Identifier: MIT
-- program.top.instances: what processes show of themselves in shared memory. Not part of Snabb.
--
-- Counters are read as files, not mapped: links and apps come and go while they are looked at.

local ffi = require("ffi")
local shm = require("core.shm")
local sys = require("core.sys")

local M = {}

local function read_counter (file)
   local handle = io.open(file, "rb")
   if not handle then return nil end
   local bytes = handle:read(8)
   handle:close()
   if not bytes or #bytes < 8 then return nil end
   local value = ffi.new("uint64_t[1]")
   ffi.copy(value, bytes, 8)
   return tonumber(value[0])
end

-- The counters in a folder, by name.
local function read_counters (folder)
   local counters = {}
   for _, file in ipairs(sys.list(folder) or {}) do
      local name = file:match("^(.+)%.counter$")
      local value = name and read_counter(folder.."/"..file)
      if value then counters[name] = value end
   end
   return counters
end

-- Everything below a folder that has counters, by its path there: names may contain slashes.
local function read_tree (folder, prefix, into)
   for _, name in ipairs(sys.list(folder) or {}) do
      local path = folder.."/"..name
      local status = sys.stat(path)
      if status and status.kind == "directory" then
         local counters = read_counters(path)
         if next(counters) then into[prefix..name] = counters end
         read_tree(path, prefix..name.."/", into)
      end
   end
   return into
end

local function command_line (pid)
   local file = io.open("/proc/"..pid.."/cmdline", "rb")
   if not file then return nil end
   local text = file:read("*a")
   file:close()
   return (text:gsub("%z+$", ""):gsub("%z", " "))
end

-- The folder itself, and those in it that hold the objects of a thread.
local function scopes (folder)
   local found = {folder}
   for _, name in ipairs(sys.list(folder) or {}) do
      local path = folder.."/"..name
      local status = name ~= "group" and sys.stat(path)
      if status and status.kind == "directory" and (sys.stat(path.."/links") or sys.stat(path.."/engine")) then
         found[#found + 1] = path
      end
   end
   return found
end

--- All processes that have a folder in shared memory: an array of {pid, alive, name (that it has claimed, or nil),
--- parent (the process number if it is a worker), command, active (it has run an engine)}, in the order of process
--- numbers.
function M.list ()
   local all = {}
   for _, process in ipairs(shm.processes()) do
      local folder = shm.root.."/"..process.pid
      local group = sys.readlink(folder.."/group")
      local name = sys.readlink(folder.."/name")
      all[#all + 1] = {pid = process.pid, alive = process.alive, name = name and name:match("[^/]*$"),
                       parent = group and tonumber(group:match("(%d+)/group$")), command = command_line(process.pid),
                       active = sys.stat(folder.."/engine") ~= nil}
   end
   return all
end

-- The engines of a process by the number of their thread. The first one's folder is the process's own.
local function read_engines (folder)
   local engines = {["1"] = read_counters(folder.."/engine")}
   for _, number in ipairs(sys.list(folder.."/workers") or {}) do
      engines[number] = read_counters(folder.."/workers/"..number.."/engine")
   end
   return engines
end

-- Threads are configured together: the first one's counter says how often.
local function add_engine (sums, counters, first)
   for name, value in pairs(counters) do
      if first or name ~= "configs" then sums[name] = (sums[name] or 0) + value end
   end
end

--- What a process counts now: {engine = {counters by name}, workers = {number of a thread, as text = {counters of its
--- engine by name}}, links = {link = counters}, apps = {app = counters}}; nil if it has no folder. What is in `engine`
--- are the sums of all threads; `workers` is empty if there is only one.
function M.read (pid)
   local folder = shm.root.."/"..pid
   if not sys.stat(folder) then return nil end
   local counts = {engine = {}, workers = {}, links = {}, apps = {}}
   for _, scope in ipairs(scopes(folder)) do
      local engines = read_engines(scope)
      for number, counters in pairs(engines) do
         add_engine(counts.engine, counters, number == "1")
         if scope == folder and next(engines, next(engines)) then counts.workers[number] = counters end
      end
      read_tree(scope.."/links", "", counts.links)
      read_tree(scope.."/apps", "", counts.apps)
   end
   return counts
end

-- Changes of each counter per second; what is new has none.
local function rate_table (now, before, seconds)
   local rates = {}
   for name, value in pairs(now) do
      if name ~= "dtime" then
         local old = before and before[name]
         rates[name] = old and value >= old and (value - old) / seconds or 0
      end
   end
   return rates
end

--- The rates per second between two results of `read`, *seconds* apart, in the same shape.
function M.rates (now, before, seconds)
   local rates = {engine = rate_table(now.engine, before.engine, seconds), workers = {}, links = {}, apps = {}}
   for _, kind in ipairs{"workers", "links", "apps"} do
      for name, counters in pairs(now[kind]) do
         rates[kind][name] = rate_table(counters, before[kind][name], seconds)
      end
   end
   return rates
end

-- `top` showed the first thread's engine only. What a thread keeps of links is no link of the process.
local function test_engines_of_other_threads ()
   local counter = require("core.counter")
   local pid = sys.getpid()
   local before = M.read(pid)
   assert(next(before.workers) == nil)
   local frames = {
      shm.create_frame("workers/2/engine", {frees = {counter, 1000}, configs = {counter, 7}}),
      shm.create_frame("workers/3/engine", {frees = {counter, 500}}),
      shm.create_frame("workers/3/links/a.output -> b.input", {txpackets = {counter, 5}}),
   }
   local counts = M.read(pid)
   assert(counts.engine.frees == before.engine.frees + 1500 and counts.engine.configs == before.engine.configs)
   assert(counts.workers["1"].frees == before.engine.frees and counts.workers["2"].frees == 1000)
   assert(counts.workers["3"].frees == 500 and not counts.links["a.output -> b.input"])
   counter.add(frames[1].frees, 20)
   counter.commit()
   local rates = M.rates(M.read(pid), counts, 2)
   assert(rates.workers["2"].frees == 10 and rates.workers["3"].frees == 0 and rates.engine.frees == 10)
   for _, frame in ipairs(frames) do shm.delete_frame(frame) end
   shm.unlink("workers")
end

function M.selftest ()
   test_engines_of_other_threads()
   local counter = require("core.counter")
   local base = "selftest.top"
   local frames = {
      shm.create_frame(base.."/links/a.output -> b.input", {txpackets = {counter, 5}, dtime = {counter, 9}}),
      shm.create_frame(base.."/links/x/y.o -> z.i", {txpackets = {counter, 7}}),
      shm.create_frame(base.."/apps/nic", {drops = {counter, 1}}),
      shm.create_frame(base.."/engine", {breaths = {counter, 100}}),
   }
   local pid = sys.getpid()
   local before = M.read(pid)
   assert(before.links["a.output -> b.input"].txpackets == 5 and before.links["x/y.o -> z.i"].txpackets == 7)
   assert(before.apps.nic.drops == 1 and before.engine.breaths >= 100)
   counter.add(frames[1].txpackets, 50); counter.add(frames[3].drops, 4); counter.add(frames[4].breaths, 10)
   shm.delete_frame(frames[2])
   frames[2] = shm.create_frame(base.."/links/new", {txpackets = {counter, 1000}})
   counter.commit()
   local now = M.read(pid)
   local rates = M.rates(now, before, 2)
   assert(rates.links["a.output -> b.input"].txpackets == 25 and rates.links["a.output -> b.input"].dtime == nil)
   assert(rates.links.new.txpackets == 0 and rates.links["x/y.o -> z.i"] == nil)
   assert(rates.apps.nic.drops == 2 and rates.engine.breaths >= 5)
   -- A file that is not a counter, or is cut off.
   local file = io.open(shm.path(base.."/engine/short.counter"), "w")
   file:write("abc")
   file:close()
   assert(M.read(pid).engine.short == nil and M.read(2^31) == nil)
   local found
   for _, process in ipairs(M.list()) do
      if process.pid == pid then found = process end
   end
   assert(found and found.alive and found.command and found.parent == nil)
   for _, frame in ipairs(frames) do shm.delete_frame(frame) end
   shm.unlink(base)
end

return M
