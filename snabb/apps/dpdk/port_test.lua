-- SPDX-License-Identifier: MIT
-- apps.dpdk.port_test: the selftest of apps.dpdk.port, on DPDK's software devices.

local ffi = require("ffi")
local config = require("core.config")
local counter = require("core.counter")
local engine = require("core.app")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")

local M = {}

-- What is sent comes back to the same device: rte_ring behind an Ethernet port.
local RING = "net_ring_snabb"

local function address (p) return tonumber(ffi.cast("uintptr_t", ffi.cast("struct packet *", p))) end

-- An app that sends the packets in *to_send* and keeps those that it gets.
local Keeper = {}
function Keeper:new (arg) return setmetatable({to_send = {}, got = {}, arg = arg}, {__index = Keeper}) end
function Keeper:pull ()
   while self.to_send[1] do link.transmit(self.output.output, table.remove(self.to_send, 1)) end
end
function Keeper:push ()
   while not link.empty(self.input.input) do table.insert(self.got, link.receive(self.input.input)) end
end

local function loopback (Port, arg)
   local c = config.new()
   config.app(c, "keeper", Keeper)
   config.app(c, "port", Port, arg)
   config.link(c, "keeper.output -> port.input")
   config.link(c, "port.output -> keeper.input")
   engine.configure(c)
   return engine.app_table.keeper, engine.app_table.port
end

local function breathe (n)
   for _ = 1, n or 3 do engine.breathe() end
end

local function take_all (keeper)
   local got = keeper.got
   keeper.got = {}
   return got
end

local function text_of (p) return ffi.string(p.data, p.length) end

-- The packet that is received is the packet that was sent: nothing was copied, wherever in its window it starts.
local function test_zero_copy (Port)
   local keeper, port = loopback(Port, {port = RING})
   local before = packet.outstanding()
   for _, shift in ipairs{0, 2, 14, 100, 254} do
      local p = packet.shiftleft(packet.from_string(("x"):rep(shift).."payload "..shift..("."):rep(60)), shift)
      local text, at = text_of(p), address(p)
      keeper.to_send = {p}
      breathe()
      local got = take_all(keeper)
      assert(#got == 1 and address(got[1]) == at and text_of(got[1]) == text, "shifted by "..shift)
      packet.free(got[1])
   end
   for _, shift in ipairs{1, 3, 301} do
      local p = packet.shiftleft(packet.from_string(("x"):rep(shift).."odd "..shift), shift)
      keeper.to_send = {p}
      breathe()
      local got = take_all(keeper)
      assert(#got == 1 and text_of(got[1]) == "odd "..shift)
      packet.free(got[1])
   end
   local counts = native.port_counts(port.address)
   assert(counts.copied_in == 0 and counts.copied_out == 0 and counts.received == 8 and counts.transmitted == 8)
   assert(packet.outstanding() == before)
end

-- Memory that is not the pool's is copied and stays its owner's; so does a packet that somebody else holds.
local function test_foreign (Port)
   local keeper, port = loopback(Port, {port = RING})
   local before = packet.outstanding()
   local copied = native.port_counts(port.address).copied_out
   local foreign = ffi.new("struct packet")
   packet.append(foreign, "from elsewhere", 14)
   keeper.to_send = {foreign}
   breathe()
   local got = take_all(keeper)
   assert(#got == 1 and address(got[1]) ~= address(foreign) and text_of(got[1]) == "from elsewhere")
   packet.free(got[1])
   assert(text_of(foreign) == "from elsewhere")
   -- The reference count of the buffer, 18 bytes into it, 448 before the window.
   local shared = packet.from_string("held twice")
   local references = ffi.cast("uint16_t *", address(shared) - address(shared) % 512 - 448 + 18)
   assert(references[0] == 1)
   references[0] = 2
   keeper.to_send = {shared}
   breathe()
   got = take_all(keeper)
   assert(#got == 1 and address(got[1]) ~= address(shared) and text_of(got[1]) == "held twice")
   packet.free(got[1])
   assert(references[0] == 1 and text_of(shared) == "held twice")
   packet.free(shared)
   assert(native.port_counts(port.address).copied_out == copied + 2)
   assert(packet.outstanding() == before)
end

-- Frees are counted when a device takes packets, or the engine would go to sleep under load.
local function test_counts (Port)
   local keeper, port = loopback(Port, {port = RING})
   breathe(1) -- what was freed before is counted now
   local frees, bytes = counter.read(engine.frees), counter.read(engine.freebytes)
   for i = 1, 300 do keeper.to_send[i] = packet.from_string(("%064d"):format(i)) end
   breathe(6)
   assert(counter.read(engine.frees) == frees + 300 and counter.read(engine.freebytes) == bytes + 300 * 64)
   local got = take_all(keeper)
   assert(#got == 300)
   for i, p in ipairs(got) do
      assert(tonumber(text_of(p)) == i)
      packet.free(p)
   end
   port:update_counters()
   assert(counter.read(port.shm.txpackets) >= 300 and counter.read(port.shm.rxpackets) >= 300)
   port:report()
end

local function test_vlan (Port)
   -- Two ports on one device cannot share a queue; the tags are looked at on the way round.
   local keeper = loopback(Port, {port = RING, vlan = 77})
   local frame = ("ABCDEFabcdef").."\8\0"..("payload"):rep(8)
   keeper.to_send = {packet.from_string(frame)}
   breathe()
   local got = take_all(keeper)
   assert(#got == 1 and text_of(got[1]) == frame)
   packet.free(got[1])
   -- With another tag, or none, it is not ours; with the tag in place it is seen without this option.
   keeper = loopback(Port, {port = RING})
   keeper.to_send = {packet.from_string(("ABCDEFabcdef").."\129\0\0\77"..frame:sub(13))}
   breathe()
   got = take_all(keeper)
   assert(#got == 1 and got[1].length == #frame + 4)
   link.transmit(keeper.output.output, got[1]) -- on its way when the graph changes
   local app
   keeper, app = loopback(Port, {port = RING, vlan = 78})
   link.transmit(keeper.output.output, packet.from_string("short"))
   breathe()
   got = take_all(keeper)
   -- It went out with both tags, and came back with the inner one; what is no frame was dropped.
   app:update_counters()
   assert(#got == 1 and got[1].length == #frame + 4 and counter.read(app.shm.txdrop) == 1)
   packet.free(got[1])
   assert(not pcall(Port.new, Port, {port = "net_null_vlan", queue = 0, vlan = 4095}))
end

-- Chained and long packets from a file, through buffers of the device's own and of ours.
local function test_odd_packets (Port)
   local name = os.tmpname()
   local lengths = {60, 1500, 9000, 10240, 10241, 11000, 14000, 64}
   local file = assert(io.open(name, "wb"))
   local function word (n) return string.char(n % 256, math.floor(n / 256) % 256, math.floor(n / 65536) % 256, 0) end
   file:write("\212\195\178\161\2\0\4\0", word(0), word(0), word(65535), word(1))
   for _, n in ipairs(lengths) do file:write(word(0), word(0), word(n), word(n), (string.char(n % 251)):rep(n)) end
   file:close()
   for _, copy in ipairs{false, true} do
      local c = config.new()
      config.app(c, "keeper", Keeper)
      config.app(c, "port", Port, {port = "net_pcap_snabb"..tostring(copy)..",rx_pcap="..name, copy = copy})
      config.link(c, "port.output -> keeper.input")
      engine.configure(c)
      local keeper, port = engine.app_table.keeper, engine.app_table.port
      breathe(5)
      local got, want = take_all(keeper), {60, 1500, 9000, 10240, 64}
      assert(#got == #want, #got.." packets, copy "..tostring(copy))
      for i, p in ipairs(got) do
         assert(text_of(p) == (string.char(want[i] % 251)):rep(want[i]))
         packet.free(p)
      end
      local counts = native.port_counts(port.address)
      assert(counts.rx_long == 3, "dropped "..counts.rx_long)
      assert(copy == (counts.copied_in == #want))
      engine.stop()
   end
   os.remove(name)
end

-- A packet whose length was set beyond its memory is not sent.
local function test_overlong (Port)
   local keeper, port = loopback(Port, {port = RING})
   local p = packet.from_string("x")
   p.length = 20000
   keeper.to_send = {p, packet.from_string("behind it")}
   breathe()
   local got = take_all(keeper)
   assert(#got == 1 and text_of(got[1]) == "behind it")
   packet.free(got[1])
   port:update_counters()
   assert(native.port_counts(port.address).tx_long == 1 and counter.read(port.shm.txdrop) == 1)
end

-- The first packets of a process come through a port with buffers of its own: there has to be something to copy to.
local function test_copies_first (Port)
   local c = config.new()
   config.app(c, "keeper", Keeper)
   config.app(c, "port", Port, {port = "net_null_first", copy = true})
   config.link(c, "port.output -> keeper.input")
   engine.configure(c)
   breathe(1)
   local got = take_all(engine.app_table.keeper)
   assert(#got == 102)
   for _, p in ipairs(got) do packet.free(p) end
   engine.stop()
end

-- An app that keeps what it gets: the device is given more packets to receive into.
local function test_more_packets (Port)
   local c = config.new()
   config.app(c, "keeper", Keeper)
   config.app(c, "port", Port, {port = "net_null_more"})
   config.link(c, "port.output -> keeper.input")
   engine.configure(c)
   local keeper, before = engine.app_table.keeper, (native.packets())
   local breaths = 0
   while #keeper.got < before + 5000 and breaths < 20000 do
      breathe(1)
      breaths = breaths + 1
   end
   local got = take_all(keeper)
   assert(#got >= before + 5000, "only "..#got)
   for _, p in ipairs(got) do packet.free(p) end
   engine.stop()
end

local function test_refusals (Port)
   local function refused (arg, pattern)
      local ok, why = pcall(Port.new, Port, arg)
      assert(not ok and tostring(why):match(pattern), tostring(why))
   end
   refused({port = 12, queue = 0}, "perigee snabb %-%-port")
   refused({port = true, queue = 0}, "expected a number or a device")
   refused({port = "net_nothing", queue = 0}, "could not open")
   refused({port = "net_null_q", queue = 5000}, "queue")
   refused({port = "net_null_m", queue = 0, mac = "not a MAC"}, "mac")
   local first = Port:new{port = "net_null_twice", queue = 0}
   refused({port = "net_null_twice", queue = 0}, "already in use")
   first.shm = nil
   first:stop()
   assert(Port.device_name("01:00.0") == "0000:01:00.0")
end

-- Two pairs of queues of one device, opened with as many as the graph uses.
local function test_queues (Port)
   local c = config.new()
   for queue = 0, 1 do
      config.app(c, "keeper"..queue, Keeper)
      config.app(c, "port"..queue, Port, {port = "net_null_pair", queue = queue})
      config.link(c, "port"..queue..".tx -> keeper"..queue..".input")
      config.link(c, "keeper"..queue..".output -> port"..queue..".rx")
   end
   engine.configure(c)
   breathe(1)
   for queue = 0, 1 do
      local got = take_all(engine.app_table["keeper"..queue])
      assert(#got == 102)
      -- Drivers leave 128 bytes before received data; an allocated packet has 256 again.
      for _, p in ipairs(got) do
         assert(packet.headroom(p) == 128)
         packet.free(p)
      end
      local p = packet.allocate()
      assert(packet.headroom(p) == 256 and p.length == 0)
      packet.free(p)
   end
   engine.stop()
end

function M.run (Port)
   test_copies_first(Port)
   test_zero_copy(Port)
   test_foreign(Port)
   test_counts(Port)
   test_overlong(Port)
   test_vlan(Port)
   engine.stop()
   test_odd_packets(Port)
   test_more_packets(Port)
   test_refusals(Port)
   test_queues(Port)
   assert(packet.outstanding() == 0, packet.outstanding().." packets are missing")
end

return M
