-- SPDX-License-Identifier: MIT
-- lib.pf: filter expressions as tcpdump has them, compiled by perigee itself (lib/packet's expressions, the same as
-- those of `perigee capture`). Not part of Snabb, which has pflua for it.

local ffi = require("ffi")
local native = require("core.native")
local C = ffi.C

local M = {}

local Filter = {}
Filter.__index = Filter

--- Does a frame of *length* bytes at *data* match?
function Filter:match (data, length)
   return C.perigee_snabb_match(self.compiled, data, length)
end

--- Compile an expression; an object with the method match. Errors with the place of a mistake; an empty text matches
--- all.
function M.compile (text)
   local compiled, why = native.filter(text)
   if not compiled then error("filter "..tostring(text)..": "..tostring(why), 2) end
   return setmetatable({compiled = ffi.cast("const void *", compiled), text = text}, Filter)
end

function M.selftest ()
   local function frame (ether_type, payload)
      return ("\2\0\0\0\0\1\2\0\0\0\0\2")..ether_type..payload
   end
   local arp = frame("\8\6", ("\0"):rep(46))
   -- IPv4, UDP, 10.0.0.1:53 -> 10.0.0.2:1234
   local udp = frame("\8\0", "\69\0\0\32\0\0\0\0\64\17\0\0\10\0\0\1\10\0\0\2\0\53\4\210\0\12\0\0abcd")
   local function matches (text, bytes) return M.compile(text):match(ffi.cast("const uint8_t *", bytes), #bytes) end
   assert(matches("arp", arp) and not matches("arp", udp))
   assert(matches("udp and src port 53", udp) and not matches("udp and dst port 53", udp))
   assert(matches("ip and dst host 10.0.0.2", udp) and not matches("host 10.0.0.3", udp))
   assert(matches("not udp", arp) and not matches("tcp", udp))
   -- A frame that ends early matches nothing, and harms nobody.
   for n = 0, #udp do matches("udp and src port 53", udp:sub(1, n)) end
   for _, bad in ipairs{"port", "host 1.2.3", "(", "udp and", "fnord"} do
      local ok, why = pcall(M.compile, bad)
      assert(not ok and why:match("filter"), bad)
   end
   collectgarbage()
   assert(matches("arp", arp))
end

return M
