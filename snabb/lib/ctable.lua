-- SPDX-License-Identifier: MIT
-- lib.ctable: a hash table whose keys and values are cdata, stored in one block of memory.
--
-- A Robin Hood hash table with linear probing, ordered by hash value: the entry of hash h is at the index h * size /
-- 2^32 or some places behind it, at most `max_displacement`. An entry is a struct of hash (uint32_t; 0xffffffff:
-- empty), key, value, and padding to a power of two. So a search is one short scan, up to the first greater hash.
--
-- What differs from Snabb: entries are never written beyond the table's memory: where one would be displaced further
-- than
-- `max_displacement_limit`, the table grows. `load` checks what it reads. Both `save` and `load` take open Lua files,
-- too. A lookup streamer is a loop of lookups.
local ffi = require("ffi")
local lib = require("core.lib")
local siphash = require("lib.hash.siphash")
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local copy = ffi.copy

ffi.cdef [[
int perigee_ctable_memcmp(const void *, const void *, size_t) __asm__("memcmp");
void *perigee_ctable_calloc(size_t, size_t) __asm__("calloc");
void perigee_ctable_free(void *) __asm__("free");
]]
local C = ffi.C
local memcmp = C.perigee_ctable_memcmp

local HASH_MAX = 0xffffffff
-- Rounds of SipHash for each word and at the end: enough to spread keys.
local SIP_C, SIP_D = 1, 2

local M = {}
local CTable = {}
local LookupStreamer = {}
local u8_p = ffi.typeof("uint8_t *")
M.CTable, M.LookupStreamer = CTable, LookupStreamer

local function is_scalar(ctype)
   return tonumber(ffi.new(ctype)) ~= nil
end

local function hash_function(key_type, seed)
   if is_scalar(key_type) then return siphash.make_u64_hash({c = SIP_C, d = SIP_D, key = seed}) end
   return siphash.make_hash({c = SIP_C, d = SIP_D, size = ffi.sizeof(key_type), key = seed})
end

-- A function that compares two keys.
local function equal_function(key_type)
   local size = ffi.sizeof(key_type)
   local cast = ffi.cast
   if is_scalar(key_type) then return function (a, b) return a == b end end
   local word_t = ({[1] = "uint8_t", [2] = "uint16_t", [4] = "uint32_t", [8] = "uint64_t"})[size]
   if word_t then
      local ptr_t = ffi.typeof("const "..word_t.." *")
      return function (a, b) return cast(ptr_t, a)[0] == cast(ptr_t, b)[0] end
   elseif size == 6 then
      local u32_p, u16_p = ffi.typeof("const uint32_t *"), ffi.typeof("const uint16_t *")
      return function (a, b)
         return cast(u32_p, a)[0] == cast(u32_p, b)[0] and cast(u16_p, a)[2] == cast(u16_p, b)[2]
      end
   elseif size == 16 then
      local u64_p = ffi.typeof("const uint64_t *")
      return function (a, b)
         local x, y = cast(u64_p, a), cast(u64_p, b)
         return x[0] == y[0] and x[1] == y[1]
      end
   end
   return function (a, b) return memcmp(a, b, size) == 0 end
end

-- The most steps of a search that is made of straight code; those of tables with a greater max_displacement are loops.
local MAX_STEPS = 6

-- Searches by number of steps.
local searches = {}

-- A function(entries, index, hash) that returns the index of the first entry from `index` on whose hash is at least
-- `hash`, if it is within 2^steps - 1 entries, and that index otherwise. A binary search without branches: min and max
-- make a 1 of "less".
local function make_search(steps)
   local code = {"local min, max = math.min, math.max\nreturn function (entries, i, hash)\n"}
   for step = steps - 1, 0, -1 do
      code[#code + 1] = ("i = i + max(0, min(1, hash - entries[i + %d].hash)) * %d\n"):format(2^step - 1, 2^step)
   end
   code[#code + 1] = "return i\nend"
   return assert(loadstring(table.concat(code), "=ctable_search"))()
end

local function search_in_loop(entries, index, hash)
   while entries[index].hash < hash do index = index + 1 end
   return index
end

-- The function for tables whose entries are displaced by `displacement` at most.
local function search_function(displacement)
   local steps = 0
   while 2^steps - 1 < displacement do steps = steps + 1 end
   if steps > MAX_STEPS then return search_in_loop end
   searches[steps] = searches[steps] or make_search(steps)
   return searches[steps]
end

-- Entry types by key and value type, as LuaJIT never frees types.
local entry_types = {}

local function entry_type(key_type, value_type)
   local by_value = entry_types[key_type] or {}
   entry_types[key_type] = by_value
   if by_value[value_type] == nil then
      local size = 4 + ffi.sizeof(key_type) + ffi.sizeof(value_type)
      local whole = 1
      while whole < size do whole = whole * 2 end
      by_value[value_type] = ffi.typeof([[
         struct { uint32_t hash; $ key; $ value; uint8_t padding[$]; } __attribute__((packed))
      ]], key_type, value_type, whole - size)
   end
   return by_value[value_type]
end

local schema = {
   key_type = {required = true},
   value_type = {required = true},
   hash_seed = {},
   initial_size = {default = 8},
   max_occupancy_rate = {default = 0.9},
   min_occupancy_rate = {default = 0.0},
   resize_callback = {},
   max_displacement_limit = {default = 1 / 0}
}

--- A new, empty table. `params` is a table:
--   key_type, value_type        ctypes (required),
--   initial_size                number of places (8),
--   max_occupancy_rate          how full it may get before it doubles (0.9; at most 1),
--   min_occupancy_rate          how empty it may get by removals before it halves (0: never),
--   hash_seed                   uint8_t[16] (a random one),
--   max_displacement_limit      how far from its place an entry may be (no limit); saves memory,
--   resize_callback             function(table, old_size), called after it has been resized (none).
function M.new(params)
   params = lib.parse(params, schema)
   local key_type, value_type = ffi.typeof(params.key_type), ffi.typeof(params.value_type)
   local rate = params.max_occupancy_rate
   if not (rate > 0 and rate <= 1) then error("max_occupancy_rate must be more than 0 and at most 1, not "..rate) end
   local ctab = setmetatable({
      key_type = key_type, entry_type = entry_type(key_type, value_type), equal_fn = equal_function(key_type),
      size = 0, occupancy = 0, max_displacement = 0, byte_size = 0,
      max_occupancy_rate = rate, min_occupancy_rate = params.min_occupancy_rate,
      resize_callback = params.resize_callback, max_displacement_limit = params.max_displacement_limit
   }, {__index = CTable})
   ctab.type = ffi.typeof("$[?]", ctab.entry_type)
   ctab.entry_size = ffi.sizeof(ctab.entry_type)
   -- A place for an entry that is being moved.
   ctab.spare = ctab.entry_type()
   ctab:reseed_hash_function(params.hash_seed)
   ctab:resize(params.initial_size)
   return ctab
end

--- Gives the table another hash function: of the key `seed`, or, without, of one that depends on the environment
-- variable SNABB_RANDOM_SEED only, if that is set, or of a random one. Only for empty tables.
function CTable:reseed_hash_function(seed)
   local fixed = lib.getenv("SNABB_RANDOM_SEED")
   self.hash_seed = seed or fixed and siphash.sip_hash_key_from_seed(fixed) or siphash.random_sip_hash_key()
   self.hash_fn = hash_function(self.key_type, self.hash_seed)
end

-- Memory for `count` empty entries.
local function allocate(ctab, count)
   local memory = C.perigee_ctable_calloc(count, ctab.entry_size)
   if memory == nil then error(("ctable: no memory for %d entries of %d bytes"):format(count, ctab.entry_size)) end
   local entries = ffi.gc(ffi.cast(ffi.typeof("$ *", ctab.entry_type), memory), C.perigee_ctable_free)
   for i = 0, count - 1 do entries[i].hash = HASH_MAX end
   return entries
end

-- How many entries there is memory for in a table of `size` places: all could be displaced from the last one, and a search
-- may look further; they are always empty.
local function capacity(ctab, size)
   return size + min(size, ctab.max_displacement_limit) + 2^MAX_STEPS
end

local function set_max_displacement(ctab, displacement)
   ctab.max_displacement = displacement
   ctab.search = search_function(displacement)
end

--- Gives the table `size` places, and another hash function unless it is new. All pointers to entries become invalid.
-- Errors, after which the table is as before: if the entries do not fit, or there is no memory.
function CTable:resize(size)
   -- A hash has 32 bits.
   local fine = size == floor(size) and size >= 0 and size <= HASH_MAX
   if not fine or self.occupancy > ceil(size * self.max_occupancy_rate) then
      error(("ctable: cannot resize to %s places: %d entries"):format(tostring(size), self.occupancy))
   end
   local entries = allocate(self, capacity(self, size))
   local old_entries, old_size, old_count = self.entries, self.size, self.size + self.max_displacement
   self.size = size
   self.scale = size / HASH_MAX
   self.capacity = capacity(self, size)
   self.entries = entries
   self.byte_size = self.entry_size * self.capacity
   self.occupancy = 0
   set_max_displacement(self, 0)
   self.occupancy_hi = ceil(size * self.max_occupancy_rate)
   self.occupancy_lo = floor(size * self.min_occupancy_rate)
   if old_size > 0 then
      self:reseed_hash_function()
      for i = 0, old_count - 1 do
         local entry = old_entries[i]
         if entry.hash ~= HASH_MAX then self:add(entry.key, entry.value) end
      end
   end
   if self.resize_callback then self.resize_callback(self, old_size) end
end

--- The size in bytes of the memory that holds the entries.
function CTable:get_backing_size()
   return self.byte_size
end

-- Puts an empty entry at `index` by moving what is there, up to the next empty place, one further. Returns false, and
-- changes nothing, if an entry would go further than it may.
local function make_room(ctab, index)
   local entries, scale, limit = ctab.entries, ctab.scale, ctab.max_displacement_limit
   local empty, furthest = index, 0
   while entries[empty].hash ~= HASH_MAX do
      furthest = max(furthest, empty + 1 - floor(entries[empty].hash * scale))
      empty = empty + 1
   end
   if furthest > limit then return false end
   for i = empty, index + 1, -1 do copy(entries + i, entries + (i - 1), ctab.entry_size) end
   if furthest > ctab.max_displacement then set_max_displacement(ctab, furthest) end
   return true
end

-- Twice the places. That does not help a table that is nearly empty.
local function grow(ctab)
   if ctab.size > 1024 and ctab.occupancy < ctab.size / 64 then
      error("ctable: max_displacement_limit is too low: too many keys of like hashes")
   end
   ctab:resize(max(ctab.size * 2, 1))
end

--- Adds an entry of copies of `key` and `value`, and returns a pointer to it, which is valid until the table is next
-- changed. If the key is there already: an error, unless `updates_allowed` is true (the value is replaced), "required"
-- (so, and it is an error if the key is not there) or "preserve" (the entry stays as it is).
-- Errors: "key is already present in ctable", "key not found in ctable".
function CTable:add(key, value, updates_allowed)
   -- A grown table has another hash function.
   if self.occupancy + 1 > self.occupancy_hi and updates_allowed ~= "required" then grow(self) end
   local hash = self.hash_fn(key)
   local entries = self.entries
   local start = floor(hash * self.scale)
   local index = search_in_loop(entries, self.search(entries, start, hash), hash)
   while entries[index].hash == hash do
      local entry = entries + index
      if self.equal_fn(key, entry.key) then
         if not updates_allowed then error("key is already present in ctable") end
         if updates_allowed ~= "preserve" then entry.value = value end
         return entry
      end
      index = index + 1
   end
   if updates_allowed == "required" then error("key not found in ctable") end
   if index - start > self.max_displacement_limit or not make_room(self, index) then
      grow(self)
      return self:add(key, value)
   end
   if index - start > self.max_displacement then set_max_displacement(self, index - start) end
   self.occupancy = self.occupancy + 1
   local entry = entries + index
   entry.hash = hash
   entry.key = key
   entry.value = value
   return entry
end

--- Another name of `add`, which some programs use.
function CTable:insert(key, value, updates_allowed)
   return self:add(key, value, updates_allowed)
end

--- Replaces the value of the entry of `key`. Errors: "key not found in ctable".
function CTable:update(key, value)
   return self:add(key, value, "required")
end

-- The rare case of several keys with the same hash.
local function lookup_further(ctab, key, hash, index)
   local entries = ctab.entries
   while entries[index].hash == hash do
      if ctab.equal_fn(key, entries[index].key) then return entries + index end
      index = index + 1
   end
   return nil
end

--- A pointer to the entry of `key` (fields hash, key, value), valid until the table is next changed; nil if there is
-- none.
function CTable:lookup_ptr(key)
   local hash = self.hash_fn(key)
   local entries = self.entries
   local index = self.search(entries, floor(hash * self.scale), hash)
   if entries[index].hash ~= hash then return nil end
   if self.equal_fn(key, entries[index].key) then return entries + index end
   return lookup_further(self, key, hash, index + 1)
end

--- Copies the entry of `key` to `entry`, a struct of `entry_type`. Returns whether there is one.
function CTable:lookup_and_copy(key, entry)
   local found = self:lookup_ptr(key)
   if not found then return false end
   copy(entry, found, self.entry_size)
   return true
end

--- Removes the entry at the pointer `entry`, which lookup_ptr, add or iterate has given.
function CTable:remove_ptr(entry)
   local entries, scale = self.entries, self.scale
   local index = tonumber(entry - entries)
   if index < 0 or index >= self.size + self.max_displacement or entries[index].hash == HASH_MAX then
      error("ctable: not a pointer to an entry of this table")
   end
   -- The displaced entries behind it move up.
   while true do
      local following = entries[index + 1].hash
      if following == HASH_MAX or floor(following * scale) == index + 1 then break end
      copy(entries + index, entries + (index + 1), self.entry_size)
      index = index + 1
   end
   entries[index].hash = HASH_MAX
   self.occupancy = self.occupancy - 1
   if self.occupancy < self.occupancy_lo then self:resize(max(ceil(self.size / 2), 1)) end
end

--- Removes the entry of `key`. Returns true; or false if there is none and `missing_allowed` is true.
-- Errors: "key not found in ctable".
function CTable:remove(key, missing_allowed)
   local entry = self:lookup_ptr(key)
   if not entry then
      if not missing_allowed then error("key not found in ctable") end
      return false
   end
   self:remove_ptr(entry)
   return true
end

--- An iterator over pointers to all entries: `for entry in ctab:iterate() do`. The table must not be changed meanwhile.
function CTable:iterate()
   local last = self.entries + self.size + self.max_displacement
   local function following(_, entry)
      repeat
         entry = entry + 1
         if entry >= last then return nil end
      until entry.hash ~= HASH_MAX
      return entry
   end
   return following, last, self.entries - 1
end

--- The offset of the first entry from `offset` (from 0) to `limit` - 1 (default: the table's end), and a pointer to
-- it. If there is none: the offset to go on from, which is 0 beyond the table's end, and nil.
function CTable:next_entry(offset, limit)
   local count = self.size + self.max_displacement
   if offset >= count then return 0, nil end
   limit = min(limit or count, count)
   for i = offset, limit - 1 do
      if self.entries[i].hash ~= HASH_MAX then return i, self.entries + i end
   end
   return limit, nil
end

--- An object that looks up `width` keys at a time: set `entries[0]` to `entries[width - 1]`.key, call `stream()`, and
-- read
-- `entries[i].value` where `is_found(i)`.
function CTable:make_lookup_streamer(width)
   if not (width > 0 and width <= 262144) then error("Width value out of range: "..tostring(width)) end
   local value_offset = ffi.offsetof(self.entry_type, "value")
   return setmetatable({
      width = width, table = self, entries = self.type(width),
      value_offset = value_offset, value_size = self.entry_size - value_offset
   }, {__index = LookupStreamer})
end

--- Looks up all keys, and fills in the hash (0xffffffff: not found) and the value of each entry.
function LookupStreamer:stream()
   local entries, ctab = self.entries, self.table
   local value_offset, value_size = self.value_offset, self.value_size
   for i = 0, self.width - 1 do
      local found = ctab:lookup_ptr(entries[i].key)
      if found then
         entries[i].hash = found.hash
         copy(ffi.cast(u8_p, entries + i) + value_offset, ffi.cast(u8_p, found) + value_offset, value_size)
      else
         entries[i].hash = HASH_MAX
      end
   end
end

--- Whether the key `i` (from 0) has not been found. Errors: if `i` is out of range.
function LookupStreamer:is_empty(i)
   assert(i >= 0 and i < self.width, "index out of range")
   return self.entries[i].hash == HASH_MAX
end

--- Whether the key `i` (from 0) has been found. Errors: if `i` is out of range.
function LookupStreamer:is_found(i)
   return not self:is_empty(i)
end

--- Checks all that must hold of the entries and their order. Errors: what does not.
function CTable:selfcheck()
   local occupancy, previous = 0, 0
   for i = 0, self.capacity - 1 do
      local entry = self.entries[i]
      local hash = entry.hash
      if hash ~= HASH_MAX then
         local place = floor(hash * self.scale)
         local where = "ctable: entry at "..i..": "
         if self.hash_fn(entry.key) ~= hash then error(where.."not the hash of its key") end
         if place > i or i - place > self.max_displacement then error(where.."too far from its place, "..place) end
         if previous == HASH_MAX and place ~= i then error(where.."a gap before it") end
         if previous ~= HASH_MAX and previous > hash then error(where.."out of order") end
         occupancy = occupancy + 1
      end
      previous = hash
   end
   if previous ~= HASH_MAX then error("ctable: the last entry is not empty") end
   if occupancy ~= self.occupancy then
      error(("ctable: %d entries, but occupancy is %d"):format(occupancy, self.occupancy))
   end
end

--- Prints all entries.
function CTable:dump()
   for i = 0, self.size + self.max_displacement - 1 do
      local entry = self.entries[i]
      if entry.hash == HASH_MAX then
         print(i..":")
      else
         print(("%d: hash: %d (distance: %d)"):format(i, entry.hash, i - floor(entry.hash * self.scale)))
         print("    key: "..tostring(entry.key))
         print("  value: "..tostring(entry.value))
      end
   end
end

-- What precedes the entries in a saved table.
local header_t = ffi.typeof [[
struct {
   uint32_t size;
   uint32_t occupancy;
   uint32_t max_displacement;
   uint8_t hash_seed[16];
   double max_occupancy_rate;
   double min_occupancy_rate;
}
]]

--- Writes the table to `stream`: a Lua file, or an object with the methods write_struct(type, struct) and
-- write_array(type, pointer, count).
function CTable:save(stream)
   local header = header_t(self.size, self.occupancy, self.max_displacement, self.hash_seed,
                           self.max_occupancy_rate, self.min_occupancy_rate)
   local count = self.size + self.max_displacement
   if io.type(stream) then
      assert(stream:write(ffi.string(header, ffi.sizeof(header)), ffi.string(self.entries, count * self.entry_size)))
   else
      stream:write_struct(header_t, header)
      stream:write_array(self.entry_type, self.entries, count)
   end
end

-- Reads `size` bytes of the Lua file `file` to the memory at `to`.
local function read_to(file, to, size)
   local bytes = size == 0 and "" or file:read(size) or ""
   if #bytes < size then error("ctable: truncated: "..#bytes.." of "..size.." bytes") end
   copy(to, bytes, size)
end

--- The table that `save` has written to `stream`: a Lua file, or an object with the methods read_struct(nil, type) and
-- read_array(pointer, type, count). `params`: as for `new`, with the same types. Errors: if it is truncated or damaged.
function M.load(stream, params)
   local is_file = io.type(stream) ~= nil
   local header
   if is_file then
      header = header_t()
      read_to(stream, header, ffi.sizeof(header))
   else
      header = stream:read_struct(nil, header_t)
   end
   if header.occupancy > header.size or header.max_displacement > header.size then error("ctable: damaged header") end
   local copied = {}
   for name, value in pairs(params) do copied[name] = value end
   copied.initial_size, copied.hash_seed = header.size, ffi.new("uint8_t[16]", header.hash_seed)
   copied.max_occupancy_rate, copied.min_occupancy_rate = header.max_occupancy_rate, header.min_occupancy_rate
   local ctab = M.new(copied)
   local count = header.size + header.max_displacement
   if header.max_displacement > ctab.max_displacement_limit then
      error("ctable: saved with a greater max_displacement_limit")
   end
   if is_file then
      read_to(stream, ctab.entries, count * ctab.entry_size)
   else
      stream:read_array(ctab.entries, ctab.entry_type, count)
   end
   ctab.occupancy = header.occupancy
   set_max_displacement(ctab, header.max_displacement)
   ctab:selfcheck()
   return ctab
end

function M.selftest()
   require("lib.ctable_selftest").run(M, equal_function)
end

return M
