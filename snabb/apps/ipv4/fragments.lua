-- SPDX-License-Identifier: MIT
--
-- apps.ipv4.fragments: datagrams that are being put together from fragments, for the reassemblers of both IPv4 and
-- IPv6. Snabb has no such module.
--
-- A fragment that overlaps another one ends its datagram (RFC 5722; RFC 1858 and 3128 say what overlaps are good for),
-- but an exact copy of a fragment that is already there is ignored (RFC 8200, 4.5). Sizes of all but the last
-- fragment are multiples of 8 (RFC 791). Memory is bounded: no more than `max` datagrams at a time, each of no more
-- than a packet's size and a number of fragments; if there is no place for a new one, another one, drawn at random, is
-- given up. A datagram that is not complete after `timeout` seconds is given up.

local bit = require("bit")
local ffi = require("ffi")
local packet = require("core.packet")

ffi.cdef("int memcmp(const void *a, const void *b, size_t n);")

local C = ffi.C
local band, bxor, lshift, rshift, tobit = bit.band, bit.bxor, bit.lshift, bit.rshift, bit.tobit
local uint32_ptr = ffi.typeof("uint32_t *")

local M = {}
local Table = {}
Table.__index = Table

--- The most bytes of headers that a first fragment may have.
M.max_headers = 256

local max_key = 36

-- previous, next: the datagrams in use, oldest first. chain: the next one in the same bucket. total: 0 until the last
-- fragment is there. 0 as an index is none.
local layout = [[
struct {
   uint8_t key[%d];
   double created;
   uint32_t bucket, chain, previous, next;
   uint32_t received, total;
   uint16_t count, headers_length, dead;
   uint16_t starts[%d], ends[%d];
   uint8_t headers[%d];
   uint8_t data[%d];
}]]

--- Creates an empty table. Its field `key` points to the key, and `box` to a pointer to the packet, of the fragment
--- that `add` is to look at (so that no pointer lives across its loops: LuaJIT would make objects of them). `conf` has
--- `key_size`, the bytes of a key (a multiple of 4, up to 36); `max`, the most datagrams at a time; `max_fragments`,
--- the most fragments of one; `timeout`, seconds; `bury`, whether fragments that arrive after their datagram was ended
--- by a bad one are dropped too, until the timeout.
function M.new(conf)
   local function check(name, low, high)
      local n = conf[name]
      if type(n) ~= "number" or not (n >= low and n <= high) then
         error(("reassembly: %s: expected a number from %d to %d, got %s"):format(name, low, high, tostring(n)), 3)
      end
      return n
   end
   local self = setmetatable({}, Table)
   self.key_size = check("key_size", 4, max_key)
   self.max, self.max_fragments = check("max", 1, 2^24), check("max_fragments", 1, 8192)
   self.timeout, self.bury = check("timeout", 0, 2^31), conf.bury
   self.words = ffi.new("uint32_t[?]", max_key / 4)
   self.key, self.box = ffi.cast("uint8_t *", self.words), ffi.new("struct packet *[1]")
   local n = self.max_fragments
   self.type = ffi.typeof(layout:format(max_key, n, n, M.max_headers, packet.max_payload))
   local buckets = 16
   while buckets < self.max do buckets = 2 * buckets end
   self.buckets, self.mask = ffi.new("uint32_t[?]", buckets), buckets - 1
   self.seed = tobit(math.random(0, 0x7fffffff))
   self.slots, self.made = {}, 0
   self.free, self.nfree = ffi.new("uint32_t[?]", self.max), 0
   self.oldest, self.newest, self.used = 0, 0, 0
   return self
end

--- Returns the bytes of memory that the table has taken so far.
function Table:memory()
   return ffi.sizeof(self.buckets) + ffi.sizeof(self.free) + self.made * ffi.sizeof(self.type)
end

local function bucket_of(self)
   local words, h = self.words, self.seed
   for k = 0, rshift(self.key_size, 2) - 1 do
      h = tobit(h + tobit(words[k]))
      h = tobit(h + lshift(h, 10))
      h = bxor(h, rshift(h, 6))
   end
   h = tobit(h + lshift(h, 3))
   h = bxor(h, rshift(h, 11))
   return band(tobit(h + lshift(h, 15)), self.mask)
end

local function lookup(self, bucket)
   local slots, size = self.slots, self.key_size
   local index = self.buckets[bucket]
   while index ~= 0 do
      local slot = slots[index]
      if C.memcmp(slot.key, self.key, size) == 0 then return index end
      index = slot.chain
   end
   return 0
end

-- Takes the datagram `index` out: its memory is for the next one.
local function remove(self, index)
   local slots = self.slots
   local slot = slots[index]
   local at = self.buckets[slot.bucket]
   if at == index then
      self.buckets[slot.bucket] = slot.chain
   else
      while slots[at].chain ~= index do at = slots[at].chain end
      slots[at].chain = slot.chain
   end
   if slot.previous == 0 then self.oldest = slot.next else slots[slot.previous].next = slot.next end
   if slot.next == 0 then self.newest = slot.previous else slots[slot.next].previous = slot.previous end
   self.free[self.nfree] = index
   self.nfree = self.nfree + 1
   self.used = self.used - 1
end

local function create(self, bucket, now)
   local index
   if self.nfree > 0 then
      self.nfree = self.nfree - 1
      index = self.free[self.nfree]
   else
      self.made = self.made + 1
      index = self.made
      self.slots[index] = self.type()
   end
   local slot = self.slots[index]
   ffi.copy(slot.key, self.key, self.key_size)
   slot.created, slot.bucket, slot.chain = now, bucket, self.buckets[bucket]
   slot.received, slot.total, slot.count, slot.headers_length, slot.dead = 0, 0, 0, 0, 0
   slot.previous, slot.next = self.newest, 0
   if self.newest == 0 then self.oldest = index else self.slots[self.newest].next = index end
   self.newest, self.buckets[bucket] = index, index
   self.used = self.used + 1
   return index
end

local function give_up(self, index)
   local slot = self.slots[index]
   if self.bury then slot.dead = 1 else remove(self, index) end
   return "invalid"
end

-- Puts the range, whose data are at `data` in the packet, into the sorted ranges of the datagram. Returns "new", "copy"
-- (an exact one is there) or "overlap".
local function insert(self, slot, first, last, data)
   local at = slot.count
   while at > 0 and slot.starts[at - 1] > first do at = at - 1 end
   if at > 0 and slot.ends[at - 1] > first then
      local same = slot.starts[at - 1] == first and slot.ends[at - 1] == last
      return same and C.memcmp(slot.data + first, self.box[0].data + data, last - first) == 0 and "copy" or "overlap"
   end
   if at < slot.count and slot.starts[at] < last then return "overlap" end
   for k = slot.count, at + 1, -1 do
      slot.starts[k], slot.ends[k] = slot.starts[k - 1], slot.ends[k - 1]
   end
   slot.starts[at], slot.ends[at] = first, last
   slot.count = slot.count + 1
   return "new"
end

local function fits(slot, first, last, more)
   if last <= first or last + slot.headers_length > packet.max_payload then return false end
   if more and (last - first) % 8 ~= 0 then return false end
   if slot.total ~= 0 and (last > slot.total or (not more and last ~= slot.total)) then return false end
   if not more and slot.count > 0 and slot.ends[slot.count - 1] > last then return false end
   return true
end

--- Adds the fragment in self.box, whose key is in self.key. `first`: its offset in the datagram in bytes; `size`: its
--- bytes, at `data` in the packet; `more`: whether more follow; `headers_length`: the bytes that go before the data, of
--- which the first fragment's are kept; `now`: seconds. Returns what has become of the datagram: "complete" (to be
--- taken with `take`), "pending", "invalid" (it is given up), or "dead" (it was before); then its index, and whether
--- another datagram was given up for it.
function Table:add(first, size, data, more, headers_length, now)
   local bucket = bucket_of(self)
   local index = lookup(self, bucket)
   local evicted = false
   if index == 0 then
      if self.used >= self.max then
         remove(self, math.random(1, self.max))
         evicted = true
      end
      index = create(self, bucket, now)
   end
   local slot = self.slots[index]
   if slot.dead ~= 0 then return "dead", index, evicted end
   local last = first + size
   if headers_length > M.max_headers or slot.count == self.max_fragments or not fits(slot, first, last, more) then
      return give_up(self, index), index, evicted
   end
   local what = insert(self, slot, first, last, data)
   if what == "overlap" then return give_up(self, index), index, evicted end
   if what == "copy" then return "pending", index, evicted end
   ffi.copy(slot.data + first, self.box[0].data + data, size)
   slot.received = slot.received + size
   if not more then slot.total = last end
   if first == 0 then
      ffi.copy(slot.headers, self.box[0].data, headers_length)
      slot.headers_length = headers_length
      if slot.ends[slot.count - 1] + headers_length > packet.max_payload then
         return give_up(self, index), index, evicted
      end
   end
   -- Ranges do not overlap, so that all bytes are there when as many are there as the datagram has.
   local complete = slot.total ~= 0 and slot.received == slot.total
   return complete and "complete" or "pending", index, evicted
end

--- Takes the complete datagram `index` out of the table. Returns a new packet of the first fragment's headers and all
--- data.
function Table:take(index)
   remove(self, index) -- what it held is still there
   local slot = self.slots[index]
   local p = packet.from_pointer(slot.headers, slot.headers_length)
   return packet.append(p, slot.data, slot.total)
end

--- Gives up the datagrams that are too old at the time `now` (seconds). Returns how many had not been given up before.
function Table:expire(now)
   local count = 0
   while self.oldest ~= 0 do
      local slot = self.slots[self.oldest]
      if now - slot.created <= self.timeout then break end
      if slot.dead == 0 then count = count + 1 end
      remove(self, self.oldest)
   end
   return count
end

--- Returns the number of datagrams in the table.
function Table:count()
   return self.used
end

-- Adds a fragment of strings; returns what `add` does.
local function add_strings(t, key, first, text, more, headers, now)
   local p = packet.from_string(headers .. text)
   t.box[0] = p
   ffi.fill(t.key, t.key_size)
   ffi.copy(t.key, key, #key)
   local what, index, evicted = t:add(first, #text, #headers, more, #headers, now)
   packet.free(p)
   return what, index, evicted
end

local function test_rules(bury)
   local t = M.new({key_size = 8, max = 4, max_fragments = 5, timeout = 10, bury = bury})
   local after = bury and "dead" or nil
   local function add(key, first, text, more, now)
      return add_strings(t, key, first, text, more, "HEADER", now or 0)
   end
   local a8, b8 = ("a"):rep(8), ("b"):rep(8)
   for _ = 1, 2 do assert(add("good", 8, b8, true) == "pending") end
   assert(add("good", 16, "c", false) == "pending")
   local what, index = add("good", 0, a8, true)
   assert(what == "complete")
   local p = t:take(index)
   assert(ffi.string(p.data, p.length) == "HEADER" .. a8 .. b8 .. "c" and t:count() == 0)
   packet.free(p)
   local function bad(...)
      t:expire(1e9)
      for k, step in ipairs({...}) do
         what = add("evil", step[1], step[2], step[3])
         assert(what == (k < select("#", ...) and "pending" or "invalid"), k .. what)
      end
      assert(t:count() == (bury and 1 or 0))
      if after then assert(add("evil", 0, a8, true) == after) end
   end
   bad({0, a8 .. b8, true}, {8, b8, true}) -- inside
   bad({8, b8, true}, {0, a8 .. b8, true}) -- around
   bad({8, b8 .. b8, true}, {0, a8 .. a8, true}) -- from the left
   bad({0, a8, true}, {0, b8, true}) -- the same range, other bytes
   bad({0, "a", true}) -- not a multiple of 8
   bad({0, "", false})
   bad({8, "b", false}, {16, a8, true}) -- beyond the end
   bad({8, "b", false}, {8, "bb", false}) -- two ends
   bad({16, a8, true}, {8, "b", false}) -- an end before what is there
   bad({10232, "abcdefghi", false}) -- more than a packet
   bad({10224, a8, true}, {10232, "xyz", false}, {0, a8, true}) -- with the headers
   bad({0, a8, true}, {8, a8, true}, {16, a8, true}, {24, a8, true}, {32, a8, true}, {40, a8, false}) -- too many
end

local function test_bounds()
   local t = M.new({key_size = 4, max = 4, max_fragments = 5, timeout = 10})
   local data, evictions = ("x"):rep(8), 0
   for k = 1, 100 do
      local what, _, evicted = add_strings(t, string.char(k) .. "key", 0, data, true, "h", k)
      assert(what == "pending" and t:count() == math.min(k, 4))
      if evicted then evictions = evictions + 1 end
   end
   assert(evictions == 96 and t.made == 4)
   assert(t:expire(99) == 0 or t:count() < 4)
   t:expire(111)
   assert(t:count() == 0 and t.oldest == 0 and t.newest == 0)
   for k = 0, t.mask do assert(t.buckets[k] == 0) end
   for k = 1, 4 do add_strings(t, string.char(k) .. "key", 0, data, true, "h", k) end
   assert(t:expire(13) == 2 and t:count() == 2)
   assert(not pcall(M.new, {key_size = 4, max = 0, max_fragments = 1, timeout = 1}))
   assert(not pcall(M.new, {key_size = 40, max = 1, max_fragments = 1, timeout = 1}))
   assert(not pcall(M.new, {key_size = 4, max = 1, max_fragments = 1}))
end

-- Random fragments against a plain string of bytes.
local function test_oracle(seed)
   local t = M.new({key_size = 4, max = 64, max_fragments = 40, timeout = 10})
   for round = 1, 200 do
      local bytes = {}
      for k = 1, math.random(1, 300) do bytes[k] = string.char(math.random(0, 255)) end
      local text, parts, at = table.concat(bytes), {}, 0
      while at < #text do
         local size = math.min(#text - at, 8 * math.random(1, 5))
         table.insert(parts, math.random(1, #parts + 1), {at, text:sub(at + 1, at + size), at + size < #text})
         at = at + size
      end
      for k, part in ipairs(parts) do
         local what, index = add_strings(t, "key!", part[1], part[2], part[3], "", 0)
         if what ~= (k == #parts and "complete" or #parts > 40 and what or "pending") then
            error(("seed %d round %d fragment %d: %s"):format(seed, round, k, what))
         end
         if what == "complete" then
            local p = t:take(index)
            assert(ffi.string(p.data, p.length) == text, seed)
            packet.free(p)
         end
      end
   end
end

--- Puts datagrams together, in every order; refuses bad ones; fills the table.
function M.selftest()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   test_rules(false)
   test_rules(true)
   test_bounds()
   test_oracle(seed)
end

return M
