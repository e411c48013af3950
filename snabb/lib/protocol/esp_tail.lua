-- SPDX-License-Identifier: MIT
-- lib.protocol.esp_tail: the ESP trailer (RFC 4303) after its padding: pad length and next header.
local ffi = require("ffi")
local header = require("lib.protocol.header")

local EspTail = subClass(header)
EspTail._name = "esp_tail"
EspTail._ulp = {}
EspTail:init({ffi.typeof "struct { uint8_t pad_length; uint8_t next_header; } __attribute__((packed))"})

--- A new trailer from the table `config`: pad_length, next_header (default 0).
function EspTail:new(config)
   local o = EspTail:superClass().new(self)
   o:pad_length(config.pad_length or 0)
   o:next_header(config.next_header or 0)
   return o
end

--- The number of bytes of padding; with `value`, sets it.
function EspTail:pad_length(value)
   local h = self:header()
   if value == nil then return h.pad_length end
   h.pad_length = value
end

--- The number of the protocol of the payload; with `value`, sets it.
function EspTail:next_header(value)
   local h = self:header()
   if value == nil then return h.next_header end
   h.next_header = value
end

function EspTail.selftest()
   local tail = EspTail:new({pad_length = 3, next_header = 41})
   assert(ffi.string(tail:header(), 2) == "\3\41" and tail:sizeof() == 2)
   tail:pad_length(4)
   tail:next_header(4)
   assert(tail:pad_length() == 4 and tail:next_header() == 4)
end

return EspTail
