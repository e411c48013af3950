-- SPDX-License-Identifier: MIT
--
-- apps.socket.raw: a network device of Linux through a packet socket (packet(7)).
--
-- What differs from Snabb: VLAN tags, which Linux takes out of what it receives, are put back; packets that the device
-- refuses (longer than its MTU, shorter than a header, or while it is down) are freed and counted in `txdrop`, where
-- Snabb threw.

local bit = require("bit")
local counter = require("core.counter")
local engine = require("core.app")
local ffi = require("ffi")
local link = require("core.link")
local netdev = require("apps.socket.netdev")
local packet = require("core.packet")

ffi.cdef[[
void *memmove(void *to, const void *from, size_t n);
struct perigee_net_sockaddr_ll {
   uint16_t family, protocol; int32_t index; uint16_t hatype; uint8_t pkttype, halen, address[8];
};
struct perigee_net_iovec { void *base; size_t length; };
struct perigee_net_msghdr {
   void *name; uint32_t name_length; struct perigee_net_iovec *iov; size_t iov_length;
   void *control; size_t control_length; int32_t flags;
};
// One control message: its header and a struct tpacket_auxdata (linux/if_packet.h).
struct perigee_net_auxdata {
   size_t length; int32_t level, type;
   uint32_t status, packet_length, snapshot_length; uint16_t mac, net, vlan_tci, vlan_tpid;
};
]]

local C = ffi.C
local errno = netdev.errno

local AF_PACKET, SOCK_RAW, SOCK_NONBLOCK, SOCK_CLOEXEC = 17, 3, 0x800, 0x80000
local ETH_P_ALL = 0x0300 -- in network order
local SOL_PACKET, PACKET_AUXDATA, MSG_TRUNC = 263, 8, 0x20
local TP_STATUS_VLAN_VALID, TP_STATUS_VLAN_TPID_VALID = 0x10, 0x40

local M = {}

--- RawSocket: sends the packets from its link `rx` to a network device, and what that receives to its link `tx`.
--- Argument: the device's name. Counters: rx- and txbytes, -packets, -mcast, -bcast; `txdrop`, packets that the device
--- refused.
M.RawSocket = {}
local RawSocket = M.RawSocket

local function open_socket(ifname)
   local index, why = netdev.index(ifname)
   if not index then error(("RawSocket: %s: %s"):format(ifname, why), 3) end
   local fd = C.perigee_net_socket(AF_PACKET, bit.bor(SOCK_RAW, SOCK_NONBLOCK, SOCK_CLOEXEC), ETH_P_ALL)
   if fd < 0 then error("RawSocket: cannot make a packet socket: " .. netdev.strerror(), 3) end
   local address = ffi.new("struct perigee_net_sockaddr_ll", {family = AF_PACKET, protocol = ETH_P_ALL, index = index})
   local one = ffi.new("int[1]", 1)
   if C.perigee_net_bind(fd, address, ffi.sizeof(address)) ~= 0 or
      C.perigee_net_setsockopt(fd, SOL_PACKET, PACKET_AUXDATA, one, ffi.sizeof(one)) ~= 0 then
      why = netdev.strerror()
      netdev.close(fd)
      error(("RawSocket: %s: %s"):format(ifname, why), 3)
   end
   return fd
end

--- Opens a socket on the device `ifname`. Throws if there is no such device, or that is not allowed.
function RawSocket:new(ifname)
   local o = setmetatable({fd = open_socket(ifname), shm = netdev.add_counters({})}, {__index = RawSocket})
   o.iov = ffi.new("struct perigee_net_iovec")
   o.aux = ffi.new("struct perigee_net_auxdata")
   o.message = ffi.new("struct perigee_net_msghdr", {iov = o.iov, iov_length = 1, control = o.aux})
   return o
end

-- Puts the tag back that Linux took out.
local function put_tag(p, aux)
   local tpid = bit.band(aux.status, TP_STATUS_VLAN_TPID_VALID) ~= 0 and aux.vlan_tpid or 0x8100
   p = packet.shiftright(p, 4)
   local d = p.data
   C.memmove(d, d + 4, 12)
   d[12], d[13] = bit.rshift(tpid, 8), bit.band(tpid, 0xff)
   d[14], d[15] = bit.rshift(aux.vlan_tci, 8), bit.band(aux.vlan_tci, 0xff)
   return p
end

-- Returns the next packet that has come in; false if the next one is not to be had; nil if there is none.
local function receive(self)
   local p, iov, aux, message = packet.allocate(), self.iov, self.aux, self.message
   -- 4 bytes are left for a tag.
   iov.base, iov.length = p.data, packet.max_payload - 4
   message.control_length = ffi.sizeof(aux)
   aux.type, aux.status = 0, 0
   local n = tonumber(C.perigee_net_recvmsg(self.fd, message, 0))
   if n < 0 then
      local number = ffi.errno()
      packet.free(p)
      -- An error that the device left (it is down) is reported once, then there may be packets again.
      if number == errno.EAGAIN then return nil end
      if number == errno.EINTR or number == errno.ENETDOWN then return false end
      error(("RawSocket '%s': cannot receive: %s"):format(self.appname, netdev.strerror(number)))
   end
   if bit.band(message.flags, MSG_TRUNC) ~= 0 then
      packet.free(p)
      return false
   end
   p.length = n
   local tagged = aux.type == PACKET_AUXDATA and bit.band(aux.status, TP_STATUS_VLAN_VALID) ~= 0
   return tagged and n >= 14 and put_tag(p, aux) or p
end

--- Sends to `tx` what has come in, up to engine.pull_npackets packets.
function RawSocket:pull()
   local l, c = self.output.tx, self.shm
   if not l then return end
   for _ = 1, engine.pull_npackets do
      local p = receive(self)
      if p == nil then return end
      if p then
         netdev.count_received(c, p)
         link.transmit(l, p)
      end
   end
end

-- Whether the device took the packet; nil if it cannot take one now.
local function try(self, p)
   if tonumber(C.perigee_net_write(self.fd, p.data, p.length)) >= 0 then return true end
   local number = ffi.errno()
   if number == errno.EAGAIN or number == errno.ENOBUFS or number == errno.EINTR then return nil end
   if number == errno.EMSGSIZE or number == errno.EINVAL or number == errno.ENETDOWN then return false end
   error(("RawSocket '%s': cannot send: %s"):format(self.appname, netdev.strerror(number)))
end

--- Sends waiting packets on `rx`; when the device can take no more, the rest waits there.
function RawSocket:push()
   local l, c = self.input.rx, self.shm
   if not l then return end
   while not link.empty(l) do
      local p = link.front(l)
      local taken = try(self, p)
      if taken == nil then return end
      if taken then
         netdev.count_sent(c, p)
      else
         counter.add(c.txdrop)
      end
      packet.free(link.receive(l))
   end
end

--- Closes the socket.
function RawSocket:stop()
   netdev.close(self.fd)
end

-- Frames of an Ethernet type for experiments, which Linux itself never sends.
local function frame(dst, text, type)
   return dst .. "\2\0\0\0\0\9" .. (type or "\x88\xb5") .. text
end

local function ours(packets)
   local kept = {}
   for _, s in ipairs(packets) do
      if s:sub(7, 12) == "\2\0\0\0\0\9" then kept[#kept + 1] = s end
   end
   return kept
end

local function test_loopback(harness)
   local h = harness.new(RawSocket, "lo", {"rx"}, {"tx"})
   local frames = {frame("\2\0\0\0\0\1", "one"), frame(("\xff"):rep(6), "all"),
                   frame("\1\0\x5e\0\0\1", ("x"):rep(3000)), frame("\2\0\0\0\0\1", "\0\7\x88\xb5tagged", "\x81\0")}
   h:send("rx", frames)
   for _ = 1, 10 do engine.breathe() end
   local got = ours(h:take("tx"))
   assert(#got == #frames, #got)
   for k, s in ipairs(frames) do assert(got[k] == s, k) end
   local c = h.app.shm
   local function is(name, n) assert(counter.read(c[name]) == n, name) end
   for name, n in pairs({txpackets = 4, txbytes = 17 + 17 + 3014 + 24, txmcast = 2, txbcast = 1, txdrop = 0,
                         rxmcast = 2, rxbcast = 1}) do
      is(name, n)
   end
   h:send("rx", {"short", ("x"):rep(5000)})
   netdev.mtu(netdev.request("lo"), 4000)
   h:send("rx", {frame("\2\0\0\0\0\1", ("x"):rep(4100))})
   netdev.up(netdev.request("lo"), false)
   h:send("rx", {frame("\2\0\0\0\0\1", "down")})
   netdev.up(netdev.request("lo"), true)
   h:send("rx", {frame("\2\0\0\0\0\1", "up again")})
   for _ = 1, 10 do engine.breathe() end
   got = ours(h:take("tx"))
   assert(#got == 1 and got[1]:sub(15) == "up again")
   is("txdrop", 3)
   h:stop()
   return true
end

--- Sends frames over lo, in a network namespace of its own.
function M.selftest()
   local harness = require("apps.test.harness")
   for _, bad in ipairs({"nosuchdevice", "", 5}) do
      local ok, err = pcall(RawSocket.new, RawSocket, bad)
      assert(not ok and tostring(err):match("network device") or tostring(err):match("RawSocket: "), err)
   end
   netdev.test_in_namespace(function () return test_loopback(harness) end)
end

return M
