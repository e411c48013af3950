-- SPDX-License-Identifier: MIT
-- lib.protocol.dns.mdns_query: makes packets that ask for PTR records by multicast DNS (RFC 6762).
local datagram = require("lib.protocol.datagram")
local dns = require("lib.protocol.dns.dns")
local ethernet = require("lib.protocol.ethernet")
local ffi = require("ffi")
local ipv4 = require("lib.protocol.ipv4")
local mdns = require("lib.protocol.dns.mdns")
local udp = require("lib.protocol.udp")

local M = {}
local mDNSQuery = {}
M.mDNSQuery = mDNSQuery

--- A maker of packets from the table `args`: src_eth, src_ipv4, the sender's addresses as strings.
function mDNSQuery.new(args)
   local src_ipv4, message = ipv4:pton(args.src_ipv4)
   if not src_ipv4 then error(message) end
   return setmetatable({src_eth = ethernet:pton(args.src_eth), src_ipv4 = src_ipv4}, {__index = mDNSQuery})
end

--- A new packet that asks for the PTR records of the names in the arguments. It is the caller's to transmit or free.
function mDNSQuery:build(...)
   local queries = {...}
   local head = mdns.MDNS:new({questions = #queries})
   local parts = {ffi.string(head:header(), head:sizeof())}
   for _, name in ipairs(queries) do
      parts[#parts + 1] = dns.query_record:new({name = name, type = dns.PTR, class = dns.CLASS_IN}):encode()
   end
   local payload = table.concat(parts)
   local ip = ipv4:new({src = self.src_ipv4, dst = ipv4:pton(mdns.DST_IPV4), protocol = 17, ttl = 255, flags = 2})
   local transport = udp:new({src_port = mdns.DST_PORT, dst_port = mdns.DST_PORT})
   transport:length(transport:sizeof() + #payload)
   local bytes = ffi.cast("const uint8_t *", payload)
   transport:checksum(bytes, #payload, ip)
   ip:total_length(ip:sizeof() + transport:sizeof() + #payload)
   ip:checksum()
   local dgram = datagram:new()
   dgram:payload(bytes, #payload)
   dgram:push(transport)
   dgram:push(ip)
   dgram:push(ethernet:new({src = self.src_eth, dst = ethernet:pton(mdns.DST_ETHER), type = 0x0800}))
   local p = dgram:packet()
   dgram:free()
   return p
end

function M.selftest()
   local packet, checksum = require("core.packet"), require("lib.checksum")
   local maker = mDNSQuery.new({src_eth = "02:00:00:00:00:01", src_ipv4 = "192.0.2.1"})
   local p = maker:build("_services._dns-sd._udp.local", "x.local")
   assert(p.length == 14 + 20 + 8 + 12 + 30 + 4 + 9 + 4)
   assert(mdns.MDNS.is_mdns(p) and not mdns.MDNS.is_response(p))
   assert(checksum.verify_packet(p.data + 14, p.length - 14) == true)
   local parsed = mdns.MDNS.parse_packet(p)
   assert(#parsed.questions == 2 and #parsed.answer_rrs == 0)
   assert(parsed.questions[1]:name() == "_services._dns-sd._udp.local" and parsed.questions[1]:type() == dns.PTR)
   assert(parsed.questions[2]:name() == "x.local" and parsed.questions[2]:klass() == dns.CLASS_IN)
   packet.free(p)
   assert(not pcall(mDNSQuery.new, {src_eth = "02:00:00:00:00:01", src_ipv4 = "192.0.2"}))
end

return M
