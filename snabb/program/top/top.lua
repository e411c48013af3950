-- SPDX-License-Identifier: MIT
-- program.top: shows the counters that running processes keep in shared memory.
--
-- Differs from Snabb: several processes at once, --once, --json; no keys.

local ffi = require("ffi")
local lib = require("core.lib")
local sys = require("core.sys")
local endpoint = require("program.endpoint")
local instances = require("program.top.instances")
require("core.lib_h")
local C = ffi.C

local M = {}
local sorted_keys = lib.sorted_keys

local long_options = {once = "1", interval = "i", all = "a", json = "J", help = "h"}

local function usage (code)
   print(require("program.top.README_inc"))
   main.exit(code)
end

-- ---- JSON (RFC 8259) ----

local function json_string (text)
   return '"'..text:gsub('[%c"\\\127]', function (c) return ("\\u%04x"):format(c:byte()) end)..'"'
end

--- A value as JSON: a table with a first element, or marked by `array`, is an array; the keys of others are sorted.
function M.json (value)
   if type(value) == "string" then return json_string(value) end
   if type(value) == "number" then
      if value ~= value or math.abs(value) == math.huge then return "null" end
      return value % 1 == 0 and ("%.0f"):format(value) or ("%.6g"):format(value)
   end
   if type(value) ~= "table" then return tostring(value) end
   local parts = {}
   if value[1] ~= nil or value.array then
      for i, element in ipairs(value) do parts[i] = M.json(element) end
      return "["..table.concat(parts, ",").."]"
   end
   for i, key in ipairs(sorted_keys(value)) do
      parts[i] = json_string(key)..":"..M.json(value[key])
   end
   return "{"..table.concat(parts, ",").."}"
end

-- ---- measurement ----

local function chosen (process, wanted)
   if #wanted == 0 then return process.pid ~= sys.getpid() end
   for _, text in ipairs(wanted) do
      if text == tostring(process.pid) or text == process.name then return true end
   end
   return false
end

local function read_all (wanted)
   local all = {time = C.get_monotonic_time()}
   for _, process in ipairs(instances.list()) do
      if process.alive and chosen(process, wanted) then
         local counts = instances.read(process.pid)
         if counts then all[#all + 1] = {process = process, counts = counts} end
      end
   end
   return all
end

--- Measure processes that run: those of *wanted* (an array of process numbers and names), or, if it is empty, all but
--- this one. *before* is an earlier result. Returns an array of {process, counts, rates}: see program.top.instances.
function M.measure (wanted, before)
   local now, old = read_all(wanted), {}
   for _, entry in ipairs(before or {}) do old[entry.process.pid] = entry.counts end
   local seconds = before and math.max(now.time - before.time, 1e-9) or 1
   for _, entry in ipairs(now) do
      entry.rates = instances.rates(entry.counts, old[entry.process.pid] or entry.counts, seconds)
   end
   return now
end

-- ---- text ----

-- Preamble, gap and CRC take 24 bytes of a wire.
local function gbps (packets, bytes)
   return (bytes + 24 * packets) * 8 / 1e9
end

local function add_links (lines, entry, all)
   lines[#lines + 1] = ("  %-44s %9s %9s %8s %12s"):format("link", "rx Mpps", "tx Mpps", "tx Gbps", "drops/s")
   for _, name in ipairs(sorted_keys(entry.rates.links)) do
      local r = entry.rates.links[name]
      local rx, tx, bytes, drops = r.rxpackets or 0, r.txpackets or 0, r.txbytes or 0, r.txdrop or 0
      if all or rx + tx + drops > 0 then
         lines[#lines + 1] = ("  %-44s %9.3f %9.3f %8.3f %12.0f"):format(name, rx / 1e6, tx / 1e6, gbps(tx, bytes),
                             drops)
      end
   end
end

local function add_apps (lines, entry, all)
   for _, app in ipairs(sorted_keys(entry.counts.apps)) do
      for _, name in ipairs(sorted_keys(entry.rates.apps[app])) do
         local value, rate = entry.counts.apps[app][name], entry.rates.apps[app][name]
         if all or rate > 0 then
            lines[#lines + 1] = ("  %-44s %20s %16.1f/s"):format(app.."  "..name, lib.comma_value(value), rate)
         end
      end
   end
end

local function engine_text (r)
   local frees, breaths = r.frees or 0, r.breaths or 0
   return ("%.3f Mfrees/s, %.3f Gbps, %.0f breaths/s, %.1f frees/breath"):format(
      frees / 1e6, (r.freebits or 0) / 1e9, breaths, breaths > 0 and frees / breaths or 0)
end

-- The numbers of workers, which are texts.
local function by_number (workers)
   local numbers = sorted_keys(workers)
   table.sort(numbers, function (a, b) return (tonumber(a) or 0) < (tonumber(b) or 0) end)
   return numbers
end

--- The text that shows a result of `measure`; *all*: also what stands still.
function M.text (measured, all)
   local lines = {}
   for _, entry in ipairs(measured) do
      local process = entry.process
      lines[#lines + 1] = ("%d %s%s%s"):format(process.pid, process.name and process.name.." " or "",
                          process.parent and ("worker of %d "):format(process.parent) or "", process.command or "")
      lines[#lines + 1] = ("  %s, %s configurations"):format(engine_text(entry.rates.engine),
                          lib.comma_value(entry.counts.engine.configs or 0))
      for _, number in ipairs(by_number(entry.rates.workers)) do
         lines[#lines + 1] = ("    worker %s: %s"):format(number, engine_text(entry.rates.workers[number]))
      end
      if next(entry.rates.links) then add_links(lines, entry, all) end
      add_apps(lines, entry, all)
      lines[#lines + 1] = ""
   end
   if #measured == 0 then lines[1] = "No process found." end
   return table.concat(lines, "\n")
end

--- A result of `measure` as JSON text.
function M.to_json (measured)
   local list = {array = true}
   for i, entry in ipairs(measured) do
      list[i] = {pid = entry.process.pid, name = entry.process.name, parent = entry.process.parent,
                 command = entry.process.command, totals = entry.counts, rates = entry.rates}
   end
   return M.json(list)
end

--- Run the program: *args* are options, process numbers and names.
function M.run (args)
   local interval, once, all, json = 1, false, false, false
   args = lib.dogetopt(args, {
      ["1"] = function () once = true end,
      i = function (arg) interval = endpoint.number(arg, "--interval", 0.001) end,
      a = function () all = true end,
      J = function () json = true end,
      h = function () usage(0) end,
   }, "1i:aJh", long_options)
   local before = M.measure(args)
   if #args > 0 and #before == 0 then
      error("top: no process matches "..table.concat(args, " or ").."; `perigee snabb ps` lists those that run", 0)
   end
   repeat
      sys.sleep(interval)
      local measured = M.measure(args, before)
      if json then
         print(M.to_json(measured))
      else
         -- Home and clear: the text may be shorter than the last one.
         io.write(once and "" or "\27[H\27[2J", M.text(measured, all), "\n")
         io.flush()
      end
      before = measured
   until once or json or #args > 0 and #before == 0
end

local function test_graph ()
   local config, engine = require("core.config"), require("core.app")
   local basic, counter = require("apps.basic.basic_apps"), require("core.counter")
   local c = config.new()
   config.app(c, "source", basic.Source)
   config.app(c, "sink", basic.Sink)
   config.link(c, "source.output -> sink.input")
   engine.configure(c)
   local own = {tostring(sys.getpid())}
   for _ = 1, 100 do engine.breathe() end
   engine.main({duration = 0.001, no_report = true}) -- publishes the counters
   counter.commit()
   local before = M.measure(own)
   local total = before[1].counts.links["source.output -> sink.input"].txpackets
   assert(#before == 1 and total >= 100 * engine.pull_npackets, total)
   engine.main({duration = 0.001, no_report = true})
   counter.commit()
   local measured = M.measure(own, before)
   local rates = measured[1].rates.links["source.output -> sink.input"]
   assert(rates.txpackets > 0 and math.abs(rates.txbytes / rates.txpackets - 60) < 1e-6 and rates.txdrop == 0)
   local text = M.text(measured)
   assert(text:match("^%d+ .-\n  [%d.]+ Mfrees/s") and text:match("\n  source.output %-> sink.input +[%d.]+ +[%d.]+"))
   assert(M.to_json(measured):match('"source%.output %-> sink%.input":{'))
   engine.configure(config.new())
   assert(next(M.measure(own, measured)[1].rates.links) == nil)
end

function M.selftest ()
   instances.selftest()
   assert(M.json({1, 2.5, "a\"\n", {b = true, a = {array = true}}, 0 / 0}) ==
          '[1,2.5,"a\\u0022\\u000a",{"a":[],"b":true},null]')
   local process = {pid = 7, command = "x", name = "n", parent = 3}
   local counts = {engine = {configs = 2, breaths = 10, frees = 1000}, links = {},
                   apps = {nic = {drops = 5, still = 1}}}
   local rates = {engine = {breaths = 10, frees = 1e6, freebits = 672e6, configs = 0}, workers = {},
                  links = {l = {rxpackets = 1e6, txpackets = 2e6, txbytes = 120e6, txdrop = 9}, idle = {}},
                  apps = {nic = {drops = 2.5, still = 0}}}
   local text = M.text({{process = process, counts = counts, rates = rates}})
   assert(text:match("^7 n worker of 3 x\n  1%.000 Mfrees/s, 0%.672 Gbps, 10 breaths/s, 100000%.0 frees/breath, 2 c"))
   assert(text:match("\n  l +1%.000 +2%.000 +1%.344 +9\n") and not text:match("idle") and not text:match("still"))
   assert(text:match("\n  nic  drops +5 +2%.5/s\n"))
   rates.workers = {["10"] = {}, ["2"] = {breaths = 5, frees = 1e6}}
   text = M.text({{process = process, counts = counts, rates = rates}}, true)
   assert(text:match("configurations\n    worker 2: 1%.000 Mfrees/s, [^\n]+, 200000%.0 frees/breath\n    worker 10: 0"))
   assert(text:match("\n  idle +0%.000") and text:match("still"))
   assert(M.text({}) == "No process found." and M.to_json({}) == "[]")
   test_graph()
   local exit_code = endpoint.exit_code
   -- It cleared the screen for ever.
   for _, arguments in ipairs{{"-i", "0.001", "no such name"}, {"--json", "2147483648"}} do
      local ok, why = pcall(M.run, arguments)
      assert(not ok and why:match("^top: no process matches"), why)
   end
   assert(exit_code(M.run, {"-h"}) == 0 and not pcall(M.run, {"-i", "x"}))
   assert(exit_code(M.run, {"--json", "-i", "0.001"}) == nil)
end

return M
