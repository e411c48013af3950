-- SPDX-License-Identifier: MIT
-- program.pcap: captures packets from a port to a pcap file. Not part of Snabb.

local config = require("core.config")
local engine = require("core.app")
local lib = require("core.lib")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local endpoint = require("program.endpoint")

local M = {}

local long_options = {filter = "f", count = "c", duration = "D", help = "h"}

local function usage (code)
   print(require("program.pcap.README_inc"))
   main.exit(code)
end

--- Limit: forwards the first `count` packets from `input` to `output` and frees those that follow. Without a `count` it
--- forwards all. The field `seen` is how many have been forwarded.
M.Limit = {config = {count = {}}}
local Limit = M.Limit

--- Creates a limit that has seen no packet.
function Limit:new (conf)
   return setmetatable({count = conf.count or math.huge, seen = 0}, {__index = Limit})
end

--- Forwards or frees all waiting packets.
function Limit:push ()
   local i, o = links.one_in_one_out(self)
   for _ = 1, link.nreadable(i) do
      local p = link.receive(i)
      if self.seen < self.count then
         self.seen = self.seen + 1
         link.transmit(o, p)
      else
         packet.free(p)
      end
   end
end

--- Add to the configuration *c* what filters and limits the packets of *spec* (see program.endpoint): apps "capture",
--- "filter" (with options.filter) and "limit" (options.count). Returns what a link from them begins with.
function M.capture (c, spec, options)
   local from = endpoint.source(c, "capture", spec)
   if options.filter then
      config.app(c, "filter", require("apps.packet_filter.pcap_filter").PcapFilter, {filter = options.filter})
      config.link(c, from.." -> filter.input")
      from = "filter.output"
   end
   config.app(c, "limit", Limit, {count = options.count})
   config.link(c, from.." -> limit.input")
   return "limit.output"
end

--- Run a configuration that `capture` began until the packets of a file are through, the limit is reached, or
--- options.duration seconds have passed. Then the apps are stopped.
function M.run_capture (c, options)
   endpoint.start(c, true)
   local limit = engine.app_table.limit
   local deadline = options.duration and engine.now() + options.duration
   engine.main({no_report = true, done = function ()
      if limit.seen >= limit.count and link.empty(limit.output.output) then return true end
      return endpoint.drained() or deadline and engine.now() >= deadline or false
   end})
   engine.configure(config.new())
   return limit.seen
end

--- The options that `capture` and `run_capture` know, as handlers for lib.dogetopt.
function M.option_handlers (options)
   return {
      f = function (arg) options.filter = arg end,
      c = function (arg) options.count = endpoint.whole(arg, "--count", 1) end,
      D = function (arg) options.duration = endpoint.number(arg, "--duration", 0) end,
   }
end

--- Run the program: *args* are options, a port and a file's name.
function M.run (args)
   local options = {}
   local handlers = M.option_handlers(options)
   function handlers.h () usage(0) end
   args = lib.dogetopt(args, handlers, "f:c:D:h", long_options)
   if #args ~= 2 then usage(1) end
   local c = config.new()
   local file = args[2] == "-" and "/dev/stdout" or args[2]
   config.link(c, M.capture(c, args[1], options).." -> "..endpoint.sink(c, "writer", "pcap:"..file))
   local function tell (count) io.stderr:write(("%d packets\n"):format(count)) end
   main.at_interrupt = function () tell(engine.app_table.limit.seen) end
   local count = M.run_capture(c, options)
   main.at_interrupt = false
   tell(count)
end

function M.selftest ()
   local input, output, packets = os.tmpname(), os.tmpname(), {}
   -- Ethernet and IPv4 headers of UDP and TCP in turn.
   for i = 1, 300 do
      packets[i] = ("\2\0\0\0\0\1\2\0\0\0\0\2\8\0\69\0\0\28\0\0\0\0\64"..(i % 3 == 0 and "\6" or "\17")..
                    "\0\0\10\0\0\1\10\0\0\2"):sub(1, 34)..("\0\53\0\53\0\8\0\0")..string.char(i % 256):rep(18)
   end
   endpoint.write_file(input, packets)
   M.run({"pcap:"..input, output})
   local got = endpoint.read_file(output)
   assert(#got == 300)
   for i = 1, 300 do assert(got[i] == packets[i]) end
   for _, count in ipairs{1, 102, 103, 299} do
      M.run({"-c", tostring(count), "pcap:"..input, output})
      got = endpoint.read_file(output)
      assert(#got == count and got[count] == packets[count])
   end
   M.run({"--filter", "tcp", "--count", "50", "pcap:"..input, output})
   got = endpoint.read_file(output)
   assert(#got == 50)
   for i = 1, 50 do assert(got[i] == packets[3 * i]) end
   os.remove(output)
   assert(endpoint.exit_code(M.run, {"x"}) == 1 and endpoint.exit_code(M.run, {"--help"}) == 0)
   for _, bad in ipairs{{"-c", "0"}, {"-c", "x"}, {"-D", "x"}, {"-f", "no such filter"}} do
      assert(not pcall(M.run, {bad[1], bad[2], "pcap:"..input, output}))
   end
   os.remove(input)
   os.remove(output)
end

return M
