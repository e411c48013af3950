-- SPDX-License-Identifier: MIT
-- apps.dpdk.flow: what a card looks at in a frame to choose a queue: the destination's MAC address, the VLAN (IEEE
-- 802.1Q), and a hash of addresses and TCP or UDP ports, the same for both directions of a flow. Not part of Snabb, whose
-- cards do it.

local ffi = require("ffi")
local bit = require("bit")
local lib = require("core.lib")
local packet = require("core.packet")
local band, bor, bxor, lshift, rshift, tobit = bit.band, bit.bor, bit.bxor, bit.lshift, bit.rshift, bit.tobit

local M = {}

local words = ffi.typeof("uint16_t *")
local long_words = ffi.typeof("uint32_t *")

local VLAN, IPV4, IPV6 = lib.htons(0x8100), lib.htons(0x0800), lib.htons(0x86dd)
local QINQ = lib.htons(0x88a8)
local TCP, UDP = 6, 17

--- The MAC address of 6 bytes at *at*, a number by which addresses can be compared.
function M.mac_at (at)
   local w = ffi.cast(words, at)
   return w[0] + w[1] * 65536 + w[2] * 4294967296
end

--- The same of a text such as "02:00:00:00:00:01". Errors if it is none.
function M.mac (text)
   local bytes, n = ffi.new("uint8_t[6]"), 0
   local plain = type(text) == "string" and text:match("^%x%x:%x%x:%x%x:%x%x:%x%x:%x%x$")
   if not plain then error("mac: expected an address such as 02:00:00:00:00:01, got "..tostring(text), 0) end
   for pair in text:gmatch("%x%x") do
      bytes[n] = tonumber(pair, 16)
      n = n + 1
   end
   return M.mac_at(bytes)
end

--- The VLAN of a frame: 0 if it has no tag, or only a priority.
function M.vlan (p)
   if p.length < 18 then return 0 end
   local w = ffi.cast(words, p.data)
   return w[6] == VLAN and band(lib.ntohs(w[7]), 0xfff) or 0
end

-- Spreads what is in the bits of a word over all of them (the end of Jenkins's one-at-a-time hash).
local function mixed (h)
   h = tobit(h + lshift(h, 10))
   h = bxor(h, rshift(h, 6))
   h = tobit(h + lshift(h, 3))
   h = bxor(h, rshift(h, 11))
   return (tobit(h + lshift(h, 15)))
end

-- Of two values, the same whichever comes first.
local function either_way (a, b)
   a, b = mixed(tobit(a)), mixed(tobit(b))
   return (bxor(tobit(a + b), lshift(bxor(a, b), 7)))
end

local function with_ports (h, protocol, data, at, length)
   if (protocol ~= TCP and protocol ~= UDP) or at + 4 > length then return (mixed(h)) end
   local ports = ffi.cast(words, data + at)
   return (mixed(bxor(mixed(h), either_way(ports[0], ports[1]))))
end

local function ipv4_hash (data, at, length)
   if at + 20 > length then return nil end
   local addresses = ffi.cast(long_words, data + at + 12)
   local h = either_way(addresses[0], addresses[1])
   -- Fragments have no ports, or only the first has: all go by their addresses.
   if band(data[at + 6], 0x3f) ~= 0 or data[at + 7] ~= 0 then return (mixed(h)) end
   return (with_ports(h, data[at + 9], data, at + band(data[at], 15) * 4, length))
end

local function ipv6_hash (data, at, length)
   if at + 40 > length then return nil end
   local from, to = ffi.cast(long_words, data + at + 8), ffi.cast(long_words, data + at + 24)
   local a, b = 0, 0
   for i = 0, 3 do
      a, b = mixed(bxor(a, tobit(from[i]))), mixed(bxor(b, tobit(to[i])))
   end
   return (with_ports(either_way(a, b), data[at + 6], data, at + 40, length))
end

--- A number from 0 to 2^31 - 1 for the flow that a frame belongs to; nil if it is not IP.
function M.hash (p)
   local data, length, at = p.data, p.length, 12
   while at + 2 <= length do
      local kind = ffi.cast(words, data + at)[0]
      local h
      if kind == IPV4 then
         h = ipv4_hash(data, at + 2, length)
      elseif kind == IPV6 then
         h = ipv6_hash(data, at + 2, length)
      elseif (kind == VLAN or kind == QINQ) and at < 20 then
         at = at + 4
      else
         return nil
      end
      if kind == IPV4 or kind == IPV6 then return h and band(h, 0x7fffffff) end
   end
   return nil
end

local function frame (tag, source, destination, ports, protocol)
   local ethertype = (tag and "\129\0"..tag or "").."\8\0"
   return ("abcdef"):rep(2)..ethertype.."\69\0\0\40\0\0\0\0\64"..string.char(protocol or 17).."\0\0"..source..destination..ports
             ..("\0"):rep(20)
end

local function hash_of (bytes)
   local p = packet.from_string(bytes)
   local h = M.hash(p)
   packet.free(p)
   return h
end

local function test_hash ()
   local there = hash_of(frame(nil, "\10\0\0\1", "\10\0\0\2", "\0\80\1\1"))
   assert(there and there == hash_of(frame(nil, "\10\0\0\2", "\10\0\0\1", "\1\1\0\80"))) -- back
   assert(there == hash_of(frame("\0\7", "\10\0\0\1", "\10\0\0\2", "\0\80\1\1"))) -- tagged
   assert(there ~= hash_of(frame(nil, "\10\0\0\1", "\10\0\0\2", "\0\80\1\2")))
   -- Other protocols have no ports.
   assert(hash_of(frame(nil, "\10\0\0\1", "\10\0\0\2", "\0\80\1\2", 1)) ==
          hash_of(frame(nil, "\10\0\0\1", "\10\0\0\2", "\1\80\1\2", 1)))
   assert(hash_of("short") == nil and hash_of(("x"):rep(60)) == nil)
   assert(hash_of(("a"):rep(12).."\8\0".."\69") == nil)
   local six = ("a"):rep(12).."\134\221\96\0\0\0\0\8\17\64"..("1"):rep(16)..("2"):rep(16).."\0\1\0\2"
   local back = ("a"):rep(12).."\134\221\96\0\0\0\0\8\17\64"..("2"):rep(16)..("1"):rep(16).."\0\2\0\1"
   assert(hash_of(six) and hash_of(six) == hash_of(back))
end

-- Many flows over a few queues: each gets its share.
local function test_spread ()
   for queues = 2, 5 do
      local n = {}
      for i = 0, 1999 do
         local h = hash_of(frame(nil, "\10\0"..string.char(math.floor(i / 250), i % 250), "\10\1\0\2", "\0\80\1\1"))
         n[h % queues] = (n[h % queues] or 0) + 1
      end
      for queue = 0, queues - 1 do
         assert(n[queue] > 0.7 * 2000 / queues, ("queue %d of %d: %d"):format(queue, queues, n[queue] or 0))
      end
   end
end

function M.selftest ()
   assert(M.mac("01:02:03:04:05:06") == M.mac_at(ffi.cast("uint8_t *", "\1\2\3\4\5\6")))
   assert(M.mac("ff:ff:ff:ff:ff:ff") == 2 ^ 48 - 1 and not pcall(M.mac, "01:02") and not pcall(M.mac, 7))
   local p = packet.from_string(frame("\32\7", "\10\0\0\1", "\10\0\0\2", "\0\0\0\0"))
   assert(M.vlan(p) == 7 and bor(0, 0) == 0)
   packet.free(p)
   p = packet.from_string(frame(nil, "\10\0\0\1", "\10\0\0\2", "\0\0\0\0"))
   assert(M.vlan(p) == 0)
   packet.free(p)
   test_hash()
   test_spread()
end

return M
