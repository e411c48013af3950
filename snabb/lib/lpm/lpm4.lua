-- SPDX-License-Identifier: MIT
-- lib.lpm.lpm4: the base class of the tables that map IPv4 prefixes to keys, numbers from 1 on, by the longest match.
--
-- A subclass implements add, remove, entries, search_entry, search_entry_exact, and perhaps build and search. See
-- lib.lpm.lpm4_trie, which they all hold their prefixes in.
--
-- What differs from Snabb: an address that no prefix matches has the key 0 in all tables; some of Snabb's throw.
local ffi = require("ffi")
local lib = require("core.lib")
local ip4 = require("perigee.lib.lpm.ip4")
local LPM = require("perigee.lib.lpm.lpm").LPM

local M = {}
local LPM4 = setmetatable({}, {__index = LPM})
M.LPM4 = LPM4

-- A prefix and its key.
M.entry = ffi.typeof("struct { uint32_t ip; int32_t key; int32_t length; }")

local u32_p = ffi.typeof("const uint32_t *")

-- Methods that subclasses must have.
for _, name in ipairs {"add", "remove", "entries", "search_entry", "search_entry_exact"} do
   LPM4[name] = function () error(name.." must be implemented in a subclass", 2) end
end

--- Rebuilds the lookup structure from the prefixes. Until then, lookups need not see additions and removals.
-- Returns the table.
function LPM4:build()
   return self
end

--- The key of the address `ip` (a number in host byte order); 0 if no prefix matches.
function LPM4:search(ip)
   local entry = self:search_entry(ip)
   return entry and entry.key or 0
end

--- The key of the address that is the 4 bytes at `bytes`, in network byte order.
function LPM4:search_bytes(bytes)
   return self:search(lib.ntohl(ffi.cast(u32_p, bytes)[0]))
end

--- The key of the address that the string `text` denotes.
function LPM4:search_string(text)
   return self:search(ip4.parse(text))
end

--- The entry (ip, length, key) of the longest prefix that matches the address that the string `text` denotes; nil if
-- there is none.
function LPM4:search_entry_string(text)
   return self:search_entry(ip4.parse(text))
end

--- The entry of just the prefix that the string `cidr` ("192.0.2.0/24") denotes; nil if there is none.
function LPM4:search_cidr(cidr)
   return self:search_entry_exact(ip4.parse_cidr(cidr))
end

--- Maps the prefix that the string `cidr` denotes to `key`.
function LPM4:add_string(cidr, key)
   local ip, length = ip4.parse_cidr(cidr)
   self:add(ip, length, key)
end

--- Removes the prefix that the string `cidr` denotes.
function LPM4:remove_string(cidr)
   local ip, length = ip4.parse_cidr(cidr)
   self:remove(ip, length)
end

--- Adds the prefixes in the file `filename`, a prefix and a key on each line. Returns the table. Errors: the line that
-- is not so.
function LPM4:add_from_file(filename)
   local number = 0
   for line in io.lines(filename) do
      number = number + 1
      local cidr, key = line:match("^%s*(%S+)%s+(%d+)%s*$")
      if cidr then
         self:add_string(cidr, tonumber(key))
      elseif line:find("%S") then
         error(("%s: line %d: expected a prefix and a key, as in 192.0.2.0/24 7"):format(filename, number), 0)
      end
   end
   return self
end

--- Prints the entry `e`.
function LPM4:print_entry(e)
   print(("%s/%d %d"):format(ip4.tostring(e.ip), e.length, e.key))
end

--- Prints all entries.
function LPM4:print_entries()
   for e in self:entries() do self:print_entry(e) end
end

--- Checks the table against a plain list of its own, with random prefixes and removals. `new` makes an empty table;
-- `max_key` is the greatest key it can hold. For selftests. Errors: the address that has the wrong key, and the seed.
function LPM4.fuzz(new, max_key)
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED")) or 1
   math.randomseed(seed)
   local f, prefixes = new(), {}
   local function random_prefix()
      local length = math.random(0, 32)
      -- Few different bits, so that prefixes contain each other.
      local ip = (10 * 2^24 + math.random(0, 3) * 2^16 * 85 + math.random(0, 7) * 256 + math.random(0, 255)) % 2^32
      if math.random(4) == 1 then ip = math.random(0, 2^32 - 1) end
      return ip4.masked(ip, length), length
   end
   local function expected(ip)
      local key, longest = 0, -1
      for _, p in pairs(prefixes) do
         if p.length > longest and ip4.masked(ip, p.length) == p.ip then key, longest = p.key, p.length end
      end
      return key
   end
   local function check(ip)
      local got, wanted = f:search(ip), expected(ip)
      assert(got == wanted, ("seed %d: %s has key %d instead of %d"):format(seed, ip4.tostring(ip), got, wanted))
   end
   local bytes = ffi.new("uint8_t[4]")
   for _ = 1, 3 do
      for step = 1, 150 do
         local ip, length = random_prefix()
         local id = ip * 64 + length
         if step % 3 == 0 then
            id = next(prefixes)
            f:remove(prefixes[id].ip, prefixes[id].length)
            prefixes[id] = nil
            f:remove(ip, length)
            prefixes[ip * 64 + length] = nil
         else
            local key = math.random(1, max_key)
            f:add(ip, length, key)
            prefixes[id] = {ip = ip, length = length, key = key}
         end
      end
      f:build()
      local count, last = 0, -1
      for e in f:entries() do
         local id = e.ip * 64 + e.length
         assert(prefixes[id] and prefixes[id].key == e.key and id > last, "entries, seed "..seed)
         count, last = count + 1, id
      end
      for id, p in pairs(prefixes) do
         count = count - 1
         assert(f:search_entry_exact(p.ip, p.length).key == p.key, "search_entry_exact, seed "..seed..", "..id)
         check(p.ip)
         check(p.ip + 2^(32 - p.length) - 1)
         check((p.ip + 2^(32 - p.length)) % 2^32)
         check((p.ip - 1) % 2^32)
      end
      assert(count == 0, "number of entries, seed "..seed)
      for _ = 1, 1000 do check((random_prefix())) end
      for i = 0, 3 do bytes[i] = math.random(0, 255) end
      local ip = ((bytes[0] * 256 + bytes[1]) * 256 + bytes[2]) * 256 + bytes[3]
      assert(f:search_bytes(bytes) == f:search(ip) and f:search_string(ip4.tostring(ip)) == f:search(ip))
   end
   return f
end

function M.selftest()
   local s = require("perigee.lib.lpm.lpm4_trie").LPM4_trie:new()
   s:add_string("10.0.0.0/24", 10)
   s:add_string("0.0.0.10/32", 11)
   assert(s:search_bytes(ffi.new("uint8_t[4]", 10, 0, 0, 0)) == 10)
   assert(s:search_bytes(ffi.new("uint8_t[4]", 0, 0, 0, 10)) == 11)
   assert(s:search_bytes(ffi.new("uint8_t[4]", 0, 0, 0, 11)) == 0 and s:search_entry_string("1.2.3.4") == nil)
   assert(s:search_cidr("10.0.0.0/24").key == 10 and s:search_cidr("10.0.0.0/25") == nil)
   assert(s:search_entry_string("10.0.0.9").length == 24)
   s:remove_string("10.0.0.0/24")
   assert(s:search_string("10.0.0.0") == 0)
   assert(not pcall(LPM4.add, LPM4:new(), 0, 0, 1))
   local name = os.tmpname()
   lib.writefile(name, "10.0.0.0/8 3\n\n 10.1.0.0/16\t4\n")
   assert(s:add_from_file(name):search_string("10.1.2.3") == 4 and s:search_string("10.2.2.3") == 3)
   lib.writefile(name, "10.0.0.0/8 3\n10.0.0.0/8\n")
   local ok, message = pcall(s.add_from_file, s, name)
   os.remove(name)
   assert(not ok and message:find("line 2: expected a prefix and a key", 1, true))
end

return M
