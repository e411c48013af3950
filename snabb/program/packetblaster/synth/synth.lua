-- SPDX-License-Identifier: MIT
-- program.packetblaster.synth: sends Ethernet packets that it makes to ports.

local config = require("core.config")
local lib = require("core.lib")
local endpoint = require("program.endpoint")
local packetblaster = require("program.packetblaster.packetblaster")

local M = {}

local long_options = {duration = "D", help = "h", src = "s", dst = "d", sizes = "S", packets = "n", quiet = "q",
                      ["random-payload"] = 0, ["packet-id"] = 0, ["no-loop"] = 0}

local function usage (code)
   print(require("program.packetblaster.synth.README_inc"))
   main.exit(code)
end

local function sizes_of (text)
   local sizes = {}
   for part in (text..","):gmatch("([^,]*),") do
      sizes[#sizes + 1] = endpoint.whole(part, "--sizes", 14)
   end
   return sizes
end

--- Run the program: *args* are options and ports.
function M.run (args)
   local options, synth = {}, {}
   local handlers = {
      D = function (arg) options.duration = endpoint.number(arg, "--duration", 0) end,
      h = function () usage(0) end,
      s = function (arg) synth.src = arg end,
      d = function (arg) synth.dst = arg end,
      S = function (arg) synth.sizes = sizes_of(arg) end,
      n = function (arg) options.packets = endpoint.whole(arg, "--packets", 0) end,
      q = function () options.quiet = true end,
      ["random-payload"] = function () synth.random_payload = true end,
      ["packet-id"] = function () synth.packet_id = true end,
      ["no-loop"] = function () options.duration = options.duration or 1 end,
   }
   args = lib.dogetopt(args, handlers, "D:hs:d:S:n:q", long_options)
   if #args == 0 then usage(1) end
   local c = config.new()
   config.app(c, "source", require("apps.test.synth").Synth, synth)
   packetblaster.run_loadgen(c, args, options)
end

function M.selftest ()
   local a, b = os.tmpname(), os.tmpname()
   M.run({"-q", "-s", "02:00:00:00:00:01", "-d", "02:00:00:00:00:02", "--sizes", "60,100", "-n", "250", "pcap:"..a,
          "pcap:"..b})
   for _, file in ipairs{a, b} do
      local got = endpoint.read_file(file)
      assert(#got == 250)
      for i, bytes in ipairs(got) do
         assert(#bytes == (i % 2 == 1 and 60 or 100), i)
         assert(bytes:sub(1, 12) == "\2\0\0\0\0\2\2\0\0\0\0\1")
      end
   end
   M.run({"-q", "-D", "0.005", "--random-payload", "pcap:"..a})
   local got = endpoint.read_file(a)
   assert(#got > 0 and #got[1] == 64 and got[1]:sub(15) ~= ("\0"):rep(50))
   M.run({"-q", "-n", "0", "pcap:"..a})
   assert(#endpoint.read_file(a) == 0)
   os.remove(a)
   os.remove(b)
   assert(endpoint.exit_code(M.run, {"-q"}) == 1 and endpoint.exit_code(M.run, {"--help"}) == 0)
   for _, bad in ipairs{{"-n", "x"}, {"-n", "1.5"}, {"-S", "60.5"},
                     {"-S", "60,,"}, {"-S", "5"}, {"-D", "-1"}, {"-S", "20000"}} do
      assert(not pcall(M.run, {"-q", bad[1], bad[2], "pcap:"..a}))
   end
   os.remove(a)
end

return M
