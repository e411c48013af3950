-- SPDX-License-Identifier: MIT
--
-- apps.bridge.mac_table: which port a MAC address was last seen on: the table of the learning bridge.
--
-- An open-addressing hash table. A search looks at no more than `reach` neighbouring slots, so that a flood of
-- addresses made to collide costs no more than that; an address that finds no slot in reach is not learned, and its
-- packets are flooded. An entry counts for `timeout` seconds after its address was last seen. Old entries are swept
-- out, and the table is doubled up to its limit, when it holds more than its size.
--
-- What differs from Snabb: its own structure and methods; only the configuration is the same.

local bit = require("bit")
local ffi = require("ffi")

local band, bxor, lshift, rshift, tobit = bit.band, bit.bxor, bit.lshift, bit.rshift, bit.tobit

local M = {}
local Table = {}
Table.__index = Table

local reach = 16

-- port 0: the slot is empty. hi holds bytes 0 and 1 of the address, lo bytes 2 to 5, both in host order.
local slots_t = ffi.typeof("struct { double seen; uint32_t lo; uint16_t hi, port, group; }[?]")

local defaults = {size = 256, timeout = 60, verbose = false, copy_on_resize = true, resize_max = 65536}

local function slots_for(size)
   local n = reach
   while n < 2 * size do n = 2 * n end
   return n
end

local function allocate(self)
   local n = slots_for(self.size)
   self.slots, self.mask, self.count = slots_t(n), n - 1, 0
end

--- Creates an empty table. `config` (optional) has `size`, the number of addresses (256); `timeout`, seconds (60);
--- `resize_max`, what size may grow to (65536); `copy_on_resize`, whether addresses are kept then (true); `verbose`,
--- whether that is printed (false). Throws if one is out of range.
function M.new(config)
   local c = setmetatable({}, {__index = defaults})
   for key, value in pairs(config or {}) do
      if defaults[key] == nil then error(("mac_table: unknown key '%s'"):format(tostring(key))) end
      c[key] = value
   end
   if type(c.size) ~= "number" or c.size < 1 then error("mac_table: size: expected a number of addresses") end
   if type(c.timeout) ~= "number" or c.timeout <= 0 then error("mac_table: timeout: expected a number of seconds") end
   local self = setmetatable({config = c, size = math.min(c.size, c.resize_max), count = 0, overflow = false}, Table)
   self.seed = tobit(math.random(0, 0x7fffffff))
   allocate(self)
   return self
end

-- Bob Jenkins' one-at-a-time mixing, over the two words of an address.
local function hash(lo, hi, seed)
   local h = tobit(seed + lo)
   h = tobit(h + lshift(h, 10))
   h = bxor(h, rshift(h, 6))
   h = tobit(h + hi)
   h = tobit(h + lshift(h, 10))
   h = bxor(h, rshift(h, 6))
   h = tobit(h + lshift(h, 3))
   h = bxor(h, rshift(h, 11))
   return tobit(h + lshift(h, 15))
end

local function words(mac)
   return tobit(mac[2] * 0x1000000 + mac[3] * 0x10000 + mac[4] * 0x100 + mac[5]), mac[0] * 0x100 + mac[1]
end

-- The index of the slot of an address, or of the best slot to put it (empty, else outdated), or nil; and whether it is
-- there.
local function find(self, lo, hi, now)
   local slots, mask, oldest = self.slots, self.mask, now - self.config.timeout
   local first, best = hash(lo, hi, self.seed), -1
   for k = 0, reach - 1 do
      local index = band(first + k, mask)
      local slot = slots[index]
      if slot.port == 0 then
         return best >= 0 and best or index, false
      elseif tobit(slot.lo) == lo and slot.hi == hi then
         return index, true
      elseif best < 0 and slot.seen < oldest then
         best = index
      end
   end
   return best >= 0 and best or nil, false
end

--- Notes that the address at `mac` (a pointer to six bytes) was seen at the time `now` (seconds) on the port `port` (1
--- to 65535) of the group `group`.
function Table:insert(mac, port, group, now)
   local lo, hi = words(mac)
   local index, found = find(self, lo, hi, now)
   if not index then
      self.overflow = true
      return
   end
   local slot = self.slots[index]
   if not found then
      if slot.port == 0 then self.count = self.count + 1 end
      slot.lo, slot.hi = lo, hi
   end
   slot.seen, slot.port, slot.group = now, port, group
end

--- Returns the port and the group that the address at `mac` was last seen on, or nil if it was not seen in the last
--- `timeout` seconds before `now`.
function Table:lookup(mac, now)
   local lo, hi = words(mac)
   local index, found = find(self, lo, hi, now)
   if found then
      local slot = self.slots[index]
      if slot.seen >= now - self.config.timeout then return slot.port, slot.group end
   end
end

--- Removes entries that are too old at the time `now` (seconds), and doubles the table if it is still too full. To
--- be called from time to time; costs time in proportion to the table.
function Table:maintain(now)
   local old, last, oldest = self.slots, self.mask, now - self.config.timeout
   local live = 0
   for k = 0, last do
      if old[k].port ~= 0 and old[k].seen >= oldest then live = live + 1 end
   end
   local grown = false
   if (live > self.size or self.overflow) and self.size < self.config.resize_max then
      self.size, grown = math.min(2 * self.size, self.config.resize_max), true
      if self.config.verbose then
         print(("mac_table: %d addresses, new size %d"):format(live, self.size))
      end
   end
   self.overflow = false
   if not grown and live == self.count then return end
   allocate(self)
   if grown and not self.config.copy_on_resize then return end
   for k = 0, last do
      local slot = old[k]
      if slot.port ~= 0 and slot.seen >= oldest then
         local index = find(self, tobit(slot.lo), slot.hi, now)
         if index then
            ffi.copy(self.slots + index, slot, ffi.sizeof(slot))
            self.count = self.count + 1
         end
      end
   end
end

local function test_oracle(seed)
   local t, oracle, now = M.new({size = 32, timeout = 10, resize_max = 512}), {}, 0
   local mac = ffi.new("uint8_t[6]")
   for step = 1, 20000 do
      now = now + math.random() / 10
      local n = math.random(0, 199)
      mac[0], mac[1], mac[4], mac[5] = n % 3 * 2, n, n * 7 % 256, 0xff
      if math.random() < 0.5 then
         local port = math.random(1, 65535)
         t:insert(mac, port, port % 7, now)
         oracle[n] = {port, now}
      else
         local port, group = t:lookup(mac, now)
         local e = oracle[n]
         local expected = e and e[2] >= now - 10 and e[1] or nil
         -- An address may be missing only while the table has not grown for it yet.
         if port ~= expected and not (port == nil and step < 1000) then
            error(("seed %d step %d: %s instead of %s"):format(seed, step, tostring(port), tostring(expected)))
         end
         if port then assert(group == port % 7) end
      end
      if step % 100 == 0 then t:maintain(now) end
   end
   assert(t.size >= 128 and t.count >= 32)
   t:maintain(now + 11)
   assert(t.count == 0)
end

--- Compares with a plain Lua table; fills beyond the limit.
function M.selftest()
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   test_oracle(seed)
   local t = M.new({size = 16, resize_max = 16})
   local mac = ffi.new("uint8_t[6]")
   for k = 1, 1000 do
      mac[4], mac[5] = rshift(k, 8), band(k, 0xff)
      t:insert(mac, 1, 0, 0)
   end
   assert(t.count == 32 and t.overflow and t.size == 16)
   t:maintain(0)
   assert(t.count <= 32 and t.size == 16)
   t = M.new({size = 16, copy_on_resize = false})
   for k = 1, 20 do
      mac[5] = k
      t:insert(mac, k, 0, 0)
   end
   t:maintain(0)
   assert(t.size == 32 and t.count == 0 and not t:lookup(mac, 0))
   for _, bad in ipairs({{size = 0}, {timeout = 0}, {sise = 5}}) do assert(not pcall(M.new, bad)) end
end

return M
