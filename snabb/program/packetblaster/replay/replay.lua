-- SPDX-License-Identifier: MIT
-- program.packetblaster.replay: sends the packets of a pcap file to ports, in a loop.

local basic = require("apps.basic.basic_apps")
local config = require("core.config")
local lib = require("core.lib")
local endpoint = require("program.endpoint")
local packetblaster = require("program.packetblaster.packetblaster")

local M = {}

local long_options = {duration = "D", help = "h", quiet = "q", ["no-loop"] = 0}

local function usage (code)
   print(require("program.packetblaster.replay.README_inc"))
   main.exit(code)
end

--- Run the program: *args* are options, a file's name and ports.
function M.run (args)
   local options, loop = {}, true
   local handlers = {
      D = function (arg) options.duration = endpoint.number(arg, "--duration", 0) end,
      h = function () usage(0) end,
      q = function () options.quiet = true end,
      ["no-loop"] = function () loop = false end,
   }
   args = lib.dogetopt(args, handlers, "D:hq", long_options)
   if #args < 2 then usage(1) end
   local c = config.new()
   local last = endpoint.source(c, "pcap", "pcap:"..args[1])
   if loop then
      config.app(c, "loop", basic.Repeater)
      config.link(c, last.." -> loop.input")
      last = "loop.output"
   else
      options.done = endpoint.drained
   end
   config.app(c, "source", basic.Tee)
   config.link(c, last.." -> source.input")
   packetblaster.run_loadgen(c, {unpack(args, 2)}, options)
end

function M.selftest ()
   local input, a, b, packets = os.tmpname(), os.tmpname(), os.tmpname(), {}
   for i = 1, 150 do packets[i] = ("packet %d"):format(i) end
   endpoint.write_file(input, packets)
   M.run({"-q", "--no-loop", input, "pcap:"..a, "pcap:"..b})
   local got, other = endpoint.read_file(a), endpoint.read_file(b)
   assert(#got == 150 and #other == 150)
   for i = 1, 150 do assert(got[i] == packets[i] and other[i] == packets[i]) end
   -- A real port has a pull although it only sends: without a loop it never ended.
   M.run({"-q", "--no-loop", input, "net_null_replay"})
   -- In a loop: all of them, over and over. (What the file holds when the second half has not come yet is repeated,
   -- too.) A machine without a core to spare needs more than 20 ms for that.
   local seen, seconds = {}, 0.02
   repeat
      seen = {}
      M.run({"-q", "-D", tostring(seconds), input, "pcap:"..a})
      for _, bytes in ipairs(endpoint.read_file(a)) do seen[bytes] = (seen[bytes] or 0) + 1 end
      seconds = seconds * 4
   until (seen[packets[1]] or 0) > 1 and seen[packets[150]] or seconds > 100
   for i = 1, 150 do assert(seen[packets[i]] and seen[packets[i]] >= 1) end
   assert(seen[packets[1]] > 1)
   for _, file in ipairs{input, a, b} do os.remove(file) end
   assert(endpoint.exit_code(M.run, {input}) == 1 and endpoint.exit_code(M.run, {"-h"}) == 0)
   assert(not pcall(M.run, {"-D", "soon", input, "pcap:"..a}))
   assert(not pcall(M.run, {"-q", "/none/such", "pcap:"..a}))
   os.remove(a)
end

return M
