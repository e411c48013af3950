-- SPDX-License-Identifier: MIT
-- lib.hash.murmur: MurmurHash3 by Austin Appleby, in the variants x86_32 and x64_128. For little-endian machines, as
-- the original.
local ffi = require("ffi")
local bit = require("bit")
local base = require("lib.hash.base")
local band, bxor, rol, rshift, lshift = bit.band, bit.bxor, bit.rol, bit.rshift, bit.lshift

local u8_p, u32_p, u64_p = ffi.typeof("const uint8_t *"), ffi.typeof("const uint32_t *"), ffi.typeof("const uint64_t *")

local M = {}

-- LuaJIT assumes that memory written as one type is not read as another. ffi.fill is a barrier.
local scratch = ffi.new("uint8_t[1]")
local function barrier()
   ffi.fill(scratch, 1)
end

-- a * b modulo 2^32, as a signed number; b is a constant. Halves keep products exact.
local function multiply(a, b)
   local low, high = band(a, 0xffff), rshift(a, 16)
   return bit.tobit(low * b + lshift(bit.tobit(high * (b % 65536)), 16))
end

-- The `length` % 4 bytes (x86_32), or up to 8 (x64_128), from `first` to `last` - 1 as a number.
local function tail32(bytes, first, last)
   local k = 0
   for i = last - 1, first, -1 do k = bxor(lshift(k, 8), bytes[i]) end
   return k
end

local function tail64(bytes, first, last)
   local k = 0ULL
   for i = last - 1, first, -1 do k = bxor(lshift(k, 8), bytes[i] + 0ULL) end
   return k
end

--- The variant for 32-bit machines; the result has 32 bits.
M.MurmurHash3_x86_32 = subClass(base)
local X86 = M.MurmurHash3_x86_32
X86._name, X86._size = "MurmurHash3_x86_32", 32

local function scramble32(k)
   return multiply(rol(multiply(k, 0xcc9e2d51), 15), 0x1b873593)
end

--- Hashes `length` bytes at the pointer `data` with the number `seed` (default 0). Returns the result, `self.h`: see
-- lib.hash.base.
function X86:hash(data, length, seed)
   barrier()
   local words, bytes = ffi.cast(u32_p, data), ffi.cast(u8_p, data)
   local count = rshift(length, 2)
   local h = bit.tobit(tonumber(seed or 0))
   for i = 0, count - 1 do
      h = bxor(h, scramble32(words[i]))
      h = bit.tobit(multiply(rol(h, 13), 5) + 0xe6546b64)
   end
   if length % 4 > 0 then h = bxor(h, scramble32(tail32(bytes, count * 4, length))) end
   h = bxor(h, length)
   h = multiply(bxor(h, rshift(h, 16)), 0x85ebca6b)
   h = multiply(bxor(h, rshift(h, 13)), 0xc2b2ae35)
   self.h.i32[0] = bxor(h, rshift(h, 16))
   return self.h
end

--- The variant for 64-bit machines; the result has 128 bits.
M.MurmurHash3_x64_128 = subClass(base)
local X64 = M.MurmurHash3_x64_128
X64._name, X64._size = "MurmurHash3_x64_128", 128

local C1, C2 = 0x87c37b91114253d5ULL, 0x4cf5ad432745937fULL

local function scramble1(k) return rol(k * C1, 31) * C2 end
local function scramble2(k) return rol(k * C2, 33) * C1 end

local function finish(k)
   k = bxor(k, rshift(k, 33)) * 0xff51afd7ed558ccdULL
   k = bxor(k, rshift(k, 33)) * 0xc4ceb9fe1a85ec53ULL
   return bxor(k, rshift(k, 33))
end

--- Hashes `length` bytes at the pointer `data` with the number `seed` (default 0). Returns the result, `self.h`: see
-- lib.hash.base.
function X64:hash(data, length, seed)
   barrier()
   local words, bytes = ffi.cast(u64_p, data), ffi.cast(u8_p, data)
   local count = rshift(length, 4)
   local h1 = (seed or 0) + 0ULL
   local h2 = h1
   for i = 0, count - 1 do
      h1 = (rol(bxor(h1, scramble1(words[i * 2])), 27) + h2) * 5ULL + 0x52dce729ULL
      h2 = (rol(bxor(h2, scramble2(words[i * 2 + 1])), 31) + h1) * 5ULL + 0x38495ab5ULL
   end
   local first = count * 16
   if length - first > 8 then h2 = bxor(h2, scramble2(tail64(bytes, first + 8, length))) end
   if length > first then h1 = bxor(h1, scramble1(tail64(bytes, first, math.min(first + 8, length)))) end
   h1, h2 = bxor(h1, length + 0ULL), bxor(h2, length + 0ULL)
   h1 = h1 + h2
   h2 = h2 + h1
   h1, h2 = finish(h1), finish(h2)
   h1 = h1 + h2
   self.h.u64[0], self.h.u64[1] = h1, h2 + h1
   return self.h
end

-- The verification values of SMHasher: the hash of the hashes of 0, 1, ... 255 bytes with the seeds 256, 255, ... 1.
local function verification_value(class)
   local hash = class:new()
   local size = hash:size() / 8
   local key, hashes = ffi.new("uint8_t[256]"), ffi.new("uint8_t[?]", size * 256)
   for i = 0, 255 do
      key[i] = i
      ffi.copy(hashes + i * size, hash:hash(key, i, 256 - i), size)
   end
   return hash:hash(hashes, size * 256, 0).u32[0]
end

function M.selftest()
   assert(verification_value(X86) == 0xb0f57ee3)
   assert(verification_value(X64) == 0x6384ba69)
   local hash = X86:new()
   assert(hash:hash("", 0, 1).u32[0] == 0x514e28b7 and hash:hash("test", 4).u32[0] == 0xba6bd213)
   assert(X64:new():hash("", 0).u64[0] == 0ULL)
end

return M
