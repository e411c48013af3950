-- SPDX-License-Identifier: MIT
-- core.costs: how long each app takes and how many packets each link carries in a breath, for `--workers auto`. Not part of
-- Snabb's API.
--
-- A program that runs with --workers auto for the first time is measured in its first seconds, and what was found is kept in
-- $XDG_CACHE_HOME/perigee/snabb/PROGRAM (~/.cache without that variable). The next run of the same program with the same
-- arguments is placed by it (core.placement). Apps cannot be moved while they run: they would lose what they know.
--
-- Only breaths in which packets moved are measured: every 32nd, in turn as a whole and app by app. The times of apps are scaled
-- to that of whole breaths, as looking at the clock between apps costs time itself, and keeps the compiler from what it does across apps.
-- The largest tenth of the times is left out: that is what a thread takes that loses its core.

local ffi = require("ffi")
local C = ffi.C
local counter = require("core.counter")
local link = require("core.link")
local sys = require("core.sys")
local sorted_keys = require("core.lib").sorted_keys

local M = {}

--- Breaths that pass first, while the compiler works; each how many one is measured; how many of each kind are enough.
M.WARM, M.EVERY, M.ENOUGH = 5000, 32, 100
--- Graphs that are kept of a program, the last ones measured; most bytes of a file that are read.
M.GRAPHS, M.BYTES = 32, 4 * 1024 * 1024

local clock = C.get_monotonic_time

-- ---- measuring ----

local Costs = {}
Costs.__index = Costs

--- Starts measuring what an engine runs: `breathe` is called instead of the engine's. *done* is called with the result,
--- {apps = {name = nanoseconds per breath}, links = {spec = packets per breath}}.
function M.new (engine, done)
   local self = setmetatable({engine = engine, done = done, n = 0, whole = {}, split_n = 0, moving = 0, moved = 0, apps = {},
                              turn_times = {}}, Costs)
   self.configs = tonumber(counter.read(engine.configs))
   return self
end

-- What looking at the clock twice costs, in seconds.
local function clock_time ()
   local least = 1
   for _ = 1, 200 do
      local from = clock()
      least = math.min(least, clock() - from)
   end
   return least
end

-- The engine's turns, each with its time.
function Costs:prepare ()
   local pulls, pushes = self.engine.turns()
   local times, look = {}, clock_time()
   self.pulls, self.pushes, self.turn_times = {}, {}, times
   local function timed (app, call)
      local turn = {name = app.appname, time = 0}
      times[#times + 1] = turn
      return function (a, b)
         local from = clock()
         call(a, b)
         turn.time = math.max(0, clock() - from - look)
      end
   end
   for i, app in ipairs(pulls) do
      local pull = timed(app, app.pull)
      self.pulls[i] = {pull = function () pull(app) end}
   end
   for i, turn in ipairs(pushes) do
      self.pushes[i] = {app = turn.app, link = turn.link, push = timed(turn.app, turn.push)}
   end
   self.at_first = self:carried()
   self.moving = 0
end

-- Packets that each link has carried until now.
function Costs:carried ()
   local packets = {}
   for spec, l in pairs(self.engine.link_table) do
      packets[spec] = tonumber(link.stats(l).txpackets)
   end
   return packets
end

function Costs:measure_whole (breathe)
   local from = clock()
   breathe()
   local time = clock() - from
   if self:moves() then self.whole[#self.whole + 1] = time end
end

function Costs:measure_turns ()
   self.engine.breathe_with(self.pulls, self.pushes)
   if not self:moves() then return end
   self.split_n = self.split_n + 1
   local times = {}
   for _, turn in ipairs(self.turn_times) do times[turn.name] = (times[turn.name] or 0) + turn.time end
   for name, time in pairs(times) do
      self.apps[name] = self.apps[name] or {}
      table.insert(self.apps[name], time)
   end
end

-- The mean of times but the largest tenth: a thread that loses its core for a while is no part of what an app takes.
local function trimmed (times)
   if not times or #times == 0 then return 0 end
   table.sort(times)
   local n, sum = math.ceil(#times * 0.9), 0
   for i = 1, n do sum = sum + times[i] end
   return sum / n
end

-- Did packets move since this was asked before?
function Costs:moves ()
   local moved = self.engine.moved()
   local yes = moved ~= self.moved
   self.moved = moved
   if yes then self.moving = self.moving + 1 end
   return yes
end

--- A breath, measured or not. Returns false when there is no more to measure.
function Costs:breathe (breathe)
   self.n = self.n + 1
   if self.n < M.WARM then
      breathe()
      return true
   end
   if not self.pulls then
      self:prepare()
      self:moves()
   end
   if self.n % M.EVERY ~= 0 then
      breathe()
      self:moves()
   elseif #self.whole <= self.split_n then
      self:measure_whole(breathe)
   else
      self:measure_turns()
   end
   if self.configs ~= tonumber(counter.read(self.engine.configs)) then return false end -- another graph now
   if self.split_n < M.ENOUGH then return true end
   self:finish()
   return false
end

function Costs:finish ()
   local times, sum = {}, 0
   -- An app without a turn takes no time.
   for name in pairs(self.engine.app_table) do
      times[name] = trimmed(self.apps[name])
      sum = sum + times[name]
   end
   local scale = sum > 0 and math.min(1, trimmed(self.whole) / sum) or 1
   local result = {apps = {}, links = {}}
   for name, time in pairs(times) do result.apps[name] = time * scale * 1e9 end
   for spec, packets in pairs(self:carried()) do
      result.links[spec] = (packets - (self.at_first[spec] or 0)) / math.max(1, self.moving)
   end
   self.done(result)
end

-- ---- keeping ----

local HEADER = "perigee snabb costs 1"

--- What is in a text that `write` made: a list of {parameters =, apps =, links =}; empty if it is something else.
function M.read (text)
   local graphs = {}
   local lines = text:gmatch("[^\n]*")
   if lines() ~= HEADER then return graphs end
   for line in lines do
      local kind, name, value = line:match("^(%a+) (.*) (%S+)$")
      local graph, number = graphs[#graphs], tonumber(value)
      if line:match("^graph ") then
         graphs[#graphs + 1] = {parameters = line:sub(7), apps = {}, links = {}}
      elseif graph and number and number >= 0 and number < 1e12 then
         if kind == "app" then graph.apps[name] = number elseif kind == "link" then graph.links[name] = number end
      end
   end
   return graphs
end

--- Graphs as text, the first M.GRAPHS of them.
function M.write (graphs)
   local lines = {HEADER}
   for i = 1, math.min(#graphs, M.GRAPHS) do
      local graph = graphs[i]
      lines[#lines + 1] = "graph "..graph.parameters
      for _, kind in ipairs{"app", "link"} do
         local values = graph[kind.."s"]
         for _, name in ipairs(sorted_keys(values)) do
            lines[#lines + 1] = ("%s %s %.1f"):format(kind, name, values[name])
         end
      end
   end
   return table.concat(lines, "\n").."\n"
end

--- Program arguments as one line.
function M.line (parameters)
   local words = {}
   for i, word in ipairs(parameters or {}) do words[i] = ("%q"):format(tostring(word)):gsub("\n", "n"):gsub("%c", "?") end
   return table.concat(words, " ")
end

-- The same names, no more and no fewer.
local function same_names (a, b)
   for name in pairs(a) do if b[name] == nil then return false end end
   for name in pairs(b) do if a[name] == nil then return false end end
   return true
end

--- The first of a list that is about a graph with these apps and links, and its place; nil if none is.
function M.find (graphs, parameters, apps, links)
   for i, graph in ipairs(graphs) do
      if graph.parameters == parameters and same_names(graph.apps, apps) and same_names(graph.links, links) then
         return graph, i
      end
   end
end

-- The file of a program; nil where there is no home.
local function file_of (program)
   local home = os.getenv("HOME")
   local cache = os.getenv("XDG_CACHE_HOME") or home and home ~= "" and home.."/.cache"
   if not cache or cache:sub(1, 1) ~= "/" then return nil end
   local folder = cache.."/perigee/snabb"
   return folder.."/"..tostring(program):gsub("^program%.", ""):gsub("[^%w_.-]", "_"):sub(1, 100), folder
end

--- The graphs that are kept of a program.
function M.load (program)
   local path = file_of(program)
   local file = path and io.open(path, "rb")
   if not file then return {} end
   local text = file:read(M.BYTES)
   file:close()
   return M.read(text or "")
end

--- Keeps what was measured of a graph, before what is kept of the program already. Returns whether that worked: it is of
--- use to the next run only, and no reason to stop this one.
function M.keep (program, parameters, measured)
   local path, folder = file_of(program)
   if not path then return false end
   local made = ""
   for part in folder:gmatch("[^/]+") do
      made = made.."/"..part
      if not sys.access(made, 0) then sys.mkdir(made, tonumber("700", 8)) end
   end
   local graphs = M.load(program)
   local _, old = M.find(graphs, parameters, measured.apps, measured.links)
   if old then table.remove(graphs, old) end
   table.insert(graphs, 1, {parameters = parameters, apps = measured.apps, links = measured.links})
   local new = path.."."..sys.getpid()
   local file = io.open(new, "wb")
   if not file then return false end
   local written = file:write(M.write(graphs))
   if file:close() and written and os.rename(new, path) then return true end
   os.remove(new)
   return false
end

-- ---- selftest ----

function M.selftest () require("core.costs_test").run(M) end

return M
