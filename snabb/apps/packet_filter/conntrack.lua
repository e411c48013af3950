-- SPDX-License-Identifier: MIT
--
-- apps.packet_filter.conntrack: named tables of flows, so that a filter lets answers through.
--
-- A flow is the two addresses, the protocol and, for TCP and UDP, the two ports, in either direction: both have one
-- entry. A table is two generations: what is tracked or used goes to the young one; each `agestep` seconds, or when it
-- is full, the young one becomes the old one and what was old is forgotten. So a flow lives for one to two steps after
-- its last packet.
--
-- What differs from Snabb: a packet of a flow keeps it alive; a table forgets by itself, and holds no more than 2 *
-- max_flows flows; IPv4 options and IPv6 extension headers are passed over; fragments without ports belong to no flow;
-- lengths are checked where they are given.

local ffi = require("ffi")
local ctable = require("lib.ctable")
local engine = require("core.app")

ffi.cdef("int memcmp(const void *a, const void *b, size_t n);")

local C = ffi.C

local M = {}

--- The most flows in one generation of a table that is defined from now on.
M.max_flows = 500000

local default_agestep = 7200
local ipv4_ethertype, ipv6_ethertype = 0x0800, 0x86dd
local tcp, udp, fragment = 6, 17, 44

-- a is the end whose address and port come first, as bytes compare.
local ends = "struct { uint8_t a[%d], b[%d]; uint16_t a_port, b_port; uint8_t protocol, unused[3]; }"
local key_types = {[4] = ffi.typeof(ends:format(4, 4)), [16] = ffi.typeof(ends:format(16, 16))}
local value_type = ffi.typeof("struct { uint8_t flags; }")
local one = value_type(1)

-- Keys that spec() fills, again and again.
local keys = {[4] = key_types[4](), [16] = key_types[16]()}

local tables = {}

local function new_generation()
   local function new(size)
      return ctable.new({key_type = key_types[size], value_type = value_type, initial_size = 1024})
   end
   return {[4] = new(4), [16] = new(16), count = 0}
end

local function new_table(agestep)
   return {young = new_generation(), old = new_generation(), agestep = agestep, due = engine.now() + agestep,
           max = M.max_flows}
end

local function rotate(t)
   t.young, t.old = new_generation(), t.young
   t.due = engine.now() + t.agestep
end

local function get(name)
   local t = tables[name]
   if not t then error(("conntrack: table '%s' is not defined"):format(tostring(name)), 3) end
   if engine.now() > t.due then rotate(t) end
   return t
end

local function rd16(p, at) return p[at] * 256 + p[at + 1] end

-- Returns the offset of the header behind IPv6 extension headers and its protocol; nil if there is none within
-- `length`.
local function skip_extensions(p, at, protocol, length)
   for _ = 1, 8 do
      if protocol == 0 or protocol == 43 or protocol == 60 then -- hop-by-hop options, routing, destination options
         if at + 8 > length then return nil end
         protocol, at = p[at], at + 8 + 8 * p[at + 1]
      elseif protocol == fragment then
         -- Only what is whole is one packet of a flow (RFC 6946: offset 0, no more fragments).
         if at + 8 > length or rd16(p, at + 2) >= 8 or p[at + 3] % 2 == 1 then return nil end
         protocol, at = p[at], at + 8
      else
         return at, protocol
      end
   end
end

-- Fills the key of `size`-byte addresses; `src`, `dst` point to the addresses, `at` is the offset of the ports.
local function fill(p, size, src, dst, at, protocol, length)
   local key = keys[size]
   local a_port, b_port = 0, 0
   if protocol == tcp or protocol == udp then
      if at + 4 > length then return nil end
      a_port, b_port = rd16(p, at), rd16(p, at + 2)
   end
   local order = C.memcmp(src, dst, size)
   if order > 0 or (order == 0 and a_port > b_port) then
      src, dst, a_port, b_port = dst, src, b_port, a_port
   end
   ffi.copy(key.a, src, size)
   ffi.copy(key.b, dst, size)
   key.a_port, key.b_port, key.protocol = a_port, b_port, protocol
   return size
end

-- Puts the flow of a packet into a key. Returns the size of the addresses (which says which key), or nil if it has
-- none.
local function parse(p, length)
   if length < 34 then return nil end
   local ethertype = rd16(p, 12)
   if ethertype == ipv4_ethertype then
      local header = p[14] % 16 * 4
      if header < 20 or rd16(p, 20) % 0x4000 ~= 0 then return nil end -- a fragment
      return fill(p, 4, p + 26, p + 30, 14 + header, p[23], length)
   elseif ethertype == ipv6_ethertype and length >= 54 then
      local at, protocol = skip_extensions(p, 54, p[20], length)
      if not at then return nil end
      return fill(p, 16, p + 22, p + 38, at, protocol, length)
   end
end

local function put(t, size)
   local young = t.young
   if young[size]:lookup_ptr(keys[size]) then return end
   if young.count >= t.max then
      rotate(t)
      young = t.young
   end
   young[size]:add(keys[size], one)
   young.count = young.count + 1
end

local function known(t, size)
   if t.young[size]:lookup_ptr(keys[size]) then return true end
   if not t.old[size]:lookup_ptr(keys[size]) then return false end
   put(t, size) -- It is in use: it moves to the young generation.
   return true
end

--- Defines the table `name` unless there is one. Flows are forgotten when unused for `agestep` seconds (7200 by
--- default) to twice that.
function M.define(name, agestep)
   tables[name] = tables[name] or new_table(agestep or default_agestep)
end

--- Notes the flow of a packet in the table `name`. `buffer` points to an Ethernet frame; `length` is its length in
--- bytes (without it, the headers are read whatever they say). Returns whether it has a flow.
function M.track(name, buffer, length)
   local t, size = get(name), parse(buffer, length or math.huge)
   if not size then return false end
   put(t, size)
   return true
end

--- Returns whether the flow of a packet is in the table `name`. Arguments as for track.
function M.check(name, buffer, length)
   local t, size = get(name), parse(buffer, length or math.huge)
   return size ~= nil and known(t, size)
end

local Spec = {}
Spec.__index = Spec
local the_spec = setmetatable({}, Spec)

--- Returns the flow of a packet as an object with the methods check(name) and track(name), or nil if it has none. It is
--- valid until the next call of a function of this module with a packet. Arguments as for track.
function M.spec(buffer, length)
   the_spec.size = parse(buffer, length or math.huge)
   return the_spec.size and the_spec
end

--- Returns whether the flow is in the table `name`.
function Spec:check(name)
   return known(get(name), self.size)
end

--- Notes the flow in the table `name`.
function Spec:track(name)
   put(get(name), self.size)
end

--- Forgets what the table `name` has not seen for long enough.
function M.age(name)
   get(name)
end

--- Does that for all tables.
function M.ageall()
   for name in pairs(tables) do get(name) end
end

--- Forgets all tables.
function M.clear()
   tables = {}
end

--- Returns the number of flows in the table `name`.
function M.count(name)
   local t = get(name)
   local n = t.young.count
   for _, size in ipairs({4, 16}) do
      for entry in t.old[size]:iterate() do
         if not t.young[size]:lookup_ptr(entry.key) then n = n + 1 end
      end
   end
   return n
end

local function text(bytes, n)
   local parts = {}
   for k = 0, n - 1 do
      parts[#parts + 1] = n == 4 and tostring(bytes[k]) or ("%02x"):format(bytes[k])
   end
   if n == 4 then return table.concat(parts, ".") end
   return (table.concat(parts):gsub("(%x%x%x%x)", "%1:"):sub(1, -2))
end

--- Prints all flows of all tables.
function M.dump()
   for name, t in pairs(tables) do
      print(("---- %s -----"):format(name))
      for _, generation in ipairs({"young", "old"}) do
         for _, size in ipairs({4, 16}) do
            for entry in t[generation][size]:iterate() do
               local k = entry.key
               print(("%s [%d] %s/%d - %s/%d"):format(generation, k.protocol, text(k.a, size), k.a_port,
                                                      text(k.b, size),
                                                     k.b_port))
            end
         end
      end
   end
end

local macs = "\2\0\0\0\0\1\2\0\0\0\0\2"

local function word(n) return string.char(math.floor(n / 256), n % 256) end

-- An IPv4 packet; `options` and `offset` for unusual ones.
local function packet4(src, dst, protocol, sport, dport, options, offset)
   options = options or ""
   return macs .. "\8\0" .. string.char(0x45 + #options / 4) .. "\0\0\40\0\0" .. word(offset or 0) .. "\64" ..
      string.char(protocol) .. "\0\0\10\0\0" .. string.char(src) .. "\10\0\0" .. string.char(dst) .. options ..
      word(sport) .. word(dport) .. ("\0"):rep(16)
end

local function packet6(src, dst, extensions, protocol, sport, dport)
   local address = "\x20\1\13\xb8" .. ("\0"):rep(11)
   return macs .. "\x86\xdd\x60\0\0\0\0\40" .. string.char(extensions == "" and protocol or 0) .. "\64" ..
      address .. string.char(src) .. address .. string.char(dst) .. extensions .. word(sport) .. word(dport) ..
         ("\0"):rep(16)
end

local function test_flows(check, track)
   track(packet4(1, 2, tcp, 1000, 80))
   assert(check(packet4(1, 2, tcp, 1000, 80)) and check(packet4(2, 1, tcp, 80, 1000)))
   assert(not check(packet4(2, 1, tcp, 1000, 80)) and not check(packet4(1, 2, udp, 1000, 80)))
   assert(not check(packet4(1, 3, tcp, 1000, 80)) and not check(packet4(1, 2, tcp, 1000, 81)))
   assert(check(packet4(1, 2, tcp, 1000, 80, "\1\1\1\1\1\1\1\1")))
   assert(not check(packet4(1, 2, tcp, 1000, 80, "", 5)) and not check(packet4(1, 2, tcp, 1000, 80, "", 0x2000)))
   assert(check(packet4(1, 2, tcp, 1000, 80, "", 0x4000))) -- don't fragment
   track(packet4(7, 7, udp, 5, 4))
   assert(check(packet4(7, 7, udp, 4, 5)))
   track(packet4(1, 2, 1, 0x800, 0)) -- ICMP: no ports
   assert(check(packet4(2, 1, 1, 0, 0)))
   local hop, whole = string.char(tcp) .. "\0\0\0\0\0\0\0", "\44\0\0\0\0\0\0\0" .. string.char(tcp) .. "\0\0\0\0\0\0\9"
   track(packet6(1, 2, "", tcp, 1000, 80))
   assert(check(packet6(2, 1, "", tcp, 80, 1000)) and not check(packet6(2, 1, "", tcp, 80, 1001)))
   assert(check(packet6(2, 1, hop, tcp, 80, 1000)) and check(packet6(2, 1, whole, tcp, 80, 1000)))
   assert(not check(packet6(2, 1, "\44\0\0\0\0\0\0\0\6\0\0\1\0\0\0\9", tcp, 80, 1000)))
   assert(not check(packet6(2, 1, "", tcp, 80, 1000):sub(1, 57)) and not check("short"))
   assert(not check(packet6(2, 1, "\6\255\0\0\0\0\0\0", tcp, 80, 1000)))
end

--- Tracks flows of both kinds, in both directions, lets them age, and fills a table.
function M.selftest()
   local saved, saved_max, real_now, time = tables, M.max_flows, engine.now, 1000
   engine.now = function () return time end
   tables, M.max_flows = {}, 100
   local function bytes(s) return ffi.cast("const uint8_t *", s), #s end
   local function check(s) return M.check("t", bytes(s)) end
   local function track(s) return M.track("t", bytes(s)) end
   M.define("t", 10)
   test_flows(check, track)
   assert(M.count("t") == 4)
   time = time + 11
   assert(check(packet4(1, 2, tcp, 1000, 80)))
   time = time + 11
   assert(check(packet4(1, 2, tcp, 1000, 80)) and not check(packet6(1, 2, "", tcp, 1000, 80)) and M.count("t") == 1)
   time = time + 11
   M.ageall()
   time = time + 11
   M.age("t")
   assert(M.count("t") == 0)
   M.define("t", 1000)
   for port = 1, 1000 do
      assert(M.spec(bytes(packet4(1, 2, udp, port, 53)))):track("t")
      assert(M.count("t") <= 200)
   end
   assert(M.spec(bytes(packet4(2, 1, udp, 53, 1000))):check("t"))
   assert(not M.spec(bytes("x")))
   assert(not pcall(M.check, "undefined", bytes("x")))
   M.clear()
   assert(not pcall(M.check, "t", bytes("x")))
   tables, M.max_flows, engine.now = saved, saved_max, real_now
end

return M
