-- SPDX-License-Identifier: MIT
--
-- apps.pcap.tap: forwards packets and records some of them in a pcap file.

local link = require("core.link")
local links = require("apps.links")
local pcap = require("lib.pcap.pcap")

local M = {}

local modes = {truncate = "w+b", append = "a+b"}

--- Tap: sends the packets from `input` to `output` and writes those that match a filter, or every nth of these, to a
--- file. Configuration: `filename`; `mode`, "truncate" (the default) or "append"; `filter`, an expression of tcpdump's
--- filter language, without which every packet matches; `sample`, n (1 by default: every matching packet).
M.Tap = {
   config = {
      filename = {required = true},
      mode = {default = "truncate"},
      filter = {},
      sample = {default = 1},
   }
}
local Tap = M.Tap

--- Opens the file; writes a pcap file header if it is empty. Throws if it cannot, if the mode is none of the two, if
--- the filter is not one, or if `sample` is not a whole number above 0.
function Tap:new(conf)
   local mode = modes[conf.mode]
   if not mode then error(("Tap: mode: expected truncate or append, got %s"):format(tostring(conf.mode))) end
   local sample = tonumber(conf.sample)
   if not sample or sample < 1 or sample ~= math.floor(sample) then
      error(("Tap: sample: expected a whole number above 0, got %s"):format(tostring(conf.sample)))
   end
   local filter = conf.filter and require("lib.pf").compile(conf.filter) or false
   local file = assert(io.open(conf.filename, mode))
   if file:seek("end") == 0 then pcap.write_file_header(file) end
   return setmetatable({file = file, filter = filter, sample = sample, n = sample - 1}, {__index = Tap})
end

--- Records and forwards all waiting packets.
function Tap:push()
   local i, o = links.one_in_one_out(self)
   local filter, n = self.filter, self.n
   while not link.empty(i) do
      local p = link.receive(i)
      if not filter or filter:match(p.data, p.length) then
         n = n + 1
         if n == self.sample then
            n = 0
            pcap.write_record(self.file, p.data, p.length)
         end
      end
      link.transmit(o, p)
   end
   self.n = n
end

--- Closes the file.
function Tap:stop()
   self.file:close()
end

local function run(harness, conf, packets)
   local h = harness.new(Tap, conf, {"input"}, {"output"})
   h:send("input", packets)
   h:expect("output", packets)
   h:stop()
   local recorded = {}
   for data in pcap.records(conf.filename) do recorded[#recorded + 1] = data end
   return table.concat(recorded, ",")
end

--- Records, samples, filters and appends.
function M.selftest()
   local harness = require("apps.test.harness")
   local filename = os.tmpname()
   local packets = {"a", "bb", "ccc", "dddd", "eeeee"}
   assert(run(harness, {filename = filename}, packets) == "a,bb,ccc,dddd,eeeee")
   assert(run(harness, {filename = filename, sample = 2}, packets) == "a,ccc,eeeee")
   assert(run(harness, {filename = filename, mode = "append", sample = 3}, packets) == "a,ccc,eeeee,a,dddd")
   if pcall(require, "lib.pf") then
      assert(run(harness, {filename = filename, filter = "greater 3"}, packets) == "ccc,dddd,eeeee")
   end
   for _, bad in ipairs({{mode = "rw"}, {mode = "truncate", sample = 0}, {mode = "truncate", sample = "x"}}) do
      bad.filename = filename
      local ok, err = pcall(Tap.new, Tap, bad)
      assert(not ok and tostring(err):match("Tap: .* expected"), err)
   end
   os.remove(filename)
end

return M
