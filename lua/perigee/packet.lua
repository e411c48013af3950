-- SPDX-License-Identifier: MIT
-- Typed views of packet headers, for modules in plain Lua. A view is a pointer into the frame: nothing is copied.
--
--   local ip = packet.ipv4(burst, slot)   -- nil where there is no packet, or too short a frame
--   if ip.protocol == 17 and packet.ntohs(packet.udp(burst, slot).destination) == 53 then ... end
--
-- Fields are in network byte order, as on the wire; `ntohs`, `ntohl` turn them.
local ffi = require "ffi"
local bit = require "bit"

ffi.cdef [[
struct perigee_ethernet { uint8_t destination[6], source[6]; uint16_t type; } __attribute__((packed));
struct perigee_ipv4 {
  uint8_t version_ihl, tos; uint16_t total_length, id, fragment; uint8_t ttl, protocol; uint16_t checksum;
  uint8_t source[4], destination[4];
} __attribute__((packed));
struct perigee_ipv6 {
  uint32_t version_class_flow; uint16_t payload_length; uint8_t next_header, hop_limit;
  uint8_t source[16], destination[16];
} __attribute__((packed));
struct perigee_arp {
  uint16_t hardware, protocol; uint8_t hardware_length, protocol_length; uint16_t operation;
  uint8_t sender_mac[6], sender[4], target_mac[6], target[4];
} __attribute__((packed));
struct perigee_icmp { uint8_t type, code; uint16_t checksum, id, sequence; } __attribute__((packed));
struct perigee_udp { uint16_t source, destination, length, checksum; } __attribute__((packed));
struct perigee_tcp {
  uint16_t source, destination; uint32_t sequence, acknowledgment; uint8_t offset, flags; uint16_t window, checksum, urgent;
} __attribute__((packed));
]]

local packet = {}

function packet.ntohs(n) return bit.rshift(bit.bswap(n), 16) end
packet.htons = packet.ntohs
function packet.ntohl(n) return bit.bswap(n) end

local function view(name, offset)
  local pointer, size = ffi.typeof("struct perigee_" .. name .. " *"), ffi.sizeof("struct perigee_" .. name)
  return function(burst, slot)
    -- A slot without a packet has a pointer to where one was.
    if not burst.live:has(slot) then return nil end
    local at = offset(burst, slot)
    if at + size > burst.length[slot] then return nil end
    -- Whoever has a view may write: the host reads this packet's header again.
    burst.loaded:clear(slot)
    return ffi.cast(pointer, burst.frames[slot] + at)
  end
end

local function upper(burst, slot)
  local l3 = burst.l3[slot]
  -- A frame without a whole network header has nothing above it.
  if l3 + 20 > burst.length[slot] then return 65536 end
  local first = burst.frames[slot][l3]
  if bit.rshift(first, 4) == 6 then return l3 + 40 end
  return l3 + bit.band(first, 15) * 4
end

packet.ethernet = view("ethernet", function() return 0 end)
packet.ipv4 = view("ipv4", function(burst, slot) return burst.l3[slot] end)
packet.ipv6 = view("ipv6", function(burst, slot) return burst.l3[slot] end)
packet.arp = view("arp", function(burst, slot) return burst.l3[slot] end)
packet.udp = view("udp", upper)
packet.tcp = view("tcp", upper)
packet.icmp = view("icmp", upper)

return packet
