-- SPDX-License-Identifier: MIT
--
-- apps.basic.basic_apps: the plumbing of app networks: Source, Join, Split, Sink, Tee, Repeater, Truncate, Sample.
--
-- What differs from Snabb: Split leaves packets that fit on no output on its input (Snabb's documentation says so, its
-- code dropped them on the first output); Truncate pads with zeros behind the packet's end; wrong arguments and missing
-- links are errors with a reason.

local ffi = require("ffi")
local engine = require("core.app")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")

local receive, transmit = link.receive, link.transmit
local nreadable, nwritable = link.nreadable, link.nwritable
local allocate, clone, free, resize = packet.allocate, packet.clone, packet.free, packet.resize
local copy = ffi.copy
local min = math.min
local one_in_one_out = links.one_in_one_out

local M = {}

local function whole_number(what, n, low, high)
   local value = tonumber(n)
   if not value or value ~= math.floor(value) or value < low or value > high then
      error(("%s: expected a whole number from %d to %d, got %s"):format(what, low, high, tostring(n)), 3)
   end
   return value
end

--- Source: makes packets. In each breath every output link gets engine.pull_npackets new packets of zeros.
--- Argument: the size of the packets in bytes, a number or a string of digits; 60 without one.
M.Source = {}
local Source = M.Source

--- Creates a source of packets of `size` bytes (60 by default). Throws if the size is not a valid packet size.
function Source:new(size)
   size = whole_number("Source: size", size or 60, 0, packet.max_payload)
   local zeros = ffi.new("uint8_t[?]", math.max(size, 1))
   return setmetatable({size = size, packet = packet.from_pointer(zeros, size)}, {__index = Source})
end

-- Copies of a known length become a few moves in compiled code, instead of a call: small packets are made this way.
-- The bytes behind a packet's end belong to it and mean nothing, so that whole cache lines may be written.
local function fill_64(o, n, template, size)
   for _ = 1, n do
      local p = allocate()
      p.length = size
      copy(p.data, template.data, 64)
      transmit(o, p)
   end
end

local function fill_any(o, n, template)
   for _ = 1, n do
      transmit(o, clone(template))
   end
end

--- Fills each output link with engine.pull_npackets packets.
function Source:pull()
   local fill = self.size <= 64 and fill_64 or fill_any
   local n, template, size, output = engine.pull_npackets, self.packet, self.size, self.output
   for k = 1, #output do
      fill(output[k], n, template, size)
   end
end

--- Frees the template that the packets were copied from.
function Source:stop()
   free(self.packet)
   self.packet = nil
end

--- Join: moves the packets of all inputs, input by input, to the link `output`. No argument.
M.Join = {}
local Join = M.Join

--- Creates a join.
function Join:new()
   return setmetatable({}, {__index = Join})
end

--- Moves all waiting packets on the inputs.
function Join:push()
   local o = links.output(self, "output")
   local input = self.input
   for k = 1, #input do
      local i = input[k]
      for _ = 1, nreadable(i) do
         transmit(o, receive(i))
      end
   end
end

--- Split: moves packets from all inputs to the outputs: the first output takes what fits, then the next. No argument.
--- Packets that fit nowhere wait on their input.
M.Split = {}
local Split = M.Split

--- Creates a split.
function Split:new()
   return setmetatable({}, {__index = Split})
end

--- Moves as many packets as fit.
function Split:push()
   local input, output = self.input, self.output
   for k = 1, #input do
      local i = input[k]
      for m = 1, #output do
         local o = output[m]
         for _ = 1, min(nreadable(i), nwritable(o)) do
            transmit(o, receive(i))
         end
      end
   end
end

--- Sink: frees every packet that comes in, on any number of inputs. No argument.
M.Sink = {}
local Sink = M.Sink

--- Creates a sink.
function Sink:new()
   return setmetatable({}, {__index = Sink})
end

--- Frees all waiting packets on the inputs.
function Sink:push()
   local input = self.input
   for k = 1, #input do
      local i = input[k]
      for _ = 1, nreadable(i) do
         free(receive(i))
      end
   end
end

--- Tee: sends each packet of any input to all outputs. No argument. Without an output packets wait on the inputs.
M.Tee = {}
local Tee = M.Tee

--- Creates a tee.
function Tee:new()
   return setmetatable({}, {__index = Tee})
end

--- Copies waiting packets to all outputs but the last, which gets the packets themselves.
function Tee:push()
   local input, output = self.input, self.output
   local n = #output
   if n == 0 then return end
   for k = 1, #input do
      local i = input[k]
      for _ = 1, nreadable(i) do
         local p = receive(i)
         for m = 1, n - 1 do
            transmit(output[m], clone(p))
         end
         transmit(output[n], p)
      end
   end
end

--- Repeater: keeps the packets of `input` and sends copies of them to `output` in a loop, engine.pull_npackets in each
--- push. No argument.
M.Repeater = {}
local Repeater = M.Repeater

--- Creates a repeater that has no packets yet.
function Repeater:new()
   return setmetatable({index = 1, packets = {}}, {__index = Repeater})
end

--- Takes in waiting packets, then sends copies of the kept ones, starting where the last push ended.
function Repeater:push()
   local i, o = one_in_one_out(self)
   local packets = self.packets
   local count = #packets
   for _ = 1, nreadable(i) do
      count = count + 1
      packets[count] = receive(i)
   end
   if count == 0 then return end
   local index = self.index
   for _ = 1, engine.pull_npackets do
      transmit(o, clone(packets[index]))
      index = index < count and index + 1 or 1
   end
   self.index = index
end

--- Frees the packets that were kept.
function Repeater:stop()
   for k, p in ipairs(self.packets) do
      free(p)
      self.packets[k] = nil
   end
   self.index = 1
end

--- Truncate: cuts the packets from `input` to a length, or pads them to it with zeros, and sends them to `output`.
--- Argument: the length in bytes.
M.Truncate = {}
local Truncate = M.Truncate

--- Creates an app that makes every packet `n` bytes long. Throws if `n` is not a valid packet size.
function Truncate:new(n)
   return setmetatable({n = whole_number("Truncate: length", n, 0, packet.max_payload)}, {__index = Truncate})
end

--- Resizes and sends all waiting packets.
function Truncate:push()
   local i, o = one_in_one_out(self)
   local n = self.n
   for _ = 1, nreadable(i) do
      transmit(o, resize(receive(i), n))
   end
end

--- Sample: sends every nth packet from `input` to `output` and frees the others. Argument: n.
M.Sample = {}
local Sample = M.Sample

--- Creates an app that lets one packet of `n` through, the nth first. Throws if `n` is not a whole number above 0.
function Sample:new(n)
   return setmetatable({n = whole_number("Sample: n", n, 1, 2^52), seen = 1}, {__index = Sample})
end

--- Samples all waiting packets.
function Sample:push()
   local i, o = one_in_one_out(self)
   local n, seen = self.n, self.seen
   for _ = 1, nreadable(i) do
      local p = receive(i)
      if seen == n then
         seen = 1
         transmit(o, p)
      else
         seen = seen + 1
         free(p)
      end
   end
   self.seen = seen
end

local function test_source_sink_tee()
   local config, counter = require("core.config"), require("core.counter")
   local c = config.new()
   config.app(c, "source", M.Source)
   config.app(c, "big", M.Source, "300")
   config.app(c, "join", M.Join)
   config.app(c, "tee", M.Tee)
   config.app(c, "sink", M.Sink)
   config.link(c, "source.output -> join.a")
   config.link(c, "big.output -> join.b")
   config.link(c, "join.output -> tee.input")
   config.link(c, "tee.one -> sink.one")
   config.link(c, "tee.two -> sink.two")
   engine.configure(c)
   local frees = counter.read(engine.frees)
   engine.breathe()
   local n = engine.pull_npackets
   local stats = engine.app_table.tee.input.input.stats
   assert(counter.read(stats.rxpackets) == 2 * n)
   assert(counter.read(stats.rxbytes) == n * (60 + 300))
   for _, l in ipairs(engine.app_table.sink.input) do
      assert(counter.read(l.stats.rxpackets) == 2 * n and link.empty(l))
   end
   assert(counter.read(engine.frees) - frees == 4 * n)
end

local function test_bytes(harness)
   local data = {}
   for k = 1, 7 do data[k] = string.char(k):rep(10 * k) end
   local h = harness.new(M.Tee, nil, {"input"}, {"a", "b"})
   h:send("input", data)
   h:expect("a", data)
   h:expect("b", data)
   h = harness.new(M.Truncate, 35, {"input"}, {"output"})
   h:send("input", {data[2], data[7]})
   h:expect("output", {data[2] .. ("\0"):rep(15), data[7]:sub(1, 35)})
   h = harness.new(M.Sample, 3, {"input"}, {"output"})
   h:send("input", {data[1], data[2]})
   h:expect("output", {})
   h:send("input", {data[3], data[4], data[5], data[6], data[7]})
   h:expect("output", {data[3], data[6]})
   h = harness.new(M.Repeater, nil, {"input"}, {"output"})
   h:send("input", {data[1], data[2], data[3]})
   local out = h:take("output")
   assert(#out == engine.pull_npackets)
   for k, s in ipairs(out) do assert(s == data[(k - 1) % 3 + 1]) end
   h:send("input", {data[4]})
   assert(h:take("output")[1] == data[engine.pull_npackets % 3 + 1])
   h:stop()
end

-- Split: more packets than the first output can take; nothing is lost, the order stays.
local function test_split()
   local app = M.Split:new()
   local i, a, b = link.new("split_i"), link.new("split_a"), link.new("split_b")
   app.input, app.output = {i}, {a, b}
   local function put(l, first, last)
      for k = first, last do transmit(l, packet.from_string(tostring(k))) end
   end
   put(i, 1, 1000)
   app:push()
   assert(nreadable(a) == 1000 and nreadable(b) == 0)
   put(i, 1001, 2000)
   app:push()
   assert(nreadable(a) == 1023 and nreadable(b) == 977)
   put(i, 2001, 2100)
   app:push()
   assert(nreadable(b) == 1023 and nreadable(i) == 54)
   local k = 0
   for _, l in ipairs({a, b, i}) do
      while not link.empty(l) do
         local p = receive(l)
         k = k + 1
         assert(ffi.string(p.data, p.length) == tostring(k))
         free(p)
      end
   end
   assert(k == 2100)
   link.free(i, "split_i")
   link.free(a, "split_a")
   link.free(b, "split_b")
end

--- Runs every app in a network and compares packets and counters; wrong arguments are refused.
function M.selftest()
   local harness = require("apps.test.harness")
   test_source_sink_tee()
   test_bytes(harness)
   test_split()
   for _, bad in ipairs({{M.Source, -1}, {M.Source, 20000}, {M.Source, "x"}, {M.Truncate, 10241}, {M.Truncate},
                         {M.Sample, 0}, {M.Sample, 1.5}}) do
      local ok, err = pcall(bad[1].new, bad[1], bad[2])
      assert(not ok and tostring(err):match("expected a whole number"), err)
   end
   engine.configure(require("core.config").new())
end

return M
