-- SPDX-License-Identifier: MIT
-- core.memory: memory for DMA. The API is Snabb's.
--
-- Memory comes in chunks of one huge page: from the reserved huge pages if there are any, otherwise from ordinary
-- memory that is aligned to a huge page, so that the kernel can make it one. It is zeroed, touched, and never freed.
--
-- Differs from Snabb: devices are driven by DPDK, whose I/O addresses are virtual addresses (IOVA as VA). So the
-- "physical" address that `dma_alloc` and `virtual_to_physical` return is the virtual address itself, as a uint64_t.
-- Memory that is allocated here is not registered with any device and is not shared with other processes; packets are
-- (see core.packet).

local ffi = require("ffi")
local sys = require("core.sys")

local M = {}

local char_ptr = ffi.typeof("char *")

--- Bytes of a huge page, as the kernel says: see huge_page_size.
function M.get_huge_page_size ()
   local file = io.open("/proc/meminfo")
   if file then
      local kilobytes = file:read("*a"):match("Hugepagesize: +(%d+) kB")
      file:close()
      if kilobytes then return tonumber(kilobytes) * 1024 end
   end
   return 2 * 1024 * 1024
end

--- Bytes of a page.
M.base_page_size = 4096
--- Bytes of a huge page, which is also the most that `dma_alloc` returns at once.
M.huge_page_size = M.get_huge_page_size()
--- Address bits within a huge page: log2 of `huge_page_size`.
M.huge_page_bits = math.floor(math.log(M.huge_page_size) / math.log(2) + 0.5)
--- All chunks: {pointer = char *, physical = uint64_t, size =, used = (bytes)}. The last one serves allocations.
M.chunks = {}
--- Lowest address of memory allocated here; false as long as there is none.
M.dma_min_addr = false
--- The address after the highest of memory allocated here; false as long as there is none.
M.dma_max_addr = false

-- A huge page, or as much ordinary memory with the same alignment.
local function allocate_chunk (size)
   local at = sys.map_memory(size, true)
   if at then return at end
   local all, why = sys.map_memory(2 * size, false)
   if not all then error(("memory: cannot allocate %d bytes: %s"):format(size, why), 3) end
   local start = tonumber(ffi.cast("uintptr_t", all))
   local aligned = math.ceil(start / size) * size
   at = ffi.cast("void *", ffi.cast("uintptr_t", aligned))
   if aligned > start then sys.unmap(all, aligned - start) end
   local rest = start + size - aligned
   if rest > 0 then sys.unmap(ffi.cast("void *", ffi.cast("uintptr_t", aligned + size)), rest) end
   sys.prefer_huge_pages(at, size)
   return at
end

--- Add a chunk to `chunks`; `dma_alloc` does so by itself.
function M.allocate_next_chunk ()
   local size = M.huge_page_size
   local pointer = ffi.cast(char_ptr, allocate_chunk(size))
   for offset = 0, size - 1, M.base_page_size do pointer[offset] = 0 end -- touch it now, not in a breath
   local physical = M.virtual_to_physical(pointer)
   M.chunks[#M.chunks + 1] = {pointer = pointer, physical = physical, size = size, used = 0}
   local low = tonumber(physical)
   M.dma_min_addr = math.min(M.dma_min_addr or low, low)
   M.dma_max_addr = math.max(M.dma_max_addr or 0, low + size)
end

local function is_power_of_2 (n)
   return n >= 1 and math.log(n) / math.log(2) % 1 == 0
end

--- Allocate *bytes* (up to `huge_page_size`) of zeroed memory aligned to *align* bytes (a power of 2, 128 if
--- omitted). Returns a `char *`, the physical address (a uint64_t, here the virtual address) and the size. It is
--- never freed.
function M.dma_alloc (bytes, align)
   align = align or 128
   if type(bytes) ~= "number" or bytes < 0 or bytes % 1 ~= 0 or bytes > M.huge_page_size then
      error(("memory: dma_alloc takes 0 to %d bytes, not %s"):format(M.huge_page_size, tostring(bytes)), 2)
   end
   if type(align) ~= "number" or not is_power_of_2(align) or align > M.huge_page_size then
      error(("memory: the alignment is a power of 2 up to %d, not %s"):format(M.huge_page_size, tostring(align)), 2)
   end
   local chunk = M.chunks[#M.chunks]
   local where = chunk and math.ceil(chunk.used / align) * align
   if not chunk or where + bytes > chunk.size then
      M.allocate_next_chunk()
      chunk, where = M.chunks[#M.chunks], 0
   end
   chunk.used = where + bytes
   return chunk.pointer + where, chunk.physical + where, bytes
end

--- The physical address of memory, as devices see it: the virtual address, as a uint64_t. Errors for a null pointer.
function M.virtual_to_physical (pointer)
   local value = ffi.cast("uint64_t", ffi.cast("uintptr_t", ffi.cast("void *", pointer)))
   if value == 0 then error("memory: the null pointer has no physical address", 2) end
   return value
end

--- Does nothing: all memory has the addresses that `virtual_to_physical` returns. Here for programs that call it.
function M.set_use_physical_memory () end

--- Does nothing: there is one allocator. Here for programs that call it.
function M.set_default_allocator () end

--- Does nothing: the memory goes with the process. Snabb's core.main calls it when a process has ended.
function M.shutdown () end

function M.selftest ()
   local p, physical, size = M.dma_alloc(100)
   assert(size == 100 and ffi.istype("char *", p) and ffi.istype("uint64_t", physical))
   assert(physical == M.virtual_to_physical(p) and physical % 128 == 0 and 2^M.huge_page_bits == M.huge_page_size)
   for i = 0, 99 do assert(p[i] == 0) end
   ffi.fill(p, 100, 0x5a)
   -- Allocations do not overlap, are aligned, and are zero.
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED") or "1")
   math.randomseed(seed)
   local taken = {{at = tonumber(physical), size = 100}}
   for _ = 1, 60 do
      local bytes, align = math.random(0, 200000), 2^math.random(0, 16)
      local at, address = M.dma_alloc(bytes, align)
      assert(address % align == 0, "seed "..seed)
      for i = 0, bytes - 1, 997 do assert(at[i] == 0, "seed "..seed) end
      ffi.fill(at, bytes, 1)
      taken[#taken + 1] = {at = tonumber(address), size = bytes}
   end
   table.sort(taken, function (a, b) return a.at < b.at or a.at == b.at and a.size < b.size end)
   for i = 2, #taken do
      assert(taken[i - 1].at + taken[i - 1].size <= taken[i].at, "seed "..seed)
      assert(taken[i].at >= M.dma_min_addr and taken[i].at + taken[i].size <= M.dma_max_addr)
   end
   local whole = M.dma_alloc(M.huge_page_size, M.huge_page_size)
   whole[M.huge_page_size - 1] = 1
   assert(M.virtual_to_physical(whole) % M.huge_page_size == 0 and M.chunks[#M.chunks].used == M.huge_page_size)
   for _, bad in ipairs{{M.huge_page_size + 1}, {-1}, {1.5}, {"x"}, {10, 3}, {10, 0}, {10, 2 * M.huge_page_size}, {}} do
      assert(not pcall(M.dma_alloc, bad[1], bad[2]))
   end
   assert(not pcall(M.virtual_to_physical, nil))
end

return M
