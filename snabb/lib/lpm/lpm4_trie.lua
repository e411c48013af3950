-- SPDX-License-Identifier: MIT
-- lib.lpm.lpm4_trie: IPv4 prefixes in a binary trie whose paths are compressed. Changes are seen by lookups at once.
--
-- Nodes are structs in one array, `lpm4_trie`; node 0 is the root, 0.0.0.0/0, which is always there. `key` 0 is a node
-- that holds no prefix of its own; down[b], the node below whose bit `length` is b; 0 means none.
local ffi = require("ffi")
local bit = require("bit")
local ip4 = require("perigee.lib.lpm.ip4")
local lpm4 = require("perigee.lib.lpm.lpm4")
local masked, get_bit, commonlength = ip4.masked, ip4.get_bit, ip4.commonlength
local band, rshift = bit.band, bit.rshift

local M = {}
local LPM4_trie = setmetatable({alloc_storable = {"lpm4_trie"}}, {__index = lpm4.LPM4})
M.LPM4_trie = LPM4_trie

local node_t = ffi.typeof("struct { uint32_t ip; int32_t key; int32_t length; int32_t down[2]; }")

--- A new, empty table.
function LPM4_trie:new()
   local o = lpm4.LPM4.new(self)
   o:alloc("lpm4_trie", node_t, 1024, 1)
   return o
end

--- The index of a new node: 0.0.0.0/0 without key. The array may move.
function LPM4_trie:get_node()
   local t = self:lpm4_trie_new()
   ffi.fill(self.lpm4_trie + t, ffi.sizeof(node_t))
   return t
end

--- Gives back the node of the index `t`.
function LPM4_trie:return_node(t)
   self:lpm4_trie_free(t)
end

-- The index of a new node for the prefix.
local function new_node(self, ip, length, key)
   local t = self:get_node()
   local node = self.lpm4_trie[t]
   node.ip, node.length, node.key = masked(ip, length), length, key
   return t
end

local function check_prefix(ip, length)
   if not (length >= 0 and length <= 32 and length % 1 == 0 and ip >= 0 and ip < 2^32) then
      error(("not an IPv4 prefix: %s/%s"):format(tostring(ip), tostring(length)), 3)
   end
end

--- Maps the prefix of `length` bits of `ip` (a number in host byte order) to `key`, a number from 1 to 2^31 - 1; if it
-- is there already, the key is replaced.
function LPM4_trie:add(ip, length, key)
   ip, length = tonumber(ip), tonumber(length)
   check_prefix(ip, length)
   if not (key >= 1 and key < 2^31) then error("key out of range: "..tostring(key)..", expected 1 to 2^31 - 1", 2) end
   ip = masked(ip, length)
   local t = 0
   while self.lpm4_trie[t].length < length do
      local ts = self.lpm4_trie
      local b = get_bit(ip, ts[t].length)
      local child = ts[t].down[b]
      if child == 0 then
         local leaf = new_node(self, ip, length, key)
         self.lpm4_trie[t].down[b] = leaf
         return
      end
      local common = math.min(commonlength(ip, ts[child].ip), length, ts[child].length)
      if common < ts[child].length then
         -- The child is not on the way: a node above it, where the ways part.
         local between = new_node(self, ip, common, 0)
         ts = self.lpm4_trie
         ts[between].down[get_bit(ts[child].ip, common)] = child
         ts[t].down[b] = between
         child = between
      end
      t = child
   end
   self.lpm4_trie[t].key = key
end

-- The nodes on the way to the prefix: the node itself, the one above it and the one above that; nil if it is not there.
local function find_exact(self, ip, length)
   local ts = self.lpm4_trie
   local t, above, top = 0, nil, nil
   while ts[t].length < length do
      local child = ts[t].down[get_bit(ip, ts[t].length)]
      if child == 0 then return nil end
      t, above, top = child, t, above
   end
   if ts[t].length ~= length or ts[t].ip ~= ip then return nil end
   return t, above, top
end

local function replace_child(node, old, new)
   if node.down[0] == old then node.down[0] = new else node.down[1] = new end
end

-- Takes out the node `t` below the node `above` if it has neither key nor two children.
local function prune(self, t, above)
   local ts = self.lpm4_trie
   local node = ts[t]
   if above == nil or node.key ~= 0 or (node.down[0] ~= 0 and node.down[1] ~= 0) then return end
   replace_child(ts[above], t, node.down[0] ~= 0 and node.down[0] or node.down[1])
   self:return_node(t)
end

--- Removes the prefix of `length` bits of `ip`; nothing if it is not there.
function LPM4_trie:remove(ip, length)
   ip, length = tonumber(ip), tonumber(length)
   check_prefix(ip, length)
   local t, above, top = find_exact(self, masked(ip, length), length)
   if t == nil then return end
   self.lpm4_trie[t].key = 0
   prune(self, t, above)
   if above then prune(self, above, top) end
end

--- An iterator over all entries (structs of ip, length, key) by address, shorter prefixes first. Each is the same
-- struct, filled again. The table must not be changed meanwhile.
function LPM4_trie:entries()
   local entry, stack, depth = lpm4.entry(), {0}, 1
   return function ()
      while depth > 0 do
         local node = self.lpm4_trie[stack[depth]]
         depth = depth - 1
         for b = 1, 0, -1 do
            if node.down[b] ~= 0 then
               depth = depth + 1
               stack[depth] = node.down[b]
            end
         end
         if node.key ~= 0 then
            entry.ip, entry.length, entry.key = node.ip, node.length, node.key
            return entry
         end
      end
   end
end

--- Whether there are nodes below the prefix of `length` bits of `ip`, that is longer prefixes in it.
function LPM4_trie:has_child(ip, length)
   local ts = self.lpm4_trie
   local t = 0
   while ts[t].length < length do
      t = ts[t].down[get_bit(ip, ts[t].length)]
      if t == 0 then return false end
   end
   if masked(ts[t].ip, length) ~= masked(ip, length) then return false end
   return ts[t].length > length or ts[t].down[0] ~= 0 or ts[t].down[1] ~= 0
end

--- The index of the node of the longest prefix of at most `length` (default 32) bits that matches `ip`; with
-- `internal`, also of a node without a prefix of its own. nil if there is none.
function LPM4_trie:search_trie(ip, length, internal)
   local ts = self.lpm4_trie
   local t, best = 0, nil
   length = length or 32
   repeat
      local node = ts[t]
      if node.length > length or masked(ip, node.length) ~= node.ip then break end
      if node.key ~= 0 or internal then best = t end
      if node.length == 32 then break end
      t = node.down[band(rshift(ip, 31 - node.length), 1)]
   until t == 0
   return best
end

-- A new struct of the node `t`; nil of nil.
local function make_entry(self, t)
   if t == nil then return nil end
   local node = self.lpm4_trie[t]
   return lpm4.entry(node.ip, node.key, node.length)
end

--- The entry (ip, length, key) of the longest prefix that matches `ip`; nil if there is none.
function LPM4_trie:search_entry(ip)
   return make_entry(self, self:search_trie(tonumber(ip)))
end

--- The entry of just the prefix of `length` bits of `ip`; nil if it is not there.
function LPM4_trie:search_entry_exact(ip, length)
   local t = find_exact(self, masked(ip, length), length)
   if t == nil or self.lpm4_trie[t].key == 0 then return nil end
   return make_entry(self, t)
end

--- The key of the address `ip`; 0 if no prefix matches.
function LPM4_trie:search(ip)
   local t = self:search_trie(tonumber(ip))
   return t and self.lpm4_trie[t].key or 0
end

local function test_nodes()
   local f = LPM4_trie:new()
   assert(f:get_node() == 1 and f:get_node() == 2 and f:get_node() == 3)
   f:return_node(1)
   assert(f:get_node() == 1 and f:get_node() == 4)
   f = LPM4_trie:new()
   for i = 0, 2999 do f:add(i * 256, 24, i + 1) end
   assert(f:search(1234 * 256 + 7) == 1235 and f:lpm4_trie_length() >= 6000)
   local before = f:lpm4_trie_length()
   for _ = 1, 3 do
      for i = 0, 2999 do f:remove(i * 256, 24) end
      assert(f:entries()() == nil and f.lpm4_trie[0].down[0] == 0 and f.lpm4_trie[0].down[1] == 0)
      for i = 0, 2999 do f:add(i * 256, 24, i + 1) end
   end
   assert(f:lpm4_trie_length() == before, "nodes are used again")
   local memory = ffi.new("uint8_t[?]", 8 + f:lpm4_trie_length() * ffi.sizeof(node_t))
   f:alloc_store(memory)
   local g = LPM4_trie:new()
   g:alloc_load(memory)
   assert(g:search(2999 * 256) == 3000)
end

function M.selftest()
   test_nodes()
   local f = LPM4_trie:new()
   f:add_string("192.0.0.0/8", 1)
   f:add_string("192.64.0.0/11", 2)
   f:add_string("192.32.0.0/11", 3)
   local p = ip4.parse
   assert(f:has_child(p("128.0.0.0"), 1) and f:has_child(p("192.0.0.0"), 8) and f:has_child(p("192.64.0.0"), 10))
   assert(not f:has_child(p("192.64.0.0"), 11) and not f:has_child(p("0.0.0.0"), 1))
   assert(not f:has_child(p("192.128.0.0"), 9))
   assert(f.lpm4_trie[f:search_trie(p("192.64.1.1"), 8)].key == 1 and f:search_trie(p("192.64.1.1"), 7) == nil)
   assert(f:search_string("192.64.1.1") == 2 and f:search_string("193.0.0.0") == 0)
   f:add_string("192.64.0.0/11", 9)
   assert(f:search_string("192.64.1.1") == 9)
   for _, bad in ipairs {{0, 33, 1}, {0, -1, 1}, {2^32, 32, 1}, {-1, 32, 1}, {0, 0, 0}, {0, 0, 2^31}} do
      assert(not pcall(f.add, f, unpack(bad)))
   end
   lpm4.LPM4.fuzz(function () return LPM4_trie:new() end, 2^31 - 1)
end

return M
