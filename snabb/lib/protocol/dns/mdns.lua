-- SPDX-License-Identifier: MIT
-- lib.protocol.dns.mdns: the header of DNS messages (RFC 1035), and messages of multicast DNS (RFC 6762) in packets.
--
-- What differs from Snabb: questions are parsed as questions; damaged packets are no errors.
local ffi = require("ffi")
local lib = require("core.lib")
local dns = require("lib.protocol.dns.dns")
local ethernet = require("lib.protocol.ethernet")
local header = require("lib.protocol.header")
local ipv4 = require("lib.protocol.ipv4")
local udp = require("lib.protocol.udp")
local htons, ntohs = lib.htons, lib.ntohs

local M = {DST_ETHER = "01:00:5e:00:00:fb", DST_IPV4 = "224.0.0.251", DST_PORT = 5353}

local STANDARD_QUERY_RESPONSE = 0x8400
local PAYLOAD_OFFSET = 14 + 20 + 8
local HEADER_SIZE = 12

local MDNS = subClass(header)
MDNS._name = "mdns"
MDNS._ulp = {}
M.MDNS = MDNS
MDNS:init({ffi.typeof [[
struct {
   uint16_t id;
   uint16_t flags;
   uint16_t questions;
   uint16_t answer_rrs;
   uint16_t authority_rrs;
   uint16_t additional_rrs;
} __attribute__((packed))
]]})

--- A new header from the table `config`: id, flags, questions, answer_rrs, authority_rrs, additional_rrs (default 0).
function MDNS:new(config)
   local o = MDNS:superClass().new(self)
   for _, field in ipairs {"id", "flags", "questions", "answer_rrs", "authority_rrs", "additional_rrs"} do
      o[field](o, config[field] or 0)
   end
   return o
end

local function field(o, name, value)
   local h = o:header()
   if value ~= nil then h[name] = htons(value) end
   return (ntohs(h[name]))
end

--- The identification; with `value`, sets it first.
function MDNS:id(value) return (field(self, "id", value)) end

--- The flags, opcode and response code, 16 bits; with `value`, sets them first.
function MDNS:flags(value) return (field(self, "flags", value)) end

--- The number of questions; with `value`, sets it first.
function MDNS:questions(value) return (field(self, "questions", value)) end

--- The number of answers; with `value`, sets it first.
function MDNS:answer_rrs(value) return (field(self, "answer_rrs", value)) end

--- The number of authority records; with `value`, sets it first.
function MDNS:authority_rrs(value) return (field(self, "authority_rrs", value)) end

--- The number of additional records; with `value`, sets it first.
function MDNS:additional_rrs(value) return (field(self, "additional_rrs", value)) end

--- Whether the packet `p` is a message of multicast DNS over IPv4, by its addresses and its port.
function MDNS.is_mdns(p)
   if p.length < PAYLOAD_OFFSET + HEADER_SIZE then return false end
   local ether = ethernet:new_from_mem(p.data, 14)
   local ip = ipv4:new_from_mem(p.data + 14, 20)
   local transport = udp:new_from_mem(p.data + 34, 8)
   local is = ether:type() == 0x0800 and ethernet:ntop(ether:dst()) == M.DST_ETHER and ip:ihl() == 5
      and ip:protocol() == 17 and ipv4:ntop(ip:dst()) == M.DST_IPV4 and transport:dst_port() == M.DST_PORT
   ether:free()
   ip:free()
   transport:free()
   return is
end

--- Whether the packet `p`, of which is_mdns holds, is a response.
function MDNS.is_response(p)
   local message = MDNS:new_from_mem(p.data + PAYLOAD_OFFSET, p.length - PAYLOAD_OFFSET)
   local is = message:flags() == STANDARD_QUERY_RESPONSE
   message:free()
   return is
end

--- What the packet `p` asks and says: a table of the arrays questions, answer_rrs, authority_rrs, additional_rrs, of
-- objects of lib.protocol.dns.dns. Where the message is damaged, the rest is missing. Errors: "not an mDNS packet".
function MDNS.parse_packet(p)
   if not MDNS.is_mdns(p) then error("not an mDNS packet") end
   local message, size = p.data + PAYLOAD_OFFSET, p.length - PAYLOAD_OFFSET
   local head = MDNS:new_from_mem(message, size)
   local result = {questions = {}}
   local position = HEADER_SIZE
   for i = 1, head:questions() do
      local question, length = dns.query_record:new_from_mem(message + position, size - position, message, size)
      if not question then break end
      result.questions[i] = question
      position = position + length
   end
   for _, section in ipairs {"answer_rrs", "authority_rrs", "additional_rrs"} do
      local count = head[section](head)
      local records, length = dns.DNS.parse_records(message + position, size - position, count, message, size)
      result[section] = records
      position = position + length
   end
   head:free()
   return result
end

function M.selftest()
   require("lib.protocol.dns.selftest").run_mdns(M)
end

return M
