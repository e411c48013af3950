-- SPDX-License-Identifier: MIT
-- Where the packets of perigee's programs come from and go to, as it is written on a command line. Not part of Snabb.
--
--   PORT         a port as perigee knows it: a PCI address, a device with its arguments (net_null0, net_tap0,iface=x),
--                or a number: the one of a --port option, counted from 0
--   pcap:FILE    to read: the packets of a pcap file, then nothing more; to write: a pcap file

local engine = require("core.app")
local link = require("core.link")
local config = require("core.config")

local M = {}

local function file_of (spec)
   return spec:match("^pcap:(.+)$")
end

local function check (spec)
   if type(spec) ~= "string" or spec == "" or spec == "pcap:" then
      error("expected a port, or pcap: and a file's name, not "..tostring(spec), 3)
   end
end

--- Does *spec* stand for a file?
function M.is_file (spec)
   return file_of(spec) ~= nil
end

local function port (c, name, spec, more)
   local arg = {port = spec:match("^%d+$") and tonumber(spec) or spec}
   if not c.apps[name] then config.app(c, name, require("apps.dpdk.port"), arg, more) end
end

--- Add an app *name* to the configuration *c* that packets of *spec* come from. *placement* is config.app's fifth
--- argument. Returns what a link from it begins with, "NAME.output".
function M.source (c, name, spec, placement)
   check(spec)
   local file = file_of(spec)
   if file then
      config.app(c, name, require("apps.pcap.pcap").PcapReader, file, placement)
   else
      port(c, name, spec, placement)
   end
   return name..".output"
end

--- Add an app *name* to the configuration *c* that sends packets to *spec*. Returns what a link to it ends with,
--- "NAME.input".
function M.sink (c, name, spec, placement)
   check(spec)
   local file = file_of(spec)
   if file then
      config.app(c, name, require("apps.pcap.pcap").PcapWriter, file, placement)
   else
      port(c, name, spec, placement)
   end
   return name..".input"
end

--- Has the engine done all there is to do: have all files been read, and is no packet on its way? A function for
--- engine.main's `done`; it never returns true if packets come from a port, too.
function M.drained ()
   local files = 0
   for _, app in pairs(engine.app_table) do
      if app.pull then
         if not app.done then return false end
         files = files + 1
      end
   end
   if files == 0 then return false end
   for _, l in pairs(engine.link_table) do
      if not link.empty(l) then return false end
   end
   return true
end

--- A number from the command line, more than or equal to *least*. Errors with the option's name if it is none.
function M.number (text, option, least)
   local n = tonumber(text)
   if not n or n < least or n ~= n then
      error(("%s: expected a number of at least %g, not %s"):format(option, least, tostring(text)), 0)
   end
   return n
end

--- Write packets (an array of strings) to a pcap file. For tests.
function M.write_file (filename, packets)
   local ffi, pcap = require("ffi"), require("lib.pcap.pcap")
   local file = assert(io.open(filename, "wb"))
   pcap.write_file_header(file)
   for _, bytes in ipairs(packets) do pcap.write_record(file, ffi.cast("uint8_t *", bytes), #bytes) end
   file:close()
end

--- The packets of a pcap file, as an array of strings. For tests.
function M.read_file (filename)
   local all = {}
   for bytes in require("lib.pcap.pcap").records(filename) do all[#all + 1] = bytes end
   return all
end

--- Call a program's function and return the code that it leaves with by main.exit, or nil if it returns. For tests.
function M.exit_code (fn, ...)
   local main, code = require("core.main"), nil
   local exit, print_ = main.exit, print
   main.exit = function (status)
      code = status or 0
      error("main.exit", 0)
   end
   rawset(_G, "print", function () end)
   local ok, why = pcall(fn, ...)
   main.exit = exit
   rawset(_G, "print", print_)
   if not ok and code == nil then error(why, 0) end
   return code
end

function M.selftest ()
   local a, b = os.tmpname(), os.tmpname()
   local packets = {}
   for i = 1, 300 do packets[i] = (string.char(i % 256)):rep(i) end
   M.write_file(a, packets)
   local c = config.new()
   config.link(c, M.source(c, "from", "pcap:"..a).." -> "..M.sink(c, "to", "pcap:"..b))
   assert(not M.drained())
   engine.configure(c)
   engine.main({done = M.drained, no_report = true})
   engine.configure(config.new())
   local got = M.read_file(b)
   assert(#got == 300)
   for i = 1, 300 do assert(got[i] == packets[i]) end
   assert(M.is_file("pcap:x") and not M.is_file("net_null0"))
   for _, bad in ipairs{"", "pcap:", 5} do
      assert(not pcall(M.source, config.new(), "x", bad) and not pcall(M.sink, config.new(), "x", bad))
   end
   assert(M.number("2.5", "--x", 0) == 2.5)
   for _, bad in ipairs{"a", "-1", "nan"} do assert(not pcall(M.number, bad, "--x", 0)) end
   os.remove(a)
   os.remove(b)
end

return M
