-- SPDX-License-Identifier: MIT
-- core.devices: which devices the apps of a graph use, and what follows for where they run. What core.app and core.threads are
-- built on; not part of Snabb's API.
--
-- A class that uses one has a function port_of(arg), which returns the device; the queue, a number or a name, or false: it receives
-- nothing; and, if workers may have queues of the device each, its pool (see apps.dpdk.port).

local native = require("core.native")
local sorted_keys = require("core.lib").sorted_keys

local M = {}

-- Calls *each* with the name, device, queue and pool of every app that uses a device, in the order of names.
local function users (c, each)
   for _, name in ipairs(sorted_keys(c.apps)) do
      local class, arg = c.apps[name].class, c.apps[name].arg
      if class.port_of then
         local ok, device, queue, pool = pcall(class.port_of, arg)
         if ok and device then each(name, device, queue, pool) end
      end
   end
end

local function by_number (a, b)
   if type(a) == type(b) then return a < b end
   return type(a) == "number"
end

--- Which queues of each device the apps of a graph use, on whatever thread, sorted: {device = {queue, ...}}.
function M.queues (c)
   local queues, seen = {}, {}
   users(c, function (_, device, queue)
      queues[device], seen[device] = queues[device] or {}, seen[device] or {}
      if queue and not seen[device][queue] then
         seen[device][queue] = true
         table.insert(queues[device], queue)
      end
   end)
   for _, list in pairs(queues) do table.sort(list, by_number) end
   return queues
end

--- Where there are several NUMA nodes: keeps this thread on that of its devices.
function M.bind_to_node (c)
   local names = {}
   users(c, function (name, device)
      if (c.apps[name].worker or 1) == 1 and type(device) == "string" then names[#names + 1] = device end
   end)
   local why = native.bind_first(names)
   if why then io.stderr:write("note: ", why, "\n") end
end

--- The apps of each device, {device = {names = {...}, bound =}}. *bound*: they share it as pools do, or in other ways than by
--- queues of their own, and have to run on one worker.
function M.sharing (c)
   local sharing = {}
   users(c, function (name, device, queue, pool)
      local seen = sharing[device] or {pool = pool, queues = {}, names = {}, bound = false}
      sharing[device] = seen
      if not pool or pool ~= seen.pool or seen.queues[queue] then seen.bound = true end
      seen.queues[queue or false] = true
      table.insert(seen.names, name)
   end)
   return sharing
end

--- Moves the apps of each device that have to run on one worker to that of the first that was put there by hand, or of the
--- first. Returns the places, and the devices whose queues are on several workers, {device = true}. Errors if two that have
--- to run together were put on different workers.
function M.together (c, place)
   local apart = {}
   for device, seen in pairs(M.sharing(c)) do
      local leader = seen.names[1]
      for i = #seen.names, 1, -1 do
         if c.apps[seen.names[i]].worker then leader = seen.names[i] end
      end
      for _, name in ipairs(seen.names) do
         local fixed = c.apps[name].worker
         if seen.bound and fixed and fixed ~= place[leader] then
            error(("apps %s and %s share %s by addresses, so they run on one worker: %d and %d were asked for"):format(
               leader, name, device, place[leader], fixed), 0)
         end
         if seen.bound then place[name] = place[leader] end
         if place[name] ~= place[leader] then apart[device] = true end
      end
   end
   return place, apart
end

-- Users of a device "d" with these queues and pools.
local function graph (uses)
   local c = {apps = {}, links = {}}
   for name, use in pairs(uses) do
      c.apps[name] = {class = {port_of = function () return use[1], use[2], use[3] end}, worker = use.worker}
   end
   c.apps.other = {class = {}}
   c.apps.broken = {class = {port_of = function () error("no device") end}}
   return c
end

function M.selftest ()
   local queues = M.queues(graph{a = {"d", 1}, b = {"d", 0}, c = {"d", "x"}, e = {"e", false}, f = {"d", 1}})
   assert(table.concat(queues.d, " ") == "0 1 x" and #queues.e == 0)
   -- Queues of their own: anywhere. The same one, another pool, no pool: on one worker.
   for bound, uses in pairs{[false] = {a = {"d", 0, "p"}, b = {"d", 1, "p"}}, [1] = {a = {"d", 0, "p"}, b = {"d", 0, "p"}},
                            [2] = {a = {"d", 0, "p"}, b = {"d", 1, "q"}}, [3] = {a = {"d", 0}, b = {"d", 1}}} do
      local place, apart = M.together(graph(uses), {a = 1, b = 2, other = 2})
      assert(place.a == 1 and place.b == (bound and 1 or 2) and place.other == 2 and (apart.d or false) == not bound)
   end
   local place = M.together(graph{a = {"d", 0}, b = {"d", 1, worker = 2}}, {a = 1, b = 2})
   assert(place.a == 2)
   local ok, why = pcall(M.together, graph{a = {"d", 0, worker = 1}, b = {"d", 1, worker = 2}}, {a = 1, b = 2})
   assert(not ok and why:match("apps a and b share d by addresses.*1 and 2 were asked for"), why)
end

return M
