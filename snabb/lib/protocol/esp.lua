-- SPDX-License-Identifier: MIT
-- lib.protocol.esp: the ESP header (RFC 4303): SPI and the low half of the sequence number.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local htonl, ntohl = lib.htonl, lib.ntohl

local Esp = subClass(header)
Esp._name = "esp"
Esp._ulp = {}
Esp:init({ffi.typeof "struct { uint32_t spi; uint32_t seq_no; } __attribute__((packed))"})

--- A new header from the table `config`: spi, seq_no (default 0).
function Esp:new(config)
   local o = Esp:superClass().new(self)
   o:spi(config.spi or 0)
   o:seq_no(config.seq_no or 0)
   return o
end

--- The SPI (security parameters index), 32 bits; with `value`, sets it.
function Esp:spi(value)
   local h = self:header()
   if value == nil then return (ntohl(h.spi)) end
   h.spi = htonl(value)
end

--- The low 32 bits of the sequence number; with `value`, sets them.
function Esp:seq_no(value)
   local h = self:header()
   if value == nil then return (ntohl(h.seq_no)) end
   h.seq_no = htonl(value)
end

function Esp.selftest()
   local esp = Esp:new({spi = 0xfedcba98, seq_no = 2})
   assert(esp:sizeof() == 8 and ffi.string(esp:header(), 8) == lib.hexundump("fedcba98 00000002", 8))
   assert(esp:spi() == 0xfedcba98 and esp:seq_no() == 2 and esp:upper_layer() == nil)
   assert(Esp:new_from_mem(esp:header(), 7) == nil)
end

return Esp
