-- SPDX-License-Identifier: MIT
-- The selftests of lib.protocol.dns.dns and mdns.
local ffi = require("ffi")
local lib = require("core.lib")

local M = {}

local function memory(bytes)
   local m = ffi.new("uint8_t[?]", #bytes + 1)
   ffi.copy(m, bytes, #bytes)
   return m, #bytes
end

local function test_names(dns)
   assert(dns.encode_name("_tcp.local") == "\4_tcp\5local\0" and dns.encode_name("") == "\0")
   for _, bad in ipairs {"a..b", ".", ("x"):rep(64), (("x"):rep(60)..("."..("y"):rep(60)):rep(4))} do
      assert(not pcall(dns.encode_name, bad))
   end
   local bytes, size = memory("\3foo\0\3bar\xc0\0\xc0\5\xc0\12")
   local name, length = dns.decode_name(bytes, size, bytes, size)
   assert(name == "foo" and length == 5)
   name, length = dns.decode_name(bytes + 5, size - 5, bytes, size)
   assert(name == "bar.foo" and length == 6)
   name, length = dns.decode_name(bytes + 11, size - 11, bytes, size)
   assert(name == "bar.foo" and length == 2)
   name, length = dns.decode_name(bytes + 5, size - 5)
   assert(name == "bar.@0" and length == 6)
   -- A pointer to itself, one out of bounds, labels cut off, a label of an unknown kind.
   local too_long = ("\63"..("x"):rep(63)):rep(4).."\0"
   for _, bad in ipairs {"\xc0\0", "\xc0\x70", "\xc0", "\3fo", "\3foo", "", "\x80x\0", too_long} do
      local m, n = memory(bad)
      assert(dns.decode_name(m, n, m, n) == nil, bad)
   end
end

local function test_records(dns)
   local made = {
      dns.ptr_record:new({name = "_x._tcp.local", ttl = 3599, domain_name = "printer._x._tcp.local"}),
      dns.a_record:new({name = "printer.local", class = 0x8001, ttl = 2^32 - 1, address = "192.0.2.7"}),
      dns.srv_record:new({name = "printer", priority = 1, weight = 2, port = 47430, target = "printer.local"}),
      dns.txt_record:new({name = "printer", chunks = {"a=1", "", "b=2"}}),
      dns.dns_record:new({name = "x", type = 28, data = ("\1"):rep(16)})
   }
   local parts = {}
   for i, record in ipairs(made) do parts[i] = record:encode() end
   assert(parts[2] == "\7printer\5local\0\0\1\x80\1\xff\xff\xff\xff\0\4\192\0\2\7" and made[2]:sizeof() == #parts[2])
   local all = table.concat(parts)
   local bytes, size = memory(all)
   local records, length = dns.DNS.parse_records(bytes, size, 5)
   assert(#records == 5 and length == size)
   local ptr, a, srv, txt, other = unpack(records)
   assert(ptr:type() == dns.PTR and ptr:klass() == 1 and ptr:ttl() == 3599 and ptr:name() == "_x._tcp.local")
   assert(ptr:domain_name() == "printer._x._tcp.local" and ptr:data_length() == 23)
   assert(a:address() == "192.0.2.7" and a:klass() == 0x8001 and a:ttl() == 2^32 - 1)
   assert(srv:priority() == 1 and srv:weight() == 2 and srv:port() == 47430 and srv:target() == "printer.local")
   assert(lib.equal(txt:chunks(), {"a=1", "", "b=2"}) and txt:tostring() == "{a=1;;b=2}")
   assert(other:type() == 28 and other:data() == ("\1"):rep(16))
   assert(a:tostring() == "{name: printer.local; address: 192.0.2.7}")
   assert(ptr:tostring() == "{name: _x._tcp.local; domain_name: printer._x._tcp.local}")
   assert(srv:tostring() == "{target: printer.local; port: 47430}")
   for i, record in ipairs(records) do assert(record:encode() == parts[i]) end
   srv:port(1)
   assert(srv:encode():sub(-18, -16) == "\2\0\1" and not pcall(a.address, a, "1.2.3"))
   -- Cut off anywhere: fewer records, nothing worse.
   for cut = 0, size - 1 do
      local m = ffi.new("uint8_t[?]", math.max(cut, 1))
      ffi.copy(m, all, cut)
      local some, used = dns.DNS.parse_records(m, cut, 5)
      assert(#some < 5 and used <= cut)
   end
   for _, data in ipairs {"\0\1\0\1\0\0\0\0\0\3abc", "\0\16\0\1\0\0\0\0\0\2\5a", "\0\33\0\1\0\0\0\0\0\6abcdef"} do
      local m, n = memory("\0"..data)
      local record, used = dns.DNS.parse_record(m, n)
      assert(record == nil and used == 0)
   end
   local question = dns.query_record:new({name = "_x._tcp.local", type = dns.PTR})
   bytes, size = memory(question:encode())
   local parsed, used = dns.query_record:new_from_mem(bytes, size)
   assert(used == size and parsed:name() == "_x._tcp.local" and parsed:type() == 12 and parsed:sizeof() == size)
   assert(dns.query_record:new_from_mem(bytes, size - 1) == nil)
end

--- Runs the tests of lib.protocol.dns.dns.
function M.run(dns)
   test_names(dns)
   test_records(dns)
end

--- Runs the tests of lib.protocol.dns.mdns.
function M.run_mdns(mdns)
   local packet, dns = require("core.packet"), require("lib.protocol.dns.dns")
   local MDNS = mdns.MDNS
   -- An answer, a record of another type, and additional ones, with compressed names.
   local message = lib.hexundump("0000 8400 0000 0001 0000 0002", 12)
      .."\2_x\5local\0"..lib.hexundump("000c 0001 00000078 0007", 10).."\4abcd\xc0\12"
      .."\xc0\32"..lib.hexundump("001c 8001 00000078 0002 0000", 12)
      .."\xc0\32"..lib.hexundump("0001 8001 00000078 0004 c0000207", 14)
   local head = lib.hexundump([[01005e0000fb 020000000001 0800 4500 0000 0000 4000 ff11 0000 c0000201 e00000fb
      14e9 14e9 0000 0000]], 42)
   local p = packet.from_string(head..message)
   assert(MDNS.is_mdns(p) and MDNS.is_response(p))
   local parsed = MDNS.parse_packet(p)
   assert(#parsed.questions == 0 and #parsed.answer_rrs == 1)
   assert(#parsed.authority_rrs == 0 and #parsed.additional_rrs == 2)
   assert(parsed.answer_rrs[1]:name() == "_x.local" and parsed.answer_rrs[1]:domain_name() == "abcd._x.local")
   assert(parsed.additional_rrs[1]:type() == 28 and parsed.additional_rrs[2]:type() == dns.A)
   assert(parsed.additional_rrs[2]:name() == "abcd._x.local" and parsed.additional_rrs[2]:address() == "192.0.2.7")
   p.length = p.length - 1
   assert(#MDNS.parse_packet(p).additional_rrs == 1)
   p.length = 53
   assert(not MDNS.is_mdns(p) and not pcall(MDNS.parse_packet, p))
   packet.free(p)
   local h = MDNS:new({id = 0x102, questions = 3})
   assert(ffi.string(h:header(), 12) == "\1\2\0\0\0\3\0\0\0\0\0\0" and h:questions() == 3 and MDNS:sizeof() == 12)
end

return M
