-- SPDX-License-Identifier: MIT
-- core.graph: how a running app graph becomes another one, and in which order its apps have their turns. What core.app
-- is built on; not part of Snabb's API.
--
-- Everything is in the order of names, so that the same description gives the same run. A link may lead to or from
-- another thread: such a bridge (see core.threads) is in *bridges*, {spec = {direction =, ring =}}, and only one of its
-- apps is here.

local config = require("core.config")
local lib = require("core.lib")

local M = {}
local sorted_keys = lib.sorted_keys

--- Errors unless every link has its apps, and these know it by a name of its own: before anything is changed.
function M.check (new)
   local taken = {}
   for _, spec in ipairs(sorted_keys(new.links)) do
      local fa, fl, ta, tl = config.parse_link(spec)
      local bridge = new.bridges and new.bridges[spec]
      for _, place in ipairs{{"output", fa}, {"input", ta}} do
         local direction, app = unpack(place)
         if not new.apps[app] and not (bridge and bridge.direction ~= direction) then
            error("no such app: "..app.." (in the link "..spec..")", 0)
         end
      end
      for _, port in ipairs{fa..": duplicate output link "..fl, ta..": duplicate input link "..tl} do
         if taken[port] then error(port.." (in the links "..taken[port].." and "..spec..")", 0) end
         taken[port] = spec
      end
   end
end

local function unlink_actions (old, new, add)
   for _, spec in ipairs(sorted_keys(old.links)) do
      if not new.links[spec] then
         local fa, fl, ta, tl = config.parse_link(spec)
         if old.apps[fa] then add("unlink", fa, "output", fl) end
         if old.apps[ta] then add("unlink", ta, "input", tl) end
         add("free_link", spec)
      end
   end
end

-- Returns the set of apps that are new or made again.
local function app_actions (old, new, add)
   local fresh = {}
   for _, name in ipairs(sorted_keys(old.apps)) do
      if not new.apps[name] then add("stop_app", name) end
   end
   for _, name in ipairs(sorted_keys(new.apps)) do
      local app, before = new.apps[name], old.apps[name]
      if not before then
         add("start_app", name, app.class, app.arg)
         fresh[name] = true
      elseif before.class == app.class and lib.equal(before.arg, app.arg) then
         -- It is unchanged and keeps its packets.
      elseif before.class == app.class and app.class.reconfig then
         add("reconfig_app", name, app.class, app.arg)
      else
         add("stop_app", name)
         add("start_app", name, app.class, app.arg)
         fresh[name] = true
      end
   end
   return fresh
end

--- The steps from the description *old* to *new*, in order: {{name, arguments...}, ...}. Errors, "no such app", before
--- any.
function M.actions (old, new)
   local actions = {}
   local function add (...) actions[#actions + 1] = {...} end
   M.check(new)
   unlink_actions(old, new, add)
   local fresh = app_actions(old, new, add)
   for _, spec in ipairs(sorted_keys(new.links)) do
      local fa, fl, ta, tl = config.parse_link(spec)
      local is_new = not old.links[spec]
      if is_new then add("new_link", spec) end
      if new.apps[fa] and (is_new or fresh[fa]) then add("link", fa, "output", fl, spec) end
      if new.apps[ta] and (is_new or fresh[ta]) then add("link", ta, "input", tl, spec) end
   end
   return actions
end

-- Snabb's names of the steps link and unlink.
local DIRECTED = {link_output = {"link", "output"}, link_input = {"link", "input"},
                  unlink_output = {"unlink", "output"}, unlink_input = {"unlink", "input"}}

--- Steps in the form that Snabb gives them, in which programs send them to others: {{name, {arguments}}, ...}.
function M.to_snabb (actions)
   local result = {}
   for i, action in ipairs(actions) do
      local name = action[1]
      if name == "link" or name == "unlink" then
         local app, direction, link, spec = unpack(action, 2)
         result[i] = {name.."_"..direction, {app, link, spec}}
      else
         result[i] = {name, {unpack(action, 2, table.maxn(action))}}
      end
   end
   return result
end

--- The other way round. Errors if a name is none of a step.
function M.from_snabb (actions)
   local known = {free_link = true, new_link = true, stop_app = true, start_app = true, reconfig_app = true}
   local result = {}
   for i, action in ipairs(actions) do
      local name, arguments = unpack(action)
      local directed = DIRECTED[name]
      if directed then
         result[i] = {directed[1], arguments[1], directed[2], arguments[2], arguments[3]}
      elseif known[name] then
         result[i] = {name, unpack(arguments, 1, table.maxn(arguments))}
      else
         error("apply_config_actions: there is no step "..tostring(name), 3)
      end
   end
   return result
end

-- Depth first from the entries; reverse post-order. Without recursion, as chains may be long.
local function topological (entries, nodes, successors)
   local visited, post_order = {}, {}
   local function visit (root)
      if visited[root] then return end
      visited[root] = true
      local stack = {{root, 0}}
      while #stack > 0 do
         local top = stack[#stack]
         top[2] = top[2] + 1
         local successor = successors[top[1]] and successors[top[1]][top[2]]
         if successor == nil then
            post_order[#post_order + 1] = top[1]
            stack[#stack] = nil
         elseif not visited[successor] then
            visited[successor] = true
            stack[#stack + 1] = {successor, 0}
         end
      end
   end
   for _, node in ipairs(entries) do visit(node) end
   for _, node in ipairs(nodes) do visit(node) end
   local order = {}
   for i = #post_order, 1, -1 do order[#order + 1] = post_order[i] end
   return order
end

-- The names of an app's links in one direction.
local function link_names (links)
   local names = {}
   for name in pairs(links) do
      if type(name) == "string" then names[#names + 1] = name end
   end
   table.sort(names)
   return names
end

-- Links in the order of the names of where they lead: "app.input". A link without an app here has the name of its
-- bridge.
local function order_links (app_table, spec_of)
   local name_of, reader_of = {}, {}
   for _, app_name in ipairs(sorted_keys(app_table)) do
      local app = app_table[app_name]
      for _, name in ipairs(link_names(app.input)) do
         local spec = spec_of(app.input[name])
         name_of[spec] = app_name.."."..name
         local push = app.push_link and app.push_link[name] or app.push
         reader_of[spec] = {app = app, push = push, link = app.input[name]}
      end
   end
   return name_of, reader_of
end

--- The turns of a breath: a list of apps to pull, a list of {app =, push =, link =}, and a list of apps to tick.
--- *app_table* and *link_table* are the engine's; *bridges* as above.
function M.breathe_order (app_table, link_table, bridges)
   local by_address = {} -- pointers to the same link may be different keys
   for spec, l in pairs(link_table) do by_address[tostring(l)] = spec end
   local function spec_of (l) return by_address[tostring(l)] end
   local name_of, reader_of = order_links(app_table, spec_of)
   local function by_name (a, b) return (name_of[a] or a) < (name_of[b] or b) end

   local pulls, ticks, entries, nodes, successors = {}, {}, {}, {}, {}
   for _, app_name in ipairs(sorted_keys(app_table)) do
      local app = app_table[app_name]
      if app.pull then
         pulls[#pulls + 1] = app
         for _, name in ipairs(link_names(app.output)) do entries[#entries + 1] = spec_of(app.output[name]) end
      end
      if app.tick then ticks[#ticks + 1] = app end
   end
   for spec, bridge in pairs(bridges or {}) do
      if bridge.direction == "input" then entries[#entries + 1] = spec end
   end
   for spec, reader in pairs(reader_of) do
      nodes[#nodes + 1] = spec
      local next_links = {}
      if not reader.app.pull then
         for _, name in ipairs(link_names(reader.app.output)) do
            next_links[#next_links + 1] = spec_of(reader.app.output[name])
         end
         table.sort(next_links, by_name)
      end
      successors[spec] = next_links
   end
   table.sort(entries, by_name)
   table.sort(nodes, by_name)

   local pushes = {}
   for _, spec in ipairs(topological(entries, nodes, successors)) do
      local turn, last = reader_of[spec], pushes[#pushes]
      if turn and turn.push and not (last and last.app == turn.app and last.push == turn.push) then
         pushes[#pushes + 1] = turn
      end
   end
   return pulls, pushes, ticks
end

-- Brute force: every link that a push follows comes before the push's own outputs, in a random graph without cycles.
local function test_order (seed)
   math.randomseed(seed)
   local apps, links, n = {}, {}, math.random(2, 12)
   for i = 1, n do
      apps[("a%02d"):format(i)] = {name = i, input = {}, output = {}, push = function () end,
                                    pull = i == 1 and function () end or nil}
   end
   local into = {}
   for i = 1, n do
      for j = i + 1, n do
         if math.random() < 0.4 or j == i + 1 then
            local from, to = ("a%02d"):format(i), ("a%02d"):format(j)
            local l = {from = i, to = j}
            links[from..".o"..j.." -> "..to..".i"..i] = l
            apps[from].output["o"..j], apps[to].input["i"..i] = l, l
            into[j] = (into[j] or 0) + 1
         end
      end
   end
   local _, pushes = M.breathe_order(apps, links)
   local last_turn = {}
   for turn, spec in ipairs(pushes) do last_turn[spec.app.name] = turn end
   for _, l in pairs(links) do
      if l.from ~= 1 then
         assert(last_turn[l.from] < last_turn[l.to], "seed "..seed)
      end
   end
end

function M.selftest ()
   for seed = 1, 200 do test_order(seed) end
   local A, B = {}, {reconfig = function () end}
   local function app (class, arg) return {class = class, arg = arg} end
   local old = {apps = {x = app(A, 1), y = app(B, 1), z = app(A)},
                links = {["x.o -> y.i"] = true, ["y.o -> z.i"] = true}}
   local new = {apps = {x = app(A, 2), y = app(B, 2)}, links = {["x.o -> y.i"] = true}}
   local names = {}
   for i, action in ipairs(M.actions(old, new)) do names[i] = action[1].." "..tostring(action[2]) end
   local want = "unlink y, unlink z, free_link y.o -> z.i, stop_app z, stop_app x, start_app x, reconfig_app y, link x"
   assert(table.concat(names, ", ") == want, table.concat(names, ", "))
   new.links["x.p -> nobody.i"] = true
   local ok, why = pcall(M.actions, old, new)
   assert(not ok and why:match("no such app: nobody"))
   -- A link that ends in another thread is not a mistake.
   new.bridges = {["x.p -> nobody.i"] = {direction = "output"}}
   assert(M.actions(old, new))
end

return M
