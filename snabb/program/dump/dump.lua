-- SPDX-License-Identifier: MIT
-- program.dump: prints packets from a port or a pcap file. Not part of Snabb.

local ffi = require("ffi")
local config = require("core.config")
local lib = require("core.lib")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local decode = require("program.dump.decode")
local endpoint = require("program.endpoint")
local capture = require("program.pcap.pcap")

local M = {}

local long_options = {quiet = "q", filter = "f", count = "c", duration = "D", help = "h"}

local function usage (code)
   print(require("program.dump.README_inc"))
   main.exit(code)
end

--- Dump: prints the packets from `input` and frees them. Configuration: `quiet`, no bytes; `file`, a Lua file to
--- print to instead of standard output.
M.Dump = {config = {quiet = {default = false}, file = {}}}
local Dump = M.Dump

--- Creates the app.
function Dump:new (conf)
   return setmetatable({quiet = conf.quiet, file = conf.file or io.stdout, count = 0}, {__index = Dump})
end

-- As other programs do when nobody reads any more what they print (`| head`): 128 and the number of SIGPIPE.
local EPIPE, SIGPIPE_CODE = 32, 141

local function flush (file)
   local done, why, number = file:flush()
   if done then return end
   if number == EPIPE then main.exit(SIGPIPE_CODE) end
   error("dump: cannot write: "..tostring(why), 0)
end

jit.off(flush) -- compiled, a flush that has failed is asked once more, and then says that all is well

--- Prints all waiting packets. When nobody reads the output any more, the program ends.
function Dump:push ()
   local i, file = links.input(self, "input"), self.file
   if link.empty(i) then return end
   while not link.empty(i) do
      local p = link.receive(i)
      local bytes = ffi.string(p.data, p.length)
      packet.free(p)
      self.count = self.count + 1
      file:write(("%6d %s\n"):format(self.count, decode.line(bytes)))
      if not self.quiet then file:write(decode.hex(bytes), "\n") end
   end
   flush(file)
end

--- Run the program: *args* are options and a port or a file's name. *file* is what it prints to, standard output if
--- omitted.
function M.run (args, file)
   local options = {}
   local handlers = capture.option_handlers(options)
   function handlers.h () usage(0) end
   function handlers.q () options.quiet = true end
   args = lib.dogetopt(args, handlers, "qf:c:D:h", long_options)
   if #args ~= 1 then usage(1) end
   local spec = endpoint.file_or_port(args[1])
   local c = config.new()
   local from = capture.capture(c, spec, options)
   config.app(c, "dump", Dump, {quiet = options.quiet, file = file})
   config.link(c, from.." -> dump.input")
   capture.run_capture(c, options)
end

function M.selftest ()
   decode.selftest()
   local input, output = os.tmpname(), os.tmpname()
   local ether = "\2\0\0\0\0\2\2\0\0\0\0\1"
   endpoint.write_file(input, {ether.."\8\6", ether.."\136\204abc", "x"})
   local function run (args)
      local file = io.open(output, "w")
      M.run(args, file)
      file:close()
      return io.open(output):read("*a")
   end
   local head = "02:00:00:00:00:01 > 02:00:00:00:00:02 "
   local lines = {("     1 %sARP, 14 bytes\n"):format(head), ("     2 %stype 0x88cc, 17 bytes\n"):format(head),
                  "     3 1 bytes, too short for Ethernet\n"}
   assert(run({"-q", input}) == table.concat(lines))
   assert(run({"-q", "-c", "2", "pcap:"..input}) == lines[1]..lines[2])
   local all = run({input})
   assert(all == lines[1].."   0x0000  0200 0000 0002 0200 0000 0001 0806       ..............\n"..
          lines[2].."   0x0000  0200 0000 0002 0200 0000 0001 88cc 6162  ..............ab\n"..
          "   0x0010  63                                       c\n"..
          lines[3].."   0x0000  78                                       x\n", all)
   -- With `| head` it went on for ever.
   local closed = {write = function () end, flush = function () return nil, "Broken pipe", 32 end}
   assert(endpoint.exit_code(M.run, {"-q", input}, closed) == 141)
   require("core.app").configure(config.new())
   closed.flush = function () return nil, "No space left on device", 28 end
   assert(not pcall(M.run, {"-q", input}, closed))
   require("core.app").configure(config.new())
   os.remove(input)
   os.remove(output)
   -- A file that was not there failed as a device.
   for _, name in ipairs{"nosuch.pcap", "pcap:nosuch.pcap", "./nosuch"} do
      local ok, why = pcall(M.run, {name})
      assert(not ok and why == "there is no file "..name:gsub("^pcap:", ""), why)
   end
   assert(endpoint.exit_code(M.run, {}) == 1 and endpoint.exit_code(M.run, {"-h"}) == 0)
end

return M
