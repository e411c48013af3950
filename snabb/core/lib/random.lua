-- SPDX-License-Identifier: MIT
-- core.lib.random: random bytes and strings. Part of core.lib, which re-exports it.
local ffi = require("ffi")

local M = {}

--- `count` random bytes of the kernel (/dev/urandom), a uint8_t[count].
function M.random_bytes_from_dev_urandom(count)
   local bytes = ffi.new(ffi.typeof("uint8_t[$]", count))
   local file = assert(io.open("/dev/urandom", "rb"))
   file:setvbuf("no")
   local data = file:read(count)
   file:close()
   assert(data and #data == count, "/dev/urandom: short read")
   ffi.copy(bytes, data, count)
   return bytes
end

--- `count` bytes of math.random, a uint8_t[count]: the same ones for the same seed.
function M.random_bytes_from_math_random(count)
   local bytes = ffi.new(ffi.typeof("uint8_t[$]", count))
   for i = 0, count - 1 do bytes[i] = math.random(0, 255) end
   return bytes
end

local source = M.random_bytes_from_dev_urandom

--- `count` random bytes, a uint8_t[count], of the kernel or, after `randomseed` with a seed, of math.random.
function M.random_bytes(count)
   return source(count)
end

--- Seeds math.random with `seed` (a number or numeric string), says so on standard error and makes random_bytes
-- deterministic; without a seed (nil, or no number), seeds math.random from the kernel. Returns the seed.
function M.randomseed(seed)
   seed = tonumber(seed)
   if seed then
      io.stderr:write(("Using deterministic random numbers, SNABB_RANDOM_SEED=%d.\n"):format(seed))
      source = M.random_bytes_from_math_random
   else
      seed = ffi.cast("uint32_t *", M.random_bytes_from_dev_urandom(4))[0]
      source = M.random_bytes_from_dev_urandom
   end
   math.randomseed(seed)
   return seed
end

--- A string of `length` random bytes.
function M.random_data(length)
   return ffi.string(M.random_bytes(length), length)
end

-- 64 characters: 6 bits each.
local ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

--- A random string of letters, digits, "_" and "-" of at least `entropy` (default 160) bits.
function M.random_printable_string(entropy)
   local length = math.ceil((entropy or 160) / 6)
   local bytes, characters = M.random_bytes(length), {}
   for i = 1, length do
      local index = bytes[i - 1] % 64 + 1
      characters[i] = ALPHABET:sub(index, index)
   end
   return table.concat(characters)
end

function M.selftest()
   require("core.lib").selftest()
end

return M
