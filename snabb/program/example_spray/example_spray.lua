-- SPDX-License-Identifier: MIT
-- program.example_spray: a small program with an app of its own. It reads a pcap file, drops every other packet, and
-- writes the rest to another one.

local config = require("core.config")
local engine = require("core.app")
local endpoint = require("program.endpoint")
local Sprayer = require("program.example_spray.sprayer").Sprayer

local M = {}

--- Run the program: *args* are the two files' names.
function M.run (args)
   if #args ~= 2 then
      print(require("program.example_spray.README_inc"))
      main.exit(args[1] == "-h" and 0 or args[1] == "--help" and 0 or 1)
   end
   local c = config.new()
   config.app(c, "spray_app", Sprayer)
   config.link(c, endpoint.source(c, "capture", "pcap:"..args[1]).." -> spray_app.input")
   config.link(c, "spray_app.output -> "..endpoint.sink(c, "output_file", "pcap:"..args[2]))
   endpoint.start(c)
   engine.main({done = endpoint.drained, report = {showlinks = true}})
   engine.configure(config.new())
end

function M.selftest ()
   require("program.example_spray.sprayer").selftest()
   local input, output, packets = os.tmpname(), os.tmpname(), {}
   for i = 1, 501 do packets[i] = ("packet %d"):format(i) end
   endpoint.write_file(input, packets)
   M.run({input, output})
   local got = endpoint.read_file(output)
   assert(#got == 250)
   for i = 1, 250 do assert(got[i] == packets[2 * i]) end
   os.remove(input)
   os.remove(output)
   assert(endpoint.exit_code(M.run, {"x"}) == 1 and endpoint.exit_code(M.run, {"-h"}) == 0)
end

return M
