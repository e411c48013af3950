-- SPDX-License-Identifier: MIT
-- core.threads_test: the selftest of core.threads, and the apps that it places on other threads.

local ffi = require("ffi")
local config = require("core.config")
local counter = require("core.counter")
local engine = require("core.app")
local lib = require("core.lib")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")
local placement = require("core.placement")
local shm = require("core.shm")

local M = {}

--- Sends packets with numbers from 0 on: at most *limit*, of *sizes* bytes in turn.
M.Numbers = {config = {limit = {default = 1e12}, sizes = {default = {60}}}}
function M.Numbers:new (conf)
   return setmetatable({n = 0, conf = conf}, {__index = M.Numbers})
end
function M.Numbers:pull ()
   for i = 1, #self.output do
      for _ = 1, engine.pull_npackets do
         if self.n >= self.conf.limit then return end
         local p = packet.allocate()
         packet.resize(p, self.conf.sizes[self.n % #self.conf.sizes + 1])
         ffi.cast("uint32_t *", p.data)[0] = self.n
         self.n = self.n + 1
         link.transmit(self.output[i], p)
      end
   end
end

--- Passes packets on.
M.Pass = {}
function M.Pass:new () return setmetatable({}, {__index = M.Pass}) end
function M.Pass:push ()
   local i, o = self.input.input, self.output.output
   while not link.empty(i) do link.transmit(o, link.receive(i)) end
end

--- Counts packets, bytes and numbers out of order, and folds what it sees into one number that depends on the order.
M.Check = {}
function M.Check:new ()
   return setmetatable({last = -1, shm = {seen = {counter}, bytes = {counter}, disorder = {counter}, fold = {counter}}},
                       {__index = M.Check})
end
function M.Check:push ()
   local i = self.input.input
   while not link.empty(i) do
      local p = link.receive(i)
      local number = ffi.cast("uint32_t *", p.data)[0]
      if number <= self.last then counter.add(self.shm.disorder) end
      self.last = number
      counter.add(self.shm.seen)
      counter.add(self.shm.bytes, p.length)
      self.shm.fold.c = (self.shm.fold.c * 31 + number + p.length) % 0x7fffffffULL
      packet.free(p)
   end
end

--- Throws at its hundredth packet.
M.Bomb = {}
function M.Bomb:new () return setmetatable({n = 0}, {__index = M.Bomb}) end
function M.Bomb:push ()
   while not link.empty(self.input.input) do
      packet.free(link.receive(self.input.input))
      self.n = self.n + 1
      if self.n == 100 then error("the bomb went off") end
   end
end

local function test_encode (threads)
   local mac = ffi.new("uint8_t[6]", {1, 2, 3, 4, 5, 6})
   local value = {1, -2.5, "text\nwith\0zeros\"\\1", true, {nested = {x = 2^53}}, [7] = 5ULL, mac = mac,
                  huge = math.huge}
   local back = threads.decode(threads.encode(value))
   assert(lib.equal(back[5], value[5]) and back[1] == 1 and back[2] == -2.5 and back[3] == value[3] and back[7] == 5ULL)
   assert(ffi.string(back.mac, 6) == ffi.string(mac, 6) and back.huge == math.huge and back[4] == true)
   local all = {}
   for i = 0, 255 do all[#all + 1] = string.char(i) end
   all = table.concat(all)
   all = all..all:reverse().."\0001\0002"
   assert(threads.decode(threads.encode(all)) == all)
   local circle = {}
   circle.self = circle
   for _, bad in ipairs{circle, {f = print}, {p = ffi.new("int *")}, coroutine.create(print)} do
      local ok, why = pcall(threads.encode, bad, "app x")
      assert(not ok and why:match("app x") and why:match("cannot go"), why)
   end
end

local function chain (c, name, n, limit, place)
   config.app(c, name.."_source", M.Numbers, {limit = limit, sizes = {60, 100, 1500}}, place and place(0))
   local from = name.."_source.output"
   for i = 1, n do
      local app = ("%s_pass%02d"):format(name, i)
      config.app(c, app, M.Pass, nil, place and place(i))
      config.link(c, from.." -> "..app..".input")
      from = app..".output"
   end
   config.app(c, name.."_check", M.Check, nil, place and place(n + 1))
   config.link(c, from.." -> "..name.."_check.input")
end

local function test_assign (threads)
   local c = config.new()
   for i = 1, 4 do chain(c, "c"..i, 3) end
   local place = placement.assign(c, 2)
   local load = {0, 0}
   for name, worker in pairs(place) do
      load[worker] = load[worker] + 1
      -- Connected apps stay together.
      assert(worker == place[name:match("^c%d").."_source"])
   end
   assert(load[1] == 10 and load[2] == 10)
   -- A single chain is cut once, in its middle.
   c = config.new()
   chain(c, "one", 6)
   place = placement.assign(c, 2)
   assert(place.one_source == 1 and place.one_pass03 == 1 and place.one_pass04 == 2 and place.one_check == 2)
   local parts = threads.split(c, place)
   assert(parts[1].bridges["one_pass03.output -> one_pass04.input"].direction == "output")
   assert(parts[1].bridges["one_pass03.output -> one_pass04.input"].wait == true)
   assert(parts[2].bridges["one_pass03.output -> one_pass04.input"].direction == "input")
   -- Apps with a place keep it, and a circle of workers does not wait.
   c = config.new()
   for i, worker in ipairs{1, 2, 1} do config.app(c, "a"..i, M.Pass, nil, {worker = worker}) end
   config.link(c, "a1.output -> a2.input")
   config.link(c, "a2.output -> a3.input")
   place = placement.assign(c, 2)
   assert(place.a1 == 1 and place.a2 == 2 and place.a3 == 1)
   assert(threads.split(c, place)[1].bridges["a1.output -> a2.input"].wait == false)
   config.link(c, "a3.output -> nobody.input")
   assert(not pcall(threads.split, c, place))
end

local function count (app, name)
   local opened = shm.open("apps/"..app.."/"..name..".counter", counter.t, true)
   local value = tonumber(opened.c)
   shm.unmap(opened)
   return value
end

-- The same packets in the same order on one thread and on several.
local function run_chain (n, limit, place)
   local c = config.new()
   chain(c, "run", n, limit, place)
   engine.configure(c)
   local deadline = engine.now() + 180
   engine.main{no_report = true, done = function ()
      counter.commit()
      return count("run_check", "seen") >= limit or engine.now() > deadline
   end}
   counter.commit()
   local result = {}
   for i, name in ipairs{"seen", "bytes", "disorder", "fold"} do result[i] = count("run_check", name) end
   engine.stop()
   return result
end

local function test_same_packets ()
   local limit = 20000
   local want = run_chain(4, limit)
   assert(want[1] == limit and want[3] == 0, "on one thread: "..table.concat(want, " "))
   local outstanding = packet.outstanding()
   for workers, place in pairs{
      [2] = function (i) return {worker = i < 3 and 1 or 2} end,
      [3] = function (i) return {worker = i % 3 + 1} end, -- round in circles: may drop when links are full
   } do
      local got = run_chain(4, workers == 3 and 500 or limit, place)
      if workers == 3 then
         assert(got[1] == 500 and got[3] == 0, "in a circle of 3 workers: "..table.concat(got, " "))
      else
         assert(lib.equal(got, want), "on "..workers.." threads: "..table.concat(got, " "))
      end
   end
   -- Whatever other threads keep, they have got from the pool; nothing is lost.
   assert(packet.outstanding() <= outstanding + 2 * 4096)
end

-- Changes while it runs: what stays goes on.
local function test_reconfigure ()
   local c = config.new()
   chain(c, "stay", 2, 1e12, function (i) return {worker = i < 2 and 1 or 2} end)
   engine.configure(c)
   engine.main{duration = 0.02, no_report = true}
   local more = config.copy(c)
   chain(more, "more", 1, 1e12, function (i) return {worker = 3 - i % 2 - 1} end)
   local asked = false
   local deadline = engine.now() + 180
   engine.main{no_report = true, done = function ()
      if not asked then
         asked = true
         engine.configure(more)
      end
      return count("more_check", "seen") > 0 or engine.now() > deadline
   end}
   assert(count("more_check", "seen") > 0 and count("stay_check", "disorder") == 0)
   engine.configure(c)
   assert(not shm.exists("apps/more_check"))
   engine.stop()
   -- What another worker cannot be given.
   local Local = {new = function () return {} end}
   c = config.new()
   config.app(c, "hidden", Local, nil, {worker = 2})
   local ok, why = pcall(engine.configure, c)
   assert(not ok and why:match("app hidden: its class is not a field of any module"))
   c = config.new()
   config.app(c, "bad", M.Pass, {f = print}, {worker = 2})
   ok, why = pcall(engine.configure, c)
   assert(not ok and why:match("app bad"))
   engine.stop()
end

-- Sends and receives on a pair of queues; what it is on another thread tells test_queues.
M.QueueCount = {}
function M.QueueCount:new ()
   return setmetatable({shm = {seen = {counter}}}, {__index = M.QueueCount})
end
function M.QueueCount:push ()
   while not link.empty(self.input.input) do
      packet.free(link.receive(self.input.input))
      counter.add(self.shm.seen)
   end
end

local function queues (places)
   local c, Port = config.new(), require("apps.dpdk.port")
   for queue, worker in pairs(places) do
      config.app(c, "port"..queue, Port, {port = "net_null_shared", queue = queue}, {worker = worker})
      config.app(c, "count"..queue, M.QueueCount, nil, {worker = worker})
      config.link(c, "port"..queue..".output -> count"..queue..".input")
   end
   return c
end

-- Queues of one device on several threads; and apps, with their device, that move from one to another.
local function test_queues ()
   for _, places in ipairs{{[0] = 2, [1] = 1}, {[0] = 1, [1] = 2}, {[0] = 1}, {[0] = 2}} do
      engine.configure(queues(places))
      local deadline = engine.now() + 180
      engine.main{no_report = true, done = function ()
         counter.commit()
         for queue in pairs(places) do
            if count("count"..queue, "seen") == 0 then return engine.now() > deadline end
         end
         return true
      end}
      for queue in pairs(places) do assert(count("count"..queue, "seen") > 0) end
      engine.report_links()
   end
   -- A device is opened once, with the queues of that graph: more need another start.
   local ok, why = pcall(engine.configure, queues{[0] = 2, [1] = 1})
   assert(not ok and why:match("give queues = N"), tostring(why))
   engine.stop()
end

-- What stays keeps its place; a refused description changes nothing and stops nobody; a breath called directly ends.
local function test_steady ()
   local before = {a_source = 1, a_pass01 = 1, a_pass02 = 1, a_check = 1}
   local c = config.new()
   chain(c, "a", 2)
   for i = 1, 3 do chain(c, "b"..i, 9) end
   local place = placement.assign(c, 2, before)
   for name, worker in pairs(before) do assert(place[name] == worker) end

   c = config.new()
   chain(c, "go", 2, 1e12, function (i) return {worker = i < 2 and 1 or 2} end)
   engine.configure(c)
   local bad = config.copy(c)
   config.link(bad, "go_source.more -> nobody.input")
   local breaths, refused, seen, deadline = 0, 0, nil, engine.now() + 180
   engine.main{no_report = true, done = function ()
      breaths = breaths + 1
      if breaths == 5 then
         local ok, why = pcall(engine.configure, bad)
         assert(not ok and why:match("no such app: nobody"))
         refused, seen = refused + 1, count("go_check", "seen")
      end
      counter.commit()
      return refused == 1 and count("go_check", "seen") > seen + 10000 or engine.now() > deadline
   end}
   assert(count("go_check", "seen") > seen + 10000 and count("go_check", "disorder") == 0)
   for _ = 1, 50 do engine.breathe() end
   engine.stop()
end

-- Tries to change the graph from where it may not.
M.Meddler = {}
function M.Meddler:new ()
   return setmetatable({shm = {refused = {counter}}}, {__index = M.Meddler})
end
function M.Meddler:pull ()
   local ok, why = pcall(engine.configure, config.new())
   if not ok and why:match("another thread cannot change the graph") then counter.add(self.shm.refused) end
end

local function test_meddler ()
   local c = config.new()
   config.app(c, "meddler", M.Meddler, nil, {worker = 2})
   engine.configure(c)
   local deadline = engine.now() + 180
   engine.main{no_report = true, done = function ()
      return count("meddler", "refused") > 0 or engine.now() > deadline
   end}
   assert(count("meddler", "refused") > 0)
   engine.stop()
end

local function test_death ()
   local c = config.new()
   config.app(c, "source", M.Numbers, {limit = 1e12})
   config.app(c, "bomb", M.Bomb, nil, {worker = 2})
   config.link(c, "source.output -> bomb.input")
   engine.configure(c)
   local ok, why = pcall(engine.main, {duration = 180, no_report = true})
   assert(not ok and why:match("worker 2") and why:match("the bomb went off"), tostring(why))
   ok, why = pcall(engine.stop)
   assert(not ok and why:match("the bomb went off"))
end

function M.run (threads)
   test_encode(threads)
   test_assign(threads)
   assert(native.thread == 1)
   test_same_packets()
   test_reconfigure()
   test_queues()
   test_steady()
   test_meddler()
   test_death()
end

return M
