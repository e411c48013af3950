-- SPDX-License-Identifier: MIT
-- lib.protocol.keyed_ipv6_tunnel: the header of the Keyed IPv6 Tunnel (RFC 8159): L2TPv3 (RFC 3931) directly over
-- IPv6, with a session ID and a cookie of 64 bits.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local htonl, ntohl = lib.htonl, lib.ntohl

-- RFC 8159's recommendation if tunnels are distinguished by their addresses.
local SESSION_ALL = 0xffffffff

local cookie_t
cookie_t = ffi.metatype(ffi.typeof "union { uint8_t cookie[8]; uint64_t cookie_64bit; }", {
   __tostring = function (c)
      return "0x"..(ffi.string(c.cookie, 8):gsub(".", function (byte) return ("%02x"):format(byte:byte()) end))
   end,
   __eq = function (a, b)
      return ffi.istype(cookie_t, a) and ffi.istype(cookie_t, b) and a.cookie_64bit == b.cookie_64bit
   end
})

local Tunnel = subClass(header)
Tunnel._name = "keyed ipv6 tunnel"
Tunnel._ulp = {}
Tunnel:init({ffi.typeof("struct { uint32_t session_id; $ cookie; } __attribute__((packed))", cookie_t)})

--- A cookie of the bytes of the string `bytes`, which must be 8; it can be compared by == and shown by tostring.
-- Errors: "invalid cookie".
function Tunnel:new_cookie(bytes)
   if type(bytes) ~= "string" or #bytes ~= 8 then error("invalid cookie") end
   local cookie = cookie_t()
   ffi.copy(cookie.cookie, bytes, 8)
   return cookie
end

--- A new header from the table `config` (may be nil): session_id (default 0xffffffff), cookie (made by new_cookie;
-- default zeros).
function Tunnel:new(config)
   config = config or {}
   local o = Tunnel:superClass().new(self)
   o:session_id(config.session_id or SESSION_ALL)
   if config.cookie then o:cookie(config.cookie) end
   return o
end

--- A header that is the memory at `mem`, of which `size` bytes may be used; nil if those are too few, or if the
-- session ID is 0 (an L2TPv3 control message).
function Tunnel:new_from_mem(mem, size)
   local o = Tunnel:superClass().new_from_mem(self, mem, size)
   if o ~= nil and o:session_id() == 0 then
      o:free()
      return nil
   end
   return o
end

--- The session ID, 32 bits; with `value`, sets it. Errors: "invalid session id 0".
function Tunnel:session_id(value)
   local h = self:header()
   if value == nil then return (ntohl(h.session_id)) end
   if value == 0 then error("invalid session id 0") end
   h.session_id = htonl(value)
end

--- The cookie; with `value`, sets it.
function Tunnel:cookie(value)
   local h = self:header()
   if value == nil then return h.cookie end
   ffi.copy(h.cookie.cookie, header.checked(value.cookie, 8), 8)
end

function Tunnel.selftest()
   local cookie = Tunnel:new_cookie("\1\2\3\4\5\6\7\255")
   assert(tostring(cookie) == "0x01020304050607ff")
   for _, bad in ipairs {"", "1234567", "123456789", 12345678} do
      assert(not pcall(Tunnel.new_cookie, Tunnel, bad))
   end
   local h = Tunnel:new({session_id = 2, cookie = cookie})
   assert(h:sizeof() == 12 and ffi.string(h:header(), 12) == lib.hexundump("00000002 01020304050607ff", 12))
   assert(h:session_id() == 2)
   assert(h:cookie() == cookie and h:cookie() ~= nil and h:cookie() ~= Tunnel:new_cookie("12345678"))
   assert(not pcall(h.session_id, h, 0))
   local memory = ffi.new("uint8_t[12]")
   assert(Tunnel:new_from_mem(memory, 12) == nil, "control message")
   memory[3] = 1
   assert(Tunnel:new_from_mem(memory, 12):session_id() == 1 and Tunnel:new_from_mem(memory, 11) == nil)
   assert(Tunnel:new():session_id() == 0xffffffff and tostring(Tunnel:new():cookie()) == "0x0000000000000000")
end

return Tunnel
