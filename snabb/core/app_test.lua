-- SPDX-License-Identifier: MIT
-- core.app_test: the engine's selftest, from core.app.

local config = require("core.config")
local counter = require("core.counter")
local lib = require("core.lib")
local link = require("core.link")
local packet = require("core.packet")
local shm = require("core.shm")

local M = {}

local function class (methods)
   local Class = methods or {}
   function Class:new (arg) return setmetatable({arg = arg, calls = {}}, {__index = Class}) end
   return Class
end

local function graph (apps, links)
   local c = config.new()
   for name, spec in pairs(apps) do config.app(c, name, spec[1] or spec, spec[1] and spec[2] or nil) end
   for _, spec in ipairs(links or {}) do config.link(c, spec) end
   return c
end

-- Links by name and by index; what changes, and what survives with its packets.
local function test_configure (engine)
   local App = class{push = function () end}
   engine.configure(graph({app1 = App, app2 = App}, {"app1.x -> app2.x"}))
   local one, two, l = engine.app_table.app1, engine.app_table.app2, engine.link_table["app1.x -> app2.x"]
   assert(one.output.x == l and one.output[1] == l and two.input.x == l and two.input[1] == l and one.appname == "app1")
   link.transmit(l, packet.from_string("stays"))
   engine.configure(graph({app1 = {App, "new argument"}, app2 = App}, {"app1.x -> app2.x", "app2.y -> app1.y"}))
   assert(engine.app_table.app1 ~= one and engine.app_table.app2 == two)
   assert(engine.link_table["app1.x -> app2.x"] == l and link.nreadable(l) == 1)
   assert(engine.app_table.app1.output.x == l and #engine.app_table.app2.output == 1)
   local ok, why = pcall(engine.configure, graph({app1 = App}, {"app1.x -> nobody.x"}))
   assert(not ok and why:match("no such app: nobody"))
   ok, why = pcall(engine.configure, graph({app1 = App, app2 = App}, {"app1.x -> app2.x", "app1.y -> app2.x"}))
   assert(not ok and why:match("app2: duplicate input link x"))
   ok, why = pcall(engine.configure, graph({app1 = App, app2 = App}, {"app1.x -> app2.x", "app1.x -> app2.y"}))
   assert(not ok and why:match("app1: duplicate output link x"))
   assert(engine.app_table.app2 == two and link.nreadable(l) == 1)
   local configs = counter.read(engine.configs)
   engine.stop()
   assert(lib.equal(engine.app_table, {}) and lib.equal(engine.link_table, {}))
   assert(counter.read(engine.configs) == configs + 1)
   assert(not shm.exists("links/app1.x -> app2.x"))
   ok, why = pcall(engine.configure, graph{bad = {{new = function () return 5 end}}})
   assert(not ok and why:match("bad return value from app 'bad'"))
   engine.stop()
end

-- The steps in Snabb's form, by which a program configures an engine in another process.
local function test_actions (engine)
   local App = class{push = function () end, reconfig = function (self, arg) self.arg = arg end}
   local function apply (new)
      local actions = engine.compute_config_actions(engine.configuration, new)
      engine.apply_config_actions(actions)
      local names = {}
      for i, action in ipairs(actions) do names[i] = action[1].." "..action[2][1] end
      return table.concat(names, ", ")
   end
   assert(apply(graph({a = {App, 1}, b = App}, {"a.x -> b.y"})) ==
             "start_app a, start_app b, new_link a.x -> b.y, link_output a, link_input b")
   local a = engine.app_table.a
   assert(a.output.x == engine.link_table["a.x -> b.y"] and engine.app_table.b.input[1] == a.output.x and a.arg == 1)
   assert(apply(graph{a = {App, 2}, b = App}) ==
             "unlink_output a, unlink_input b, free_link a.x -> b.y, reconfig_app a")
   assert(engine.app_table.a == a and a.arg == 2 and #a.output == 0 and engine.configuration.apps.a.arg == 2)
   local ok, why = pcall(engine.apply_config_actions, {{"explode", {}}})
   assert(not ok and why:match("no step explode"))
   engine.apply_config_actions{{"stop_app", {"a"}}, {"start_app", {"c", App}}}
   assert(engine.app_table.c and not engine.app_table.a)
   engine.stop()
   assert(lib.equal(engine.app_table, {}))
end

local function test_reconfig_and_link_events (engine)
   local events = {}
   local App = class{link = function (_, direction, name) table.insert(events, "link "..direction.." "..name) end,
                     unlink = function (_, direction, name) table.insert(events, "unlink "..direction.." "..name) end,
                     reconfig = function (self, arg) self.arg = arg end}
   local Old = class{link = function (self, direction, name)
      table.insert(events, "old "..direction.." "..name.." "..tostring(self[direction][name] ~= nil))
   end}
   engine.configure(graph({a = {App, 1}, b = Old}, {"a.o -> b.i"}))
   local a = engine.app_table.a
   engine.configure(graph({a = {App, 2}, b = Old}))
   assert(engine.app_table.a == a and a.arg == 2)
   assert(table.concat(events, ", ") == "link output o, old input i true, unlink output o, old input i false",
          table.concat(events, ", "))
   engine.stop()
end

-- The order of a breath in a diamond: pulls by name, pushes downstream, one turn for consecutive links of an app.
local function test_order (engine)
   local turns = {}
   local function note (what) return function (self) table.insert(turns, what.." "..self.appname) end end
   local Pull, Push = class{pull = note("pull")}, class{push = note("push")}
   local Both = class{push_link = {x = note("push_link")}, push = note("push")}
   engine.configure(graph({b_source = Pull, a_source = Pull, left = Push, right = Push, join = Push, special = Both},
      {"a_source.o -> left.i", "b_source.o -> right.i", "left.o -> join.l", "right.o -> join.r", "join.o -> special.x",
       "join.p -> special.y"}))
   engine.breathe()
   local first = table.concat(turns, ", ")
   assert(first == "pull a_source, pull b_source, push right, push join, push left, push join, push special, "..
             "push_link special", first)
   for _ = 1, 5 do
      turns = {}
      engine.stop()
      engine.configure(graph({b_source = Pull, a_source = Pull, left = Push, right = Push, join = Push, special = Both},
         {"join.p -> special.y", "join.o -> special.x", "right.o -> join.r", "left.o -> join.l",
          "b_source.o -> right.i", "a_source.o -> left.i"}))
      engine.breathe()
      assert(table.concat(turns, ", ") == first, "the order changes: "..table.concat(turns, ", "))
   end
   engine.stop()
end

local function test_packets_and_counters (engine)
   local Source = class{pull = function (self)
      for _ = 1, engine.pull_npackets do link.transmit(self.output.o, packet.from_string("0123456789")) end
   end}
   local Sink = class{push = function (self)
      while not link.empty(self.input.i) do packet.free(link.receive(self.input.i)) end
   end}
   engine.configure(graph({source = Source, sink = Sink}, {"source.o -> sink.i"}))
   local outstanding = packet.outstanding()
   local frees, bytes, bits = counter.read(engine.frees), counter.read(engine.freebytes), counter.read(engine.freebits)
   for _ = 1, 7 do engine.breathe() end
   local n = 7 * 102
   assert(counter.read(engine.frees) - frees == n and counter.read(engine.freebytes) - bytes == n * 10)
   assert(counter.read(engine.freebits) - bits == n * 84 * 8)
   local stats = link.stats(engine.link_table["source.o -> sink.i"])
   assert(stats.txpackets == n and stats.rxpackets == n and stats.rxbytes == 10 * n and stats.txdrop == 0)
   assert(packet.outstanding() == outstanding)
   engine.stop()
end

local function test_main (engine)
   local Ticker = class{tick = function (self) self.ticks = (self.ticks or 0) + 1 end}
   engine.configure(graph{ticker = Ticker})
   local breaths = 0
   engine.main{done = function () breaths = breaths + 1 return breaths == 300 end, no_report = true}
   assert(breaths == 300)
   engine.main{duration = 0.05, no_report = true, measure_latency = false}
   -- As many ticks as milliseconds, if the machine was not busy: never more.
   assert(engine.app_table.ticker.ticks >= 1)
   assert(not pcall(engine.main, {duration = 1, done = function () return true end}))
   assert(shm.exists("engine/latency.histogram"))
   -- An error in an app ends main and is reported; the graph can be taken down.
   local Bad = class{pull = function () error("as expected") end}
   engine.configure(graph{bad = Bad})
   local ok, why = pcall(engine.main, {duration = 1, no_report = true})
   assert(not ok and why:match("as expected") and why:match("stack traceback"))
   engine.stop()
   -- A steady rhythm.
   engine.Hz = 1000
   local pulls = 0
   engine.configure(graph{app = class{pull = function () pulls = pulls + 1 end}})
   engine.main{duration = 0.02, no_report = true}
   assert(pulls >= 1 and pulls <= 22, pulls)
   engine.Hz = false
   engine.stop()
end

local function test_names (engine)
   local name = "selftest-"..shm.path(""):match("(%d+)/?$")
   assert(not pcall(engine.unclaim_name))
   engine.claim_name(name)
   engine.claim_name(name)
   assert(engine.enumerate_named_programs()[name])
   engine.claim_name(name.."-2")
   local programs = engine.enumerate_named_programs()
   assert(not programs[name] and programs[name.."-2"])
   assert(not pcall(engine.claim_name, "../x"))
   engine.unclaim_name()
   assert(not engine.enumerate_named_programs()[name.."-2"] and not engine.program_name)
end

-- With a timeline, the engine says what it does.
local function test_timeline (engine)
   local log = engine.timeline()
   assert(engine.timeline() == log)
   local breaths = 0
   engine.main{done = function () breaths = breaths + 1 return breaths == 3 end, no_report = true}
   local seen = {}
   for _, event in ipairs(require("core.timeline").events(log, 1000)) do
      local name = event.text:match("^[%w_]+")
      seen[name] = (seen[name] or 0) + 1
   end
   for name, n in pairs{engine_started = 1, breath_start = 3, breath_pulled = 3, breath_pushed = 3, breath_end = 3,
                        engine_stopped = 1} do
      assert(seen[name] == n, name..": "..tostring(seen[name]))
   end
end

function M.run (engine)
   test_configure(engine)
   test_actions(engine)
   test_reconfig_and_link_events(engine)
   test_order(engine)
   test_packets_and_counters(engine)
   test_main(engine)
   test_names(engine)
   test_timeline(engine)
end

return M
