-- SPDX-License-Identifier: MIT
--
-- apps.test.match: compares what comes in with what is expected.

local ffi = require("ffi")
local link = require("core.link")
local packet = require("core.packet")

ffi.cdef("int memcmp(const void *a, const void *b, size_t n);")

local C = ffi.C

local M = {}

local function dump(p)
   return (ffi.string(p.data, p.length):gsub(".", function (c) return ("%02X "):format(c:byte()) end))
end

local function same(p, q)
   return p.length == q.length and C.memcmp(p.data, q.data, p.length) == 0
end

--- Match: compares the packets from `rx` with those from `comparator`, one by one, and frees both. Configuration:
--- `fuzzy` (ignore packets from rx that are not the next expected one); `modest` (what is still expected at the end is
--- no error if at least one packet matched).
M.Match = {
   config = {fuzzy = {}, modest = {}}
}
local Match = M.Match

--- Creates a comparison.
function Match:new(conf)
   conf = conf or {}
   return setmetatable({fuzzy = conf.fuzzy, modest = conf.modest, seen = 0, errs = {}}, {__index = Match})
end

--- Compares all waiting packets on `rx`.
function Match:push()
   local rx, comparator = self.input.rx, self.input.comparator
   while rx and not link.empty(rx) do
      local p = link.receive(rx)
      local expected = comparator and not link.empty(comparator) and link.front(comparator)
      if expected and same(p, expected) then
         self.seen = self.seen + 1
         packet.free(link.receive(comparator))
      elseif expected and not self.fuzzy then
         table.insert(self.errs, "Mismatch:\n" .. dump(expected) .. "\n" .. dump(p))
      end
      packet.free(p)
   end
end

--- Prints the errors.
function Match:report()
   for _, err in ipairs(self:errors()) do print(err) end
end

--- Takes what is still expected as not matched (but see `modest`), and returns all errors as an array of strings.
function Match:errors()
   local comparator = self.input.comparator
   if comparator and not (self.modest and self.seen > 0) then
      while not link.empty(comparator) do
         local p = link.receive(comparator)
         table.insert(self.errs, "Not matched:\n" .. dump(p))
         packet.free(p)
      end
   end
   return self.errs
end

--- Matches, mismatches, and what is missing.
function M.selftest()
   local harness = require("apps.test.harness")
   local function run(conf, expected, got)
      local h = harness.new(Match, conf, {"comparator", "rx"}, {})
      h:send("comparator", expected)
      h:send("rx", got)
      local errs, seen = h.app:errors(), h.app.seen
      h:stop()
      return errs, seen
   end
   local errs, seen = run({}, {"ab", "cd"}, {"ab", "cd"})
   assert(#errs == 0 and seen == 2)
   errs, seen = run({}, {"ab"}, {"abc", "ab"})
   assert(#errs == 1 and errs[1] == "Mismatch:\n61 62 \n61 62 63 " and seen == 1)
   errs, seen = run({fuzzy = true}, {"ab", "cd"}, {"x", "ab", "y", "cd"})
   assert(#errs == 0 and seen == 2)
   errs = run({fuzzy = true}, {"ab", "cd"}, {"cd"})
   assert(#errs == 2 and errs[2] == "Not matched:\n63 64 ")
   errs = run({modest = true}, {"ab", "cd"}, {"ab"})
   assert(#errs == 0)
   errs = run({modest = true}, {"ab", "cd"}, {})
   assert(#errs == 2)
   errs = run({}, {}, {"surplus"})
   assert(#errs == 0)
end

return M
