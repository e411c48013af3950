-- SPDX-License-Identifier: MIT
-- core.costs_test: the selftest of core.costs and core.auto.

local ffi = require("ffi")
local C = ffi.C
local config = require("core.config")
local engine = require("core.app")
local sys = require("core.sys")
local apps = require("core.threads_test")

ffi.cdef[[int perigee_costs_setenv(const char *name, const char *value, int overwrite) __asm__("setenv");]]

local M = {}

local function measured (n)
   local graph = {parameters = "", apps = {}, links = {}}
   for i = 1, n do
      graph.apps["app"..i] = i * 10.5
      if i > 1 then graph.links[("app%d.output -> app%d.input"):format(i - 1, i)] = i end
   end
   return graph
end

local function test_text (costs)
   local graphs = {measured(3), measured(1), measured(20)}
   graphs[2].parameters = costs.line{"--a", "two words", "new\nline", "\1"}
   local text = costs.write(graphs)
   local back = costs.read(text)
   assert(#back == 3 and costs.write(back) == text)
   assert(back[1].apps.app3 == 31.5 and back[3].links["app19.output -> app20.input"] == 20)
   assert(not back[2].parameters:find("%c") and back[2].parameters == graphs[2].parameters)
   local found, at = costs.find(back, "", graphs[3].apps, graphs[3].links)
   assert(found == back[3] and at == 3 and not costs.find(back, "other", graphs[3].apps, graphs[3].links))
   assert(not costs.find(back, "", measured(4).apps, measured(4).links))
   local many = {}
   for i = 1, 100 do many[i] = measured(i) end
   assert(#costs.read(costs.write(many)) == costs.GRAPHS)
   -- Whatever is in the file, it is read without an error, and what is not a number is not there.
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED") or 1)
   math.randomseed(seed)
   for _ = 1, 300 do
      local bytes = {text:byte(1, -1)}
      for _ = 1, math.random(1, 20) do bytes[math.random(#bytes)] = math.random(0, 255) end
      for _, graph in ipairs(costs.read(string.char(unpack(bytes)))) do
         for _, value in pairs(graph.apps) do assert(value >= 0 and value < 1e12, "seed "..seed) end
      end
   end
   assert(#costs.read("") == 0 and #costs.read("something else\ngraph \napp x 1") == 0)
   assert(next(costs.read("perigee snabb costs 1\ngraph \napp x nan\napp y -1\napp z inf")[1].apps) == nil)
end

local function test_file (costs)
   local folder = os.tmpname()
   os.remove(folder)
   local before = os.getenv("XDG_CACHE_HOME")
   C.perigee_costs_setenv("XDG_CACHE_HOME", folder, 1)
   assert(#costs.load("x") == 0)
   local one, two = measured(2), measured(3)
   assert(costs.keep("program.x.x", "p", one) and costs.keep("program.x.x", "p", two) and costs.keep("program.x.x", "p", one))
   local kept = costs.load("program.x.x")
   assert(#kept == 2 and kept[1].apps.app2 == 21 and not kept[1].apps.app3 and kept[2].apps.app3)
   -- A program's name stays in the folder.
   assert(costs.keep("../../y", "p", one) and #costs.load("../../y") == 1)
   local path = folder.."/perigee/snabb/.._.._y"
   assert(io.open(path)):close()
   -- Nowhere to keep it.
   C.perigee_costs_setenv("XDG_CACHE_HOME", "/proc/nowhere", 1)
   assert(not costs.keep("x", "p", one) and #costs.load("x") == 0)
   C.perigee_costs_setenv("XDG_CACHE_HOME", before or "", 1)
   os.remove(path)
   os.remove(folder.."/perigee/snabb/x.x")
   for _, part in ipairs{"/perigee/snabb", "/perigee", ""} do os.remove(folder..part) end
   assert(not sys.access(folder, 0))
end

-- A chain that runs: each app takes some time, each link carries what a breath brings.
local function test_measure (costs)
   local warm, every = costs.WARM, costs.EVERY
   costs.WARM, costs.EVERY = 100, 4
   local c = config.new()
   config.app(c, "a", apps.Numbers)
   config.app(c, "b", apps.Pass)
   config.app(c, "c", apps.Check)
   config.app(c, "idle", apps.Pass)
   config.link(c, "a.output -> b.input")
   config.link(c, "b.output -> c.input")
   engine.configure(c)
   local result
   local measuring = costs.new(engine, function (found) result = found end)
   local breaths = 0
   while measuring:breathe(engine.breathe) and breaths < 1e6 do breaths = breaths + 1 end
   assert(result and result.apps.a > 0 and result.apps.b > 0 and result.apps.c > 0 and result.apps.idle == 0)
   for _, packets in pairs(result.links) do
      assert(packets > 0.8 * engine.pull_npackets and packets < 1.2 * engine.pull_npackets)
   end
   -- A graph that changes meanwhile is not measured; the turns are the new graph's.
   result = nil
   measuring = costs.new(engine, function (found) result = found end)
   for _ = 1, 150 do assert(measuring:breathe(engine.breathe)) end
   local pulls = engine.turns()
   engine.configure(config.new())
   assert(not measuring:breathe(engine.breathe) and not result and engine.turns() ~= pulls)
   engine.stop()
   costs.WARM, costs.EVERY = warm, every
end

function M.run (costs)
   test_text(costs)
   test_file(costs)
   test_measure(costs)
end

return M
