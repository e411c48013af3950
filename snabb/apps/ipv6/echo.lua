-- SPDX-License-Identifier: MIT
--
-- apps.ipv6.echo: answers pings (RFC 4443, section 4).
--
-- What differs from Snabb: the checksum is adjusted (RFC 1624), not recomputed, so that a damaged request stays damaged;
-- lengths are those of the IPv6 header.

local counter = require("core.counter")
local ffi = require("ffi")
local responder = require("apps.ipv4.responder")
local wire = require("apps.ipv4.wire")

local get16, put16, same = wire.get16, wire.put16, wire.same

local M = {}

--- ICMPEcho: between `south` (the world) and `north`: passes packets on in both directions, but answers echo requests
--- from the south for one of our addresses. Configuration: `address`, an IPv6 address, and `addresses`, an array of
--- them, as arrays of 16 bytes or text. Counters: in- and out-icmpv6-echo-bytes and -packets.
M.ICMPEcho = responder.class("icmpv6")
local ICMPEcho = M.ICMPEcho
--- Adds an address, text or bytes, to those that are answered for.
function ICMPEcho.add_address(addresses, address)
   table.insert(addresses, wire.ipv6("address", address))
end

--- Returns whether the 16 bytes at `dst` are one of our addresses.
function ICMPEcho:address_matches(dst)
   local addresses = self.addresses
   for k = 1, #addresses do
      if same(addresses[k], dst, 16) then return true end
   end
   return false
end

local function is_request(self, p)
   local d = p.data
   if p.length < 54 + 8 or get16(d, 12) ~= 0x86dd or d[20] ~= 58 or d[54] ~= 128 or d[55] ~= 0 then return false end
   local payload = get16(d, 18)
   return d[14] >= 0x60 and d[14] < 0x70 and payload >= 8 and payload <= p.length - 54 and self:address_matches(d + 38)
end

local scratch = ffi.new("uint8_t[16]")

--- If the packet `p` is an echo request for us, makes it the answer and returns true.
function ICMPEcho:make_answer(p)
   if not is_request(self, p) then return false end
   local d = p.data
   ffi.copy(scratch, d, 6)
   ffi.copy(d, d + 6, 6)
   ffi.copy(d + 6, scratch, 6)
   ffi.copy(scratch, d + 22, 16)
   ffi.copy(d + 22, d + 38, 16)
   ffi.copy(d + 38, scratch, 16)
   d[21] = 64
   d[54] = 129
   -- The first word is more by 0x0100, the checksum less, in ones' complement.
   local sum = get16(d, 56) + 0xfeff
   if sum > 0xffff then sum = sum - 0xffff end
   put16(d, 56, sum)
   return true
end

local function message(macs, type, src, dst, data, changes)
   local icmp = string.char(type) .. "\0\0\0\x12\x34\0\1" .. data
   local s = macs .. "\x86\xdd\x60\0\0\0" .. string.char(math.floor(#icmp / 256), #icmp % 256) .. "\58\64" .. src ..
      dst .. icmp
   local p = ffi.new("uint8_t[?]", #s)
   ffi.copy(p, s, #s)
   for at, byte in pairs(changes or {}) do p[at] = byte end
   put16(p, 56, wire.icmp6_checksum(p + 14, p + 54, #icmp))
   return ffi.string(p, #s)
end

--- Pings: for us and not, with padding, and damaged.
function M.selftest()
   local harness = require("apps.test.harness")
   local function address(n) return ffi.string(wire.ipv6("a", "2001:db8::" .. n), 16) end
   local me, me2, you = address(1), address(2), address(9)
   local h = harness.new(ICMPEcho, {address = wire.ipv6("a", me), addresses = {"2001:db8::2"}},
                         {"north", "south"}, {"north", "south"})
   local there, back = "\2\0\0\0\0\1\2\0\0\0\0\2", "\2\0\0\0\0\2\2\0\0\0\0\1"
   local function request(...) return message(there, 128, ...) end
   local function answer(...) return message(back, 129, ...) end
   h:send("south", {request(you, me, "abc"), request(you, me2, ""), request(you, me, "x") .. "\0\0\0\0padding"})
   h:expect("south", {answer(me, you, "abc"), answer(me2, you, ""), answer(me, you, "x") .. "\0\0\0\0padding"})
   for n = 0, 0xffff, 61 do -- checksums of every kind
      local word = string.char(math.floor(n / 256), n % 256)
      h:send("south", {request(you, me, word)})
      h:expect("south", {answer(me, you, word)})
   end
   h:send("south", {request(you, me, "good"):sub(1, -5) .. "evil"})
   local p = ffi.cast("const uint8_t *", h:take("south")[1])
   assert(wire.icmp6_checksum(p + 14, p + 54, 12) ~= 0)
   local others = {request(you, address(3), ""), message(there, 129, you, me, "a reply"),
                   request(you, me, "x", {[20] = 17}), request(you, me, "x", {[55] = 1}),
                   request(you, me, "x", {[19] = 60}), request(you, me, ""):sub(1, 61),
                   request(you, me, "x", {[14] = 0x45}), "short"}
   h:send("south", others)
   h:expect("south", {})
   h:expect("north", others)
   h:send("north", {"out"})
   h:expect("south", {"out"})
   assert(counter.read(h.app.shm["in-icmpv6-echo-packets"]) == 3 + 1075 + 1)
   h:stop()
   assert(not pcall(ICMPEcho.new, ICMPEcho, {addresses = {"10.0.0.1"}}))
end

return M
