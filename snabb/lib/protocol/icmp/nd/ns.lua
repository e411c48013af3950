-- SPDX-License-Identifier: MIT
-- lib.protocol.icmp.nd.ns: what follows the ICMPv6 header of a Neighbor Solicitation (RFC 4861, section 4.3).
local ffi = require("ffi")
local nd = require("lib.protocol.icmp.nd.header")
local checked = require("lib.protocol.header").checked

ffi.cdef [[
int perigee_nd_memcmp(const void *, const void *, size_t) __asm__("memcmp");
]]
local memcmp = ffi.C.perigee_nd_memcmp

local Ns = subClass(nd)
Ns._name = "neighbor solicitation"
Ns._ulp = {}
Ns:init({ffi.typeof "struct { uint32_t reserved; uint8_t target[16]; } __attribute__((packed))"})

--- A new header that asks for the IPv6 address at `target`.
function Ns:new(target)
   local o = Ns:superClass().new(self)
   if target then o:target(target) end
   return o
end

--- The target address, uint8_t[16] in the header; with `address`, sets it first.
function Ns:target(address)
   local h = self:header()
   if address ~= nil then ffi.copy(h.target, checked(address, 16), 16) end
   return h.target
end

--- Whether the target address is `address`.
function Ns:target_eq(address)
   return memcmp(checked(address, 16), self:header().target, 16) == 0
end

function Ns.selftest()
   local ipv6 = require("lib.protocol.ipv6")
   local a, b = ipv6:pton("2001:db8::1"), ipv6:pton("2001:db8::2")
   local ns = Ns:new(a)
   assert(ns:sizeof() == 20 and ffi.string(ns:header(), 20) == ("\0"):rep(4)..ffi.string(a, 16))
   assert(ns:target_eq(a) and not ns:target_eq(b))
   ns:target(b)
   assert(ns:target_eq(b) and ns:upper_layer() == nil)
end

return Ns
