-- SPDX-License-Identifier: MIT
-- lib.lpm.lpm4_248: longest prefix match of IPv4 addresses by DIR-24-8-BASIC (Gupta, Lin and McKeown, "Routing Lookups
-- in Hardware at Memory Access Speeds", 1998): an array of 2^24 entries by the first 24 bits, which hold a key, or,
-- with the top bit set, the number of a block of 256 entries by the last 8 bits. A lookup is one or two memory
-- accesses.
--
-- Prefixes are in a trie; `build` makes the arrays from it.
local ffi = require("ffi")
local bit = require("bit")
local lpm4 = require("perigee.lib.lpm.lpm4")
local LPM4_trie = require("perigee.lib.lpm.lpm4_trie").LPM4_trie
local band, rshift = bit.band, bit.rshift

local M = {}
local LPM4_248 = setmetatable({alloc_storable = {"lpm4_248_bigarry", "lpm4_248_lilarry"}}, {__index = LPM4_trie})
M.LPM4_248 = LPM4_248

local BLOCK = 256

--- A new, empty table. `config`: {keybits = 15 (default) or 31}, the size of keys, and of what an entry takes: 16 or
-- 32 bits.
function LPM4_248:new(config)
   local keybits = config and config.keybits or 15
   if keybits ~= 15 and keybits ~= 31 then error("LPM4_248 supports 15 or 31 keybits") end
   local o = LPM4_trie.new(self)
   o.keybits, o.flag = keybits, 2^keybits
   local t = ffi.typeof(keybits == 15 and "uint16_t" or "uint32_t")
   o:alloc("lpm4_248_bigarry", t, 2^24)
   o:alloc("lpm4_248_lilarry", t, 16 * BLOCK)
   return o
end

-- Writes `key` to the elements from `first` on.
local function fill(array, first, count, key)
   for i = first, first + count - 1 do array[i] = key end
end

-- The number of the block of the first 24 bits `index`: the one there is or else the block `unused`, filled with the
-- key that it takes the place of.
local function block_of(self, index, unused)
   local entry = self.lpm4_248_bigarry[index]
   if entry >= self.flag then return entry - self.flag, unused end
   if unused >= self.flag then
      error(("LPM4_248: too many prefixes longer than 24 bits for keys of %d bits"):format(self.keybits), 0)
   end
   while (unused + 1) * BLOCK > self:lpm4_248_lilarry_length() do self:lpm4_248_lilarry_grow() end
   fill(self.lpm4_248_lilarry, unused * BLOCK, BLOCK, entry)
   self.lpm4_248_bigarry[index] = self.flag + unused
   return unused, unused + 1
end

--- Rebuilds the arrays from the prefixes. Returns the table. Errors: if a key has too many bits, or there are too
-- many blocks.
function LPM4_248:build()
   ffi.fill(self.lpm4_248_bigarry, 2^24 * ffi.sizeof(self:lpm4_248_bigarry_type()))
   local unused = 0
   -- A prefix comes after those that contain it.
   for e in self:entries() do
      if e.key >= self.flag then error(("LPM4_248: key %d has more than %d bits"):format(e.key, self.keybits), 0) end
      local index = rshift(e.ip, 8)
      if e.length <= 24 then
         fill(self.lpm4_248_bigarry, index, 2^(24 - e.length), e.key)
      else
         local block
         block, unused = block_of(self, index, unused)
         fill(self.lpm4_248_lilarry, block * BLOCK + band(e.ip, 255), 2^(32 - e.length), e.key)
      end
   end
   return self
end

--- The key of the address `ip` at the last `build`; 0 if no prefix matches.
function LPM4_248:search(ip)
   local entry = self.lpm4_248_bigarry[rshift(ip, 8)]
   local block = entry - self.flag
   if block < 0 then return entry end
   return self.lpm4_248_lilarry[block * BLOCK + band(ip, 255)]
end

function M.selftest()
   for _, keybits in ipairs {15, 31} do
      local f = lpm4.LPM4.fuzz(function () return LPM4_248:new({keybits = keybits}) end, 2^keybits - 1)
      local size = 16 + 2^24 * (keybits + 1) / 8 + f:lpm4_248_lilarry_length() * (keybits + 1) / 8
      local memory = ffi.new("uint8_t[?]", size)
      assert(f:alloc_store(memory) == size)
      local g = LPM4_248:new({keybits = keybits})
      g:alloc_load(memory)
      for e in f:entries() do assert(g:search(e.ip) == f:search(e.ip)) end
   end
   local f = LPM4_248:new()
   f:add_string("10.0.0.0/8", 2^15)
   local ok, message = pcall(f.build, f)
   assert(not ok and message:find("key 32768 has more than 15 bits", 1, true))
   f:add_string("10.0.0.0/8", 2^15 - 1)
   assert(f:search_string("10.1.1.1") == 0 and f:build():search_string("10.1.1.1") == 2^15 - 1)
   assert(not pcall(LPM4_248.new, LPM4_248, {keybits = 7}))
end

return M
