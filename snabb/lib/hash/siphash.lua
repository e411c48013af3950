-- SPDX-License-Identifier: MIT
-- lib.hash.siphash: SipHash (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012), a keyed hash function
-- that those who do not know the key cannot find collisions of. Results are the high 32 bits of the 64.
--
-- The functions are made by writing Lua code for the size of their input, with the rounds unrolled and the key inlined,
-- which LuaJIT compiles to machine code that allocates nothing.
--
-- What differs from Snabb, which has them in assembly language: hash values are not the same ones; they are always
-- less than 0xffffffff.
local ffi = require("ffi")
local bit = require("bit")
local lib = require("core.lib")

local M = {}

local KEY_SIZE = 16
-- Inputs of more words than this are hashed in a loop.
local MAX_UNROLLED = 32

--- A random key, a uint8_t[16].
function M.random_sip_hash_key()
   return lib.random_bytes_from_dev_urandom(KEY_SIZE)
end

--- The key of the reference implementation's tests, a uint8_t[16].
function M.reference_sip_hash_key()
   return ffi.new("uint8_t[16]", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
end

--- A key, a uint8_t[16], that depends on `seed` (a number or string) only.
function M.sip_hash_key_from_seed(seed)
   local text = tostring(seed)
   local half = M.make_hash({size = #text, standard = true, key = M.reference_sip_hash_key()})
   local key = ffi.new("union { uint32_t words[4]; uint8_t bytes[16]; }")
   local padded = ffi.new("uint8_t[?]", #text + 1)
   ffi.copy(padded, text, #text)
   for i = 0, 3 do
      key.words[i] = half(padded)
      if #text > 0 then padded[0] = bit.band(padded[0] + 1, 0xff) end
   end
   return ffi.new("uint8_t[16]", key.bytes)
end

local ROUND = [[
v0 = v0 + v1; v1 = bxor(rol(v1, 13), v0); v0 = rol(v0, 32)
v2 = v2 + v3; v3 = bxor(rol(v3, 16), v2)
v0 = v0 + v3; v3 = bxor(rol(v3, 21), v0)
v2 = v2 + v1; v1 = bxor(rol(v1, 17), v2); v2 = rol(v2, 32)
]]

-- Code that takes in the word that the expression `word` gives.
local function compress(word, c)
   return "m = "..word.."\nv3 = bxor(v3, m)\n"..ROUND:rep(c).."v0 = bxor(v0, m)\n"
end

-- Code for the initial state: constants, as the key is known.
local function initial_state(key)
   local k = ffi.new("union { uint8_t bytes[16]; uint64_t words[2]; }")
   ffi.copy(k.bytes, key, KEY_SIZE)
   local function mixed(constant, word) return "0x"..bit.tohex(bit.bxor(constant, word)).."ULL" end
   return ("local v0, v1, v2, v3, m = %s, %s, %s, %s, 0ULL\n"):format(
      mixed(0x736f6d6570736575ULL, k.words[0]), mixed(0x646f72616e646f6dULL, k.words[1]),
      mixed(0x6c7967656e657261ULL, k.words[0]), mixed(0x7465646279746573ULL, k.words[1]))
end

-- The expression for the last word: the bytes that fill no whole one and, as the standard has it, the size. nil if
-- there is none.
local function last_word(size, standard)
   local first, terms = size - size % 8, {}
   for i = 0, size % 8 - 1 do
      terms[#terms + 1] = ("lshift(bytes[%d] + 0ULL, %d)"):format(first + i, i * 8)
   end
   if standard then terms[#terms + 1] = ("0x%02x00000000000000ULL"):format(size % 256) end
   if #terms < 2 then return terms[1] end
   return "bor("..table.concat(terms, ", ")..")"
end

local PROLOGUE = [[
local ffi, bit, barrier = ...
local bxor, bor, rol, rshift, lshift = bit.bxor, bit.bor, bit.rol, bit.rshift, bit.lshift
local cast, tonumber = ffi.cast, tonumber
local words_t, bytes_t = ffi.typeof("const uint64_t *"), ffi.typeof("const uint8_t *")
]]

-- 0xffffffff means "empty" to the users of these functions.
local EPILOGUE = [[
local h = tonumber(rshift(bxor(v0, v1, v2, v3), 32))
if h == 0xffffffff then h = 0xfffffffe end
return h
]]

local function finalize(d)
   return "v2 = bxor(v2, 0xffULL)\n"..ROUND:rep(d)..EPILOGUE
end

-- LuaJIT assumes that memory written as one type is not read as another, and may reuse values that it has read before the
-- key's memory was rewritten. ffi.fill is a barrier.
local scratch = ffi.new("uint8_t[1]")
local function barrier()
   ffi.fill(scratch, 1)
end

local function compile(code)
   return assert(loadstring(PROLOGUE..code, "=siphash"))(ffi, bit, barrier)
end

local function options(given, schema)
   schema.c, schema.d, schema.key, schema.standard = {default = 2}, {default = 4}, {}, {default = false}
   local opts = lib.parse(given, schema)
   opts.key = opts.key or M.random_sip_hash_key()
   return opts
end

--- A function that hashes `size` bytes at the pointer it is given, and returns a number less than 2^32 - 1. `opts` is a
-- table: size; c, d (rounds per word and at the end, default 2 and 4); key (uint8_t[16], default: a random one);
-- standard (true: as the paper says; default: without the size, which is always the same, and the last word if there
-- is nothing in it).
function M.make_hash(opts)
   opts = options(opts, {size = {required = true}})
   local words = math.floor(opts.size / 8)
   local code = {"return function (key)\nbarrier()\nlocal words, bytes = cast(words_t, key), cast(bytes_t, key)\n",
                 initial_state(opts.key)}
   if words > MAX_UNROLLED then
      code[#code + 1] = "for i = 0, "..(words - 1).." do\n"..compress("words[i]", opts.c).."end\n"
   else
      for i = 0, words - 1 do code[#code + 1] = compress("words["..i.."]", opts.c) end
   end
   local last = last_word(opts.size, opts.standard)
   if last then code[#code + 1] = compress(last, opts.c) end
   code[#code + 1] = finalize(opts.d).."end"
   return compile(table.concat(code))
end

--- A function that hashes a number (or 64-bit cdata). `opts`: as for make_hash, without size.
function M.make_u64_hash(opts)
   opts = options(opts, {})
   local last = opts.standard and compress("0x0800000000000000ULL", opts.c) or ""
   return compile("local u64_t = ffi.typeof('uint64_t')\nreturn function (key)\n"..initial_state(opts.key)
      ..compress("cast(u64_t, key)", opts.c)..last..finalize(opts.d).."end")
end

--- A function(keys, hashes) that hashes `width` inputs of `size` bytes, each `stride` bytes (default `size`) after the
-- one before, from the pointer `keys` on, to the uint32_t array `hashes`. `opts`: size, width, stride and as for
-- make_hash.
function M.make_multi_hash(opts)
   opts = options(opts, {size = {required = true}, width = {required = true}, stride = {}})
   local hash = M.make_hash({size = opts.size, c = opts.c, d = opts.d, key = opts.key, standard = opts.standard})
   local width, stride = opts.width, opts.stride or opts.size
   return function (keys, hashes)
      keys = ffi.cast("const uint8_t *", keys)
      for i = 0, width - 1 do hashes[i] = hash(keys + i * stride) end
   end
end

-- The reference implementation in plain steps, of any length.
local function oracle(bytes, size, key, c, d, standard)
   local k = ffi.new("uint64_t[2]")
   ffi.copy(k, key, KEY_SIZE)
   local v = {bit.bxor(0x736f6d6570736575ULL, k[0]), bit.bxor(0x646f72616e646f6dULL, k[1]),
              bit.bxor(0x6c7967656e657261ULL, k[0]), bit.bxor(0x7465646279746573ULL, k[1])}
   local function half(a, b, s, t)
      v[a] = v[a] + v[b]
      v[b] = bit.bxor(bit.rol(v[b], s), v[a])
      if t then v[a] = bit.rol(v[a], t) end
   end
   local function rounds(n)
      for _ = 1, n do
         half(1, 2, 13, 32)
         half(3, 4, 16)
         half(1, 4, 21)
         half(3, 2, 17, 32)
      end
   end
   local function take(m)
      v[4] = bit.bxor(v[4], m)
      rounds(c)
      v[1] = bit.bxor(v[1], m)
   end
   for first = 0, size, 8 do
      local m = first + 8 > size and standard and bit.lshift(size % 256 + 0ULL, 56) or 0ULL
      for i = 0, math.min(7, size - first - 1) do m = bit.bor(m, bit.lshift(bytes[first + i] + 0ULL, i * 8)) end
      if first < size or standard then take(m) end
   end
   v[3] = bit.bxor(v[3], 0xffULL)
   rounds(d)
   return math.min(tonumber(bit.rshift(bit.bxor(v[1], v[2], v[3], v[4]), 32)), 0xfffffffe)
end

local function test_vectors()
   -- The paper's example, appendix A: SipHash-2-4 of 15 bytes is 0xa129ca6149be45e5. The others are of the reference
   -- implementation: 0, 1 and 8 bytes.
   local key, input = M.reference_sip_hash_key(), ffi.new("uint8_t[64]")
   for i = 0, 63 do input[i] = i end
   for size, high in pairs {[15] = 0xa129ca61, [0] = 0x726fdb47, [1] = 0x74f839c5, [8] = 0x93f5f579} do
      local hash = M.make_hash({size = size, key = key, standard = true})
      assert(hash(input) == high, size)
      assert(oracle(input, size, key, 2, 4, true) == high, size)
   end
   assert(M.make_u64_hash({key = key, standard = true})(0x0706050403020100ULL) == 0x93f5f579)
end

function M.selftest()
   test_vectors()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   local key, input = ffi.new("uint8_t[16]"), ffi.new("uint8_t[600]")
   for round = 1, 60 do
      for i = 0, 15 do key[i] = math.random(0, 255) end
      local size = round > 55 and math.random(257, 600) or round
      local standard, c, d = round % 2 == 0, math.random(1, 2), math.random(2, 4)
      local hash = M.make_hash({size = size, key = key, c = c, d = d, standard = standard})
      for _ = 1, 20 do
         for i = 0, size - 1 do input[i] = math.random(0, 255) end
         assert(hash(input) == oracle(input, size, key, c, d, standard), ("seed %d, size %d"):format(seed, size))
      end
   end
   local multi = M.make_multi_hash({size = 6, width = 3, stride = 8, key = key})
   local hashes = ffi.new("uint32_t[3]")
   multi(input, hashes)
   for i = 0, 2 do assert(hashes[i] == oracle(input + i * 8, 6, key, 2, 4, false)) end
   local numbers = M.make_u64_hash({key = key})
   assert(numbers(7) == numbers(7ULL) and numbers(7) ~= numbers(8))
   -- The same memory, written as another type in a loop that is compiled.
   local k, same, last = ffi.new("uint16_t[4]"), 0, nil
   local hash = M.make_hash({size = 8, key = key})
   for i = 1, 300 do
      k[0] = i
      local h = hash(k)
      if h == last then same = same + 1 end
      last = h
   end
   assert(same == 0)
   local a, b = M.sip_hash_key_from_seed(42), M.sip_hash_key_from_seed("42")
   assert(lib.equal(a, b) and not lib.equal(a, M.sip_hash_key_from_seed(43)) and ffi.sizeof(a) == 16)
   assert(not lib.equal(M.random_sip_hash_key(), M.random_sip_hash_key()))
end

return M
