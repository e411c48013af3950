-- SPDX-License-Identifier: MIT
--
-- apps.ipv6.headers: the extension headers of IPv6 packets (RFC 8200, section 4). Snabb has no such module.

local wire = require("apps.ipv4.wire")

local get16 = wire.get16

local M = {}

--- Protocol numbers.
M.hop_by_hop, M.routing, M.fragment, M.destination, M.icmp6 = 0, 43, 44, 60, 58

local hop_by_hop, routing, destination = M.hop_by_hop, M.routing, M.destination

--- Returns whether the Ethernet frame of `length` bytes at `d` is an IPv6 packet whose payload length is right.
function M.valid(d, length)
   return length >= 54 and d[14] >= 0x60 and d[14] < 0x70 and get16(d, 18) <= length - 54
end

--- Finds the end of the headers of a valid packet at `d` that every router on the way may look at (RFC 8200, 4.5: the
--- part that fragments repeat): hop-by-hop options, destination options before a routing header, the routing header.
--- Returns the offset of what follows, the offset of the field that says its protocol, and that protocol; or nil if
--- headers are cut off.
function M.per_fragment(d)
   local last = 54 + get16(d, 18)
   local at, field = 54, 20
   -- Where the part ends if no routing header comes any more.
   local ending, ending_field = at, field
   for _ = 1, 8 do
      local protocol = d[field]
      if protocol ~= hop_by_hop and protocol ~= routing and protocol ~= destination then break end
      if at + 8 > last then return nil end
      local size = 8 + 8 * d[at + 1]
      if at + size > last then return nil end
      field, at = at, at + size
      if protocol ~= destination then ending, ending_field = at, field end
   end
   return ending, ending_field, d[ending_field]
end

--- Walks hop-by-hop, destination and routing headers. Returns the offset of what follows them, the offset of the field
--- that says its protocol, and that protocol; or nil if headers are cut off, or are more than 8.
function M.upper(d)
   local last = 54 + get16(d, 18)
   local at, field = 54, 20
   for _ = 1, 8 do
      local protocol = d[field]
      if protocol ~= hop_by_hop and protocol ~= routing and protocol ~= destination then return at, field, protocol end
      if at + 8 > last then return nil end
      local size = 8 + 8 * d[at + 1]
      if at + size > last then return nil end
      field, at = at, at + size
   end
   return nil
end

--- Returns an IPv6 packet in an Ethernet frame, as a string, for tests: `protocol` is the first next header, `payload`
--- the bytes behind the IPv6 header, `dst` the last byte of the destination.
function M.test_packet(protocol, payload, dst)
   local address = "\x20\1\13\xb8" .. ("\0"):rep(11)
   return "\2\0\0\0\0\1\2\0\0\0\0\2\x86\xdd\x60\0\0\0" .. string.char(math.floor(#payload / 256), #payload % 256) ..
      string.char(protocol) .. "\64" .. address .. "\1" .. address .. string.char(dst or 2) .. payload
end

--- Walks packets with headers of every kind.
function M.selftest()
   local ffi = require("ffi")
   local function walk(how, ...)
      local s = M.test_packet(...)
      local d = ffi.cast("const uint8_t *", s)
      assert(M.valid(d, #s) and not M.valid(d, #s - 1))
      return table.concat({M[how](d)}, ",")
   end
   local function header(next_header, units) return string.char(next_header, units) .. ("\0"):rep(6 + 8 * units) end
   assert(walk("per_fragment", 17, "12345678") == "54,20,17")
   assert(walk("per_fragment", 0, header(17, 1) .. "12345678") == "70,54,17")
   assert(walk("per_fragment", 60, header(17, 0)) == "54,20,60")
   assert(walk("per_fragment", 60, header(43, 0) .. header(60, 0) .. header(6, 0)) == "70,62,60")
   assert(walk("per_fragment", 0, header(44, 0) .. header(17, 0)) == "62,54,44")
   assert(walk("upper", 60, header(43, 0) .. header(60, 0) .. header(6, 0) .. "x") == "78,70,6")
   assert(walk("upper", 0, header(44, 0)) == "62,54,44")
   for _, how in ipairs({"per_fragment", "upper"}) do
      assert(walk(how, 0, header(17, 1):sub(1, 15)) == "" and walk(how, 0, "\17\0") == "")
   end
end

return M
