-- SPDX-License-Identifier: MIT
--
-- apps.socket.netdev: Linux's network devices as apps.socket.raw and apps.tap.tap need them: packet(7), netdevice(7),
-- tun devices, and network namespaces for tests. Snabb has no such module.

local bit = require("bit")
local counter = require("core.counter")
local ffi = require("ffi")

ffi.cdef[[
int     perigee_net_socket(int domain, int type, int protocol) __asm__("socket");
int     perigee_net_bind(int fd, const void *address, uint32_t length) __asm__("bind");
int     perigee_net_ioctl(int fd, unsigned long request, void *argument) __asm__("ioctl");
int     perigee_net_setsockopt(int fd, int level, int name, const void *value, uint32_t length) __asm__("setsockopt");
int64_t perigee_net_recvmsg(int fd, void *message, int flags) __asm__("recvmsg");
int64_t perigee_net_read(int fd, void *buffer, size_t n) __asm__("read");
int64_t perigee_net_write(int fd, const void *buffer, size_t n) __asm__("write");
int     perigee_net_open(const char *path, int flags, int mode) __asm__("open");
int     perigee_net_close(int fd) __asm__("close");
int     perigee_net_unshare(int flags) __asm__("unshare");
int     perigee_net_setns(int fd, int type) __asm__("setns");
char   *perigee_net_strerror(int number) __asm__("strerror");
struct perigee_net_ifreq {
   char name[16];
   union { int16_t flags; int32_t number; struct { uint16_t family; uint8_t address[14]; } hardware; uint8_t all[24]; };
};
]]

local C = ffi.C

local M = {}

--- Error numbers of Linux.
M.errno = {EINTR = 4, EIO = 5, EAGAIN = 11, EINVAL = 22, EMSGSIZE = 90, ENETDOWN = 100, ENOBUFS = 105}

local AF_INET, SOCK_DGRAM, O_RDWR, O_NONBLOCK, O_CLOEXEC = 2, 2, 2, 0x800, 0x80000
local SIOCGIFFLAGS, SIOCSIFFLAGS, SIOCGIFMTU, SIOCSIFMTU = 0x8913, 0x8914, 0x8921, 0x8922
local SIOCGIFHWADDR, SIOCGIFINDEX, TUNSETIFF = 0x8927, 0x8933, 0x400454ca
local IFF_UP, IFF_TAP, IFF_NO_PI = 1, 2, 0x1000
local ARPHRD_ETHER, ARPHRD_LOOPBACK = 1, 772
local CLONE_NEWNET = 0x40000000

--- Returns the text of an error number (that of the last call by default).
function M.strerror(number)
   return ffi.string(C.perigee_net_strerror(number or ffi.errno()))
end

--- Closes a file descriptor.
function M.close(fd)
   C.perigee_net_close(fd)
end

--- Opens the file `path` for reading and writing, without blocking. Returns the descriptor, or nil and the reason.
function M.open(path)
   local fd = C.perigee_net_open(path, bit.bor(O_RDWR, O_NONBLOCK, O_CLOEXEC), 0)
   if fd < 0 then return nil, M.strerror() end
   return fd
end

--- Returns a request about the device `name`. Throws if that cannot be a device's name.
function M.request(name)
   if type(name) ~= "string" or #name < 1 or #name > 15 or name:find("[/%s%z:]") then
      error(("expected the name of a network device (1 to 15 bytes), got %s"):format(tostring(name)), 3)
   end
   local r = ffi.new("struct perigee_net_ifreq")
   ffi.copy(r.name, name)
   return r
end

-- One ioctl about a device, by the socket `fd` or one that lives as long.
local function ioctl(fd, request, r)
   local own = fd or C.perigee_net_socket(AF_INET, bit.bor(SOCK_DGRAM, O_CLOEXEC), 0)
   if own < 0 then return nil, M.strerror() end
   local result = C.perigee_net_ioctl(own, request, r)
   local why = result < 0 and M.strerror()
   if not fd then C.perigee_net_close(own) end
   if why then return nil, why end
   return true
end

local function must(what, r, ok, why)
   if not ok then error(("%s of %s: %s"):format(what, ffi.string(r.name), why), 3) end
end

--- Returns the index of the device `name`, or nil and the reason.
function M.index(name)
   local r = M.request(name)
   local ok, why = ioctl(nil, SIOCGIFINDEX, r)
   if not ok then return nil, why end
   return r.number
end

--- Returns whether the device of the request `r` is up; sets it up or down first if `up` is a boolean. `fd` (optional)
--- is any socket. Throws if that fails.
function M.up(r, up, fd)
   must("flags", r, ioctl(fd, SIOCGIFFLAGS, r))
   if up ~= nil then
      r.flags = up and bit.bor(r.flags, IFF_UP) or bit.band(r.flags, bit.bnot(IFF_UP))
      must("flags", r, ioctl(fd, SIOCSIFFLAGS, r))
   end
   return bit.band(r.flags, IFF_UP) ~= 0
end

--- Returns the MTU in bytes, without the Ethernet header, of the device of the request `r`; sets it first if `mtu` is
--- given.
function M.mtu(r, mtu, fd)
   if mtu then
      r.number = mtu
      must("MTU " .. mtu, r, ioctl(fd, SIOCSIFMTU, r))
   end
   must("MTU", r, ioctl(fd, SIOCGIFMTU, r))
   return r.number
end

--- Returns the MAC address of the device of the request `r`, as an array of 6 bytes. Throws if it has none.
function M.mac(r, fd)
   must("hardware address", r, ioctl(fd, SIOCGIFHWADDR, r))
   local family = r.hardware.family
   if family ~= ARPHRD_ETHER and family ~= ARPHRD_LOOPBACK then
      error(("%s is not of type Ethernet: %d"):format(ffi.string(r.name), family))
   end
   local mac = ffi.new("uint8_t[6]")
   ffi.copy(mac, r.hardware.address, 6)
   return mac
end

--- Opens the tap device `name`, which is made if it is not there. Returns a descriptor, or nil and the reason.
function M.open_tap(name)
   local r = M.request(name)
   local fd, why = M.open("/dev/net/tun")
   if not fd then return nil, "cannot open /dev/net/tun: " .. why end
   r.flags = IFF_TAP + IFF_NO_PI
   local ok
   ok, why = ioctl(fd, TUNSETIFF, r)
   if ok then return fd end
   M.close(fd)
   return nil, ("TUNSETIFF of %s: %s"):format(name, why)
end

--- Runs `f` in a new network namespace, whose device lo is up, and returns what it returns; then goes back to the old
--- one. Returns nil and the reason if there can be none. For tests.
function M.in_namespace(f)
   local old = C.perigee_net_open("/proc/thread-self/ns/net", O_CLOEXEC, 0)
   if old < 0 then return nil, "/proc/thread-self/ns/net: " .. M.strerror() end
   if C.perigee_net_unshare(CLONE_NEWNET) ~= 0 then
      local why = "unshare: " .. M.strerror()
      M.close(old)
      return nil, why
   end
   local results = {pcall(function ()
      M.up(M.request("lo"), true)
      return f()
   end)}
   assert(C.perigee_net_setns(old, CLONE_NEWNET) == 0, "setns failed")
   M.close(old)
   if not results[1] then error(results[2], 0) end
   return unpack(results, 2)
end

--- Runs a selftest's `f` in a new network namespace; where there can be none, ends the selftest as skipped.
function M.test_in_namespace(f)
   local ok, why = M.in_namespace(f)
   if not ok then
      print("skipped: no network namespace: " .. why)
      main.exit(43)
   end
end

--- Puts the counters of a device's packets into `shm`, what an app's frame is made of: rx- and txbytes, -packets,
--- -mcast, -bcast; `txdrop`. Returns it.
function M.add_counters(shm)
   for _, dir in ipairs({"rx", "tx"}) do
      for _, what in ipairs({"bytes", "packets", "mcast", "bcast"}) do shm[dir .. what] = {counter} end
   end
   shm.txdrop = {counter}
   return shm
end

-- Counts the frame at `data` if it is sent to a group, or to all.
local function count_group(data, mcast, bcast)
   if data[0] % 2 == 0 then return end
   counter.add(mcast)
   for k = 0, 5 do
      if data[k] ~= 0xff then return end
   end
   counter.add(bcast)
end

--- Counts the packet `p`, which has come in, in the frame of counters `c`.
function M.count_received(c, p)
   counter.add(c.rxbytes, p.length)
   counter.add(c.rxpackets)
   count_group(p.data, c.rxmcast, c.rxbcast)
end

--- Counts the packet `p`, which was sent, in the frame of counters `c`.
function M.count_sent(c, p)
   counter.add(c.txbytes, p.length)
   counter.add(c.txpackets)
   count_group(p.data, c.txmcast, c.txbcast)
end

--- Looks at lo in a namespace of its own.
function M.selftest()
   for _, bad in ipairs({"", "sixteen-bytes-xy", "a b", "a/b", 5}) do assert(not pcall(M.request, bad)) end
   assert(not M.index("nosuchdevice"))
   M.test_in_namespace(function ()
      local r = M.request("lo")
      assert(M.up(r) and M.index("lo") == 1 and M.mac(r)[5] == 0)
      assert(M.mtu(r, 9000) == 9000 and M.mtu(r) == 9000)
      assert(not M.up(r, false) and not M.up(r))
      assert(not pcall(M.mtu, r, -1) and not pcall(M.up, M.request("nosuchdevice")))
      return true
   end)
end

return M
