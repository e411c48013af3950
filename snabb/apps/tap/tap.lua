-- SPDX-License-Identifier: MIT
--
-- apps.tap.tap: a tap device of Linux: a network device of the host whose other end is this app.
--
-- What differs from Snabb: packets that the device refuses (while it is down, or shorter than an Ethernet header) are
-- freed and counted in `txdrop`, where Snabb threw.

local counter = require("core.counter")
local engine = require("core.app")
local ffi = require("ffi")
local lib = require("core.lib")
local link = require("core.link")
local netdev = require("apps.socket.netdev")
local packet = require("core.packet")

local C = ffi.C
local errno = netdev.errno

local M = {}

--- Tap: sends the packets from `input` to the host by a tap device, and what the host sends by it to `output`.
--- Argument: the device's name (it is made and set up if it is not there), or a table of `name`; `mtu`, bytes (1514);
--- `mtu_fixup`, whether `mtu_offset` bytes (14, the Ethernet header) are to be taken off that to get the MTU that Linux
--- has (true); `mtu_set`, whether to set that MTU: if not, it must be the device's (by default it is set if the device
--- was made). Counters: rx- and txbytes, -packets, -mcast, -bcast; `txdrop`; `type`, `status` (1: up, 2: down), `mtu`,
--- `speed`, `macaddr`.
M.Tap = {}
local Tap = M.Tap

-- Not under the name `config`, since the argument may be a string.
Tap._config = {
   name = {required = true},
   mtu = {default = 1514},
   mtu_fixup = {default = true},
   mtu_offset = {default = 14},
   mtu_set = {},
}

local function set_mtu(conf, request, made)
   local mtu = conf.mtu - (conf.mtu_fixup and conf.mtu_offset or 0)
   local set = conf.mtu_set
   if set == nil then set = made end
   if set then
      netdev.mtu(request, mtu)
      return
   end
   local is = netdev.mtu(request)
   if is ~= mtu then
      error(("Mismatch of IP MTU on tap device %s: expected %d, configured %d"):format(conf.name, mtu, is))
   end
end

local function frame_of_counters(conf, request)
   local number = ffi.new("union { uint8_t bytes[8]; uint64_t number; }")
   ffi.copy(number.bytes, netdev.mac(request), 6)
   return netdev.add_counters({
      type = {counter, 0x1001}, -- propVirtual
      status = {counter, netdev.up(request) and 1 or 2},
      mtu = {counter, conf.mtu},
      speed = {counter, 0},
      macaddr = {counter, number.number},
   })
end

--- Opens the device, or makes it. Throws if that fails or is not allowed, or its MTU is another one.
function Tap:new(conf)
   if type(conf) == "string" then conf = {name = conf} end
   conf = lib.parse(conf or {}, Tap._config)
   local request = netdev.request(conf.name)
   local made = not netdev.index(conf.name)
   local fd, why = netdev.open_tap(conf.name)
   if not fd then error("Tap: " .. why) end
   local ok, result = pcall(function ()
      if made then netdev.up(request, true) end
      set_mtu(conf, request, made)
      return frame_of_counters(conf, request)
   end)
   if not ok then
      netdev.close(fd)
      error(result, 0)
   end
   return setmetatable({fd = fd, request = request, name = conf.name, status_timer = lib.throttle(0.001), shm = result},
                       {__index = Tap})
end

--- Writes whether the device is up to the counter `status`.
function Tap:status()
   counter.set(self.shm.status, netdev.up(self.request) and 1 or 2)
end

local function bad(self, what, number)
   error(("Failed %s on %s: %s"):format(what, self.name, netdev.strerror(number)))
end

--- Sends to `output` what the host has sent, up to engine.pull_npackets packets.
function Tap:pull()
   local l, c = self.output.output, self.shm
   if not l then return end
   if self.status_timer() then self:status() end
   for _ = 1, engine.pull_npackets do
      local p = packet.allocate()
      local n = tonumber(C.perigee_net_read(self.fd, p.data, packet.max_payload))
      if n < 0 then
         local number = ffi.errno()
         packet.free(p)
         if number == errno.EAGAIN or number == errno.EINTR then return end
         bad(self, "read", number)
      end
      p.length = n
      netdev.count_received(c, p)
      link.transmit(l, p)
   end
end

--- Sends waiting packets on `input` to the host; when the device can take no more, the rest waits there.
function Tap:push()
   local l, c = self.input.input, self.shm
   while l and not link.empty(l) do
      local p = link.front(l)
      local n = tonumber(C.perigee_net_write(self.fd, p.data, p.length))
      if n >= 0 then
         netdev.count_sent(c, p)
      else
         local number = ffi.errno()
         if number == errno.EAGAIN or number == errno.EINTR or number == errno.ENOBUFS then return end
         if number ~= errno.EIO and number ~= errno.EINVAL then bad(self, "write", number) end
         counter.add(c.txdrop)
      end
      packet.free(link.receive(l))
   end
end

--- Closes the device; one that was made for the app is gone then.
function Tap:stop()
   netdev.close(self.fd)
end

local function frame(dst, text)
   return dst .. "\2\0\0\0\0\9\x88\xb5" .. text
end

local function ours(packets)
   local kept = {}
   for _, s in ipairs(packets) do
      if s:sub(7, 14) == "\2\0\0\0\0\9\x88\xb5" then kept[#kept + 1] = s end
   end
   return kept
end

local function same(got, expected)
   assert(#got == #expected, #got)
   for k, s in ipairs(expected) do assert(got[k] == s, k) end
end

local function is(c, name, n)
   assert(counter.read(c[name]) == n, name)
end

-- A packet socket stands for the host.
local function test_device()
   local config = require("core.config")
   local test, RawSocket = require("apps.test.harness"), require("apps.socket.raw").RawSocket
   local c = config.new()
   config.app(c, "tap", Tap, {name = "perigee0", mtu = 2014})
   config.app(c, "in", test.Feed)
   config.app(c, "out", test.Collect)
   config.link(c, "in.output -> tap.input")
   config.link(c, "tap.output -> out.input")
   engine.configure(c)
   config.app(c, "host", RawSocket, "perigee0")
   config.app(c, "host_in", test.Feed)
   config.app(c, "host_out", test.Collect)
   config.link(c, "host_in.output -> host.rx")
   config.link(c, "host.tx -> host_out.input")
   engine.configure(c)
   local apps = engine.app_table
   local to_host = {frame("\2\0\0\0\0\1", ("x"):rep(2000)), frame(("\xff"):rep(6), "all")}
   local from_host = {frame("\2\0\0\0\0\1", "one"), frame("\1\0\x5e\0\0\1", ("y"):rep(1986))}
   for k = 1, 2 do
      apps["in"].queue[k], apps.host_in.queue[k] = to_host[k], from_host[k]
   end
   for _ = 1, 20 do engine.breathe() end
   same(ours(apps.out.got), from_host)
   same(ours(apps.host_out.got), to_host)
   local counters = apps.tap.shm
   for name, n in pairs({txpackets = 2, txbytes = 2014 + 17, txmcast = 1, txbcast = 1, txdrop = 0, mtu = 2014,
                         status = 1}) do
      is(counters, name, n)
   end
   assert(counter.read(counters.rxpackets) >= 2 and netdev.mtu(netdev.request("perigee0")) == 2000)
   local ok, err = pcall(Tap.new, Tap, {name = "perigee0", mtu_set = false})
   assert(not ok, err)
   netdev.up(netdev.request("perigee0"), false)
   apps.tap:status()
   is(counters, "status", 2)
   apps["in"].queue[1], apps["in"].queue[2] = frame("\2\0\0\0\0\1", "down"), "short"
   engine.breathe()
   is(counters, "txdrop", 2)
   engine.configure(config.new())
   assert(not netdev.index("perigee0"))
   return true
end

--- Sends frames both ways, in a network namespace of its own.
function M.selftest()
   for _, bad_conf in ipairs({"", "a name that is too long", {mtu = 1500}, {name = "x", sise = 1}}) do
      assert(not pcall(Tap.new, Tap, bad_conf))
   end
   local fd, why = netdev.open("/dev/net/tun")
   if fd then
      netdev.close(fd)
      fd, why = netdev.in_namespace(test_device)
   end
   if not fd then
      print("skipped: no tap device: " .. why)
      main.exit(43)
   end
end

return M
