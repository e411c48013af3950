-- SPDX-License-Identifier: MIT
-- Packets as programs of libmoon see them: stacks of headers over a buffer's bytes, and what buffers can do.
--
--   local pkt = buf:getUdpPacket()        pkt.eth, pkt.ip4, pkt.udp, pkt.payload.uint8[0]
--   pkt:fill { ethSrc = queue, ip4Dst = "10.0.0.1", udpDst = 53, pktLength = 60 }
--
-- A view is a pointer into the frame: nothing is copied, and it is good until the buffer is sent, freed or gets a VLAN tag.
local ffi = require "ffi"
local bit = require "bit"
local native = require "perigee.native"
local headers = require "libmoon.headers"
local modules = require "perigee.modules"
local C = ffi.C

ffi.cdef [[
typedef struct libmoon_buf { perigee_batch *batch; uint32_t slot; uint64_t udata64; double stamp; } libmoon_buf;
]]

-- Methods of buffers.
local packet = { packetStructs = {} }

-- What a stack's entry means: "eth", { "ip4", "inner" }, { "eth", subType = "vlan", name = "outer" }.
local function entry_of(entry)
  local protocol = type(entry) == "table" and (entry.subType and entry[1] .. "_" .. entry.subType or entry[1]) or entry
  local member = type(entry) == "table" and (entry.name or entry[2] or entry[1]) or entry
  if not headers[protocol] then
    native.throw(("there is no header %s: expected one of eth, ip4, ip6, udp, tcp, icmp, arp, ptp"):format(tostring(protocol)))
  end
  return { protocol = protocol, member = member, size = ffi.sizeof(("struct %s_header"):format(protocol)) }
end

-- Makes a view of these headers one after another; returns a function that gives it for a buffer.
function createStack(...)
  local arguments, entries, name, body = { ... }, {}, "libmoon", {}
  if arguments[#arguments] == "noPayload" then table.remove(arguments) end
  local total = 0
  for i, argument in ipairs(arguments) do
    local entry = entry_of(argument)
    entry.offset, total = total, total + entry.size
    entries[i] = entry
    name = ("%s__%s_%s"):format(name, entry.protocol, entry.member)
    table.insert(body, ("struct %s_header %s;"):format(entry.protocol, entry.member))
  end
  local known = packet.packetStructs[name]
  if known then return known end
  ffi.cdef(("struct %s { %s union payload_t payload; } __attribute__((packed));"):format(name, table.concat(body, " ")))

  local stack = {}
  stack.__index = stack
  function stack.getName() return name end
  function stack.getArgs() return arguments end
  function stack:getHeader(wanted)
    return self[type(wanted) == "table" and (wanted.name or wanted[2] or wanted[1]) or wanted]
  end
  function stack:getHeaders()
    local all = {}
    for i, entry in ipairs(entries) do all[i] = self[entry.member] end
    return all
  end
  -- Fields that are not given get defaults; lengths follow from pktLength, which is 60 or what the headers need.
  function stack:fill(args)
    args = args or {}
    local length = args.pktLength or math.max(total, 60)
    for i, entry in ipairs(entries) do
      local following = entries[i + 1] and entries[i + 1].protocol:gsub("_.*", "")
      self[entry.member]:fill(args, entry.member, { next = following, length = length - entry.offset })
    end
  end
  function stack:get()
    local args = {}
    for _, entry in ipairs(entries) do mergeTables(args, self[entry.member]:get(entry.member)) end
    return args
  end
  -- Sets the length fields for a frame of `length` bytes.
  function stack:setLength(length)
    for _, entry in ipairs(entries) do
      local rest = length - entry.offset
      if entry.protocol == "ip4" or entry.protocol == "udp" or entry.protocol == "ptp" then self[entry.member]:setLength(rest) end
      if entry.protocol == "ip6" then self[entry.member]:setLength(rest - 40) end
    end
  end
  function stack:calculateChecksums()
    for _, entry in ipairs(entries) do
      if entry.protocol == "ip4" then self[entry.member]:calculateChecksum() end
    end
  end
  for _, entry in ipairs(entries) do
    if entry.protocol == "ip4" or entry.protocol == "icmp" then
      stack["calculate" .. entry.member:gsub("^.", string.upper) .. "Checksum"] = function(self) self[entry.member]:calculateChecksum() end
    end
  end
  function stack:dump(bytes, stream, colorized, wireshark)
    stream = stream or io.stdout
    local separators = {}
    for i, entry in ipairs(entries) do separators[i] = entry.offset + entry.size end
    if not wireshark then
      stream:write(getTimeMicros(), "\n")
      for i, entry in ipairs(entries) do
        stream:write("  ", getColorCode(colorized ~= false and i or nil), self[entry.member]:getString(), getColorCode(), "\n")
      end
    end
    dumpHex(self, bytes or total, stream, colorized ~= false and separators or nil, wireshark)
  end
  local ctype = ffi.metatype("struct " .. name, stack)
  local pointer = ffi.typeof("$ *", ctype)
  local function get(buf) return ffi.cast(pointer, buf.batch.data[buf.slot]) end
  packet.packetStructs[name] = get
  return get
end
packetCreate = createStack

-- The views that there are by name; those with two families take whether IPv4 is meant (the default).
packet.getRawPacket = createStack()
packet.getEthernetPacket = createStack "eth"
packet.getEthPacket = packet.getEthernetPacket
packet.getEthernetVlanPacket = createStack { "eth", subType = "vlan", name = "eth" }
packet.getEthVlanPacket = packet.getEthernetVlanPacket
packet.getArpPacket = createStack("eth", "arp")
packet.getPtpPacket = createStack("eth", "ptp")
packet.getUdpPtpPacket = createStack("eth", "ip4", "udp", "ptp")
for name, protocols in pairs { IP = {}, Udp = { "udp" }, Tcp = { "tcp" }, Icmp = { "icmp" } } do
  local four, six = createStack("eth", "ip4", unpack(protocols)), createStack("eth", "ip6", unpack(protocols))
  packet["get" .. name .. "4Packet"], packet["get" .. name .. "6Packet"] = four, six
  packet["get" .. name .. "Packet"] = function(buf, ipv4)
    if ipv4 == false then return six(buf) end
    return four(buf)
  end
end
for _, name in ipairs { "Vxlan", "VxlanEthernet", "Esp", "AH", "Dns", "SFlow", "Ipfix", "Lacp", "Gre" } do
  packet["get" .. name .. "Packet"] = function()
    native.throw(("get%sPacket: there is no header for that; createStack makes views of eth, ip4, ip6, udp, tcp, icmp, arp and ptp"):format(name))
  end
end

-- The view that fits best.
function packet:get()
  local eth = packet.getEthernetPacket(self)
  local kind, length = eth.eth:getType(), self.pkt_len
  if kind == 0x0806 and length >= 42 then return packet.getArpPacket(self) end
  if kind == 0x88f7 and length >= 48 then return packet.getPtpPacket(self) end
  local v4, v6 = kind == 0x0800 and length >= 34, kind == 0x86dd and length >= 54
  if not (v4 or v6) then return eth end
  local ip = v4 and packet.getIP4Packet(self).ip4 or packet.getIP6Packet(self).ip6
  local protocol = v4 and ip:getProtocol() or v6 and ip:getNextHeader()
  if protocol == 17 then return packet.getUdpPacket(self, v4) end
  if protocol == 6 then return packet.getTcpPacket(self, v4) end
  if protocol == 1 or protocol == 58 then return packet.getIcmpPacket(self, v4) end
  return packet.getIPPacket(self, v4)
end

-- Buffers -------------------------------------------------------------------------------------------------------------------

function packet:getData() return ffi.cast("void *", self.batch.data[self.slot]) end
function packet:getBytes() return self.batch.data[self.slot] end
function packet:getSize() return self.batch.length[self.slot] end
function packet:setSize(size)
  if self.batch.length[self.slot] ~= size then modules.resize(self.batch, self.slot, size) end
end
function packet:setRawPacket(bytes)
  self:setSize(#bytes)
  ffi.copy(self.batch.data[self.slot], bytes, #bytes)
end

function packet:dump(bytes, stream, colorized, wireshark)
  if type(bytes) == "userdata" then bytes, stream, colorized = nil, bytes, stream end
  self:get():dump(bytes or self.pkt_len, stream, colorized, wireshark)
end

-- The masks that single packets are handled by.
local one
local function only(buf)
  one = one or C.perigee_task_mask(native.host)
  one:zero()
  one:set(buf.slot)
  return one
end
packet.only = only
function packet:free() C.perigee_task_free(native.host, self.batch, only(self)) end

-- Checksums are written at once, in software.
function packet:offloadUdpChecksum() C.perigee_task_checksums(native.host, self.batch, only(self)) end
packet.offloadTcpChecksum = packet.offloadUdpChecksum
function packet:offloadIPChecksum(ipv4)
  if ipv4 ~= false then packet.getIP4Packet(self).ip4:calculateChecksum() end
end

-- The VLAN, its priority and its DEI bit, of a tagged frame; else nil.
function packet:getVlan()
  local frame = packet.getEthernetVlanPacket(self)
  if frame.eth:getVlanId() ~= 0x8100 then return nil end
  local tag = frame.eth:getVlanTag()
  return bit.band(tag, 0xfff), bit.rshift(tag, 13), bit.band(bit.rshift(tag, 12), 1)
end

-- Tags the frame, or changes its tag. Views from before are of no use after that.
function packet:setVlan(vlan, priority, dei)
  local frame = packet.getEthernetVlanPacket(self)
  if frame.eth:getVlanId() ~= 0x8100 then
    modules.push(self.batch, self.slot, 4)
    local bytes = self.batch.data[self.slot]
    for i = 0, 11 do bytes[i] = bytes[i + 4] end
    frame = packet.getEthernetVlanPacket(self)
    frame.eth:setVlanId(0x8100)
  end
  frame.eth:setVlanTag(vlan + bit.lshift(priority or 0, 13) + bit.lshift(dei or 0, 12))
end

-- When it was received, in ns of the task's clock, after rxQueue:enableTimestampsAllPackets(); else nil.
function packet:getTimestamp()
  if self.stamp > 0 then return self.stamp end
end
packet.hasTimestamp = function(self) return self.stamp > 0 end
function packet:enableTimestamps() end
function packet:getTimesync() return 0 end
function packet:getSoftwareTxTimestamp(offset)
  return ffi.cast("uint64_t *", self.batch.data[self.slot])[offset and offset / 8 or 6]
end

-- How long to wait before it, in bytes of a 10 Gbit/s link (0.8 ns each): see txQueue:sendWithDelay.
function packet:setDelay(bytes) self.udata64 = bytes > 0 and bytes or 0 end
function packet:setRate(mpps) self:setDelay(10 ^ 10 / 8 / (mpps * 10 ^ 6) - self.pkt_len - 24) end

function packet:offloadIPSec() native.throw "IPsec offloads are not there" end
packet.setESPTrailerLength = packet.offloadIPSec

packet.buf_type = ffi.metatype("libmoon_buf", {
  __index = function(self, key)
    if key == "pkt_len" or key == "data_len" then return self.batch.length[self.slot] end
    return packet[key]
  end,
  __newindex = function(self, key, value)
    if key == "pkt_len" or key == "data_len" then return packet.setSize(self, value) end
    native.throw(("a packet buffer has no field %s"):format(tostring(key)))
  end,
})

return packet
