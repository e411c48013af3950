-- SPDX-License-Identifier: MIT
-- core.threads: an app graph on several threads, one VM each. Not part of Snabb, whose workers are processes
-- (core.worker).
--
-- The program's own VM is worker 1. It decides which apps run where, gives every other worker its part of the graph as
-- text, and controls when it breathes. A link from one worker to another becomes a ring of packet pointers between two
-- links of the same name: its producer's and its consumer's.
--
-- Nothing is lost between workers that a single thread would not lose: a worker whose ring is full waits for the one
-- behind it; unless packets go round in a circle of workers, where nobody may wait: then links drop when they are full.
--
-- An app's class must be reachable for the other VM: a field of a module that require finds (or of the program's own
-- file), or the module itself. Its argument must be data: numbers, texts, booleans, tables and C arrays.

local ffi = require("ffi")
local C = ffi.C
local config = require("core.config")
local devices = require("core.devices")
local native = require("core.native")
local packet = require("core.packet")
local placement = require("core.placement")
local sorted_keys = require("core.lib").sorted_keys

local M = {}

local RUN, PAUSE = 1, 0

-- ---- arguments and classes as text ----

local function is_plain_array (value)
   return tostring(ffi.typeof(value)):match("^ctype<(.*)%[%d+%]>$")
end

local function encode (value, where, seen)
   local kind = type(value)
   if kind == "number" then return value == value and ("%.17g"):format(value):gsub("inf", "math.huge") or "0/0" end
   if kind == "string" then return (("%q"):format(value):gsub("\n", "n")) end
   if kind == "boolean" or kind == "nil" then return tostring(value) end
   if kind == "cdata" then
      if ffi.istype("int64_t", value) or ffi.istype("uint64_t", value) then return tostring(value) end
      -- What tasks share is the same for all threads.
      local shared = tostring(ffi.typeof(value)):match("^ctype<struct (perigee_%a+) %*>$")
      if shared then return ("shared(%q, %s)"):format(shared, tostring(ffi.cast("uint64_t", value))) end
      local element = is_plain_array(value)
      if element and not element:match("%*") then
         local bytes = ffi.sizeof(value)
         return ("array(%q, %d, %s)"):format(element, bytes, encode(ffi.string(value, bytes), where))
      end
   end
   if kind ~= "table" then
      error(where..": a "..(kind == "cdata" and tostring(ffi.typeof(value)) or kind).." cannot go to another worker", 0)
   end
   if seen[value] then error(where..": a table that contains itself cannot go to another worker", 0) end
   seen[value] = true
   local keys = {}
   for key in pairs(value) do keys[#keys + 1] = key end
   table.sort(keys, function (a, b) return type(a)..tostring(a) < type(b)..tostring(b) end)
   local parts = {}
   for i, key in ipairs(keys) do
      parts[i] = "["..encode(key, where, seen).."]="..encode(value[key], where.."."..tostring(key), seen)
   end
   seen[value] = nil
   return "{"..table.concat(parts, ",").."}"
end

--- A value as Lua text, for `decode` in another VM. *where* is its name in errors.
function M.encode (value, where)
   return (encode(value, where or "value", {}))
end

local function array (element, bytes, text)
   local value = ffi.new(element.."["..bytes / ffi.sizeof(element).."]")
   ffi.copy(value, text, bytes)
   return value
end

-- A ring, a pipe or a queue of tasks (core.tasks).
local function shared (name, address)
   require("perigee.task")
   return ffi.cast(name.." *", ffi.cast("uintptr_t", address))
end

--- The value of a text made by `encode`.
function M.decode (text)
   local chunk = assert(loadstring("local array, shared, math = ... return "..text, "=message"))
   return setfenv(chunk, {})(array, shared, {huge = math.huge})
end

--- Where another VM finds a class: {module, field}; field is false if the module itself is the class.
function M.find_class (class, app)
   local names = {}
   for name in pairs(package.loaded) do
      if type(name) == "string" and name ~= "_G" then names[#names + 1] = name end
   end
   table.sort(names)
   for _, name in ipairs(names) do
      local module = package.loaded[name]
      if module == class then return {name, false} end
   end
   for _, name in ipairs(names) do
      local module = package.loaded[name]
      if type(module) == "table" then
         local fields = {}
         for field, value in pairs(module) do
            if type(field) == "string" and value == class then fields[#fields + 1] = field end
         end
         table.sort(fields)
         if fields[1] then return {name, fields[1]} end
      end
   end
   error("app "..app..": its class is not a field of any module, so another worker cannot find it: put it in the "..
            "table that a module (or the program) returns", 0)
end

-- ---- parts ----

--- The parts of a graph: {worker = {apps, links, bridges}}.
function M.split (c, place)
   local parts, edges = {}, {}
   local function part (worker)
      parts[worker] = parts[worker] or {apps = {}, links = {}, bridges = {}}
      return parts[worker]
   end
   part(1)
   for _, name in ipairs(sorted_keys(c.apps)) do part(place[name]).apps[name] = c.apps[name] end
   local bridges = {}
   for _, spec in ipairs(sorted_keys(c.links)) do
      local fa, _, ta = config.parse_link(spec)
      for _, name in ipairs{fa, ta} do
         if not c.apps[name] then error("no such app: "..name.." (in the link "..spec..")", 0) end
      end
      local from, to = place[fa], place[ta]
      part(from).links[spec], part(to).links[spec] = true, true
      if from ~= to then
         edges[from] = edges[from] or {}
         edges[from][to] = true
         bridges[#bridges + 1] = {spec, from, to}
      end
   end
   local wait = not placement.has_circle(edges)
   for _, bridge in ipairs(bridges) do
      local spec, from, to = unpack(bridge)
      part(from).bridges[spec] = {direction = "output", wait = wait}
      part(to).bridges[spec] = {direction = "input"}
   end
   return parts
end

-- ---- the first worker: sends requests to the others ----

local started, configured, all_links, old_bridges = {}, {}, {}, {}

local function ask (worker, text)
   local ok, answer = native.ask_thread(worker, text)
   if not ok then error(answer, 0) end
   return answer
end

-- The devices that a part's apps use: the thread that runs them should be near.
local function devices_of (part)
   local names = {}
   for _, name in ipairs(sorted_keys(part.apps)) do
      local class, arg = part.apps[name].class, part.apps[name].arg
      local ok, device = pcall(class.port_of or error, arg)
      if ok and type(device) == "string" then names[#names + 1] = device end
   end
   return names
end

local function start (worker, part)
   if started[worker] then return end
   local why = native.start_thread(worker, devices_of(part))
   if why then error(why, 0) end
   started[worker] = true
   ask(worker, M.encode({do_ = "hello", program = M.program()}))
end

--- The program's own file, if it is one: other workers look for classes there, too.
function M.program ()
   local main = require("core.main")
   return {path = package.path, module = main.program_name, file = main.program_file}
end

local function part_as_text (part)
   local apps = {}
   for name, app in pairs(part.apps) do
      apps[name] = {class = M.find_class(app.class, name), arg = app.arg}
      M.encode(app.arg, "app "..name)
   end
   local bridges = {}
   for spec, bridge in pairs(part.bridges) do bridges[spec] = {direction = bridge.direction, wait = bridge.wait} end
   local queues = require("core.app").port_queues
   local measure = native.auto and require("core.auto").is_unknown()
   return M.encode({do_ = "configure", apps = apps, links = part.links, bridges = bridges, queues = queues,
                    measure = measure})
end

-- Rings by name; what is in one that nobody has any more is freed.
local function with_rings (part)
   for spec, bridge in pairs(part.bridges) do bridge.ring = M.ring(spec) end
   return part
end

--- The ring of a link between workers.
function M.ring (spec)
   local ring, why = native.ring(spec)
   if not ring then error("link "..spec..": "..tostring(why), 0) end
   return ffi.cast("struct perigee_snabb_ring *", ring)
end

local breathing = false

-- What a worker runs before and after a change.
local function in_both (old, new)
   local part = {apps = {}, links = {}, bridges = {}}
   for name, app in pairs(old.apps) do
      if new.apps[name] then part.apps[name] = app end
   end
   for spec in pairs(old.links) do
      local before, after = old.bridges[spec], new.bridges[spec]
      if new.links[spec] and (before and before.direction) == (after and after.direction) then
         part.links[spec], part.bridges[spec] = true, before
      end
   end
   return part
end

local NOTHING = {apps = {}, links = {}, bridges = {}}
local parts_now, place_now = {}, {} -- of the other workers, as far as it is known; of apps

-- First what goes, everywhere, then what comes: devices and names are free before another worker takes them.
local function change (engine, parts, texts)
   for _, worker in ipairs(sorted_keys(configured)) do
      ask(worker, part_as_text(in_both(parts_now[worker] or NOTHING, parts[worker] or NOTHING)))
   end
   engine.configure_here(with_rings(in_both(engine.part(), parts[1])))
   local bridges = {}
   for _, part in pairs(parts) do
      for spec in pairs(part.bridges) do bridges[spec] = true end
   end
   for _, spec in ipairs(sorted_keys(old_bridges)) do
      if not bridges[spec] then native.free_ring(spec) end
   end
   old_bridges = bridges
   for _, worker in ipairs(sorted_keys(texts)) do
      start(worker, parts[worker])
      configured[worker] = true
      ask(worker, texts[worker])
      parts_now[worker] = parts[worker]
   end
   engine.configure_here(with_rings(parts[1]))
end

--- Bring the graph on all workers to the description *c*. Whatever cannot be passed to another worker is an error before
--- anything is changed. *place*: which worker each app runs on, if that is known already.
function M.configure (c, place)
   local engine, workers = require("core.app"), native.workers
   for _, app in pairs(c.apps) do workers = math.max(workers, app.worker or 1) end
   local apart
   place, apart = devices.together(c, place or placement.assign(c, workers, place_now))
   for device, queues in pairs(engine.port_queues) do queues.spread = apart[device] end
   local parts, texts = M.split(c, place), {}
   for worker, part in pairs(parts) do
      if worker ~= 1 then texts[worker] = part_as_text(part) end
   end
   -- Packets cross from thread to thread: none must keep too many.
   packet.keep_at_most(2048)
   local resume = breathing
   if resume then M.pause() end
   M.check()
   local ok, why = pcall(change, engine, parts, texts)
   if ok then
      place_now, all_links = place, sorted_keys(c.links)
   else
      parts_now = {} -- how far each came is not known: the next change makes everything again
   end
   if resume then M.run() end
   if not ok then error(why, 0) end
end

--- The numbers of the other workers.
function M.others () return sorted_keys(started) end

--- The links of all workers, by name.
function M.links () return all_links end

local died = native.died and ffi.cast("const int32_t *", native.died)

--- Errors if a worker has died; ends the process if an app on one asked for that.
function M.check ()
   if C.perigee_snabb_load(died) == 0 then return end
   local code = native.exit_code()
   if code then require("core.main").exit(code) end
   error(tostring(native.death()), 0)
end

-- What programs set in the engine holds for all workers.
local SETTINGS = {"Hz", "busywait", "maxsleep", "pull_npackets", "tick_Hz", "log"}

--- Let the other workers breathe.
function M.run ()
   M.check()
   local engine, settings = require("core.app"), {}
   for _, name in ipairs(SETTINGS) do settings[name] = engine[name] end
   local text = M.encode({do_ = "settings", settings = settings})
   for _, worker in ipairs(sorted_keys(started)) do ask(worker, text) end
   breathing = true
   for worker in pairs(started) do native.want_thread(worker, RUN) end
end

--- Let them stop after the breath that they are in. Returns when they have.
function M.pause ()
   breathing = false
   for worker in pairs(started) do native.want_thread(worker, PAUSE) end
   for worker in pairs(started) do native.ask_thread(worker, M.encode({do_ = "settle"})) end
end

-- ---- waiting for a ring ----

local wanted = native.wanted and ffi.cast("const int32_t *", native.wanted)

local interrupted = ffi.cast("const int32_t *", native.interrupted)

-- Is there nobody to wait for, or is this worker to stop?
local function in_vain ()
   if C.perigee_snabb_load(interrupted) ~= 0 then return true end
   if wanted then return C.perigee_snabb_load(wanted) ~= RUN end
   return not breathing or C.perigee_snabb_load(died) ~= 0
end

--- Move the packets of a link to a ring, and wait until all are there, the other workers are gone, or this one is to
--- stop. Returns how many went.
function M.hand_over (ring, l)
   local moved, spins = 0, 0
   while l.write ~= l.read and not in_vain() do
      moved = moved + C.perigee_snabb_put(ring, l)
      spins = spins + 1
      -- Where there are more threads than cores, the one that is waited for needs this one's.
      if spins > 2000 then C.usleep(spins > 4000 and 50 or 1) end
   end
   return moved
end

-- ---- the other workers: answer, and breathe ----

local answers = {}

function answers.hello (message)
   local program = message.program
   package.path = program.path
   if program.file then require("core.main").program_module(program.file) end
   packet.keep_at_most(2048)
   return "hello"
end

local function class_of (found)
   local module = require(found[1])
   if found[2] then
      local loaded = type(module) == "table" and module or package.loaded[found[1]]
      return loaded[found[2]] or package.loaded[found[1]][found[2]]
   end
   return module
end

function answers.configure (message)
   local c = config.new()
   for name, app in pairs(message.apps) do c.apps[name] = {class = class_of(app.class), arg = app.arg} end
   c.links, c.bridges = message.links, message.bridges
   local engine = require("core.app")
   engine.port_queues = message.queues
   if native.auto then require("core.auto").set_unknown(message.measure) end
   engine.configure_here(with_rings(c))
   return "configured"
end

function answers.settings (message)
   local engine = require("core.app")
   for name, value in pairs(message.settings) do engine[name] = value end
   return "set"
end

function answers.settle ()
   require("core.counter").commit()
   return "settled"
end

local function answer (text)
   local ok, result = xpcall(function ()
      local message = M.decode(text)
      return answers[message.do_](message)
   end, function (why)
      return type(why) == "string" and why or debug.traceback(tostring(why), 2)
   end)
   native.answer(ok, tostring(result))
end

--- What a worker's thread does from its start to its end.
function M.serve ()
   local engine = require("core.app")
   engine.threads = M
   while true do
      local want = C.perigee_snabb_load(wanted)
      if want == RUN then
         engine.main{done = function () return C.perigee_snabb_load(wanted) ~= RUN end, no_report = true,
                     measure_latency = false}
      elseif want == PAUSE then
         local text = native.next_message(true)
         if text then answer(text) end
      else
         break
      end
   end
   engine.configure_here(config.new())
end

function M.selftest () require("core.threads_test").run(M) end

return M
