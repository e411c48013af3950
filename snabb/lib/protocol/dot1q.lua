-- SPDX-License-Identifier: MIT
-- lib.protocol.dot1q: the VLAN tag of IEEE 802.1Q, from the tag control information on: what follows the type 0x8100.
--
-- What differs from Snabb: the parts of the tag control information have methods, too: pcp, dei, vid.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local htons, ntohs = lib.htons, lib.ntohs

local Dot1q = subClass(header)
Dot1q._name = "dot1q"
Dot1q._ulp = {
   method = "type",
   class_map = {
      [0x0800] = "lib.protocol.ipv4",
      [0x86dd] = "lib.protocol.ipv6"
   }
}
Dot1q:init({ffi.typeof [[
struct {
   uint16_t pcp_dei_vid;
   uint16_t ether_type;
} __attribute__((packed))
]]})

-- The Ethernet type that says that a tag follows.
Dot1q.TPID = 0x8100

--- A new tag from the table `config`: id (16 bits: PCP, DEI and VID), type. Default: zeros.
function Dot1q:new(config)
   local o = Dot1q:superClass().new(self)
   o:id(config.id or 0)
   o:type(config.type or 0)
   return o
end

--- The tag control information, 16 bits: PCP, DEI and VID; with `value`, sets it.
function Dot1q:id(value)
   local h = self:header()
   if value == nil then return (ntohs(h.pcp_dei_vid)) end
   h.pcp_dei_vid = htons(value)
end

--- The priority, 3 bits; with `value`, sets it.
function Dot1q:pcp(value)
   return (lib.bitfield(16, self:header(), "pcp_dei_vid", 0, 3, value))
end

--- Whether the frame may be dropped, 1 bit; with `value`, sets it.
function Dot1q:dei(value)
   return (lib.bitfield(16, self:header(), "pcp_dei_vid", 3, 1, value))
end

--- The VLAN's number, 12 bits; with `value`, sets it.
function Dot1q:vid(value)
   return (lib.bitfield(16, self:header(), "pcp_dei_vid", 4, 12, value))
end

--- The type of what follows the tag; with `value`, sets it.
function Dot1q:type(value)
   local h = self:header()
   if value == nil then return (ntohs(h.ether_type)) end
   h.ether_type = htons(value)
end

function Dot1q.selftest()
   local tag = Dot1q:new({id = 0xb123, type = 0x0800})
   assert(tag:sizeof() == 4 and ffi.string(tag:header(), 4) == "\xb1\x23\x08\x00")
   assert(tag:pcp() == 5 and tag:dei() == 1 and tag:vid() == 0x123)
   tag:vid(0xfff)
   tag:dei(0)
   tag:pcp(0)
   assert(tag:id() == 0xfff and tag:type() == 0x0800 and tag:upper_layer() == require("lib.protocol.ipv4"))
   tag:type(Dot1q.TPID)
   assert(tag:upper_layer() == nil)
   assert(Dot1q:new({}):id() == 0)
end

return Dot1q
