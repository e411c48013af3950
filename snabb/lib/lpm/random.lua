-- SPDX-License-Identifier: MIT
-- lib.lpm.random: a fast generator of pseudo-random numbers for tests: xorshift (Marsaglia, 2003) of 32 bits.
local bit = require("bit")
local bxor, lshift, rshift = bit.bxor, bit.lshift, bit.rshift

local M = {}

--- The number, of 32 bits, that follows `state` in the generator's sequence. 0 follows 0.
function M.u32(state)
   local x = bxor(state, lshift(state, 13))
   x = bxor(x, rshift(x, 17))
   x = bxor(x, lshift(x, 5))
   return x % 2^32
end

function M.selftest()
   assert(M.u32(0) == 0 and M.u32(1) == 270369 and M.u32(270369) == 67634689)
   local x, seen = 1, {}
   for _ = 1, 10000 do
      x = M.u32(x)
      assert(x > 0 and x < 2^32 and not seen[x])
      seen[x] = true
   end
end

return M
