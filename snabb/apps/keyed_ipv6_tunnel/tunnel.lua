-- SPDX-License-Identifier: MIT
--
-- apps.keyed_ipv6_tunnel.tunnel: Ethernet frames in IPv6, distinguished by a key (RFC 8159: L2TPv3 without its control
-- plane).
--
-- What differs from Snabb: the Ethernet type and the length that the IPv6 header says are checked, and bytes behind
-- that length are not taken for data; frames that do not fit into a packet with the headers are freed and counted.

local counter = require("core.counter")
local ffi = require("ffi")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")
local wire = require("apps.ipv4.wire")

local receive, transmit, nreadable = link.receive, link.transmit, link.nreadable
local get16, put16, same = wire.get16, wire.put16, wire.same

local M = {}

local l2tpv3 = 115
-- Ethernet 14, IPv6 40, session 4, cookie 8.
local session_offset, cookie_offset, header_size = 54, 58, 66

--- SimpleKeyedTunnel: what comes in on `decapsulated` gets Ethernet, IPv6 and tunnel headers and goes out on
--- `encapsulated`; what comes in on `encapsulated` and has the right headers loses them and goes out on `decapsulated`.
--- Configuration: `local_address`, `remote_address`, IPv6 addresses as text; `local_cookie`, which is sent, and
--- `remote_cookie`, which is expected: up to 8 bytes as hexadecimal digits; `local_session`, the session identifier
--- (all ones by default); `default_gateway_MAC`, where frames are sent (zeros by default); `hop_limit` (64). Counters:
--- as in `shm`.
M.SimpleKeyedTunnel = {
   config = {
      local_address = {required = true},
      remote_address = {required = true},
      local_cookie = {required = true},
      remote_cookie = {required = true},
      local_session = {},
      default_gateway_MAC = {},
      hop_limit = {},
   },
   shm = {
      rxerrors = {counter},
      length_errors = {counter},
      protocol_errors = {counter},
      cookie_errors = {counter},
      remote_address_errors = {counter},
      local_address_errors = {counter},
   },
}
local Tunnel = M.SimpleKeyedTunnel

local function cookie(what, text)
   local out = ffi.new("uint8_t[8]")
   local hex = type(text) == "string" and text:gsub("[%s:]", "") or ""
   if hex == "" or #hex > 16 or #hex % 2 ~= 0 or hex:find("%X") then
      error(("%s: expected 8 bytes as hexadecimal digits, got %s"):format(what, tostring(text)), 3)
   end
   for k = 0, #hex / 2 - 1 do out[k] = tonumber(hex:sub(2 * k + 1, 2 * k + 2), 16) end
   return out
end

local function number(what, given, default, low, high)
   local n = given == nil and default or given
   if type(n) ~= "number" or n < low or n > high or n ~= math.floor(n) then
      error(("%s: expected a whole number from %d to %d, got %s"):format(what, low, high, tostring(given)), 3)
   end
   return n
end

--- Creates a tunnel. Throws if a value is invalid.
function Tunnel:new(conf)
   local header = ffi.new("uint8_t[?]", header_size)
   if conf.default_gateway_MAC then
      ffi.copy(header, wire.mac("default_gateway_MAC", conf.default_gateway_MAC), 6)
   end
   put16(header, 12, 0x86dd)
   header[14], header[20] = 0x60, l2tpv3
   header[21] = number("hop_limit", conf.hop_limit, 64, 0, 255)
   ffi.copy(header + 22, wire.ipv6("local_address", conf.local_address), 16)
   ffi.copy(header + 38, wire.ipv6("remote_address", conf.remote_address), 16)
   wire.put32(header, session_offset, bit.tobit(number("local_session", conf.local_session, 0xffffffff, 0, 0xffffffff)))
   ffi.copy(header + cookie_offset, cookie("local_cookie", conf.local_cookie), 8)
   return setmetatable({header = header, remote_cookie = cookie("remote_cookie", conf.remote_cookie)},
                       {__index = Tunnel})
end

local function bad(self, what, p)
   counter.add(self.shm[what])
   counter.add(self.shm.rxerrors)
   packet.free(p)
end

local function encapsulate(self, from, to)
   local header = self.header
   for _ = 1, nreadable(from) do
      local p = receive(from)
      local length = p.length
      if length + header_size > packet.max_payload then
         bad(self, "length_errors", p)
      else
         p = packet.shiftright(p, header_size)
         ffi.copy(p.data, header, header_size)
         put16(p.data, 18, length + 12)
         transmit(to, p)
      end
   end
end

-- Returns the counter of what is wrong with the packet, or nil.
local function check(self, p)
   local d, header = p.data, self.header
   if p.length < header_size then return "length_errors" end
   if get16(d, 12) ~= 0x86dd or d[20] ~= l2tpv3 then return "protocol_errors" end
   local size = get16(d, 18)
   if size < 12 or size > p.length - 54 then return "length_errors" end
   if not same(d + cookie_offset, self.remote_cookie, 8) then return "cookie_errors" end
   if not same(d + 22, header + 38, 16) then return "remote_address_errors" end
   if not same(d + 38, header + 22, 16) then return "local_address_errors" end
end

local function decapsulate(self, from, to)
   for _ = 1, nreadable(from) do
      local p = receive(from)
      local what = check(self, p)
      if what then
         bad(self, what, p)
      else
         p.length = 54 + get16(p.data, 18)
         transmit(to, packet.shiftleft(p, header_size))
      end
   end
end

--- Encapsulates and decapsulates all waiting packets.
function Tunnel:push()
   local plain, tunnel = links.input(self, "decapsulated"), links.input(self, "encapsulated")
   local to_plain, to_tunnel = links.output(self, "decapsulated"), links.output(self, "encapsulated")
   encapsulate(self, plain, to_tunnel)
   decapsulate(self, tunnel, to_plain)
end

--- Sends frames through, compares the headers byte by byte, and damages each of them.
function M.selftest()
   local harness = require("apps.test.harness")
   local conf = {local_address = "2001:db8::1", remote_address = "2001:db8::2", local_cookie = "0102030405060708",
                 remote_cookie = "1112131415161718", local_session = 0xdeadbeef,
                 default_gateway_MAC = "a1:b2:c3:d4:e5:f6", hop_limit = 33}
   local names = {"encapsulated", "decapsulated"}
   local h = harness.new(Tunnel, conf, names, names)
   local a, b = ffi.string(wire.ipv6("a", "2001:db8::1"), 16), ffi.string(wire.ipv6("b", "2001:db8::2"), 16)
   h:send("decapsulated", {"frame", ("x"):rep(packet.max_payload - 65)})
   h:expect("encapsulated", {"\xa1\xb2\xc3\xd4\xe5\xf6\0\0\0\0\0\0\x86\xdd\x60\0\0\0\0\17\115\33" .. a .. b ..
                             "\xde\xad\xbe\xef\1\2\3\4\5\6\7\8frame"})
   local from_there = ("\0"):rep(12) .. "\x86\xdd\x60\0\0\0\0\17\115\33" .. b .. a ..
      "any!\x11\x12\x13\x14\x15\x16\x17\x18frame"
   local function changed(at) return from_there:sub(1, at) .. "?" .. from_there:sub(at + 2) end
   h:send("encapsulated", {from_there, from_there .. "padding", from_there:sub(1, 65), from_there:sub(1, 70),
                           changed(12),
                           changed(20), changed(18), changed(58), changed(65), changed(22), changed(53), changed(54)})
   h:expect("decapsulated", {"frame", "frame", "frame"})
   local counts = {length_errors = 4, protocol_errors = 2, cookie_errors = 2, remote_address_errors = 1,
                   local_address_errors = 1, rxerrors = 10}
   for name, n in pairs(counts) do assert(counter.read(h.app.shm[name]) == n, name) end
   h:stop()
   for name, value in pairs({local_address = "x", remote_address = "10.0.0.1", local_cookie = "123",
                             remote_cookie = "xy",
                             local_session = 2^32, default_gateway_MAC = "nowhere", hop_limit = 256}) do
      local wrong = setmetatable({[name] = value}, {__index = conf})
      local ok, err = pcall(Tunnel.new, Tunnel, wrong)
      assert(not ok and tostring(err):match(name .. ": expected"), err)
   end
end

return M
