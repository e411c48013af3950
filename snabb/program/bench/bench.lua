-- SPDX-License-Identifier: MIT
-- bench: how fast packets go through graphs of apps. `./x bench snabb` runs it.

local config = require("core.config")
local counter = require("core.counter")
local engine = require("core.app")
local lib = require("core.lib")
local link = require("core.link")
local native = require("core.native")
local basic = require("apps.basic.basic_apps")
local Port = require("apps.dpdk.port")

local M = {}

local empty, receive, transmit = link.empty, link.receive, link.transmit

--- The forwarding app that is measured: what comes in goes out.
M.Forward = {}
M.Forward.__index = M.Forward
function M.Forward:new ()
   return setmetatable({}, M.Forward)
end
function M.Forward:push ()
   local input, output = self.input.input, self.output.output
   while not empty(input) do
      transmit(output, receive(input))
   end
end

-- Apps named so that their order by name is that of the chain.
local function chain (c, name, n, first, first_arg, first_link, last, last_arg, last_link)
   config.app(c, name.."_a", first, first_arg)
   local from = name.."_a."..first_link
   for i = 1, n do
      local app = ("%s_f%03d"):format(name, i)
      config.app(c, app, M.Forward)
      config.link(c, from.." -> "..app..".input")
      from = app..".output"
   end
   config.app(c, name.."_z", last, last_arg)
   config.link(c, from.." -> "..name.."_z."..last_link)
end

local graphs = {}

function graphs.chain (c, n, bytes)
   chain(c, "chain", n, basic.Source, bytes, "output", basic.Sink, nil, "input")
end

function graphs.chains (c, n, bytes)
   chain(c, "one", n, basic.Source, bytes, "output", basic.Sink, nil, "input")
   chain(c, "two", n, basic.Source, bytes, "output", basic.Sink, nil, "input")
end

function graphs.ports (c, n, bytes)
   chain(c, "ports", n, Port, {port = "net_null0,size="..bytes}, "output", Port, {port = "net_null1"}, "input")
end

local function breaths_of_all () return engine.total("breaths") end

local function run (seconds)
   engine.main{duration = seconds, no_report = true, measure_latency = false}
end

-- Bytes that Lua allocates for each breath, while its collector is off.
local function garbage_per_breath ()
   collectgarbage()
   collectgarbage("stop")
   local breaths, before, n = counter.read(engine.breaths), collectgarbage("count"), 0
   engine.main{done = function () n = n + 1 return n >= 2000 end, no_report = true, measure_latency = false}
   local after = collectgarbage("count")
   collectgarbage("restart")
   return (after - before) * 1024 / tonumber(counter.read(engine.breaths) - breaths)
end

local function measure (seconds)
   local frees, time, cpu, breaths = engine.total("frees"), engine.now(), os.clock(), breaths_of_all()
   run(seconds)
   frees, time, cpu = engine.total("frees") - frees, engine.now() - time, os.clock() - cpu
   return {mpps = frees / time / 1e6, mpps_cpu = frees / cpu / 1e6, breaths = breaths_of_all() - breaths}
end

--- Measure one graph: {mpps =, mpps_cpu =, breaths =, garbage =}, the medians of *rounds*.
function M.measure (graph, n, options)
   local c = config.new()
   graphs[graph](c, n, options.bytes)
   engine.busywait = true
   engine.configure(c)
   run(options.seconds) -- warms up
   local garbage, samples = garbage_per_breath(), {}
   for i = 1, options.rounds do samples[i] = measure(options.seconds) end
   engine.stop()
   local result = {garbage = garbage}
   for _, key in ipairs{"mpps", "mpps_cpu", "breaths"} do
      table.sort(samples, function (a, b) return a[key] < b[key] end)
      result[key] = samples[math.ceil(#samples / 2)][key]
   end
   return result
end

local function numbers (text)
   local list = {}
   for word in text:gmatch("[^,]+") do
      local n = tonumber(word)
      if not n or n < 0 or n > 1000 or n % 1 ~= 0 then
         error("--apps: expected numbers from 0 to 1000, got "..word, 0)
      end
      list[#list + 1] = n
   end
   return list
end

local function number (option, text, low, high)
   local n = tonumber(text)
   if not n or n < low or n > high then
      error(("--%s: expected a number from %g to %g, got %s"):format(option, low, high, tostring(text)), 0)
   end
   return n
end

function M.run (args)
   local graph, list = "chain", {1, 2, 5, 10, 20, 50, 100}
   local options = {seconds = 0.2, rounds = 5, bytes = 60}
   local handlers = {
      g = function (text) graph = text end,
      n = function (text) list = numbers(text) end,
      s = function (text) options.seconds = number("seconds", text, 0.001, 3600) end,
      r = function (text) options.rounds = number("rounds", text, 1, 10000) end,
      b = function (text) options.bytes = number("bytes", text, 1, 10240) end,
      h = function () print(require("program.bench.README_inc")) main.exit(0) end,
   }
   local rest = lib.dogetopt(args, handlers, "g:n:s:r:b:h",
                             {graph = "g", apps = "n", seconds = "s", rounds = "r", bytes = "b", help = "h"})
   if rest[1] then error("bench: expected options only, got "..rest[1], 0) end
   if not graphs[graph] then error("--graph: expected chain, chains or ports, got "..graph, 0) end
   for _, n in ipairs(list) do
      local m = M.measure(graph, n, options)
      print(('{"graph":"%s","n":%d,"workers":%d,"bytes":%d,"mpps":%.3f,"mpps_cpu":%.3f,"garbage":%.2f,"breaths":%d}')
               :format(graph, n, native.workers, options.bytes, m.mpps, m.mpps_cpu, m.garbage, m.breaths))
      io.stdout:flush()
   end
end

function M.selftest ()
   for graph in pairs(graphs) do
      local m = M.measure(graph, 2, {seconds = 0.02, rounds = 1, bytes = 60})
      assert(m.mpps > 0 and m.mpps_cpu > 0 and m.breaths > 0 and m.garbage < 1000, graph)
   end
   assert(not pcall(M.run, {"extra"})) -- was passed over, and the options behind it
   assert(not pcall(numbers, "1,x") and not pcall(number, "seconds", "no", 0, 1))
   assert(#numbers("1,20,3") == 3)
end

return M
