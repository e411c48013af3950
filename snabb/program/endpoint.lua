-- SPDX-License-Identifier: MIT
-- Where the packets of perigee's programs come from and go to, as it is written on a command line. Not part of Snabb.
--
--   PORT         a port as perigee knows it: a PCI address, a device with its arguments (net_null0, net_tap0,iface=x),
--                or a number: the one of a --port option, counted from 0
--   pcap:FILE    to read: the packets of a pcap file, then nothing more; to write: a pcap file

local engine = require("core.app")
local link = require("core.link")
local config = require("core.config")
local sys = require("core.sys")
local PcapReader = require("apps.pcap.pcap").PcapReader
local PcapWriter = require("apps.pcap.pcap").PcapWriter

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

local function check_readable (file)
   local status = sys.stat(file)
   if not status then error("there is no file "..file, 0) end
   if status.kind == "directory" then error(file.." is a directory, not a pcap file", 0) end
   if status.kind ~= "file" then return end -- to open a pipe twice would lose what is in it
   local handle, why = io.open(file, "rb")
   if not handle then error("cannot read "..why, 0) end
   handle:close()
end

-- Nobody's port has such a name; a device's arguments may.
local function looks_like_file (spec)
   if spec:find("[,=]") then return false end
   return spec:find("/", 1, true) ~= nil or spec:find("%.p?cap%w*$") ~= nil
end

--- What the user means by *spec* where a port or a file may be given: "pcap:" and a file's name, or a port.
function M.file_or_port (spec)
   local status = not file_of(spec) and sys.stat(spec)
   if status and status.kind ~= "directory" or looks_like_file(spec) and not file_of(spec) then return "pcap:"..spec end
   return spec
end

local function port (c, name, spec, more)
   if looks_like_file(spec) then error(spec.." is not a port; a file is pcap:"..spec, 0) end
   local arg = {port = spec:match("^%d+$") and tonumber(spec) or spec}
   if not c.apps[name] then config.app(c, name, require("apps.dpdk.port"), arg, more) end
end

--- Add an app *name* to the configuration *c* that packets of *spec* come from. *placement* is config.app's fifth
--- argument. Returns what a link from it begins with, "NAME.output".
function M.source (c, name, spec, placement)
   check(spec)
   local file = file_of(spec)
   if file then
      check_readable(file)
      config.app(c, name, PcapReader, file, placement)
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
      config.app(c, name, PcapWriter, file, placement)
   else
      port(c, name, spec, placement)
   end
   return name..".input"
end

-- Do packets come from files only?
local function only_files (c)
   local sends = {}
   for spec in pairs(c.links) do sends[config.parse_link(spec)] = true end
   for name, app in pairs(c.apps) do
      if app.class.pull and app.class ~= PcapReader and sends[name] then return false end
   end
   return true
end

-- An error without the place in perigee's sources that raised it, unless it is perigee's mistake.
local function plain (why)
   why = tostring(why)
   local text = why:match("^snabb/%S+:%d+: (.*)$")
   if not text or text:match("^attempt to ") or text:match("^assertion failed") then return why end
   return text
end

--- Configure the engine with *c*. What its apps refuse is raised as the user's mistake. If packets come from files
--- only, or *here* is true, all apps run on the program's own thread, even with --workers: it is only seen there when
--- all is done.
function M.start (c, here)
   if here or only_files(c) then
      for _, app in pairs(c.apps) do app.worker = 1 end
   end
   local ok, why = pcall(engine.configure, c)
   if not ok then error(plain(why), 0) end
end

--- What a link, whichever thread it is on, has counted: a table of rxpackets, txpackets, rxbytes, txbytes, txdrop. Of
--- other threads' links it is what they published last.
function M.link_stats (spec)
   local l = engine.link_table[spec]
   if l then return link.stats(l) end
   local published = require("program.top.instances").read(sys.getpid())
   return published and published.links[spec] or {rxpackets = 0, txpackets = 0, rxbytes = 0, txbytes = 0, txdrop = 0}
end

--- Has the engine done all there is to do: have all files been read, and is no packet on its way? A function for
--- engine.main's `done`; it never returns true if packets come from a port, too. For graphs that `start` configured.
function M.drained ()
   local files = 0
   for _, app in pairs(engine.app_table) do
      if app.pull and #app.output > 0 then -- a port that only sends has nothing to bring
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

--- As `number`, but only whole ones.
function M.whole (text, option, least)
   local n = M.number(text, option, least)
   if n % 1 ~= 0 then error(option..": expected a whole number, not "..text, 0) end
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

-- A port that only sends has a pull, too: with one, the end of the file was never seen.
local function test_drained_with_port (file)
   local c = config.new()
   config.link(c, M.source(c, "from", "pcap:"..file).." -> "..M.sink(c, "to", "net_null_drained"))
   M.start(c)
   local breaths = 0
   engine.main({no_report = true, done = function ()
      breaths = breaths + 1
      return M.drained() or breaths == 10000
   end})
   assert(breaths < 10000)
   engine.configure(config.new())
   config.link(c, "to.output -> "..M.sink(c, "back", "net_null_drained2"))
   engine.configure(c)
   for _ = 1, 10 do engine.breathe() end
   assert(not M.drained()) -- it brings packets now
   engine.configure(config.new())
end

local function refused (pattern, ...)
   local ok, why = pcall(...)
   assert(not ok and why:match(pattern), why)
end

-- A file that is not there was taken for a device.
local function test_names_of_files (file)
   assert(M.file_or_port(file) == "pcap:"..file and M.file_or_port("pcap:x") == "pcap:x")
   assert(M.file_or_port("nosuch.pcap") == "pcap:nosuch.pcap" and M.file_or_port("net_null0") == "net_null0")
   assert(M.file_or_port("0000:01:00.0") == "0000:01:00.0" and M.file_or_port("a/b") == "pcap:a/b")
   refused("^there is no file nosuch%.pcap$", M.source, config.new(), "x", "pcap:nosuch.pcap")
   refused("^/ is a directory", M.source, config.new(), "x", "pcap:/")
   refused("^x%.pcap is not a port; a file is pcap:x%.pcap$", M.sink, config.new(), "x", "x.pcap")
   local device = "net_pcap0,rx_pcap=/a/b.pcap"
   assert(M.source(config.new(), "x", device) == "x.output" and M.file_or_port(device) == device)
   local c = config.new()
   M.sink(c, "x", "pcap:/none/such/file")
   refused("^/none/such/file: No such file", M.start, c)
end

-- With --workers the program looked for the file's reader on its own thread only.
local function test_start_keeps_files_here (file)
   local c, here = config.new(), config.new()
   config.link(c, M.source(c, "from", "pcap:"..file).." -> "..M.sink(c, "to", "net_null_here", {worker = 2}))
   M.start(c)
   assert(c.apps.from.worker == 1 and c.apps.to.worker == 1 and engine.app_table.to)
   config.app(here, "source", require("apps.basic.basic_apps").Source)
   config.link(here, "source.output -> "..M.sink(here, "to", "net_null_here"))
   M.start(here)
   assert(not here.apps.to.worker)
   engine.breathe()
   assert(M.link_stats("source.output -> to.input").txpackets == engine.pull_npackets)
   assert(M.link_stats("no.such -> link.x").txpackets == 0)
   engine.configure(config.new())
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
   assert(M.whole("2", "--x", 0) == 2 and not pcall(M.whole, "2.5", "--x", 0))
   test_drained_with_port(a)
   test_names_of_files(a)
   test_start_keeps_files_here(a)
   os.remove(a)
   os.remove(b)
end

return M
