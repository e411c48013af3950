-- SPDX-License-Identifier: MIT
-- program.echo: sends packets back to the ports that they came from, through chains of forwarding apps of any length;
-- or makes packets and measures how fast they pass a chain.

local basic = require("apps.basic.basic_apps")
local config = require("core.config")
local engine = require("core.app")
local lib = require("core.lib")
local link = require("core.link")
local endpoint = require("program.endpoint")
local Fwd = require("apps.fwd.fwd").Fwd

local M = {}

local long_options = {length = "n", source = "s", workers = "w", chains = "c", duration = "D", quiet = "q", help = "h"}

local function usage (code)
   print(require("program.echo.README_inc"))
   main.exit(code)
end

-- Where packets of a chain come from and go to. A port is one app for both.
local function ends (c, k, spec, options, placement)
   local from, to
   local input, output = (spec or ""):match("^pcap:(.*),(.*)$")
   if options.source then
      config.app(c, "source"..k, basic.Source, options.source, placement)
      from = ("source%d.output"):format(k)
   end
   if not spec then
      config.app(c, "sink"..k, basic.Sink, nil, placement)
      to = ("sink%d.input"):format(k)
   elseif input then
      from = from or endpoint.source(c, "reader"..k, "pcap:"..input, placement)
      to = endpoint.sink(c, "writer"..k, "pcap:"..output, placement)
   elseif endpoint.is_file(spec) then
      if not options.source then error("echo: expected pcap:IN,OUT, not "..spec, 0) end
      to = endpoint.sink(c, "writer"..k, spec, placement)
   else
      to = endpoint.sink(c, "port"..k, spec, placement)
      from = from or endpoint.source(c, "port"..k, spec, placement)
   end
   return from, to
end

--- The app graph of the program: *ports* is an array of ports (see program.endpoint), *options* has `length` (apps in
--- each chain), `source` (a size, to make packets), `chains` (without ports), `workers`. Returns the configuration
--- and the names of the links at the chains' ends.
function M.graph (ports, options)
   local c, last_links = config.new(), {}
   local chains = #ports > 0 and #ports or options.chains or 1
   for k = 1, chains do
      local workers = options.workers
      local placement = workers and workers > 1 and {worker = (k - 1) % workers + 1} or nil
      local from, to = ends(c, k, ports[k], options, placement)
      for i = 1, options.length do
         local name = ("fwd%d_%d"):format(k, i)
         config.app(c, name, Fwd, nil, placement)
         config.link(c, ("%s -> %s.input"):format(from, name))
         from = name..".output"
      end
      last_links[k] = from.." -> "..to
      config.link(c, last_links[k])
   end
   return c, last_links
end

-- What the chains' last links have counted.
local function totals (last_links)
   local packets, dropped = 0, 0
   for _, spec in ipairs(last_links) do
      local stats = endpoint.link_stats(spec)
      packets, dropped = packets + stats.rxpackets, dropped + stats.txdrop
   end
   return packets, dropped
end

local function report (last_links, seconds)
   local packets, dropped = totals(last_links)
   print(("%s packets in %.3f s: %.3f Mpps, %s dropped at the end"):format(lib.comma_value(packets), seconds,
         packets / seconds / 1e6, lib.comma_value(dropped)))
end

local function options_of (args)
   local options = {length = 1}
   local whole = endpoint.whole
   local handlers = {
      n = function (arg) options.length = whole(arg, "--length", 0) end,
      s = function (arg) options.source = whole(arg, "--source", 1) end,
      w = function (arg) options.workers = whole(arg, "--workers", 1) end,
      c = function (arg) options.chains = whole(arg, "--chains", 1) end,
      D = function (arg) options.duration = endpoint.number(arg, "--duration", 0) end,
      q = function () options.quiet = true end,
      h = function () usage(0) end,
   }
   return options, lib.dogetopt(args, handlers, "n:s:w:c:D:qh", long_options)
end

--- Run the program: *args* are options and ports.
function M.run (args)
   local options, ports = options_of(args)
   if #ports == 0 and not options.source then usage(1) end
   local c, last_links = M.graph(ports, options)
   endpoint.start(c)
   local start = engine.now()
   local deadline = options.duration and start + options.duration
   local function finish ()
      if not options.quiet then report(last_links, engine.now() - start) end
   end
   main.at_interrupt = finish
   engine.main({no_report = true, done = function ()
      return endpoint.drained() or deadline and engine.now() >= deadline or false
   end})
   main.at_interrupt = false
   finish()
   engine.configure(config.new())
end

local function test_chains ()
   local input, output, packets = os.tmpname(), os.tmpname(), {}
   for i = 1, 400 do packets[i] = ("packet %d"):format(i) end
   endpoint.write_file(input, packets)
   for _, length in ipairs{0, 1, 7} do
      M.run({"-q", "--length", tostring(length), ("pcap:%s,%s"):format(input, output)})
      local got = endpoint.read_file(output)
      assert(#got == 400)
      for i = 1, 400 do assert(got[i] == packets[i]) end
   end
   -- Made packets, to a file.
   M.run({"-q", "-n", "3", "-s", "100", "-D", "0.005", "pcap:"..output})
   local made = endpoint.read_file(output)
   assert(#made > 0 and made[1] == ("\0"):rep(100))
   os.remove(input)
   os.remove(output)
end

function M.selftest ()
   test_chains()
   local c, links = M.graph({}, {length = 2, source = 60, chains = 3, workers = 2})
   local apps = {}
   for name in pairs(c.apps) do apps[#apps + 1] = name end
   assert(#apps == 12 and #links == 3 and links[2] == "fwd2_2.output -> sink2.input")
   assert(c.apps.fwd1_1.worker == c.apps.source1.worker and c.apps.fwd1_1.worker ~= c.apps.fwd2_1.worker)
   c = M.graph({}, {length = 100, source = 60})
   engine.configure(c)
   for _ = 1, 10 do engine.breathe() end
   local stats = link.stats(engine.app_table.sink1.input.input)
   assert(stats.rxpackets == 10 * engine.pull_npackets and stats.txdrop == 0)
   assert(totals({links[1], "fwd1_100.output -> sink1.input"}) == stats.rxpackets)
   engine.configure(config.new())
   local exit_code = endpoint.exit_code
   assert(not main.at_interrupt) -- only while it runs
   assert(exit_code(M.run, {}) == 1 and exit_code(M.run, {"-h"}) == 0)
   for _, bad in ipairs{{"-n", "x"}, {"-n", "1.5"}, {"-s", "0"}, {"-w", "0"}, {"-n", "1", "pcap:x"}} do
      if not bad[3] then bad[3] = "pcap:x,y" end
      assert(not pcall(M.run, bad))
   end
end

return M
