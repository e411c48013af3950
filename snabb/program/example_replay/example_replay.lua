-- SPDX-License-Identifier: MIT
-- program.example_replay: a small program that sends the packets of a pcap file to a network interface.
--
-- Differs from Snabb: it ends when the packets are sent (Snabb's runs for a second); --port.

local config = require("core.config")
local engine = require("core.app")
local lib = require("core.lib")
local endpoint = require("program.endpoint")

local M = {}

local function usage (code)
   print(require("program.example_replay.README_inc"))
   main.exit(code)
end

--- Run the program: *args* are options, the pcap file's name and the interface's.
function M.run (args)
   local to_port = false
   args = lib.dogetopt(args, {h = function () usage(0) end, p = function () to_port = true end}, "hp",
                       {help = "h", port = "p"})
   if #args ~= 2 then usage(1) end
   local c = config.new()
   local from = endpoint.source(c, "capture", "pcap:"..args[1])
   local to
   if to_port then
      to = endpoint.sink(c, "playback", args[2])
   else
      config.app(c, "playback", require("apps.socket.raw").RawSocket, args[2])
      to = "playback.rx"
   end
   config.link(c, from.." -> "..to)
   endpoint.start(c)
   engine.main({report = {showlinks = true}, done = endpoint.drained})
   engine.configure(config.new())
end

function M.selftest ()
   local input, output = os.tmpname(), os.tmpname()
   endpoint.write_file(input, {"one", "two", ("x"):rep(1500)})
   M.run({"--port", input, "pcap:"..output})
   local got = endpoint.read_file(output)
   assert(#got == 3 and got[1] == "one" and got[2] == "two" and got[3] == ("x"):rep(1500))
   os.remove(input)
   os.remove(output)
   assert(endpoint.exit_code(M.run, {}) == 1 and endpoint.exit_code(M.run, {"-h"}) == 0)
   assert(not pcall(M.run, {"-p", "/none/such", "pcap:"..output}))
end

return M
