-- SPDX-License-Identifier: MIT
-- lib.protocol.tcp: the TCP header without options (RFC 9293).
--
-- What differs from Snabb: `seq_num` of the table for `new` may also be called `seq`; reading the
-- data offset leaves the reserved bits as they are.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local upper = require("lib.protocol.upper")
local htons, ntohs, htonl, ntohl, bitfield = lib.htons, lib.ntohs, lib.htonl, lib.ntohl, lib.bitfield

local PROTOCOL = 6

local Tcp = subClass(header)
Tcp._name = "tcp"
Tcp._ulp = {}
Tcp:init({ffi.typeof [[
struct {
   uint16_t src_port;
   uint16_t dst_port;
   uint32_t seq;
   uint32_t ack;
   uint16_t off_flags;
   uint16_t window_size;
   uint16_t checksum;
   uint16_t pad;
} __attribute__((packed))
]]})

--- A new header from the table `config`: src_port, dst_port, seq_num, ack_num, window_size, offset (in words of 4
-- bytes), and the flags ns, cwr, ece, urg, ack, psh, rst, syn, fin. Default: zeros.
function Tcp:new(config)
   local o = Tcp:superClass().new(self)
   o:src_port(config.src_port or 0)
   o:dst_port(config.dst_port or 0)
   o:seq_num(config.seq_num or config.seq or 0)
   o:ack_num(config.ack_num or 0)
   o:window_size(config.window_size or 0)
   o:offset(config.offset or 0)
   for _, flag in ipairs {"ns", "cwr", "ece", "urg", "ack", "psh", "rst", "syn", "fin"} do
      o[flag](o, config[flag] or 0)
   end
   return o
end

--- The source port; with `value`, sets it first.
function Tcp:src_port(value)
   local h = self:header()
   if value ~= nil then h.src_port = htons(value) end
   return (ntohs(h.src_port))
end

--- The destination port; with `value`, sets it first.
function Tcp:dst_port(value)
   local h = self:header()
   if value ~= nil then h.dst_port = htons(value) end
   return (ntohs(h.dst_port))
end

--- The sequence number; with `value`, sets it first.
function Tcp:seq_num(value)
   local h = self:header()
   if value ~= nil then h.seq = htonl(value) end
   return (ntohl(h.seq))
end

--- The acknowledgment number; with `value`, sets it first.
function Tcp:ack_num(value)
   local h = self:header()
   if value ~= nil then h.ack = htonl(value) end
   return (ntohl(h.ack))
end

--- The data offset (the length of the header with its options) in words of 4 bytes; with `value`, sets it, and the
-- reserved bits to 0.
function Tcp:offset(value)
   local h = self:header()
   if value ~= nil then bitfield(16, h, "off_flags", 4, 3, 0) end
   return (bitfield(16, h, "off_flags", 0, 4, value))
end

--- All flags, 9 bits, from NS to FIN; with `value`, sets them.
function Tcp:flags(value)
   return (bitfield(16, self:header(), "off_flags", 7, 9, value))
end

--- The flag NS (nonce sum), 0 or 1; with `value`, sets it.
function Tcp:ns(value)
   return (bitfield(16, self:header(), "off_flags", 7, 1, value))
end

--- The flag CWR (congestion window reduced), 0 or 1; with `value`, sets it.
function Tcp:cwr(value)
   return (bitfield(16, self:header(), "off_flags", 8, 1, value))
end

--- The flag ECE (ECN echo), 0 or 1; with `value`, sets it.
function Tcp:ece(value)
   return (bitfield(16, self:header(), "off_flags", 9, 1, value))
end

--- The flag URG (urgent), 0 or 1; with `value`, sets it.
function Tcp:urg(value)
   return (bitfield(16, self:header(), "off_flags", 10, 1, value))
end

--- The flag ACK (acknowledgment), 0 or 1; with `value`, sets it.
function Tcp:ack(value)
   return (bitfield(16, self:header(), "off_flags", 11, 1, value))
end

--- The flag PSH (push), 0 or 1; with `value`, sets it.
function Tcp:psh(value)
   return (bitfield(16, self:header(), "off_flags", 12, 1, value))
end

--- The flag RST (reset), 0 or 1; with `value`, sets it.
function Tcp:rst(value)
   return (bitfield(16, self:header(), "off_flags", 13, 1, value))
end

--- The flag SYN (synchronize), 0 or 1; with `value`, sets it.
function Tcp:syn(value)
   return (bitfield(16, self:header(), "off_flags", 14, 1, value))
end

--- The flag FIN (no more data), 0 or 1; with `value`, sets it.
function Tcp:fin(value)
   return (bitfield(16, self:header(), "off_flags", 15, 1, value))
end

--- The window; with `value`, sets it first.
function Tcp:window_size(value)
   local h = self:header()
   if value ~= nil then h.window_size = htons(value) end
   return (ntohs(h.window_size))
end

--- The checksum. With `payload` (a pointer to `length` bytes, among them the options), computes and sets it first; with
-- `ip` (a header object of lib.protocol.ipv4 or ipv6), it covers the pseudo header, too.
function Tcp:checksum(payload, length, ip)
   local h = self:header()
   if payload ~= nil then
      h.checksum = 0
      h.checksum = htons(upper.checksum(h, self:sizeof(), payload, length, ip, PROTOCOL))
   end
   return (ntohs(h.checksum))
end

--- Whether the header `other` has the same ports, sequence number and acknowledgment number.
function Tcp:eq(other)
   return self:src_port() == other:src_port() and self:dst_port() == other:dst_port()
      and self:seq_num() == other:seq_num() and self:ack_num() == other:ack_num()
end

function Tcp.selftest()
   local ipv4 = require("lib.protocol.ipv4")
   local packet = lib.hexundump([[
      4500 0034 591a 4000 4006 b08e c0a814a9 6b15f0b4
      de0b 01bb e7db57bc 91cd1832 8010 059f 0000 0000 0101080a060c5cbdfa4ae165]], 52)
   local bytes = ffi.new("uint8_t[52]")
   ffi.copy(bytes, packet, 52)
   local ip, tcp = ipv4:new_from_mem(bytes, 52), Tcp:new_from_mem(bytes + 20, 32)
   assert(tcp:src_port() == 0xde0b and tcp:dst_port() == 443 and tcp:seq_num() == 0xe7db57bc)
   assert(tcp:ack_num() == 0x91cd1832 and tcp:offset() == 8 and tcp:window_size() == 0x59f and tcp:flags() == 0x10)
   assert(tcp:ack() == 1 and tcp:syn() == 0 and tcp:upper_layer() == nil)
   local sum = tcp:checksum(bytes + 40, 12, ip)
   assert(sum == lib.csum(packet:sub(13, 20).."\0\6\0\32"..packet:sub(21), 44) and bytes[36] * 256 + bytes[37] == sum)
   assert(require("lib.checksum").verify_packet(bytes, 52) and tcp:checksum() == sum)
   local new = Tcp:new({src_port = 1, dst_port = 2, seq_num = 0xffffffff, ack_num = 3, offset = 5, window_size = 4,
                        syn = 1, ack = 1})
   assert(ffi.string(new:header(), 20) == lib.hexundump("0001 0002 ffffffff 00000003 5012 0004 0000 0000", 20))
   for _, flag in ipairs {"ns", "cwr", "ece", "urg", "psh", "rst", "fin"} do new[flag](new, 1) end
   assert(new:flags() == 0x1ff and new:offset() == 5)
   new:flags(1)
   assert(new:fin() == 1 and new:ns() == 0 and new:rst() == 0 and new:psh() == 0 and new:urg() == 0)
   assert(new:eq(new:clone()) and not new:eq(tcp))
end

return Tcp
