-- SPDX-License-Identifier: MIT
-- lib.protocol.icmp.nd.na: what follows the ICMPv6 header of a Neighbor Advertisement (RFC 4861, section 4.4).
--
-- What differs from Snabb: flags may be given as true and false, too.
local ffi = require("ffi")
local bitfield = require("core.lib").bitfield
local nd = require("lib.protocol.icmp.nd.header")
local checked = require("lib.protocol.header").checked

ffi.cdef [[
int perigee_nd_memcmp(const void *, const void *, size_t) __asm__("memcmp");
]]
local memcmp = ffi.C.perigee_nd_memcmp

local Na = subClass(nd)
Na._name = "neighbor advertisement"
Na._ulp = {}
Na:init({ffi.typeof "struct { uint32_t flags; uint8_t target[16]; } __attribute__((packed))"})

--- A new header for the IPv6 address at `target`, with the flags `router`, `solicited` and `override` (1, 0, true,
-- false or nil).
function Na:new(target, router, solicited, override)
   local o = Na:superClass().new(self)
   if target then o:target(target) end
   o:router(router)
   o:solicited(solicited)
   o:override(override)
   return o
end

--- The target address, uint8_t[16] in the header; with `address`, sets it first.
function Na:target(address)
   local h = self:header()
   if address ~= nil then ffi.copy(h.target, checked(address, 16), 16) end
   return h.target
end

--- Whether the target address is `address`.
function Na:target_eq(address)
   return memcmp(checked(address, 16), self:header().target, 16) == 0
end

-- Reads or sets the flag that is the bit `offset`.
local function flag(self, offset, value)
   if type(value) == "boolean" then value = value and 1 or 0 end
   return (bitfield(32, self:header(), "flags", offset, 1, value))
end

--- The flag R (the sender is a router), 0 or 1; with `value`, sets it.
function Na:router(value)
   return (flag(self, 0, value))
end

--- The flag S (an answer to a solicitation), 0 or 1; with `value`, sets it.
function Na:solicited(value)
   return (flag(self, 1, value))
end

--- The flag O (the cached address is to be overridden), 0 or 1; with `value`, sets it.
function Na:override(value)
   return (flag(self, 2, value))
end

function Na.selftest()
   local ipv6 = require("lib.protocol.ipv6")
   local a = ipv6:pton("2001:db8::1")
   local na = Na:new(a, 1, true, nil)
   assert(na:sizeof() == 20 and ffi.string(na:header(), 20) == "\xc0\0\0\0"..ffi.string(a, 16))
   assert(na:router() == 1 and na:solicited() == 1 and na:override() == 0 and na:target_eq(a))
   na:router(0)
   na:solicited(false)
   na:override(1)
   na:target(ipv6:pton("::"))
   assert(ffi.string(na:header(), 20) == "\x20"..("\0"):rep(19))
end

return Na
