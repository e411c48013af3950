-- SPDX-License-Identifier: MIT
-- lib.protocol.gre: the GRE header (RFC 2784) with checksum and key (RFC 2890), without sequence numbers.
local ffi = require("ffi")
local bit = require("bit")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local ipsum = require("lib.checksum").ipsum
local htons, ntohs, htonl, ntohl, bitfield = lib.htons, lib.ntohs, lib.htonl, lib.ntohl, lib.bitfield

local u8_p = ffi.typeof("uint8_t *")

local Gre = subClass(header)
Gre._name = "gre"
Gre._ulp = {method = "protocol", class_map = {[0x6558] = "lib.protocol.ethernet"}}
-- 1 + (1 if there is a key) + (2 if there is a checksum).
Gre:init({
   ffi.typeof "struct { uint16_t bits, protocol; } __attribute__((packed))",
   ffi.typeof "struct { uint16_t bits, protocol; uint32_t key; } __attribute__((packed))",
   ffi.typeof "struct { uint16_t bits, protocol, csum, reserved1; } __attribute__((packed))",
   ffi.typeof "struct { uint16_t bits, protocol, csum, reserved1; uint32_t key; } __attribute__((packed))"
})

-- Chooses the layout for a header with a checksum and with a key (true or false).
local function choose(o, checksum, key)
   o._checksum, o._key = checksum, key
   o._header = o._headers[1 + (key and 1 or 0) + (checksum and 2 or 0)]
end

--- A new header from the table `config`: protocol (an Ethernet type; default 0), checksum (true: with one), key (a
-- number: with that key).
function Gre:new(config)
   config = config or {}
   local o = Gre:superClass().new(self)
   choose(o, config.checksum and true or false, config.key ~= nil)
   local layout = o._header
   ffi.fill(layout.data, layout.size)
   layout.box[0] = layout.data
   local h = o:header()
   if o._checksum then bitfield(16, h, "bits", 0, 1, 1) end
   if o._key then
      bitfield(16, h, "bits", 2, 1, 1)
      o:key(config.key)
   end
   o:protocol(config.protocol or 0)
   return o
end

--- A header that is the memory at `mem`, of which `size` bytes may be used; nil if those are too few, or if the header
-- has a sequence number, reserved bits or a version other than 0.
function Gre:new_from_mem(mem, size)
   local o = Gre:superClass().new_from_mem(self, mem, size)
   if o == nil then return nil end
   local h = o:header()
   local checksum, key = bitfield(16, h, "bits", 0, 1) == 1, bitfield(16, h, "bits", 2, 1) == 1
   local unsupported = bitfield(16, h, "bits", 1, 1) == 1 or bitfield(16, h, "bits", 3, 13) ~= 0
   choose(o, checksum, key)
   local layout = o._header
   if unsupported or layout.size > size then
      o:free()
      return nil
   end
   layout.box[0] = ffi.cast(layout.ptr_t, mem)
   return o
end

-- The checksum of the header as if its own were 0, and the payload.
local function compute(o, payload, length)
   local h = o:header()
   local current = h.csum
   h.csum, h.reserved1 = 0, 0
   local sum = ipsum(ffi.cast(u8_p, h), o:sizeof(), 0)
   sum = ipsum(ffi.cast(u8_p, payload), length, bit.bnot(sum))
   h.csum = current
   return sum
end

--- The checksum; nil if the header has none. With `payload` (a pointer to `length` bytes), computes and sets it first.
function Gre:checksum(payload, length)
   if not self._checksum then return nil end
   if payload ~= nil then self:header().csum = htons(compute(self, payload, length)) end
   return (ntohs(self:header().csum))
end

--- Whether the checksum is right for the payload of `length` bytes at `payload`; true if the header has none.
function Gre:checksum_check(payload, length)
   if not self._checksum then return true end
   return compute(self, payload, length) == ntohs(self:header().csum)
end

--- The key; nil if the header has none. With `value`, sets it.
function Gre:key(value)
   if not self._key then return nil end
   local h = self:header()
   if value == nil then return (ntohl(h.key)) end
   h.key = htonl(value)
end

--- The Ethernet type of the payload; with `value`, sets it first.
function Gre:protocol(value)
   local h = self:header()
   if value ~= nil then h.protocol = htons(value) end
   return (ntohs(h.protocol))
end

function Gre.selftest()
   local payload = ffi.new("uint8_t[3]", 1, 2, 3)
   local plain = Gre:new({protocol = 0x6558})
   assert(plain:sizeof() == 4 and ffi.string(plain:header(), 4) == "\0\0\x65\x58")
   assert(plain:key() == nil and plain:checksum(payload, 3) == nil and plain:checksum_check(payload, 3))
   assert(plain:upper_layer() == require("lib.protocol.ethernet") and Gre:new():protocol() == 0)
   local keyed = Gre:new({protocol = 0x800, key = 0xfedcba98})
   assert(keyed:sizeof() == 8 and ffi.string(keyed:header(), 8) == lib.hexundump("2000 0800 fedcba98", 8))
   assert(keyed:key() == 0xfedcba98)
   local full = Gre:new({protocol = 0x6558, key = 7, checksum = true})
   local sum = full:checksum(payload, 3)
   assert(full:sizeof() == 12 and sum == lib.csum(lib.hexundump("a000 6558 0000 0000 00000007 010203", 15), 15))
   assert(full:checksum_check(payload, 3))
   local memory = ffi.new("uint8_t[12]")
   full:copy(memory)
   local parsed = Gre:new_from_mem(memory, 12)
   assert(parsed:sizeof() == 12 and parsed:key() == 7 and parsed:checksum() == sum)
   assert(parsed:checksum_check(payload, 3))
   payload[2] = 4
   assert(not parsed:checksum_check(payload, 3) and parsed:checksum() == sum)
   assert(parsed:clone():eq(parsed) and Gre:new_from_mem(memory, 11) == nil and Gre:new_from_mem(memory, 3) == nil)
   memory[0] = 0x80
   assert(Gre:new_from_mem(memory, 12):sizeof() == 8 and Gre:new_from_mem(memory, 12):key() == nil)
   for _, bits in ipairs {0x10, 0x40} do
      memory[0] = bits
      assert(Gre:new_from_mem(memory, 12) == nil, "sequence number or routing")
   end
   memory[0], memory[1] = 0, 1
   assert(Gre:new_from_mem(memory, 12) == nil, "version 1")
end

return Gre
