-- SPDX-License-Identifier: MIT
-- lib.protocol.arp: ARP requests and replies for IPv4 over Ethernet (RFC 826).
--
-- The struct's fields and the constructors are those of Snabb's lwAFTR; `config.oper` may be a number in host byte
-- order through the method `oper`, while the field `arp_oper` is in network byte order. The accessor methods are new.
local ffi = require("ffi")
local lib = require("core.lib")
local header = require("lib.protocol.header")
local ethernet = require("lib.protocol.ethernet")
local ipv4 = require("lib.protocol.ipv4")
local htons, ntohs = lib.htons, lib.ntohs

local HTYPE_ETHERNET, PTYPE_IPV4 = 1, 0x0800
local checked = header.checked
local HLEN, PLEN = 6, 4

local Arp = subClass(header)
Arp._name = "arp"
Arp._ulp = {}
Arp:init({ffi.typeof [[
struct {
   uint16_t arp_htype;
   uint16_t arp_ptype;
   uint8_t arp_hlen;
   uint8_t arp_plen;
   uint16_t arp_oper;
   uint8_t arp_sha[6];
   uint8_t arp_spa[4];
   uint8_t arp_tha[6];
   uint8_t arp_tpa[4];
} __attribute__((packed))
]]})

-- Values of `oper`.
Arp.REQUEST, Arp.REPLY = 1, 2

--- A new message from the table `config`: local_eth, local_ipv4 (the sender's addresses), remote_eth, remote_ipv4 (the
-- target's), oper (in network byte order, as `lib.htons(1)`). Errors: without one of them but remote_eth and oper.
function Arp:new(config)
   for _, key in ipairs{"local_eth", "local_ipv4", "remote_ipv4"} do
      if config[key] == nil then error("arp: "..key.." is missing: expected an address", 2) end
   end
   local o = Arp:superClass().new(self)
   local h = o:header()
   h.arp_htype, h.arp_ptype = htons(HTYPE_ETHERNET), htons(PTYPE_IPV4)
   h.arp_hlen, h.arp_plen = HLEN, PLEN
   h.arp_oper = config.oper or htons(Arp.REQUEST)
   ffi.copy(h.arp_sha, checked(config.local_eth, HLEN), HLEN)
   ffi.copy(h.arp_spa, checked(config.local_ipv4, PLEN), PLEN)
   if config.remote_eth then ffi.copy(h.arp_tha, checked(config.remote_eth, HLEN), HLEN) end
   ffi.copy(h.arp_tpa, checked(config.remote_ipv4, PLEN), PLEN)
   return o
end

--- A new request by `local_eth`, `local_ipv4` for the Ethernet address of `remote_ipv4`.
function Arp:new_request(local_eth, local_ipv4, remote_ipv4)
   return Arp:new({local_eth = local_eth, local_ipv4 = local_ipv4, remote_ipv4 = remote_ipv4,
                   oper = htons(Arp.REQUEST)})
end

--- A new reply by `local_eth`, `local_ipv4` to `remote_eth`, `remote_ipv4`.
function Arp:new_reply(local_eth, local_ipv4, remote_eth, remote_ipv4)
   return Arp:new({local_eth = local_eth, local_ipv4 = local_ipv4, remote_eth = remote_eth, remote_ipv4 = remote_ipv4,
                   oper = htons(Arp.REPLY)})
end

--- Whether the message is about IPv4 over Ethernet, so that its other fields mean something.
function Arp:is_ipv4()
   local h = self:header()
   return h.arp_htype == htons(HTYPE_ETHERNET) and h.arp_ptype == htons(PTYPE_IPV4)
      and h.arp_hlen == HLEN and h.arp_plen == PLEN
end

--- The operation: Arp.REQUEST or Arp.REPLY; with `value`, sets it.
function Arp:oper(value)
   local h = self:header()
   if value == nil then return (ntohs(h.arp_oper)) end
   h.arp_oper = htons(value)
end

--- The sender's Ethernet address; with `address`, sets it.
function Arp:sha(address)
   local h = self:header()
   if address == nil then return h.arp_sha end
   ffi.copy(h.arp_sha, checked(address, HLEN), HLEN)
end

--- The sender's IPv4 address; with `address`, sets it.
function Arp:spa(address)
   local h = self:header()
   if address == nil then return h.arp_spa end
   ffi.copy(h.arp_spa, checked(address, PLEN), PLEN)
end

--- The target's Ethernet address; with `address`, sets it.
function Arp:tha(address)
   local h = self:header()
   if address == nil then return h.arp_tha end
   ffi.copy(h.arp_tha, checked(address, HLEN), HLEN)
end

--- The target's IPv4 address; with `address`, sets it.
function Arp:tpa(address)
   local h = self:header()
   if address == nil then return h.arp_tpa end
   ffi.copy(h.arp_tpa, checked(address, PLEN), PLEN)
end

function Arp.selftest()
   local mac_a, mac_b = ethernet:pton("02:00:00:00:00:01"), ethernet:pton("02:00:00:00:00:02")
   local ip_a, ip_b = ipv4:pton("192.0.2.1"), ipv4:pton("192.0.2.2")
   local request = Arp:new_request(mac_a, ip_a, ip_b)
   assert(request:sizeof() == 28 and request:is_ipv4() and request:oper() == Arp.REQUEST)
   assert(ffi.string(request:header(), 28) == lib.hexundump(
      "0001 0800 06 04 0001 020000000001 c0000201 000000000000 c0000202", 28))
   local reply = Arp:new_reply(mac_b, ip_b, mac_a, ip_a)
   assert(ffi.string(reply:header(), 28) == lib.hexundump(
      "0001 0800 06 04 0002 020000000002 c0000202 020000000001 c0000201", 28))
   assert(ethernet:ntop(reply:sha()) == "02:00:00:00:00:02" and ipv4:ntop(reply:spa()) == "192.0.2.2")
   assert(ethernet:ntop(reply:tha()) == "02:00:00:00:00:01" and ipv4:ntop(reply:tpa()) == "192.0.2.1")
   reply:tpa(ip_b)
   reply:spa(ip_a)
   reply:sha(mac_a)
   reply:tha(mac_b)
   reply:oper(Arp.REQUEST)
   assert(ffi.string(reply:header(), 28) == lib.hexundump(
      "0001 0800 06 04 0001 020000000001 c0000201 020000000002 c0000202", 28))
   reply:header().arp_plen = 16
   assert(not reply:is_ipv4())
   assert(Arp:new_from_mem(request:header(), 27) == nil)
   -- It crashed the process.
   for _, config in ipairs{{}, {local_eth = mac_a, local_ipv4 = ip_a}} do
      local ok, why = pcall(Arp.new, Arp, config)
      assert(not ok and why:find("is missing: expected an address", 1, true), why)
   end
end

return Arp
