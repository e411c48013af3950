-- SPDX-License-Identifier: MIT
-- program.packetblaster: sends packets to ports as fast as possible. The commands are programs of their own,
-- program.packetblaster.replay and .synth.
--
-- Differs from Snabb: ports instead of patterns of PCI addresses; --packets, --quiet; lwaftr and ipfix are a tree's.

local config = require("core.config")
local engine = require("core.app")
local lib = require("core.lib")
local link = require("core.link")
local timer = require("core.timer")
local endpoint = require("program.endpoint")

local M = {}

local function have_command (name)
   return name:match("^[%w_]+$") and lib.have_module(("program.packetblaster.%s.%s"):format(name, name))
end

-- What `packetblaster lwaftr --pcap` of a Snabb tree sends with has a bucket that is filled by the rate, which is infinite there,
-- times the seconds since its last turn: not a number in the first turn, after which it sends nothing and never ends. (Compiled
-- by RaptorJIT, a loop up to such a number runs.) So that there is time before the first turn, too:
local function fill_buckets (module)
   for _, class in pairs(module) do
      local pull = type(class) == "table" and rawget(class, "pull")
      if pull then
         class.pull = function (self)
            if self.rate == math.huge then self.last_time = self.last_time and self.last_time - 1 or -1 end
            return pull(self)
         end
      end
   end
   return module
end

--- Run the program: *args* are a command and its arguments.
function M.run (args)
   local command = (args[1] or ""):gsub("-", "_")
   if not have_command(command) then
      print(require("program.packetblaster.README_inc"))
      main.exit((args[1] == "-h" or args[1] == "--help") and 0 or 1)
   end
   if command == "lwaftr" then fill_buckets(require("program.packetblaster.lwaftr.lib")) end
   require(("program.packetblaster.%s.%s"):format(command, command)).run({unpack(args, 2)})
end

-- Print what was sent since the last call, *seconds* ago, to each of *links*: {name =, spec =, packets =, bytes =}.
local function report (links, seconds)
   print(("Transmissions (last %.3g s):"):format(seconds))
   for _, l in ipairs(links) do
      local stats = endpoint.link_stats(l.spec)
      local packets, bytes = stats.txpackets - l.packets, stats.txbytes - l.bytes
      l.packets, l.bytes = stats.txpackets, stats.txbytes
      -- Preamble, gap and CRC take 24 bytes of a wire.
      print(("  %-30s %9.3f Mpps %9.3f Gbps, %s dropped in all"):format(l.name, packets / seconds / 1e6,
            (bytes + 24 * packets) * 8 / seconds / 1e9, lib.comma_value(stats.txdrop)))
   end
end

--- Connect the app "source" of the configuration *c* to ports and run: what the commands share. *ports* is an array
--- of ports; *options* has `duration` (seconds), `done` (a function for engine.main), `packets` (a limit for each
--- port), `quiet`.
function M.run_loadgen (c, ports, options)
   if #ports == 0 then error("expected at least one port", 0) end
   local links = {}
   for i, spec in ipairs(ports) do
      local to = endpoint.sink(c, "nic"..i, spec)
      local from = ("source.nic%d"):format(i)
      if options.packets then
         local limit = "limit"..i
         config.app(c, limit, require("apps.test.npackets").Npackets, {npackets = options.packets})
         config.link(c, ("%s -> %s.input"):format(from, limit))
         from = limit..".output"
      end
      links[i] = {name = spec, spec = from.." -> "..to, packets = 0, bytes = 0}
      config.link(c, links[i].spec)
   end
   engine.busywait = true
   endpoint.start(c, options.done or options.packets)
   local last = engine.now()
   local t = timer.new("packetblaster", function ()
      local now = engine.now()
      report(links, now - last)
      last = now
   end, 1e9, "repeating")
   if not options.quiet then timer.activate(t) end
   local finished = function ()
      for i = 1, #ports do
         local nic, limit = engine.app_table["nic"..i], engine.app_table["limit"..i]
         if limit.n > 0 or not link.empty(nic.input.input) then return false end
      end
      return true
   end
   local done = options.done or options.packets and finished or nil
   local deadline = options.duration and engine.now() + options.duration
   if done and deadline then
      local plain = done
      done = function () return plain() or engine.now() >= deadline end
   end
   engine.main({duration = not done and options.duration or nil, done = done, no_report = options.quiet,
                report = {showlinks = true}})
   timer.deactivate(t)
   local sent = {}
   for i, l in ipairs(links) do sent[i] = endpoint.link_stats(l.spec).txpackets end
   engine.configure(config.new())
   engine.busywait = false
   return sent
end

function M.selftest ()
   require("program.packetblaster.replay.replay").selftest()
   require("program.packetblaster.synth.synth").selftest()
   assert(endpoint.exit_code(M.run, {}) == 1 and endpoint.exit_code(M.run, {"no-such"}) == 1)
   assert(endpoint.exit_code(M.run, {"../x"}) == 1 and endpoint.exit_code(M.run, {"--help"}) == 0)
   local Bucket = {}
   function Bucket.pull (self)
      local now = 5
      return self.rate * (now - (self.last_time or now))
   end
   fill_buckets{Bucket = Bucket}
   assert(Bucket.pull{rate = math.huge} == math.huge and Bucket.pull{rate = math.huge, last_time = 5} == math.huge)
   assert(Bucket.pull{rate = 2} == 0 and Bucket.pull{rate = 2, last_time = 3} == 4)
   local file = os.tmpname()
   M.run({"synth", "-q", "--packets", "3", "pcap:"..file})
   assert(#endpoint.read_file(file) == 3)
   os.remove(file)
end

return M
