-- SPDX-License-Identifier: MIT
-- Frames from descriptions, as strings: prototypes of pools, and answers.
--
--   local prototype = frame.udp { source_mac = device.mac, destination_mac = "02:00:00:00:00:02", source = "198.18.0.1",
--                                 destination = "198.19.0.1", source_port = 1024, destination_port = 9, length = 60 }
--
-- Lengths are without the FCS: 60 is the shortest frame of 64 bytes. Checksums are right; addresses decide between IPv4 and IPv6.
local bit = require "bit"
local native = require "perigee.native"

local frame = {}

local function u8(n) return string.char(bit.band(n, 0xff)) end
local function u16(n) return string.char(bit.band(bit.rshift(n, 8), 0xff), bit.band(n, 0xff)) end
local function u32(n) return u16(math.floor(n / 65536) % 65536) .. u16(n % 65536) end
frame.u16, frame.u32 = u16, u32

-- Bytes of an address or MAC address, and the text of such bytes.
function frame.address(text) return native.address(text) end
function frame.mac(text) return native.mac(text) end
function frame.text(bytes) return native.address_text(bytes) end

local KEYS = {
  source_mac = true, destination_mac = true, vlan = true, priority = true, source = true, destination = true, ttl = true, dscp = true,
  source_port = true, destination_port = true, length = true, payload = true, flags = true, sequence = true,
  acknowledgment = true, window = true, id = true, type = true, code = true,
}

local function check(options)
  for key in pairs(options) do
    if not KEYS[key] then
      local known = {}
      for name in pairs(KEYS) do table.insert(known, name) end
      table.sort(known)
      native.throw(("a frame has no %s; expected one of %s"):format(tostring(key), table.concat(known, ", ")))
    end
  end
end

function frame.ethernet(options, ether_type)
  local tag = ""
  if options.vlan then tag = u16(0x8100) .. u16(bit.lshift(options.priority or 0, 13) + options.vlan) end
  return native.mac(options.destination_mac or "ff:ff:ff:ff:ff:ff") .. native.mac(options.source_mac or "02:00:00:00:00:01")
    .. tag .. u16(ether_type)
end

-- The frame with a network header before `transport`, its checksums, and padded with zeros (inside the packet) to its length.
local function packet(options, protocol, protocol6, transport)
  local source = native.address(options.source or "198.18.0.1")
  local destination = native.address(options.destination or (#source == 4 and "198.19.0.1" or "2001:2:0:1::1"))
  if #source ~= #destination then
    native.throw(("from %s to %s: expected addresses of one family"):format(options.source, options.destination or "198.19.0.1"))
  end
  local v6 = #source == 16
  local head = frame.ethernet(options, v6 and 0x86dd or 0x0800)
  local header = v6 and 40 or 20
  local rest = (options.length or 0) - #head - header - #transport
  if options.length and rest < 0 then
    native.throw(("a frame of %d bytes: its headers and payload take %d"):format(options.length, #head + header + #transport))
  end
  local body = transport .. ("\0"):rep(math.max(rest, 0))
  local ttl, class = options.ttl or 64, bit.lshift(options.dscp or 0, 2)
  local network
  if v6 then
    network = u8(bit.bor(0x60, bit.rshift(class, 4))) .. u8(bit.lshift(class, 4)) .. u16(0) .. u16(#body) .. u8(protocol6) .. u8(ttl)
      .. source .. destination
  else
    network = u8(0x45) .. u8(class) .. u16(20 + #body) .. u16(options.id or 0) .. u16(0x4000) .. u8(ttl) .. u8(protocol) .. u16(0)
      .. source .. destination
  end
  return native.checksums(head .. network .. body, #head)
end

-- The transport's length: what the frame's length leaves.
local function room(options, header)
  local v6 = (options.source or "."):find(":", 1, true)
  local before = 14 + (options.vlan and 4 or 0) + (v6 and 40 or 20)
  local needed = header + #(options.payload or "")
  return math.max((options.length or 0) - before, needed)
end

function frame.udp(options)
  check(options)
  return packet(options, 17, 17, u16(options.source_port or 1024) .. u16(options.destination_port or 9) .. u16(room(options, 8)) .. u16(0)
    .. (options.payload or ""))
end

local FLAGS = { F = 1, S = 2, R = 4, P = 8, A = 16, U = 32 }

-- `flags` are letters: "S", "SA", "R".
function frame.tcp(options)
  check(options)
  local flags = 0
  for letter in (options.flags or "S"):gmatch(".") do
    if not FLAGS[letter] then native.throw(("TCP flags %q: expected letters of FSRPAU"):format(options.flags)) end
    flags = bit.bor(flags, FLAGS[letter])
  end
  return packet(options, 6, 6, u16(options.source_port or 1024) .. u16(options.destination_port or 80) .. u32(options.sequence or 0)
    .. u32(options.acknowledgment or 0) .. u8(0x50) .. u8(flags) .. u16(options.window or 65535) .. u16(0) .. u16(0)
    .. (options.payload or ""))
end

-- An echo request, unless `type` says otherwise.
function frame.icmp(options)
  check(options)
  local v6 = (options.source or "."):find(":", 1, true)
  return packet(options, 1, 58, u8(options.type or (v6 and 128 or 8)) .. u8(options.code or 0) .. u16(0) .. u16(options.id or 0)
    .. u16(options.sequence or 0) .. (options.payload or ""))
end

-- operation: 1 asks, 2 answers. Fields: sender_mac, sender, target_mac, target.
function frame.arp(operation, fields)
  local head = frame.ethernet({
    source_mac = fields.sender_mac,
    destination_mac = operation == 1 and "ff:ff:ff:ff:ff:ff" or fields.target_mac,
  }, 0x0806)
  return head .. u16(1) .. u16(0x0800) .. u8(6) .. u8(4) .. u16(operation) .. native.mac(fields.sender_mac) .. native.address(fields.sender)
    .. native.mac(fields.target_mac or "00:00:00:00:00:00") .. native.address(fields.target) .. ("\0"):rep(18)
end

return frame
