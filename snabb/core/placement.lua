-- SPDX-License-Identifier: MIT
-- core.placement: which thread each app of a graph runs on. What core.threads is built on; not part of Snabb's API.
--
-- With a number of workers, connected groups of apps are spread by how many apps they have, and cut if there are too few.
-- With --workers auto, by the time that the apps took when the program last ran (core.costs), and a group is cut only where
-- that is worth it: a packet that another core wrote costs whoever reads it a trip from core to core.

local config = require("core.config")
local devices = require("core.devices")
local sorted_keys = require("core.lib").sorted_keys

local M = {}

--- Nanoseconds that a packet costs on each of two threads when it goes from one to the other. Measured: 13 where it comes
--- from, 20 where it goes to (bench/RESULTS.md).
M.CROSSING = 20
--- More threads must bring the time of a breath down to this part of it.
M.WORTH = 0.85

-- Sets of apps that links connect, or a device that has to be on one worker.
local function components (c)
   local group = {}
   local function root (name)
      while group[name] ~= name do name = group[name] end
      return name
   end
   local names = sorted_keys(c.apps)
   for _, name in ipairs(names) do group[name] = name end
   for _, spec in ipairs(sorted_keys(c.links)) do
      local fa, _, ta = config.parse_link(spec)
      if group[fa] and group[ta] then
         local a, b = root(fa), root(ta)
         if a < b then group[b] = a elseif b < a then group[a] = b end
      end
   end
   for _, shared in pairs(devices.sharing(c)) do
      for _, name in ipairs(shared.bound and shared.names or {}) do
         local a, b = root(shared.names[1]), root(name)
         if a < b then group[b] = a elseif b < a then group[a] = b end
      end
   end
   local sets, by_root = {}, {}
   for _, name in ipairs(names) do
      local r = root(name)
      if not by_root[r] then
         by_root[r] = {}
         sets[#sets + 1] = by_root[r]
      end
      table.insert(by_root[r], name)
   end
   return sets
end

-- The apps of a set in the order in which packets pass them.
local function along_the_links (c, set)
   local inside, incoming, next_apps = {}, {}, {}
   for _, name in ipairs(set) do inside[name], incoming[name], next_apps[name] = true, 0, {} end
   for _, spec in ipairs(sorted_keys(c.links)) do
      local fa, _, ta = config.parse_link(spec)
      if inside[fa] and inside[ta] and fa ~= ta then
         incoming[ta] = incoming[ta] + 1
         table.insert(next_apps[fa], ta)
      end
   end
   local order, done = {}, {}
   while #order < #set do
      local pick
      for _, name in ipairs(set) do
         if not done[name] and (incoming[name] <= 0 or not pick) then
            pick = name
            if incoming[name] <= 0 then break end
         end
      end
      done[pick] = true
      order[#order + 1] = pick
      for _, name in ipairs(next_apps[pick]) do incoming[name] = incoming[name] - 1 end
   end
   return order
end

--- Which worker each app runs on: {name = number}. Apps with a place of their own have it; those that *before*, the
--- same of the last graph, has placed stay there. The others: connected groups of apps go to the worker with the fewest
--- apps, larger ones first; if there are fewer groups than workers, the largest are cut along the way of packets.
function M.assign (c, workers, before)
   local place, load, free = {}, {}, {}
   for i = 1, workers do load[i] = 0 end
   for _, set in ipairs(components(c)) do
      local rest = {}
      for _, name in ipairs(set) do
         local worker = c.apps[name].worker or before and before[name]
         if worker then
            place[name] = worker
            load[worker] = (load[worker] or 0) + 1
         else
            rest[#rest + 1] = name
         end
      end
      if #rest > 0 then
         free[#free + 1] = along_the_links(c, rest)
         free[#free].rank, free[#free].width = #free, 1
      end
   end
   local function by_size (a, b)
      if #a ~= #b then return #a > #b end
      return a.rank < b.rank
   end
   while #free > 0 and #free < workers do
      table.sort(free, by_size)
      if #free[1] < 2 then break end
      local whole = table.remove(free, 1)
      local half = math.ceil(#whole / 2)
      local width = whole.width / 2
      free[#free + 1] = {rank = whole.rank, width = width, unpack(whole, 1, half)}
      free[#free + 1] = {rank = whole.rank + width, width = width, unpack(whole, half + 1)}
   end
   table.sort(free, by_size)
   for _, set in ipairs(free) do
      local best = 1
      for i = 2, workers do
         if load[i] < load[best] then best = i end
      end
      for _, name in ipairs(set) do place[name] = best end
      load[best] = load[best] + #set
   end
   return place
end

--- Can packets come back to a worker that they have left? *edges*: {from = {to = true}}.
function M.has_circle (edges)
   local state = {}
   local function visit (worker)
      if state[worker] == "open" then return true end
      if state[worker] then return false end
      state[worker] = "open"
      for to in pairs(edges[worker] or {}) do
         if visit(to) then return true end
      end
      state[worker] = "done"
      return false
   end
   for from in pairs(edges) do
      if visit(from) then return true end
   end
   return false
end

-- ---- by time ----

-- The packets per breath that go from the first *n* apps of a list to the others; nil if some come back, or both parts have apps
-- that have to run together.
local function crossing (c, order, n, measured)
   local index, packets = {}, 0
   for i, name in ipairs(order) do index[name] = i end
   for _, shared in pairs(devices.sharing(c)) do
      local before, after = false, false
      for _, name in ipairs(shared.bound and shared.names or {}) do
         local i = index[name] or n
         before, after = before or index[name] and i <= n, after or i > n
      end
      if before and after then return nil end
   end
   for spec in pairs(c.links) do
      local fa, _, ta = config.parse_link(spec)
      local from, to = index[fa], index[ta]
      if from and to and from <= n and to > n then packets = packets + measured.links[spec] end
      if from and to and from > n and to <= n then return nil end
   end
   return packets
end

local function sum (order, first, last, measured)
   local time = 0
   for i = first, last do time = time + measured.apps[order[i]] end
   return time
end

-- The best place to cut a group, {at =, before =, after =}, with the times of the two parts; nil if none is worth it.
local function best_cut (c, group, measured)
   local best
   for n = 1, #group - 1 do
      local packets = crossing(c, group, n, measured)
      if packets then
         local way = packets * M.CROSSING
         local before = sum(group, 1, n, measured) + way
         local after = sum(group, n + 1, #group, measured) + way
         if not best or math.max(before, after) < math.max(best.before, best.after) then
            best = {at = n, before = before, after = after}
         end
      end
   end
   if best and math.max(best.before, best.after) < M.WORTH * group.time then return best end
end

-- Cuts the longest groups, as long as there are fewer than workers and it is worth it.
local function cut (c, groups, workers, measured)
   local whole = {}
   while #groups + #whole < workers and #groups > 0 do
      table.sort(groups, function (a, b)
         if a.time ~= b.time then return a.time > b.time end
         return a[1] < b[1]
      end)
      local group = table.remove(groups, 1)
      local best = best_cut(c, group, measured)
      if best then
         groups[#groups + 1] = {time = best.before, unpack(group, 1, best.at)}
         groups[#groups + 1] = {time = best.after, unpack(group, best.at + 1)}
      else
         whole[#whole + 1] = group
      end
   end
   for _, group in ipairs(whole) do groups[#groups + 1] = group end
   return groups
end

local function edges_of (c, place)
   local edges = {}
   for spec in pairs(c.links) do
      local fa, _, ta = config.parse_link(spec)
      local from, to = place[fa], place[ta]
      if from ~= to then
         edges[from] = edges[from] or {}
         edges[from][to] = true
      end
   end
   return edges
end

-- Longest first, each to the worker that has least to do. Returns how long the busiest takes.
local function spread (groups, workers, place)
   local load = {}
   for i = 1, workers do load[i] = 0 end
   table.sort(groups, function (a, b)
      if a.time ~= b.time then return a.time > b.time end
      return a[1] < b[1]
   end)
   local longest = 0
   for _, group in ipairs(groups) do
      local best = 1
      for i = 2, workers do
         if load[i] < load[best] then best = i end
      end
      load[best] = load[best] + group.time
      longest = math.max(longest, load[best])
      for _, name in ipairs(group) do place[name] = best end
   end
   return longest
end

-- Is there a time for each app and a number for each link?
local function covers (measured, c)
   if not measured then return false end
   for name in pairs(c.apps) do
      if not measured.apps[name] then return false end
   end
   for spec in pairs(c.links) do
      if not measured.links[spec] then return false end
   end
   return true
end

-- Where the apps of a group that has some with a place run: with the first of these, unless they say otherwise.
local function join (c, group, before, place)
   local worker
   for _, name in ipairs(group) do worker = worker or c.apps[name].worker or before and before[name] end
   if not worker then return false end
   for _, name in ipairs(group) do place[name] = c.apps[name].worker or before and before[name] or worker end
   return true
end

--- Which worker each app runs on with `--workers auto`, of *workers* at most. *measured*: what is known of this graph,
--- {apps = {name = nanoseconds per breath}, links = {spec = packets per breath}}, or nil: then groups without a link
--- between them are spread, and none is cut.
function M.auto (c, workers, before, measured)
   local place, groups, total = {}, {}, 0
   local known = covers(measured, c)
   for _, set in ipairs(components(c)) do
      if not join(c, set, before, place) then
         local group = along_the_links(c, set)
         group.time = known and sum(group, 1, #group, measured) or #group
         total = total + group.time
         groups[#groups + 1] = group
      end
   end
   -- With apps that have a place there is no telling who has how much to do: the others keep together.
   if next(place) then workers = 1 end
   local one = {}
   for i, group in ipairs(groups) do one[i] = group end
   local longest = spread(known and cut(c, groups, workers, measured) or groups, workers, place)
   -- Threads in a circle may lose packets; a thread more that brings little costs a core.
   if M.has_circle(edges_of(c, place)) then longest = spread(one, workers, place) end
   if known and longest > M.WORTH * total then spread(one, 1, place) end
   return place
end

-- ---- selftest ----

local Nothing = {new = function () return {} end}

-- A chain of apps with these times, each link with as many packets per breath.
local function test_chain (c, measured, prefix, times, packets)
   for i, time in ipairs(times) do
      local name = prefix..i
      config.app(c, name, Nothing)
      measured.apps[name] = time
      if i > 1 then
         local spec = ("%s%d.output -> %s.input"):format(prefix, i - 1, name)
         config.link(c, spec)
         measured.links[spec] = packets
      end
   end
end

-- The longest time of a thread, counted anew.
local function longest_of (c, place, measured)
   local load, longest = {}, 0
   for name in pairs(c.apps) do load[place[name]] = (load[place[name]] or 0) + measured.apps[name] end
   for spec in pairs(c.links) do
      local fa, _, ta = config.parse_link(spec)
      if place[fa] ~= place[ta] then
         for _, worker in ipairs{place[fa], place[ta]} do
            load[worker] = load[worker] + measured.links[spec] * M.CROSSING
         end
      end
   end
   for _, time in pairs(load) do longest = math.max(longest, time) end
   return longest
end

-- Random chains: never slower than one thread, by the model; and with one chain and two workers, no cut is better.
local function test_against_brute_force (seed)
   math.randomseed(seed)
   local c, measured, times, total = config.new(), {apps = {}, links = {}}, {}, 0
   for i = 1, math.random(2, 9) do
      times[i] = math.random(50, 3000)
      total = total + times[i]
   end
   test_chain(c, measured, "x", times, math.random(0, 60))
   local got = longest_of(c, M.auto(c, 2, nil, measured), measured)
   local best = total
   for n = 1, #times - 1 do
      local place = {}
      for i = 1, #times do place["x"..i] = i <= n and 1 or 2 end
      best = math.min(best, longest_of(c, place, measured))
   end
   if best >= M.WORTH * total then best = total end
   assert(math.abs(got - best) < 1e-6, ("seed %d: %g instead of %g"):format(seed, got, best))
   for prefix in ("yz"):gmatch(".") do
      local more = {}
      for i = 1, math.random(1, 6) do more[i] = math.random(50, 3000) end
      test_chain(c, measured, prefix, more, math.random(0, 60))
   end
   total = 0
   for _, time in pairs(measured.apps) do total = total + time end
   for workers = 1, 4 do
      local place = M.auto(c, workers, nil, measured)
      assert(longest_of(c, place, measured) <= total + 1e-6 and not M.has_circle(edges_of(c, place)), "seed "..seed)
   end
end

function M.selftest ()
   for seed = 1, 200 do test_against_brute_force(seed) end
   local c, measured = config.new(), {apps = {}, links = {}}
   test_chain(c, measured, "a", {100, 100}, 100)
   test_chain(c, measured, "b", {100, 100}, 100)
   -- Cheap apps stay together; groups are spread, whether their times are known or not.
   for _, known in ipairs{measured, false} do
      local place = M.auto(c, 2, nil, known or nil)
      assert(place.a1 == place.a2 and place.b1 == place.b2 and place.a1 ~= place.b1)
   end
   -- One that takes nearly all the time gains nothing from another thread.
   measured.apps.b1, measured.apps.b2 = 1, 1
   local place = M.auto(c, 2, nil, measured)
   assert(place.a1 == 1 and place.b1 == 1)
   -- An app that nobody has measured: no cut.
   config.app(c, "new", Nothing)
   measured.apps.a1, measured.apps.a2, measured.links["a1.output -> a2.input"] = 1e6, 1e6, 1
   place = M.auto(c, 2, nil, measured)
   assert(place.a1 == place.a2)
   -- What has a place keeps it, and the others of its group follow.
   place = M.auto(c, 2, {a2 = 2}, measured)
   assert(place.a1 == 2 and place.a2 == 2 and place.b1 == 1)
   -- Packets that come back: no cut.
   c, measured = config.new(), {apps = {}, links = {}}
   test_chain(c, measured, "a", {1e6, 1e6}, 1)
   config.link(c, "a2.back -> a1.back")
   measured.links["a2.back -> a1.back"] = 1
   place = M.auto(c, 2, nil, measured)
   assert(place.a1 == place.a2)
end

return M
