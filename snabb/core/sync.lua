-- SPDX-License-Identifier: MIT
-- core.sync: atomic operations on memory that processes or threads share. The API is Snabb's; where Snabb assembles
-- machine code, perigee's binary exports a compare-and-exchange.

local ffi = require("ffi")
require("core.lib_h")
local C = ffi.C

ffi.cdef[[
int perigee_snabb_compare_exchange_u32(uint32_t *p, uint32_t old, uint32_t new);
]]

local M = {}

local u32_ptr, volatile_ptr = ffi.typeof("uint32_t *"), ffi.typeof("volatile uint32_t *")

--- Atomically: if the 32-bit integer at *pointer* is *old*, set it to *new*. Returns whether it was.
function M.cas (pointer, old, new)
   return C.perigee_snabb_compare_exchange_u32(ffi.cast(u32_ptr, pointer), old, new) ~= 0
end
local cas = M.cas

--- The 32-bit integer at *pointer* as it stands in memory now, as a number.
function M.load (pointer)
   C.full_memory_barrier() -- also keeps the compiler from using an earlier load
   return ffi.cast(volatile_ptr, pointer)[0]
end

--- Set the 32-bit integer at *pointer* once all that was written before can be seen.
function M.store (pointer, value)
   C.full_memory_barrier()
   ffi.cast(volatile_ptr, pointer)[0] = value
end

--- Take a spin lock (a 32-bit integer, 0 = free) if it is free. Returns whether it was.
function M.trylock (pointer)
   return cas(pointer, 0, 1)
end

--- Take a spin lock, waiting for it.
function M.lock (pointer)
   while not cas(pointer, 0, 1) do end
end

--- Release a spin lock.
function M.unlock (pointer)
   M.store(pointer, 0)
end

function M.selftest ()
   local v = ffi.new("uint32_t[3]")
   assert(M.cas(v + 1, 0, 0xffffffff) and v[1] == 0xffffffff and v[0] == 0 and v[2] == 0)
   assert(not M.cas(v + 1, 0, 5) and M.load(v + 1) == 0xffffffff)
   assert(M.cas(v + 1, 0xffffffff, 5) and v[1] == 5)
   M.store(v + 2, 7)
   assert(v[2] == 7)
   assert(M.trylock(v) and not M.trylock(v) and v[0] == 1)
   M.unlock(v)
   M.lock(v)
   assert(v[0] == 1)
   M.unlock(v)
   assert(v[0] == 0)
end

return M
