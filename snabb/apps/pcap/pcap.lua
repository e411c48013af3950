-- SPDX-License-Identifier: MIT
--
-- apps.pcap.pcap: packets from and to files in the pcap format of libpcap, and to standard output as a hex dump.
--
-- What differs from Snabb: PcapWriter in an append mode writes no second file header; a record longer than a packet can
-- hold is an error that names file and record.

local ffi = require("ffi")
local engine = require("core.app")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local pcap = require("lib.pcap.pcap")

ffi.cdef("int ferror(void *stream);")

local C = ffi.C
local empty, receive, transmit = link.empty, link.receive, link.transmit

local M = {}

--- PcapReader: sends the packets of a pcap file to its link `output`, as fast as the engine pulls, and then nothing
--- more. Argument: the file's name. The field `done` is true once the file has been read to its end.
M.PcapReader = {}
local PcapReader = M.PcapReader

--- Opens the file. Throws if it is not there or not a pcap file.
function PcapReader:new(filename)
   return setmetatable({filename = filename, iterator = pcap.records(filename), count = 0, done = false},
                       {__index = PcapReader})
end

--- Sends the next engine.pull_npackets packets.
function PcapReader:pull()
   local o = links.output(self, "output")
   if self.done then return end
   for _ = 1, engine.pull_npackets do
      local data = self.iterator()
      if not data then
         self.done = true
         return
      end
      self.count = self.count + 1
      if #data > packet.max_payload then
         error(("%s: record %d is %d bytes long, packets hold %d"):format(
            tostring(self.filename), self.count, #data, packet.max_payload))
      end
      transmit(o, packet.from_string(data))
   end
end

--- PcapWriter: writes the packets from its link `input` to a pcap file. Argument: the file's name, or an array of the
--- name and a mode of io.open ("w" without one).
M.PcapWriter = {}
local PcapWriter = M.PcapWriter

--- Opens the file and writes the pcap file header, unless the mode appends and the file has one. Throws if it cannot.
function PcapWriter:new(conf)
   local filename, mode = conf, "w"
   if type(conf) == "table" then
      filename, mode = conf[1], conf[2] or mode
   end
   if type(filename) ~= "string" then error("PcapWriter: expected the name of a file, got " .. tostring(filename)) end
   local file = assert(io.open(filename, mode))
   if file:seek("end") == 0 or not mode:find("a", 1, true) then pcap.write_file_header(file) end
   return setmetatable({file = file}, {__index = PcapWriter})
end

--- Writes all waiting packets. Throws if the file cannot take it.
function PcapWriter:push()
   local i, file = links.input(self, "input"), self.file
   while not empty(i) do
      local p = receive(i)
      pcap.write_record(file, p.data, p.length)
      packet.free(p)
   end
   -- The stream remembers errors. The result of flush is of no use: compiled code calls it again after it has failed.
   if C.ferror(file) ~= 0 then
      error(("%s: cannot write: the disk is full, or nobody reads"):format(self.appname or "PcapWriter"), 0)
   end
end

--- Closes the file.
function PcapWriter:stop()
   self.file:close()
end

--- StdOutput: prints the packets from its link `input` to standard output, as a hex dump. No argument.
M.StdOutput = {}
local StdOutput = M.StdOutput

--- Creates a printer; `file` (standard output without one) is a Lua file to print to instead.
function StdOutput:new(file)
   return setmetatable({file = file or io.stdout, count = 0}, {__index = StdOutput})
end

local function dump(data)
   local lines = {}
   for at = 1, #data, 16 do
      local bytes = data:sub(at, at + 15)
      local hex = bytes:gsub(".", function (c) return ("%02x "):format(c:byte()) end)
      lines[#lines + 1] = ("  %04x  %-48s %s\n"):format(at - 1, hex, (bytes:gsub("[^\32-\126]", ".")))
   end
   return table.concat(lines)
end

--- Prints all waiting packets.
function StdOutput:push()
   local i, file = links.input(self, "input"), self.file
   while not empty(i) do
      local p = receive(i)
      self.count = self.count + 1
      file:write(("packet %d: %d bytes\n"):format(self.count, p.length), dump(ffi.string(p.data, p.length)))
      packet.free(p)
   end
   file:flush()
end

local function read_all(filename)
   local all = {}
   for data in pcap.records(filename) do all[#all + 1] = data end
   return all
end

local function write(harness, arg, packets)
   local h = harness.new(PcapWriter, arg, {"input"}, {})
   h:send("input", packets)
   h:stop()
end

local function test_reader(harness, filename, packets)
   local h = harness.new(PcapReader, filename, {}, {"output"})
   local breaths = 0
   repeat
      engine.breathe()
      breaths = breaths + 1
   until h.app.done
   assert(breaths == math.floor(#packets / engine.pull_npackets) + 1)
   engine.breathe()
   h:expect("output", packets)
   h:stop()
end

--- Writes, appends and reads files, and prints.
function M.selftest()
   local harness = require("apps.test.harness")
   local filename = os.tmpname()
   local packets = {}
   for k = 1, 250 do packets[k] = string.char(k):rep(k == 250 and packet.max_payload or k) end
   write(harness, filename, packets)
   test_reader(harness, filename, packets)
   write(harness, {filename, "a"}, {"more"})
   table.insert(packets, "more")
   assert(#read_all(filename) == 251 and read_all(filename)[251] == "more")
   write(harness, {filename}, {"new"})
   assert(#read_all(filename) == 1)

   local f = assert(io.open(filename, "wb"))
   pcap.write_file_header(f)
   pcap.write_record(f, ffi.new("uint8_t[?]", 10241), 10241)
   f:close()
   local h = harness.new(PcapReader, filename, {}, {"output"})
   local ok, err = pcall(h.app.pull, h.app)
   assert(not ok and tostring(err):match("record 1"), err)
   h:stop()

   f = assert(io.open(filename, "w"))
   h = harness.new(StdOutput, nil, {"input"}, {})
   h.app.file = f
   h:send("input", {"\0ABCDEFGHIJKLMNOPQ"})
   h:stop()
   f:close()
   local printed = io.open(filename):read("*a")
   assert(printed:match("^packet 1: 18 bytes\n  0000  00 41 42 .* %.ABCDEFGHIJKLMNO\n  0010  50 51  +PQ\n$"), printed)
   -- A full disk went unnoticed.
   h = harness.new(PcapWriter, "/dev/full", {"input"}, {})
   ok, err = pcall(h.send, h, "input", {"lost"})
   assert(not ok and tostring(err):match("dut: cannot write"), err)
   h:stop()
   os.remove(filename)
   assert(not pcall(PcapReader.new, PcapReader, filename))
   assert(not pcall(PcapWriter.new, PcapWriter, filename .. "/no/such"))
   assert(not pcall(PcapWriter.new, PcapWriter, {}))
end

return M
