-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.echo: answers pings (RFC 792, RFC 1122 section 3.2.2.6).
--
-- What differs from Snabb: fragments and packets whose IPv4 header has a wrong checksum are passed on, not answered;
-- the ICMP checksum is adjusted (RFC 1624), not recomputed, so that a damaged request stays damaged; lengths are those
-- of the IPv4 header.

local counter = require("core.counter")
local ffi = require("ffi")
local responder = require("apps.ipv4.responder")
local wire = require("apps.ipv4.wire")

local get16, put16, get32 = wire.get16, wire.put16, wire.get32

local M = {}

--- ICMPEcho: between `south` (the world) and `north`: passes packets on in both directions, but answers echo requests
--- from the south for one of our addresses. Configuration: `address`, an IPv4 address, and `addresses`, an array of
--- them, as arrays of 4 bytes or text. Counters: in- and out-icmpv4-echo-bytes and -packets.
M.ICMPEcho = responder.class("icmpv4")
local ICMPEcho = M.ICMPEcho
--- Adds an address, text or bytes, to those that are answered for.
function ICMPEcho.add_address(addresses, address)
   addresses[get32(wire.ipv4("address", address), 0)] = true
end

-- The length of the IPv4 header if this is a request for us, else nil.
local function header_of_request(self, p)
   local d = p.data
   if p.length < 14 + 20 + 8 or get16(d, 12) ~= 0x0800 or d[23] ~= 1 then return nil end
   local header, total = d[14] % 16 * 4, get16(d, 16)
   if d[14] < 0x45 or d[14] > 0x4f or total < header + 8 or total > p.length - 14 then return nil end
   if get16(d, 20) % 0x4000 ~= 0 then return nil end -- a fragment
   if d[14 + header] ~= 8 or d[15 + header] ~= 0 then return nil end
   if not self.addresses[get32(d, 30)] then return nil end
   return wire.ipv4_sum(d, 14, header) == 0 and header or nil
end

local scratch = ffi.new("uint8_t[6]")

-- Makes the request an answer, where it is.
local function turn(d, header)
   ffi.copy(scratch, d, 6)
   ffi.copy(d, d + 6, 6)
   ffi.copy(d + 6, scratch, 6)
   ffi.copy(scratch, d + 26, 4)
   ffi.copy(d + 26, d + 30, 4)
   ffi.copy(d + 30, scratch, 4)
   put16(d, 20, 0) -- no flags
   d[22] = 64
   wire.ipv4_checksum(d, 14, header)
   local icmp = 14 + header
   d[icmp] = 0
   -- The type was 8: the first word is less by 0x0800, the checksum more.
   local sum = get16(d, icmp + 2) + 0x0800
   if sum > 0xffff then sum = sum - 0xffff end
   put16(d, icmp + 2, sum)
end

--- If the packet `p` is an echo request for us, makes it the answer and returns true.
function ICMPEcho:make_answer(p)
   local header = header_of_request(self, p)
   if not header then return false end
   turn(p.data, header)
   return true
end

-- An echo request or reply as bytes, with the right checksums. `changes` are bytes to put in (by offset) before.
local function message(macs, type, src, dst, options, data, changes)
   local icmp = string.char(type) .. "\0\0\0\x12\x34\0\1" .. data
   local total = 20 + #options + #icmp
   local s = macs .. "\8\0" .. string.char(0x45 + #options / 4) .. "\0" ..
      string.char(math.floor(total / 256), total % 256) ..
      "\xab\xcd\0\0\64\1\0\0" .. src .. dst .. options .. icmp
   local p = ffi.new("uint8_t[?]", #s + 1)
   ffi.copy(p, s, #s)
   for at, byte in pairs(changes or {}) do p[at] = byte end
   wire.ipv4_checksum(p, 14, 20 + #options)
   local at = 34 + #options
   put16(p, at + 2, wire.finish(wire.sum(p + at, #icmp, 0)))
   return ffi.string(p, #s)
end

--- Pings: for us and not, with options, padding, and damaged.
function M.selftest()
   local harness = require("apps.test.harness")
   local h = harness.new(ICMPEcho, {address = ffi.new("uint8_t[4]", 10, 0, 0, 1), addresses = {"10.0.0.2"}},
                         {"north", "south"}, {"north", "south"})
   local there, back = "\2\0\0\0\0\1\2\0\0\0\0\2", "\2\0\0\0\0\2\2\0\0\0\0\1"
   local me, me2, you = "\10\0\0\1", "\10\0\0\2", "\10\0\0\9"
   local function request(...) return message(there, 8, ...) end
   local function answer(...) return message(back, 0, ...) end
   local long = ("x"):rep(1457)
   h:send("south", {request(you, me, "", "abc"), request(you, me2, "\7\7\4\0\0\0\0\0", ""), request(you, me, "", long),
                    request(you, me, "", "pad") .. "\0\0\0\0padding", request(you, me, "", "df", {[20] = 0x40})})
   h:expect("south", {answer(me, you, "", "abc"), answer(me2, you, "\7\7\4\0\0\0\0\0", ""), answer(me, you, "", long),
                      answer(me, you, "", "pad") .. "\0\0\0\0padding", answer(me, you, "", "df")})
   for id = 0, 0x3ff do -- checksums of every kind
      local word = string.char(0xf6 + math.floor(id / 256), id % 256)
      h:send("south", {request(you, me, "", word)})
      h:expect("south", {answer(me, you, "", word)})
   end
   local damaged = request(you, me, "", "good")
   damaged = damaged:sub(1, -5) .. "evil"
   h:send("south", {damaged})
   local got = h:take("south")[1]
   local p = ffi.cast("const uint8_t *", got)
   assert(wire.finish(wire.sum(p + 34, #got - 34, 0)) ~= 0)
   local others = {request(you, "\10\0\0\3", "", ""), message(there, 0, you, me, "", "a reply"),
                   request(you, me, "", "fragment", {[20] = 0x20}), request(you, me, "", "fragment", {[21] = 1}),
                   request(you, me, "", "udp", {[23] = 17}), request(you, me, "", "code", {[35] = 1}),
                   request(you, me, "", "checksum"):gsub("\xab\xcd", "\xab\xce"), request(you, me, "", ""):sub(1, 41),
                   request(you, me, "", "length", {[17] = 255}), request(you, me, "", "v6", {[14] = 0x65}), "short"}
   h:send("south", others)
   h:expect("south", {})
   h:expect("north", others)
   h:send("north", {"out"})
   h:expect("south", {"out"})
   assert(counter.read(h.app.shm["out-icmpv4-echo-packets"]) == 5 + 0x400 + 1)
   h:stop()
   assert(not pcall(ICMPEcho.new, ICMPEcho, {address = "nowhere"}))
end

return M
