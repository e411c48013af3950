-- SPDX-License-Identifier: MIT
-- program.dump.decode: a packet as a line of text. Ethernet (IEEE 802.3, 802.1Q), ARP (RFC 826), IPv4 (RFC 791), IPv6
-- (RFC 8200), TCP (RFC 9293), UDP (RFC 768), ICMP (RFC 792), ICMPv6 (RFC 4443). Not part of Snabb.

local bit = require("bit")

local M = {}

local protocols = {[1] = "ICMP", [2] = "IGMP", [6] = "TCP", [17] = "UDP", [47] = "GRE", [50] = "ESP", [51] = "AH",
                   [58] = "ICMPv6", [89] = "OSPF", [115] = "L2TP", [132] = "SCTP"}

local function u16 (s, at)
   local a, b = s:byte(at, at + 1)
   return a * 256 + b
end

local function mac (s, at)
   return ("%02x:%02x:%02x:%02x:%02x:%02x"):format(s:byte(at, at + 5))
end

local function ipv4_address (s, at)
   return ("%d.%d.%d.%d"):format(s:byte(at, at + 3))
end

-- RFC 5952: the longest run of two or more zero groups is "::".
local function ipv6_address (s, at)
   local groups, best, length = {}, nil, 1
   for i = 0, 7 do groups[i + 1] = u16(s, at + 2 * i) end
   local i = 1
   while i <= 8 do
      local j = i
      while j <= 8 and groups[j] == 0 do j = j + 1 end
      if j - i > length then best, length = i, j - i end
      i = math.max(j, i + 1)
   end
   local parts = {}
   for k = 1, 8 do parts[k] = ("%x"):format(groups[k]) end
   if not best then return table.concat(parts, ":") end
   return table.concat(parts, ":", 1, best - 1).."::"..table.concat(parts, ":", best + length)
end

local tcp_flags = {"F", "S", "R", "P", "A", "U"}

local function transport (s, at, protocol, source, target)
   local name = protocols[protocol] or "protocol "..protocol
   local arrow = ("%s > %s"):format(source, target)
   if (protocol == 6 or protocol == 17) and #s >= at + 7 then
      arrow = ("%s port %d > %s port %d"):format(source, u16(s, at), target, u16(s, at + 2))
      if protocol == 6 and #s >= at + 13 then
         local flags, bits = "", s:byte(at + 13)
         for i, letter in ipairs(tcp_flags) do
            if bit.band(bits, bit.lshift(1, i - 1)) ~= 0 then flags = flags..letter end
         end
         name = name.." ["..flags.."]"
      end
   elseif (protocol == 1 or protocol == 58) and #s >= at + 1 then
      name = ("%s type %d code %d"):format(name, s:byte(at, at + 1))
   end
   return ("%s %s"):format(name, arrow)
end

local function ipv4 (s, at)
   if #s < at + 19 or bit.rshift(s:byte(at), 4) ~= 4 then return "IPv4, bad header" end
   local header = 4 * bit.band(s:byte(at), 15)
   local protocol, fragment = s:byte(at + 9), bit.band(u16(s, at + 6), 0x3fff)
   local source, target = ipv4_address(s, at + 12), ipv4_address(s, at + 16)
   if header < 20 then return "IPv4, bad header" end
   if bit.band(fragment, 0x1fff) > 0 then
      return ("IPv4 fragment at %d, %s %s > %s"):format(8 * bit.band(fragment, 0x1fff),
             protocols[protocol] or protocol, source, target)
   end
   return (fragment ~= 0 and "IPv4 first fragment, " or "IPv4 ")..transport(s, at + header, protocol, source, target)
end

local function ipv6 (s, at)
   if #s < at + 39 or bit.rshift(s:byte(at), 4) ~= 6 then return "IPv6, bad header" end
   return "IPv6 "..transport(s, at + 40, s:byte(at + 6), ipv6_address(s, at + 8), ipv6_address(s, at + 24))
end

local function arp (s, at)
   if #s < at + 27 or u16(s, at) ~= 1 or u16(s, at + 2) ~= 0x0800 then return "ARP" end
   local sender, target = ipv4_address(s, at + 14), ipv4_address(s, at + 24)
   local operation = u16(s, at + 6)
   if operation == 1 then return ("ARP who has %s, tell %s"):format(target, sender) end
   if operation == 2 then return ("ARP %s is at %s"):format(sender, mac(s, at + 8)) end
   return "ARP operation "..operation
end

local network = {[0x0800] = ipv4, [0x0806] = arp, [0x86dd] = ipv6}

--- A line that says what the packet *s* (a string that begins with an Ethernet header) is.
function M.line (s)
   if #s < 14 then return ("%d bytes, too short for Ethernet"):format(#s) end
   local head = ("%s > %s "):format(mac(s, 7), mac(s, 1))
   local at, kind = 13, u16(s, 13)
   while (kind == 0x8100 or kind == 0x88a8) and #s >= at + 5 do
      head = head..("VLAN %d "):format(bit.band(u16(s, at + 2), 0xfff))
      at = at + 4
      kind = u16(s, at)
   end
   local what = network[kind] and network[kind](s, at + 2)
                or kind < 0x600 and "802.3 length "..kind or ("type 0x%04x"):format(kind)
   return ("%s%s, %d bytes"):format(head, what, #s)
end

--- The bytes of *s*, 16 to a line, in hexadecimal and as text.
function M.hex (s)
   local lines = {}
   for at = 1, #s, 16 do
      local row = s:sub(at, at + 15)
      local hex = row:gsub("..?", function (pair)
         return (pair:gsub(".", function (c) return ("%02x"):format(c:byte()) end)).." "
      end)
      lines[#lines + 1] = ("   0x%04x  %-40s %s"):format(at - 1, hex, (row:gsub("[^\32-\126]", ".")))
   end
   return table.concat(lines, "\n")
end

function M.selftest ()
   local lib = require("core.lib")
   local ether = "020000000002 020000000001"
   local function line (text) return M.line(lib.hexundump(text, #text:gsub("%s", "") / 2)) end
   local function expect (hex, what, bytes)
      local got = line(ether..hex)
      assert(got == "02:00:00:00:00:01 > 02:00:00:00:00:02 "..what..(", %d bytes"):format(bytes), got)
   end
   local v4 = "0800 45000030 00000000 40%s0000 0a000001 0a000002 "
   expect(v4:format("11").."00350400 001c0000", "IPv4 UDP 10.0.0.1 port 53 > 10.0.0.2 port 1024", 42)
   expect(v4:format("06").."00160400 00000000 00000000 5012ffff 00000000",
          "IPv4 TCP [SA] 10.0.0.1 port 22 > 10.0.0.2 port 1024", 54)
   expect(v4:format("01").."0800 0000", "IPv4 ICMP type 8 code 0 10.0.0.1 > 10.0.0.2", 38)
   expect(v4:format("fd"), "IPv4 protocol 253 10.0.0.1 > 10.0.0.2", 34)
   expect("0800 45000030 00002003 40110000 0a000001 0a000002", "IPv4 fragment at 24, UDP 10.0.0.1 > 10.0.0.2", 34)
   expect("8100 0064 88a8 2007 0806 00010800 06040001 020000000001 0a000001 000000000000 0a000002",
          "VLAN 100 VLAN 7 ARP who has 10.0.0.2, tell 10.0.0.1", 50)
   expect("0806 00010800 06040002 020000000001 0a000001 000000000000 0a000002",
          "ARP 10.0.0.1 is at 02:00:00:00:00:01", 42)
   local v6 = "86dd 60000000 00083a40 %s %s 8000 0000"
   local all_zero, loopback = ("00"):rep(16), ("00"):rep(15).."01"
   expect(v6:format(all_zero, loopback), "IPv6 ICMPv6 type 128 code 0 :: > ::1", 58)
   expect(v6:format("20010db8000000000001000000000001", "fe800000000000000000000000000000"),
          "IPv6 ICMPv6 type 128 code 0 2001:db8::1:0:0:1 > fe80::", 58)
   expect(v6:format("00010002000300040005000600070008", "0001000200030000000500060007000a"),
          "IPv6 ICMPv6 type 128 code 0 1:2:3:4:5:6:7:8 > 1:2:3:0:5:6:7:a", 58)
   expect("0026", "802.3 length 38", 14)
   expect("88cc", "type 0x88cc", 14)
   -- Whatever is cut off or wrong: a line, not an error.
   expect("0800 45", "IPv4, bad header", 15)
   expect("0800 41"..("00"):rep(19), "IPv4, bad header", 34)
   expect("86dd 45", "IPv6, bad header", 15)
   expect("0806 0001", "ARP", 16)
   assert(M.line("abc") == "3 bytes, too short for Ethernet")
   local seed = tonumber(os.getenv("PERIGEE_FUZZ_SEED") or "1")
   math.randomseed(seed)
   local kinds = {"\8\0", "\134\221", "\8\6", "\129\0"}
   for _ = 1, 2000 do
      local bytes = {("x"):rep(12), kinds[math.random(#kinds)], string.char(math.random(0, 255))}
      for i = 4, math.random(4, 60) do bytes[i] = string.char(math.random(0, 255)) end
      local ok, why = pcall(M.line, table.concat(bytes))
      assert(ok and #why > 0, ("%s, seed %d"):format(why, seed))
   end
   assert(M.hex("0123456789abcdefg\n") == "   0x0000  3031 3233 3435 3637 3839 6162 6364 6566  0123456789abcdef\n"..
          "   0x0010  670a                                     g.", M.hex("0123456789abcdefg\n"))
   assert(M.hex("") == "")
end

return M
