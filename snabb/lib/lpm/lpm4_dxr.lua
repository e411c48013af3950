-- SPDX-License-Identifier: MIT
-- lib.lpm.lpm4_dxr: longest prefix match of IPv4 addresses by DXR (Zec, Rizzo and Mikuc, "DXR: Towards a Billion
-- Routing Lookups per Second in Software", 2012): the address space is cut into intervals with one key each; the first
-- 16 bits of an address give the few intervals of its /16, in which a binary search by the last 16 bits finds its own.
--
-- Prefixes are in a trie; `build` makes the intervals from it. Keys have 16 bits.
local ffi = require("ffi")
local bit = require("bit")
local lpm4 = require("perigee.lib.lpm.lpm4")
local LPM4_trie = require("perigee.lib.lpm.lpm4_trie").LPM4_trie
local band, rshift = bit.band, bit.rshift

local M = {}
local LPM4_dxr = setmetatable({alloc_storable = {"dxr_smints", "dxr_keys", "dxr_bottoms", "dxr_tops"}},
                              {__index = LPM4_trie})
M.LPM4_dxr = LPM4_dxr

local CHUNK = 2^16

-- Searches by number of steps.
local searches = {}

-- A function(smints, i, top, low) that returns the index of the first interval from `i` on that ends at `low` or
-- later; there are fewer than 2^steps from `i` to `top`, and that one does. A binary search without branches, which
-- would break LuaJIT's traces: min and max make a 1 of "less".
local function search_function(steps)
   if not searches[steps] then
      local code = {"local min, max = math.min, math.max\nreturn function (smints, i, top, low)\n"}
      for step = steps - 1, 0, -1 do
         code[#code + 1] = ("i = i + max(0, min(1, low - smints[min(i + %d, top)])) * %d\n"):format(2^step - 1, 2^step)
      end
      code[#code + 1] = "return i\nend"
      searches[steps] = assert(loadstring(table.concat(code), "=dxr_search"))()
   end
   return searches[steps]
end

-- Chooses the function for the greatest number of intervals in a /16.
local function choose_search(self)
   local greatest, steps = 0, 0
   for chunk = 0, CHUNK - 1 do
      greatest = math.max(greatest, self.dxr_tops[chunk] - self.dxr_bottoms[chunk])
   end
   while 2^steps - 1 < greatest do steps = steps + 1 end
   self.dxr_search = search_function(steps)
end

--- A new, empty table.
function LPM4_dxr:new()
   local o = LPM4_trie.new(self)
   -- By interval: the last address's last 16 bits, and the key. By /16: the first and the last interval.
   o:alloc("dxr_smints", ffi.typeof("uint16_t"), CHUNK)
   o:alloc("dxr_keys", ffi.typeof("uint16_t"), CHUNK)
   o:alloc("dxr_bottoms", ffi.typeof("uint32_t"), CHUNK)
   o:alloc("dxr_tops", ffi.typeof("uint32_t"), CHUNK)
   o.dxr_ioff = 0
   o.dxr_search = search_function(0)
   return o
end

-- Adds an interval within one /16, or lengthens the one before.
local function add_part(self, first, last, key)
   local chunk, count = rshift(first, 16), self.dxr_ioff
   if band(first, 0xffff) ~= 0 and self.dxr_keys[count - 1] == key then
      self.dxr_smints[count - 1] = band(last, 0xffff)
      return
   end
   if count == self:dxr_keys_length() then
      self:dxr_keys_grow()
      self:dxr_smints_grow()
   end
   if band(first, 0xffff) == 0 then self.dxr_bottoms[chunk] = count end
   self.dxr_tops[chunk] = count
   self.dxr_keys[count], self.dxr_smints[count] = key, band(last, 0xffff)
   self.dxr_ioff = count + 1
end

-- Adds the interval from `first` to `last`, if it is not empty, in parts of one /16 each.
local function add_interval(self, first, last, key)
   while first <= last do
      local chunk_end = first - first % CHUNK + CHUNK - 1
      add_part(self, first, math.min(last, chunk_end), key)
      first = chunk_end + 1
   end
end

--- Rebuilds the intervals from the prefixes. Returns the table. Errors: if a key has more than 16 bits.
function LPM4_dxr:build()
   self.dxr_ioff = 0
   -- The prefixes that contain the current address, the longest on top: where they end, and their keys.
   local ends, keys, depth = {2^32 - 1}, {0}, 1
   local position = 0
   local function advance(to)
      while ends[depth] < to do
         add_interval(self, position, ends[depth], keys[depth])
         position = math.max(position, ends[depth] + 1)
         depth = depth - 1
      end
   end
   for e in self:entries() do
      if e.key > 0xffff then error(("LPM4_dxr: key %d has more than 16 bits"):format(e.key), 0) end
      advance(e.ip)
      add_interval(self, position, e.ip - 1, keys[depth])
      position = math.max(position, e.ip)
      depth = depth + 1
      ends[depth], keys[depth] = e.ip + 2^(32 - e.length) - 1, e.key
   end
   while depth > 0 do
      add_interval(self, position, ends[depth], keys[depth])
      position = math.max(position, ends[depth] + 1)
      depth = depth - 1
   end
   choose_search(self)
   return self
end

--- Reads what alloc_store has written to the memory at `pointer`.
function LPM4_dxr:alloc_load(pointer)
   LPM4_trie.alloc_load(self, pointer)
   choose_search(self)
end

--- The index of the interval of the address `ip`.
function LPM4_dxr:search_interval(ip)
   local chunk = rshift(ip, 16)
   return (self.dxr_search(self.dxr_smints, self.dxr_bottoms[chunk], self.dxr_tops[chunk], band(ip, 0xffff)))
end

--- The key of the address `ip` at the last `build`; 0 if no prefix matches.
function LPM4_dxr:search(ip)
   return self.dxr_keys[self:search_interval(ip)]
end

function M.selftest()
   lpm4.LPM4.fuzz(function () return LPM4_dxr:new() end, 2^16 - 1)
   local f = LPM4_dxr:new()
   assert(f:search_string("1.2.3.4") == 0 and f:build():search_string("1.2.3.4") == 0)
   f:add_string("0.0.0.0/0", 700)
   f:add_string("192.0.0.0/16", 703)
   f:add_string("192.0.0.0/8", 702)
   f:add_string("255.255.255.255/32", 1)
   f:build()
   assert(f:search_string("1.1.1.1") == 700 and f:search_string("192.1.1.1") == 702)
   assert(f:search_string("192.0.1.1") == 703)
   assert(f:search_string("193.0.0.0") == 700 and f:search_string("255.255.255.255") == 1)
   -- One interval per /16, and one more.
   assert(f.dxr_ioff == CHUNK + 1)
   local memory = ffi.new("uint8_t[?]", 2^20 * 2)
   f:alloc_store(memory)
   local g = LPM4_dxr:new()
   g:alloc_load(memory)
   assert(g:search_string("192.0.1.1") == 703 and g:search_string("0.0.0.0") == 700)
   f:add_string("1.0.0.0/8", 2^16)
   assert(not pcall(f.build, f))
end

return M
