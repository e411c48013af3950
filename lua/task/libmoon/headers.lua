-- SPDX-License-Identifier: MIT
-- Headers as programs of libmoon see them: pkt.udp:setSrcPort(53), pkt.ip4.src:set(address), pkt.eth:getDstString().
--
-- A header is a C struct with setters and getters, in the host's byte order, and fill(args, prefix, layout), which writes every field:
-- by the argument prefix .. Name, or the default. `layout` says what follows: next (its protocol) and length (from this header on).
local ffi = require "ffi"
local bit = require "bit"
local native = require "perigee.native"
local log = require "libmoon.log"
require "libmoon.utils"
local band, bor, bnot, rshift, lshift = bit.band, bit.bor, bit.bnot, bit.rshift, bit.lshift
local bswap, bswap16, tobit = bit.bswap, bswap16, bit.tobit

ffi.cdef [[
union mac_address { uint8_t uint8[6]; uint16_t uint16[0]; uint32_t uint32[0]; uint64_t uint64[0]; } __attribute__((packed));
union ip4_address { uint8_t uint8[4]; uint32_t uint32; } __attribute__((packed));
union ip6_address { uint8_t uint8[16]; uint32_t uint32[4]; uint64_t uint64[2]; } __attribute__((packed));
union payload_t { uint8_t uint8[0]; uint16_t uint16[0]; uint32_t uint32[0]; uint64_t uint64[0]; } __attribute__((packed));
]]

-- Addresses -----------------------------------------------------------------------------------------------------------------

local function text_of(address, length) return native.address_text(ffi.string(address, length)) end

local mac = {}
mac.__index = mac
-- As a number, of which the first byte is the lowest.
function mac:get() return self.uint32[0] + self.uint16[2] * 4294967296 end
function mac:set(number)
  number = tonumber(number)
  self.uint32[0] = number % 4294967296
  self.uint16[2] = number / 4294967296
end
function mac:setString(text)
  local number = parseMacAddress(text, true)
  if not number then
    log:warn("%s is no MAC address, 00:00:00:00:00:00 is used instead", tostring(text))
    number = 0
  end
  self:set(number)
end
function mac:getString() return text_of(self, 6) end
mac.__tostring = mac.getString
local mac_type
function mac.__eq(a, b) return ffi.istype(mac_type, a) and ffi.istype(mac_type, b) and a:get() == b:get() end
mac_type = ffi.metatype("union mac_address", mac)

local ip4 = {}
ip4.__index = ip4
function ip4:get() return bswap(self.uint32) end
function ip4:set(number) self.uint32 = bswap(number) end
function ip4:setString(text)
  local address = parseIP4Address(text)
  if not address then native.throw(("%s is no IPv4 address"):format(tostring(text))) end
  self:set(address)
end
function ip4:getString() return ip4ToString(self:get()) end
function ip4:add(n) self.uint32 = bswap(tobit(bswap(self.uint32) + n)) end
ip4.__tostring = ip4.getString
local ip4_type
function ip4.__add(a, b)
  if ffi.istype(ip4_type, a) then return tobit(a:get() + b) end
  return tobit(a + b:get())
end
function ip4.__sub(a, n) return tobit(a:get() - n) end
function ip4.__eq(a, b) return ffi.istype(ip4_type, a) and ffi.istype(ip4_type, b) and a.uint32 == b.uint32 end
ip4_type = ffi.metatype("union ip4_address", ip4)

-- In frames in network byte order; what get() and parseIPAddress return has the bytes the other way round.
local ip6 = {}
ip6.__index = ip6
local ip6_type
local function reversed(from, to)
  to.uint64[0], to.uint64[1] = bswap(from.uint64[1]), bswap(from.uint64[0])
  return to
end
function ip6:get() return reversed(self, ip6_type()) end
function ip6:set(address) reversed(address, self) end
function ip6:setString(text)
  local address = parseIP6Address(text)
  if not address then native.throw(("%s is no IPv6 address"):format(tostring(text))) end
  self:set(address)
end
-- The text of an address in network byte order; with `swap`, of one in the host's.
function ip6:getString(swap) return text_of(swap and self:get() or self, 16) end
function ip6:add(n)
  local low, high = bswap(self.uint64[1]), bswap(self.uint64[0])
  local sum = low + n
  if n >= 0 and sum < low then high = high + 1ULL elseif n < 0 and sum > low then high = high - 1ULL end
  self.uint64[1], self.uint64[0] = bswap(sum), bswap(high)
end
-- Sums are of addresses in the host's byte order.
function ip6.__add(a, b)
  if not ffi.istype(ip6_type, a) then a, b = b, a end
  local sum = ip6_type()
  reversed(a, sum)
  sum:add(b)
  return sum:get()
end
function ip6.__sub(a, n) return a + -n end
function ip6.__eq(a, b)
  return ffi.istype(ip6_type, a) and ffi.istype(ip6_type, b) and a.uint64[0] == b.uint64[0] and a.uint64[1] == b.uint64[1]
end
ip6.__tostring = ip6.getString
ip6_type = ffi.metatype("union ip6_address", ip6)

-- Writes an address argument: a text, a number, an address, or a device or queue whose MAC address is meant.
local function write_address(field, value, default)
  if value == nil then value = default end
  if type(value) == "string" then
    field:setString(value)
  elseif type(value) == "table" and value.getMacAddr then
    field:set(value:getMacAddr(true))
  elseif type(value) == "table" and value.getMac then
    field:set(value:getMac(true))
  elseif ffi.istype(mac_type, value) or ffi.istype(ip4_type, value) then
    field:set(value:get())
  else
    field:set(value)
  end
end

-- Setters and getters -------------------------------------------------------------------------------------------------------

-- One function per field, with its name as a constant, so that it compiles to a plain load or store.
local templates = {
  u8 = [[return function(self, n) self.%s = n or 0 end, function(self) return self.%s end]],
  u16 = [[local swap = ... return function(self, n) self.%s = swap(n or 0) end, function(self) return swap(self.%s) end]],
  u32 = [[local _, swap = ... return function(self, n) self.%s = swap(n or 0) end, function(self) return swap(self.%s) %% 4294967296 end]],
  address = [[return function(self, a) self.%s:set(a) end, function(self) return self.%s:get() end]],
  text = [[return function(self, a) self.%s:setString(a) end, function(self) return self.%s:getString() end]],
}

local function accessors(header, name, field, kind)
  local set, get = assert(loadstring(templates[kind]:format(field, field)))(bswap16, bswap)
  header["set" .. name], header["get" .. name] = set, get
  if kind == "address" then
    header["set" .. name .. "String"], header["get" .. name .. "String"] = assert(loadstring(templates.text:format(field, field)))()
  else
    header["get" .. name .. "String"] = function(self) return tostring(get(self)) end
  end
end

local headers = {}

-- Defines a header: its fields in order as { C declaration, Name, kind, default }; kind nil: no accessors.
local function define(name, fields, more)
  local header = { name = name, defaults = {}, addresses = {} }
  header.__index = header
  local body = {}
  for _, field in ipairs(fields) do
    table.insert(body, field[1] .. ";")
    local member = field[1]:gsub("%[.*", ""):match "([%w_]+)$"
    if field[2] then
      accessors(header, field[2], member, field[3])
      table.insert(field[3] == "address" and header.addresses or header.defaults, { field[2], field[4], member })
    end
  end
  ffi.cdef(("struct %s_header { %s } __attribute__((packed));"):format(name, table.concat(body, " ")))
  if more then more(header) end
  -- Writes all fields. What `header.follows(args, prefix, layout)` returns are defaults that depend on what follows.
  function header:fill(args, prefix, layout)
    args, prefix = args or {}, prefix or name
    local follows = header.follows and header.follows(layout or {}) or {}
    for _, entry in ipairs(header.addresses) do write_address(self[entry[3]], args[prefix .. entry[1]], entry[2]) end
    for _, entry in ipairs(header.defaults) do
      local value = args[prefix .. entry[1]]
      if value == nil then value = follows[entry[1]] end
      if value == nil then value = entry[2] end
      self["set" .. entry[1]](self, tonumber(value) or 0)
    end
    if header.after then header.after(self, args, prefix) end
  end
  -- All fields as arguments of fill.
  function header:get(prefix)
    prefix = prefix or name
    local args = {}
    for _, entry in ipairs(header.addresses) do args[prefix .. entry[1]] = self["get" .. entry[1] .. "String"](self) end
    for _, entry in ipairs(header.defaults) do args[prefix .. entry[1]] = self["get" .. entry[1]](self) end
    return args
  end
  function header:getString()
    local parts = { name:upper() }
    for _, entry in ipairs(header.addresses) do
      table.insert(parts, entry[1]:lower() .. " " .. self["get" .. entry[1] .. "String"](self))
    end
    for _, entry in ipairs(header.defaults) do
      local value = self["get" .. entry[1]](self)
      -- Bytes of several fields mean nothing by themselves.
      if not entry[1]:match "Byte$" and not entry[1]:match "Word$" then
        local hexadecimal = entry[1] == "Type" and name ~= "icmp"
        table.insert(parts, entry[1]:lower() .. " " .. (hexadecimal and ("0x%04x"):format(value) or tostring(value)))
      end
    end
    return table.concat(parts, " ")
  end
  headers[name] = header
  ffi.metatype(("struct %s_header"):format(name), header)
end

-- A part of a byte or word: set and get by mask and shift.
local function bits(header, name, whole, mask, shift)
  local set, get = header["set" .. whole], header["get" .. whole]
  header["set" .. name] = function(self, n) set(self, bor(band(get(self), bnot(lshift(mask, shift))), lshift(band(n or 0, mask), shift))) end
  header["get" .. name] = function(self) return band(rshift(get(self), shift), mask) end
  header["get" .. name .. "String"] = function(self) return tostring(header["get" .. name](self)) end
end

-- The Ethernet type of what follows, and the protocol number of it.
local ETHER_TYPES = { ip4 = 0x0800, ip6 = 0x86dd, arp = 0x0806, ptp = 0x88f7, eth = 0x6558 }
local PROTOCOLS = { udp = 17, tcp = 6, icmp = 1 }
local ETHER_SOURCE, ETHER_DESTINATION = "01:02:03:04:05:06", "07:08:09:0a:0b:0c"

local function ethernet(header)
  function header.follows(layout) return { Type = ETHER_TYPES[layout.next] or 0x0800 } end
  header.getTypeString = function(self) return ("0x%04x"):format(self:getType()) end
end
define("eth", {
  { "union mac_address dst", "Dst", "address", ETHER_DESTINATION }, { "union mac_address src", "Src", "address", ETHER_SOURCE },
  { "uint16_t type", "Type", "u16" },
}, ethernet)
define("eth_vlan", {
  { "union mac_address dst", "Dst", "address", ETHER_DESTINATION }, { "union mac_address src", "Src", "address", ETHER_SOURCE },
  { "uint16_t vlan_id", "VlanId", "u16", 0x8100 }, { "uint16_t vlan_tag", "VlanTag", "u16", 1 }, { "uint16_t type", "Type", "u16" },
}, function(header)
  ethernet(header)
  function header.after(self, args, prefix)
    if args[prefix .. "Vlan"] then self:setVlanTag(args[prefix .. "Vlan"]) end
  end
end)

define("ip4", {
  { "uint8_t verihl", "VersionByte", "u8", 0x45 }, { "uint8_t tos", "TOS", "u8", 0 }, { "uint16_t len", "Length", "u16", 48 },
  { "uint16_t id", "ID", "u16", 0 }, { "uint16_t frag", "FragmentWord", "u16", 0 }, { "uint8_t ttl", "TTL", "u8", 64 },
  { "uint8_t protocol", "Protocol", "u8", 17 }, { "uint16_t cs", "Checksum", "u16", 0 },
  { "union ip4_address src", "Src", "address", "192.168.1.1" }, { "union ip4_address dst", "Dst", "address", "192.168.1.2" },
}, function(header)
  bits(header, "Version", "VersionByte", 0xf, 4)
  bits(header, "HeaderLength", "VersionByte", 0xf, 0)
  bits(header, "Flags", "FragmentWord", 0x7, 13)
  bits(header, "Fragment", "FragmentWord", 0x1fff, 0)
  function header.follows(layout) return { Protocol = PROTOCOLS[layout.next], Length = layout.length } end
  function header.after(self, args, prefix)
    for _, name in ipairs { "Version", "HeaderLength", "Flags", "Fragment" } do
      if args[prefix .. name] then self["set" .. name](self, args[prefix .. name]) end
    end
  end
  function header:calculateChecksum()
    self.cs = 0
    self.cs = checksum(self, self:getHeaderLength() * 4)
  end
end)

define("ip6", {
  { "uint32_t vtf", "VersionWord", "u32", 0x60000000 }, { "uint16_t len", "Length", "u16", 8 },
  { "uint8_t nextHeader", "NextHeader", "u8", 17 }, { "uint8_t ttl", "TTL", "u8", 64 },
  { "union ip6_address src", "Src", "address", "fe80::1" }, { "union ip6_address dst", "Dst", "address", "fe80::2" },
}, function(header)
  bits(header, "Version", "VersionWord", 0xf, 28)
  bits(header, "TrafficClass", "VersionWord", 0xff, 20)
  bits(header, "FlowLabel", "VersionWord", 0xfffff, 0)
  function header.follows(layout)
    return { NextHeader = layout.next == "icmp" and 58 or PROTOCOLS[layout.next], Length = layout.length and layout.length - 40 }
  end
  function header.after(self, args, prefix)
    for _, name in ipairs { "Version", "TrafficClass", "FlowLabel" } do
      if args[prefix .. name] then self["set" .. name](self, args[prefix .. name]) end
    end
  end
end)

define("udp", {
  { "uint16_t src", "SrcPort", "u16", 1024 }, { "uint16_t dst", "DstPort", "u16", 1025 }, { "uint16_t len", "Length", "u16", 28 },
  { "uint16_t cs", "Checksum", "u16", 0 },
}, function(header)
  function header.follows(layout) return { Length = layout.length } end
  -- Ports are given as udpSrc and udpDst.
  function header.after(self, args, prefix)
    if args[prefix .. "Src"] then self:setSrcPort(tonumber(args[prefix .. "Src"])) end
    if args[prefix .. "Dst"] then self:setDstPort(tonumber(args[prefix .. "Dst"])) end
  end
  function header:calculateChecksum() self.cs = 0 end
end)

local FLAGS = { Fin = 0, Syn = 1, Rst = 2, Psh = 3, Ack = 4, Urg = 5 }
define("tcp", {
  { "uint16_t src", "SrcPort", "u16", 1024 }, { "uint16_t dst", "DstPort", "u16", 1025 }, { "uint32_t seq", "SeqNumber", "u32", 0 },
  { "uint32_t ack", "AckNumber", "u32", 0 }, { "uint8_t offset", "OffsetByte", "u8", 0x50 }, { "uint8_t flags", "Flags", "u8", 0 },
  { "uint16_t window", "Window", "u16", 0 }, { "uint16_t cs", "Checksum", "u16", 0 }, { "uint16_t urg", "UrgentPointer", "u16", 0 },
}, function(header)
  bits(header, "DataOffset", "OffsetByte", 0xf, 4)
  bits(header, "Reserved", "OffsetByte", 0xf, 0)
  for name, shift in pairs(FLAGS) do
    local flag = lshift(1, shift)
    header["set" .. name] = function(self) self.flags = bor(self.flags, flag) end
    header["unset" .. name] = function(self) self.flags = band(self.flags, bnot(flag)) end
    header["get" .. name] = function(self) return band(rshift(self.flags, shift), 1) end
  end
  function header.after(self, args, prefix)
    if args[prefix .. "Src"] then self:setSrcPort(tonumber(args[prefix .. "Src"])) end
    if args[prefix .. "Dst"] then self:setDstPort(tonumber(args[prefix .. "Dst"])) end
    if args[prefix .. "DataOffset"] then self:setDataOffset(args[prefix .. "DataOffset"]) end
    for name in pairs(FLAGS) do
      local value = args[prefix .. name]
      if value and value ~= 0 then header["set" .. name](self) end
    end
  end
  header.setSrc, header.getSrc, header.setDst, header.getDst = header.setSrcPort, header.getSrcPort, header.setDstPort, header.getDstPort
end)

define("icmp", {
  { "uint8_t type", "Type", "u8", 8 }, { "uint8_t code", "Code", "u8", 0 }, { "uint16_t cs", "Checksum", "u16", 0 },
  { "union payload_t body" },
}, function(header)
  -- Of the message, `length` bytes from its type on.
  function header:calculateChecksum(length)
    self.cs = 0
    self.cs = checksum(self, length or 4)
  end
end)

define("arp", {
  { "uint16_t hrd", "HardwareAddressType", "u16", 1 }, { "uint16_t pro", "ProtoAddressType", "u16", 0x0800 },
  { "uint8_t hln", "HardwareAddressLength", "u8", 6 }, { "uint8_t pln", "ProtoAddressLength", "u8", 4 },
  { "uint16_t op", "Operation", "u16", 1 },
  { "union mac_address sha", "HardwareSrc", "address", ETHER_SOURCE }, { "union ip4_address spa", "ProtoSrc", "address", "192.168.1.1" },
  { "union mac_address tha", "HardwareDst", "address", ETHER_DESTINATION }, { "union ip4_address tpa", "ProtoDst", "address", "192.168.1.2" },
})

-- IEEE 1588-2008, the common header. Programs measure latencies by it.
define("ptp", {
  { "uint8_t messageType", "MessageType", "u8", 0 }, { "uint8_t versionPTP", "Version", "u8", 2 }, { "uint16_t len", "Length", "u16", 34 },
  { "uint8_t domain", "Domain", "u8", 0 }, { "uint8_t reserved", "Reserved", "u8", 0 }, { "uint16_t flags", "Flags", "u16", 0 },
  { "uint32_t correction[2]" }, { "uint32_t reserved2", "Reserved2", "u32", 0 }, { "uint8_t oui[3]" }, { "uint8_t uuid[5]" },
  { "uint16_t ptpNodePort", "NodePort", "u16", 1 }, { "uint16_t sequenceId", "SequenceID", "u16", 0 },
  { "uint8_t control", "Control", "u8", 0 }, { "uint8_t logMessageInterval", "LogMessageInterval", "u8", 0x7f },
})

return headers
