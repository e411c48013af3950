-- SPDX-License-Identifier: MIT
-- core.auto: `--workers auto`: which thread each app runs on, by what the program's apps took when it last ran so. Not part of
-- Snabb's API. core.costs measures, core.placement decides.

local costs = require("core.costs")
local native = require("core.native")
local placement = require("core.placement")

local M = {}

local place_now = {} -- of the graph that runs
local known = false  -- its costs are, or another thread has not been asked to measure

local function program ()
   local main = require("core.main")
   return main.program_name or "none", costs.line(main.parameters)
end

--- Where the apps of a description are to run, {name = worker}, and whether that takes more than one thread.
function M.place (new)
   local name, parameters = program()
   local measured = costs.find(costs.load(name), parameters, new.apps, new.links)
   known = measured ~= nil
   native.forget_costs()
   place_now = placement.auto(new, native.workers, place_now, measured)
   local several = false
   for _, worker in pairs(place_now) do several = several or worker > 1 end
   return place_now, several
end

--- Whether what runs is to be measured.
function M.is_unknown () return not known end

--- For another thread, which the first one tells whether to measure.
function M.set_unknown (yes) known = not yes end

--- What measures the graph that this thread runs (core.costs), or nil.
function M.measurement ()
   if known then return nil end
   return costs.new(require("core.app"), function (result)
      known = true
      native.leave_costs(require("core.threads").encode(result))
      if native.thread == 1 then M.keep() end
   end)
end

--- Keeps what all threads have measured for the next run, if that is the whole graph.
function M.keep ()
   local all = {apps = {}, links = {}}
   for _, text in ipairs(native.left_costs()) do
      local result = require("core.threads").decode(text)
      for name, time in pairs(result.apps) do all.apps[name] = time end
      for spec, packets in pairs(result.links) do all.links[spec] = packets end
   end
   for name in pairs(place_now) do
      if not all.apps[name] then return false end
   end
   if not next(all.apps) then return false end
   native.forget_costs()
   local name, parameters = program()
   return costs.keep(name, parameters, all)
end

function M.selftest () require("core.costs_test").run(costs) end

return M
