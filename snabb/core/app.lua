-- SPDX-License-Identifier: MIT
-- core.app: the engine, the global `engine`: runs a graph of apps, breath by breath. The API is Snabb's.
--
-- A breath: the clock is read; every app with a `pull` brings packets in, in the order of names; then every link's
-- reader is pushed, in the order in which packets flow; then apps with a `tick` have their turn, 1000 times a second.
-- Between breaths timers run, and the engine sleeps if nothing happened.
--
-- Differs from Snabb: apps may run on several threads (core.threads); the order is the same in every run; a link is
-- settled after its reader's turn (see core.link).

local ffi = require("ffi")
local C = ffi.C
local counter = require("core.counter")
local config = require("core.config")
local devices = require("core.devices")
local graph = require("core.graph")
local histogram = require("core.histogram")
local lib = require("core.lib")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")
local shm = require("core.shm")
local timer = require("core.timer")
require("core.clib_h")
require("core.lib_h")

local M = {}
local sorted_keys = lib.sorted_keys

--- Packets that an app should bring in for each pull and link: 102.
M.pull_npackets = math.floor(link.max / 10)
--- Log the steps of configure to standard output.
M.log = false
--- Exit code of a selftest that was skipped.
M.test_skipped_code = 43
--- Breaths per second to aim for; false: as many as there is work for.
M.Hz = false
--- Microseconds that the engine sleeps now between two breaths, and at most, when it is idle.
M.sleep, M.maxsleep = 0, 100
--- Never sleep.
M.busywait = false
--- How often in a second `tick` is called.
M.tick_Hz = 1000
--- The running apps and links, by name.
M.app_table, M.link_table = {}, {}
--- What runs now.
M.configuration = config.new()
--- The time of this breath in seconds; use `now`.
M.monotonic_now = false
--- The name that this process has claimed, or false.
M.program_name = false

-- Each thread counts for itself; the others' counters are in folders of their own.
local folder = native.folder.."engine/"
M.breaths = counter.create(folder.."breaths.counter")
M.frees = counter.create(folder.."frees.counter")
M.freebits = counter.create(folder.."freebits.counter")
M.freebytes = counter.create(folder.."freebytes.counter")
M.configs = counter.create(folder.."configs.counter")

local app_table, link_table = M.app_table, M.link_table
local breaths, frees, freebits, freebytes = M.breaths, M.frees, M.freebits, M.freebytes
local pulls, pushes, ticks, bridges_in, bridges_out = {}, {}, {}, {}, {}
local running = false

-- Functions that log what the engine does, by the names of core.engine_events; false until `timeline` is called.
local events = false

--- Seconds of a monotonic clock: while the engine runs, the time at which the last breath started.
function M.now ()
   return running and M.monotonic_now or C.get_monotonic_time()
end

-- ---- configuration ----

local steps = {}

local function tell_linked (app, event, direction, name)
   if event == "unlink" and app.unlink then
      app:unlink(direction, name)
   elseif app.link then
      app:link(direction, name)
   end
end

function steps.link (app_name, direction, name, spec)
   local app = app_table[app_name]
   app[direction][name] = link_table[spec]
   table.insert(app[direction], link_table[spec])
   tell_linked(app, "link", direction, name)
end

function steps.unlink (app_name, direction, name)
   local app = app_table[app_name]
   local links = app[direction]
   local gone = links[name]
   links[name] = nil
   for i = 1, #links do
      if links[i] == gone then
         table.remove(links, i)
         break
      end
   end
   tell_linked(app, "unlink", direction, name)
end

function steps.new_link (spec)
   -- For a link between two threads, the sender's counters are where those of any link are, the receiver's elsewhere.
   local bridge = M.next_configuration and M.next_configuration.bridges and M.next_configuration.bridges[spec]
   local receiver = bridge and bridge.direction == "input"
   link_table[spec] = link.new(spec, receiver and "workers/"..native.thread.."/links/")
   M.configuration.links[spec] = true
end

function steps.free_link (spec)
   link.free(link_table[spec], spec)
   link_table[spec] = nil
   M.configuration.links[spec] = nil
end

function steps.stop_app (name)
   local app = app_table[name]
   if app.stop then app:stop() end
   if app.shm then shm.delete_frame(app.shm) end
   app_table[name] = nil
   M.configuration.apps[name] = nil
end

-- push_link of its own, so that an app may add to it.
local function own_push_links (name, class)
   if type(class.push_link) ~= "table" then
      error("bad push_link value for app '"..name.."': expected a table of methods by link name", 0)
   end
   local copy = {}
   for link_name, method in pairs(class.push_link) do copy[link_name] = method end
   return copy
end

function steps.start_app (name, class, arg)
   if not class.new then error("app '"..name.."': its class has no method new", 0) end
   local app = class:new(arg)
   if type(app) ~= "table" then
      error(("bad return value from app '%s' start() method: %s"):format(name, tostring(app)), 0)
   end
   app.appname = name
   app.output, app.input = {}, {}
   app.zone = app.zone or name
   if app.shm then
      app.shm.dtime = {counter, C.get_unix_time()}
      app.shm = shm.create_frame("apps/"..name, app.shm)
   end
   if class.push_link then app.push_link = own_push_links(name, class) end
   app_table[name] = app
   M.configuration.apps[name] = {class = class, arg = arg}
end

function steps.reconfig_app (name, class, arg)
   app_table[name]:reconfig(arg)
   M.configuration.apps[name].arg = arg
end

local bridges_now = {}

local function list_bridges (bridges)
   bridges_now = bridges or {}
   bridges_in, bridges_out = {}, {}
   for _, spec in ipairs(sorted_keys(bridges or {})) do
      local bridge = bridges[spec]
      local list = bridge.direction == "input" and bridges_in or bridges_out
      -- A step that failed may have left a link out.
      if link_table[spec] then
         list[#list + 1] = {ring = bridge.ring, link = link_table[spec], wait = bridge.wait}
      end
   end
end

local function take_steps (actions, bridges)
   local ok, why = xpcall(function ()
      for _, action in ipairs(actions) do
         if M.log then io.write("engine: ", action[1], " ", action[2], "\n") end
         steps[action[1]](unpack(action, 2))
      end
   end, function (reason)
      return type(reason) == "string" and debug.traceback(reason, 2) or reason
   end)
   M.next_configuration = nil
   -- However far it came: what was freed must have no more turns.
   pulls, pushes, ticks = graph.breathe_order(app_table, link_table, bridges)
   list_bridges(bridges)
   if not ok then error(why, 0) end
end

--- Bring what this thread runs to a description: what is in both goes on as it is.
function M.configure_here (new)
   local actions = graph.actions(M.configuration, new)
   M.next_configuration = new
   take_steps(actions, new.bridges)
   counter.add(M.configs)
end

--- What this thread runs, with its links to other threads.
function M.part ()
   return {apps = M.configuration.apps, links = M.configuration.links, bridges = bridges_now}
end

--- The steps from one description to another, for `apply_config_actions`, perhaps in another process: {{name,
--- {arguments}}, ...}. Names: unlink_output, unlink_input (app, link), free_link, new_link (link's description),
--- link_output, link_input (app, link, description), stop_app (app), start_app, reconfig_app (app, class, argument).
function M.compute_config_actions (old, new)
   return graph.to_snabb(graph.actions(old, new))
end

--- Take the steps that `compute_config_actions` returned, or a part of them. For graphs on one thread.
function M.apply_config_actions (actions)
   take_steps(graph.from_snabb(actions))
end

--- Which queues of each device the graph uses: {device = {queue, ...}}.
M.port_queues = {}

--- Bring the running graph to the description *new* (core.config): links and apps that are gone are removed, new ones
--- made, apps of another class or argument restarted, or given the argument by their `reconfig`. "no such app" is
--- raised before anything is changed.
function M.configure (new)
   if native.thread ~= 1 then
      error("engine.configure: an app on another thread cannot change the graph; the program's own thread can", 2)
   end
   graph.check(new)
   M.port_queues = devices.queues(new)
   if native.several_nodes then devices.bind_to_node(new) end
   local several, place = M.wants_threads(new), nil
   if native.auto then place, several = require("core.auto").place(new) end
   if not M.threads and several then M.threads = require("core.threads") end
   if M.threads then M.threads.configure(new, place) else M.configure_here(new) end
end

--- Whether a description may need more than one thread.
function M.wants_threads (new)
   if native.thread ~= 1 then return false end
   for _, app in pairs(new.apps) do
      if (app.worker or 1) > 1 then return true end
   end
   return native.workers > 1
end

--- Stop all apps.
function M.stop ()
   M.configure(config.new())
end

-- ---- breaths ----

local next_tick, tick_period

--- Start counting ticks from now; *frequency* of them in a second (tick_Hz if omitted; 0: none).
function M.enable_tick (frequency)
   frequency = frequency or M.tick_Hz
   tick_period = 1 / frequency
   next_tick = nil
   if frequency > 0 then next_tick = false end
end
--- Stop calling tick.
function M.disable_tick () next_tick = nil end

local function tick_is_due ()
   if next_tick == nil then return false end
   local now = M.monotonic_now
   if not next_tick then next_tick = now end
   if now < next_tick then return false end
   next_tick = math.max(next_tick + tick_period, now)
   return true
end

local interrupted = ffi.cast("const int32_t *", native.interrupted)
local first = native.thread == 1
local since_commit = 0

-- A signal asks the program to end. Looked at where time passes: not after every breath of a busy engine.
local function look_for_signals ()
   if first and C.perigee_snabb_load(interrupted) ~= 0 then require("core.main").interrupted() end
end

local function commit ()
   since_commit = 0
   look_for_signals()
   link.settle_all()
   counter.commit()
   if events then events.commited_counters() end
end

-- An empty link goes back to its first slot: rings stay in the cache.
local function rewind (l)
   local read = l.read
   if l.write == read and read ~= 0 then
      l.counted = l.counted - read
      l.read, l.write = 0, 0
   end
end

-- Packets that went to other threads or came from there: work, as freeing packets is.
local crossed = 0

local function take_in ()
   for i = 1, #bridges_in do
      local bridge = bridges_in[i]
      crossed = crossed + C.perigee_snabb_get(bridge.ring, bridge.link, M.pull_npackets)
   end
end

-- Hands packets over; where the graph of threads has no cycle, waits until all are, as a breath would for a slow app.
local function hand_over ()
   for i = 1, #bridges_out do
      local bridge = bridges_out[i]
      local l = bridge.link
      crossed = crossed + C.perigee_snabb_put(bridge.ring, l)
      if bridge.wait and l.write ~= l.read then crossed = crossed + M.threads.hand_over(bridge.ring, l) end
      rewind(l)
   end
end

-- How many packets this breath freed, and of how many bytes each.
local function end_of_breath ()
   local fl = packet.freelist
   local n, bytes = tonumber(fl.frees), tonumber(fl.bytes)
   events.breath_end(tonumber(breaths.c), n, n > 0 and math.floor(bytes / n) or 0)
end

--- One breath.
function M.breathe ()
   local was_running = running
   running = true
   M.monotonic_now = C.get_monotonic_time()
   if events then
      events.breath_start(tonumber(breaths.c), tonumber(frees.c), tonumber(freebytes.c), tonumber(freebits.c))
   end
   take_in()
   local list = pulls
   for i = 1, #list do
      local app = list[i]
      app:pull()
   end
   if events then events.breath_pulled() end
   list = pushes
   for i = 1, #list do
      local turn = list[i]
      local l = turn.link
      turn.push(turn.app, l)
      rewind(l)
   end
   hand_over()
   if events then events.breath_pushed() end
   if tick_is_due() then
      list = ticks
      for i = 1, #list do
         local app = list[i]
         app:tick()
      end
      if events then events.breath_ticked() end
   end
   if events then end_of_breath() end
   packet.settle(frees, freebytes, freebits)
   breaths.c = breaths.c + 1
   since_commit = since_commit + 1
   if since_commit >= 100 then commit() end
   running = was_running
end

--- One breath with other turns than the graph's, which do the same: see core.costs.
function M.breathe_with (other_pulls, other_pushes)
   local own_pulls, own_pushes = pulls, pushes
   pulls, pushes = other_pulls, other_pushes
   M.breathe()
   -- An app may have changed the graph.
   if pulls == other_pulls then pulls, pushes = own_pulls, own_pushes end
end

--- The turns of a breath: apps to pull, and {app =, push =, link =} to push.
function M.turns () return pulls, pushes end

--- A number that grows whenever a packet was freed or went to or came from another thread.
function M.moved () return tonumber(frees.c) + crossed end

local next_breath, last_frees, last_crossed, last_free_at = nil, 0, 0, 0

local function doze (microseconds)
   C.usleep(microseconds)
   look_for_signals()
   M.monotonic_now = C.get_monotonic_time()
end

--- Sleep between two breaths as `Hz`, or as what happened asks for.
function M.pace_breathing ()
   local now = M.monotonic_now
   if M.Hz then
      next_breath = next_breath or now
      local sleep = next_breath - now
      if sleep > 1e-6 then doze(sleep * 1e6) end
      next_breath = math.max(next_breath + 1 / M.Hz, now)
   elseif frees.c == last_frees and crossed == last_crossed then
      -- Nothing was freed for more than a microsecond, the least that one can sleep; packets of another thread come in
      -- bursts, and a nap would hold it up.
      if now - last_free_at > (bridges_in[1] and 1e-4 or 1e-6) then
         M.sleep = math.min(M.sleep + 1, M.maxsleep)
         if events then events.sleep_on_idle(M.sleep) end
         doze(M.sleep)
      end
   else
      M.sleep = math.floor(M.sleep / 2)
      last_frees, last_crossed = tonumber(frees.c), crossed
      last_free_at = now
   end
end

local latency

--- Keep a histogram of how long breaths take in shared memory, "engine/latency.histogram".
function M.enable_latency_histogram ()
   latency = latency or histogram.create(folder.."latency.histogram", 1e-6, 1e0)
end

local function loop (breathe, options, done)
   local check = first and M.threads and M.threads.check
   local costs = native.auto and require("core.auto").measurement()
   M.monotonic_now = C.get_monotonic_time()
   running = true -- between breaths, too, the time is that of the last one
   repeat
      if not costs then breathe() elseif not costs:breathe(breathe) then costs = nil end
      if not options.no_timers then timer.run() end
      if not M.busywait then M.pace_breathing() end
      if check then check() end
   until done and done()
end

--- Run the engine. Options: *duration* in seconds, or *done*, a function that says when to end (neither: for ever);
--- *report*, what to print at the end ({showlinks =, showapps =, showload =}), or *no_report*; *measure_latency* (true
--- unless said otherwise); *no_timers*; *keep_tasks*, do not ask the program's tasks to end.
function M.main (options)
   options = options or {}
   local done = options.done
   if options.duration then
      if done then error("You can not have both 'duration' and 'done'", 2) end
      done = lib.timeout(options.duration)
   end
   -- Tasks, if the program has some (core.tasks), end with the engine, and it with them.
   local tasks = first and M.tasks
   if tasks then done = tasks.until_they_end(done) end
   local breathe = M.breathe
   if options.measure_latency or options.measure_latency == nil then
      M.enable_latency_histogram()
      breathe = histogram.wrap_thunk(latency, breathe, M.now)
   end
   M.enable_tick()
   if events then events.engine_started() end
   local others = first and M.threads
   if others then others.run() end
   local ok, why = xpcall(loop, function (reason)
      return type(reason) == "string" and debug.traceback(reason, 2) or reason
   end, breathe, options, done)
   running = false
   if others then
      others.pause()
      if ok then ok, why = pcall(others.check) end
   end
   if tasks and ok then ok, why = pcall(tasks.engine_ended, options) end
   commit()
   if events then events.engine_stopped() end
   if first and native.auto then require("core.auto").keep() end
   if not ok then error(why, 0) end
   if not options.no_report then M.report(options.report) end
end

-- ---- what other parts offer through the engine ----

local others = require("core.report")
for _, name in ipairs{"report", "report_load", "report_links", "report_apps", "claim_name", "unclaim_name",
                      "enumerate_named_programs", "total"} do
   M[name] = function (...) return others[name](M, ...) end
end

--- The log of what the engine does (core.timeline), made when it is first asked for; the engine logs from then on.
function M.timeline ()
   if not M.timeline_log then
      local timeline = require("core.timeline")
      M.timeline_log = timeline.new(folder.."timeline")
      events = timeline.load_events(M.timeline_log, "core.engine")
   end
   return M.timeline_log
end

--- Snabb's profiler of machine code zones, which RaptorJIT has in its signal handler: not here; LuaJIT's own is (`snsh -j p`).
--- Does nothing.
function M.setvmprofile () end
--- See setvmprofile. Does nothing.
function M.clearvmprofiles () end
--- See setvmprofile: false.
M.vmprofile_enabled = false
--- See setvmprofile. Empty.
M.vmprofile = {}
--- Log what the compiler does to `audit.log` in this process's folder of shared memory: see core.auditlog.
function M.enable_auditlog ()
   jit.auditlog(shm.path(native.thread == 1 and "audit.log" or "workers/"..native.thread.."/audit.log"))
   M.auditlog_enabled = true
end
--- Was enable_auditlog called?
M.auditlog_enabled = false
--- Restarts the random choice of what the timeline logs.
function M.randomize_log_rate () end

function M.selftest () require("core.app_test").run(M) end

return M
