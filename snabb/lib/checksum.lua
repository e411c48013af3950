-- SPDX-License-Identifier: MIT
-- lib.checksum: the Internet checksum (RFC 1071), of memory and of the TCP and UDP packets in IPv4 and IPv6, and its
-- incremental update (RFC 1624).
--
-- Sums 16-bit words in the machine's byte order, eight a turn, and swaps the result once: sums of 16-bit words do not
-- care about byte order (RFC 1071, 2(B)). Works on any alignment, allocates nothing.
--
-- What differs from Snabb: a UDP packet over IPv4 without a checksum (RFC 768) passes `verify_packet`, and lengths
-- beyond the packet's own are cut to it; the functions that Snabb has in C for programs are functions of this module.
local ffi = require("ffi")
local bit = require("bit")
local band, bnot, rshift, lshift, bswap, tobit = bit.band, bit.bnot, bit.rshift, bit.lshift, bit.bswap, bit.tobit

local M = {}

-- The memory that is being summed. A pointer kept here, not in a local, is not boxed when a trace enters the loop.
local memory = ffi.new [[
union { const void *any; const uint8_t *u8; const uint16_t *u16; }
]]

-- LuaJIT assumes that memory written as one type is not read as another: it may reuse values that it has read before.
-- Here, packets are read as 16-bit words, but were written as bytes or other types. ffi.fill is a barrier.
local scratch = ffi.new("uint8_t[1]")
local function barrier()
   ffi.fill(scratch, 1)
end

local PROTOCOL_TCP, PROTOCOL_UDP = 6, 17
local big_endian = ffi.abi("be")

-- 65535 words of 16 bits at most may be summed in 32 bits.
local CHUNK = 65528

-- A 16-bit number between host and network byte order.
local function swap16(n)
   if big_endian then return n end
   return (rshift(bswap(n), 16))
end

-- Calls to return are in parentheses lest they be tail calls, of which LuaJIT unrolls only a few in a trace.

-- `sum` < 2^32, as a 16-bit number that is 0 only if it is 0.
local function fold(sum)
   sum = band(sum, 0xffff) + rshift(sum, 16)
   return band(sum, 0xffff) + rshift(sum, 16)
end

-- The folded sum, in the machine's byte order, of words `first` to `last` - 1 of the memory; `last` - `first` <= CHUNK.
local function sum_words(first, last)
   local a, b = 0, 0
   local i = first
   local turns = rshift(last - first, 3)
   for _ = 1, turns do
      local w = memory.u16 + i
      -- tobit keeps the sums in integer registers.
      a = tobit(a + w[0] + w[1] + w[2] + w[3])
      b = tobit(b + w[4] + w[5] + w[6] + w[7])
      i = i + 8
   end
   for j = i, last - 1 do a = tobit(a + memory.u16[j]) end
   return (fold(fold(a) + fold(b)))
end

-- The folded sum, in the machine's byte order, of `len` bytes at `ptr`.
local function sum_bytes(ptr, len)
   barrier()
   memory.any = ptr
   local words, sum, first = rshift(len, 1), 0, 0
   if words == 10 then
      -- The IPv4 header without options.
      local m = memory.u16
      sum = m[0] + m[1] + m[2] + m[3] + m[4] + m[5] + m[6] + m[7] + m[8] + m[9]
   else
      while first < words do
         local last = first + CHUNK
         if last > words then last = words end
         sum = fold(sum + sum_words(first, last))
         first = last
      end
   end
   if band(len, 1) == 1 then
      local byte = memory.u8[len - 1]
      if big_endian then byte = lshift(byte, 8) end
      sum = sum + byte
   end
   return (fold(sum))
end

--- The Internet checksum, in host byte order, of `len` bytes at `ptr` (a pointer), on top of `initial`, a sum in host
-- byte order. To check that `len` bytes have the checksum `c`: `ipsum(ptr, len, c) == 0`. To go on from a block of
-- even length with the checksum `c` to the next block: `ipsum(ptr, len, bit.bnot(c))`.
function M.ipsum(ptr, len, initial)
   initial = initial or 0
   -- Negative: what bit.bnot has made of 16 bits.
   if initial < 0 then initial = band(initial, 0xffff) end
   return (band(bnot(fold(fold(initial) + swap16(sum_bytes(ptr, len)))), 0xffff))
end
local ipsum = M.ipsum

local u8_p = ffi.typeof("uint8_t *")

local function get16(p, offset) return p[offset] * 256 + p[offset + 1] end

local function put16(p, offset, value)
   p[offset], p[offset + 1] = rshift(value, 8), band(value, 0xff)
   barrier()
end

--- Writes the checksum of `len` bytes at `buf` to the 16 bits at `buf` + `offset`, which must have been 0 or the sum
-- of a pseudo header.
function M.finish_packet(buf, len, offset)
   put16(ffi.cast(u8_p, buf), offset, ipsum(buf, len, 0))
end

-- Of the IP packet at p: the upper protocol, the length of the IP header and that of what follows it, cut to `len`; or
-- nil if it is not a complete IP packet.
local function dissect(p, len)
   barrier()
   if len < 1 then return nil end
   local version = rshift(p[0], 4)
   if version == 4 and len >= 20 then
      local header, total = band(p[0], 15) * 4, get16(p, 2)
      if header < 20 or header > len then return nil end
      if total < header or total > len then total = len end
      return p[9], header, total - header
   elseif version == 6 and len >= 40 then
      local payload = get16(p, 4)
      if payload == 0 or payload > len - 40 then payload = len - 40 end
      return p[6], 40, payload
   end
   return nil
end

-- The folded sum, in host byte order, of the pseudo header of RFC 9293 (IPv4) or RFC 8200 (IPv6).
local function pseudo_sum(p, protocol, length)
   local addresses
   if rshift(p[0], 4) == 4 then addresses = sum_bytes(p + 12, 8) else addresses = sum_bytes(p + 8, 32) end
   return (fold(swap16(addresses) + fold(length) + protocol))
end

--- The sum, not complemented, in host byte order, of the pseudo header of the TCP or UDP packet over IPv4 or IPv6 at
-- `buf`, of `len` bytes from the IP header on, and the length of the IP header. Otherwise nil (neither TCP nor UDP,
-- or no IP packet) or false (the checksum of the IPv4 header is wrong).
function M.pseudo_header_initial(buf, len)
   local p = ffi.cast(u8_p, buf)
   local protocol, header, length = dissect(p, len)
   if protocol ~= PROTOCOL_TCP and protocol ~= PROTOCOL_UDP then return nil end
   if rshift(p[0], 4) == 4 and ipsum(p, header, 0) ~= 0 then return false end
   return pseudo_sum(p, protocol, length), header
end

--- Whether the checksums of the IP packet at `buf`, `len` bytes from the IP header on, are right: true or false; nil if
-- it is neither TCP nor UDP, so that nothing can be said.
function M.verify_packet(buf, len)
   local sum, header = M.pseudo_header_initial(buf, len)
   if not sum then return sum end
   local p = ffi.cast(u8_p, buf)
   local protocol, _, length = dissect(p, len)
   if length < (protocol == PROTOCOL_UDP and 8 or 20) then return false end
   if protocol == PROTOCOL_UDP and rshift(p[0], 4) == 4 and get16(p, header + 6) == 0 then return true end
   return ipsum(p + header, length, sum) == 0
end

-- Writes the sum of the pseudo header where the checksum of TCP or UDP belongs, for hardware to complete.
local function prepare(p, len)
   local sum, header = M.pseudo_header_initial(p, len)
   if not sum then return nil end
   local protocol, _, length = dissect(p, len)
   local offset = protocol == PROTOCOL_TCP and 16 or 6
   if length < offset + 2 then return nil end
   put16(p, header + offset, sum)
   return header, offset
end

--- Prepares the IPv4 packet at `buf`, `len` bytes, for checksum offload: computes the checksum of the IP header, and
-- writes the sum of the pseudo header to the checksum of TCP or UDP. Returns where the part to be summed starts, and
-- the offset of the checksum in it; nil if it is neither TCP nor UDP.
function M.prepare_packet4(buf, len)
   local p = ffi.cast(u8_p, buf)
   local _, header = dissect(p, len)
   if not header or rshift(p[0], 4) ~= 4 then return nil end
   put16(p, 10, 0)
   put16(p, 10, ipsum(p, header, 0))
   local start, offset = prepare(p, len)
   return start, offset
end

--- Like prepare_packet4, for the IPv6 packet at `buf`.
function M.prepare_packet6(buf, len)
   local p = ffi.cast(u8_p, buf)
   if len < 40 or rshift(p[0], 4) ~= 6 then return nil end
   local start, offset = prepare(p, len)
   return start, offset
end

local function update16(checksum, old, new)
   -- RFC 1624, equation 3: HC' = ~(~HC + ~m + m').
   return (fold(band(bnot(checksum), 0xffff) + band(bnot(old), 0xffff) + new))
end

--- Writes `new_value` (host byte order) to `value_cell[0]`, a uint16_t *, and updates the checksum at `checksum_cell`,
-- a uint16_t *, which covers it, accordingly (RFC 1624).
function M.checksum_update_incremental_16(checksum_cell, value_cell, new_value)
   local sum = update16(swap16(checksum_cell[0]), swap16(value_cell[0]), new_value)
   checksum_cell[0] = swap16(band(bnot(sum), 0xffff))
   value_cell[0] = swap16(new_value)
end

--- Like checksum_update_incremental_16 for a uint32_t * and a value of 32 bits.
function M.checksum_update_incremental_32(checksum_cell, value_cell, new_value)
   local old, new = value_cell[0], new_value
   if not big_endian then old, new = bswap(old), bswap(new) end
   local sum = update16(swap16(checksum_cell[0]), band(old, 0xffff), band(new_value, 0xffff))
   sum = fold(sum + band(bnot(rshift(old, 16)), 0xffff) + rshift(new_value, 16))
   checksum_cell[0] = swap16(band(bnot(sum), 0xffff))
   value_cell[0] = new
   barrier()
end

--- The sum, not complemented, in host byte order, of the TCP pseudo header: the addresses at `sip` and `dip`, each of
-- `addr_halfwords` 16-bit words, and the length `len` of the TCP packet in bytes.
function M.tcp_pseudo_checksum(sip, dip, addr_halfwords, len)
   local source = swap16(sum_bytes(sip, addr_halfwords * 2))
   return source + swap16(sum_bytes(dip, addr_halfwords * 2)) + PROTOCOL_TCP + len
end

-- The oracle: byte by byte, as RFC 1071 describes it.
local function oracle(p, len, initial)
   local sum = initial
   for i = 0, len - 1 do sum = sum + (i % 2 == 0 and p[i] * 256 or p[i]) end
   while sum > 0xffff do sum = sum % 65536 + math.floor(sum / 65536) end
   return 0xffff - sum
end

local function test_random(seed)
   local size = 200000
   local buffer = ffi.new("uint8_t[?]", size)
   local function check(fill)
      for i = 0, size - 1 do buffer[i] = fill() end
      for round = 1, 600 do
         local offset = math.random(0, 17)
         local len = math.random(0, round <= 500 and 200 or 3000)
         if round == 600 then len = 180001 end
         local initial = math.random(0, 2^(round % 32))
         local got, expected = ipsum(buffer + offset, len, initial), oracle(buffer + offset, len, initial)
         assert(got == expected, ("seed %d: %d bytes at %d, initial %d: %04x instead of %04x"):format(
            seed, len, offset, initial, got, expected))
         local cut = math.floor(math.random(0, len) / 2) * 2
         local parts = ipsum(buffer + offset + cut, len - cut, bnot(ipsum(buffer + offset, cut, initial)))
         assert(parts == expected, "seed "..seed..": in parts")
      end
   end
   check(function () return math.random(0, 255) end)
   check(function () return 255 end)
   check(function () return 0 end)
   assert(ipsum(buffer, 100, 0) == 0xffff and ipsum(buffer, 0, 0) == 0xffff)
end

local function test_incremental(seed)
   local words = ffi.new("union { uint8_t b[20]; uint16_t h[10]; uint32_t w[5]; }")
   for _ = 1, 2000 do
      for i = 0, 19 do words.b[i] = math.random(0, 255) end
      words.h[5] = 0
      words.h[5] = swap16(ipsum(words.b, 20, 0))
      if math.random(2) == 1 then
         M.checksum_update_incremental_16(words.h + 5, words.h + math.random(0, 4), math.random(0, 65535))
      else
         M.checksum_update_incremental_32(words.h + 5, words.w + math.random(3, 4), math.random(0, 2^32 - 1))
      end
      assert(ipsum(words.b, 20, 0) == 0, "incremental update, seed "..seed)
   end
   words.w[0] = 0
   M.checksum_update_incremental_32(words.h + 5, words.w, 0x01020304)
   assert(words.b[0] == 1 and words.b[3] == 4)
end

local function bytes_of(hex)
   local count = 0
   local bytes = ffi.new("uint8_t[?]", #hex)
   for pair in hex:gmatch("%x%x") do
      bytes[count] = tonumber(pair, 16)
      count = count + 1
   end
   return bytes, count
end

local function test_packets()
   local udp, length = bytes_of [[45 00 00 1e 00 00 40 00 40 11 00 00 c0 a8 00 01 c0 a8 00 c7
                                  04 d2 16 2e 00 0a 00 00 68 69]]
   assert(M.verify_packet(udp, length) == false, "wrong header checksum")
   local start, offset = M.prepare_packet4(udp, length)
   assert(start == 20 and offset == 6 and get16(udp, 26) == fold(0xc0a8 + 1 + 0xc0a8 + 0xc7 + 17 + 10))
   assert(get16(udp, 10) == 0xb8b6)
   M.finish_packet(udp + start, length - start, offset)
   assert(M.verify_packet(udp, length) == true and M.verify_packet(udp, length + 5) == true)
   udp[28] = 0x69
   assert(M.verify_packet(udp, length) == false)
   put16(udp, 26, 0)
   assert(M.verify_packet(udp, length) == true, "no checksum")
   udp[9] = 47
   assert(M.verify_packet(udp, length) == nil and M.verify_packet(udp, 0) == nil and M.verify_packet(udp, 19) == nil)

   local tcp, tcp_length = bytes_of [[60 00 00 00 00 14 06 40 20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 01
      20 01 0d b8 00 00 00 00 00 00 00 00 00 00 00 02 00 50 1f 90 00 00 00 01 00 00 00 00 50 02 ff ff 00 00 00 00]]
   start, offset = M.prepare_packet6(tcp, tcp_length)
   local pseudo = M.tcp_pseudo_checksum(tcp + 8, tcp + 24, 8, 20)
   assert(start == 40 and offset == 16 and get16(tcp, 56) == fold(pseudo))
   M.finish_packet(tcp + 40, 20, 16)
   assert(M.verify_packet(tcp, tcp_length) == true and get16(tcp, 56) == oracle(tcp + 40, 20, pseudo) + get16(tcp, 56))
   tcp[23] = 3
   assert(M.verify_packet(tcp, tcp_length) == false)
   assert(M.prepare_packet4(tcp, tcp_length) == nil and M.prepare_packet6(udp, length) == nil)
end

function M.selftest()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   test_random(seed)
   test_incremental(seed)
   test_packets()
end

return M
