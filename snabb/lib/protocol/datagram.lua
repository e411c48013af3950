-- SPDX-License-Identifier: MIT
-- lib.protocol.datagram: parses, builds and changes the protocol headers of a packet.
--
-- A datagram has a packet and a stack of header objects that have been parsed from it, from the outermost one on. What
-- follows them is the payload. Headers are added in front (`push`) and removed there (`pop`), either at once, or, with
-- the option `delayed_commit`, by `commit`, which moves the payload once only. At once means that the packet may move:
-- `packet` says where it is; and since views of it would be left behind, the stack must be empty (Snabb's rule, too).
local ffi = require("ffi")
local packet = require("core.packet")
require("lib.lua.class")

ffi.cdef [[
void *perigee_datagram_memmove(void *to, const void *from, size_t size) __asm__("memmove");
]]
local memmove = ffi.C.perigee_datagram_memmove

local u8_p = ffi.typeof("uint8_t *")
local no_options = {}

local Datagram = subClass(nil)
Datagram._name = "datagram"
-- How many bytes may be pushed before a commit.
Datagram.push_buffer_size = 512

-- Gives the parsed headers' objects back. Steps for the usual number of them: a loop would end LuaJIT's traces.
local function free_stack(parse)
   local stack, index = parse.stack, parse.index
   for i = index, 5, -1 do
      stack[i]:free()
      stack[i] = nil
   end
   if index >= 4 then stack[4]:free() stack[4] = nil end
   if index >= 3 then stack[3]:free() stack[3] = nil end
   if index >= 2 then stack[2]:free() stack[2] = nil end
   stack[1]:free()
   stack[1] = nil
end

--- A new datagram of the packet `p` (nil: a new, empty one), whose outermost header is of the class `class` (nil: not
-- known). Options: delayed_commit (true or false). Called on a datagram: reuses it; its former packet stays with
-- its other owner.
function Datagram:new(p, class, options)
   local o = Datagram:superClass().new(self)
   if o._parse == nil then
      o._parse = {stack = {}, index = 0}
      o._push = {buffer = ffi.new("uint8_t[?]", Datagram.push_buffer_size)}
      o._packet = ffi.new("struct packet *[1]")
   end
   local parse, push = o._parse, o._push
   if parse.index > 0 then free_stack(parse) end
   parse.index, parse.offset, parse.ulp = 0, 0, class
   push.offset, push.size = Datagram.push_buffer_size, 0
   o._offset = 0
   o._delayed_commit = (options or no_options).delayed_commit
   o._packet[0] = p or packet.allocate()
   return o
end

-- What moves the packet's bytes would leave the parsed headers' views behind.
local function check_stack(self)
   if self._parse.index ~= 0 then error("parse stack not empty", 3) end
end

--- Adds a copy of the header object `proto` in front.
function Datagram:push(proto)
   self:push_raw(proto:header(), proto:sizeof())
end

--- Adds a copy of `length` bytes at `data` in front. Errors: "parse stack not empty" without delayed commit; with it,
-- if more than 512 bytes are pushed before a commit.
function Datagram:push_raw(data, length)
   if self._delayed_commit then
      local push = self._push
      if length > push.offset then
         error("push: more than "..Datagram.push_buffer_size.." bytes before a commit", 2)
      end
      push.offset = push.offset - length
      push.size = push.size + length
      ffi.copy(push.buffer + push.offset, data, length)
   else
      check_stack(self)
      self._packet[0] = packet.prepend(self._packet[0], ffi.cast(u8_p, data), length)
      self._parse.offset = self._parse.offset + length
   end
end

--- Parses the header at the start of the payload, as one of the class `class` (default: what the header before it
-- says), and returns its object. Returns nil, and changes nothing, if the class is not known, the header does not
-- fit, or the function `check(header)` returns false.
function Datagram:parse_match(class, check)
   local parse = self._parse
   class = class or parse.ulp
   if not class then return nil end
   local p = self._packet[0]
   local proto = class:new_from_mem(p.data + parse.offset, p.length - parse.offset)
   if proto == nil then return nil end
   if check and not check(proto) then
      proto:free()
      return nil
   end
   local index = parse.index + 1
   parse.stack[index] = proto
   parse.index = index
   parse.ulp = proto:upper_layer()
   parse.offset = parse.offset + proto:sizeof()
   return proto
end

--- Parses the headers of the array `sequence` of {class, check} (either may be nil), as parse_match does, and returns
-- the last one's object; nil as soon as one cannot be parsed. Without `sequence`: the next header.
function Datagram:parse(sequence)
   -- In parentheses lest it be a tail call, of which LuaJIT unrolls only a few in a trace.
   if not sequence then return (self:parse_match()) end
   local proto
   for i = 1, #sequence do
      local step = sequence[i]
      proto = self:parse_match(step[1], step[2])
      if not proto then return nil end
   end
   return proto
end

--- Parses the next `n` (default 1) headers and returns the last one's object; nil as soon as one cannot be parsed.
function Datagram:parse_n(n)
   local proto
   for _ = 1, n or 1 do
      proto = self:parse_match()
      if not proto then return nil end
   end
   return proto
end

--- Gives the last `n` headers parsed back to the payload. Their objects must not be used any more.
function Datagram:unparse(n)
   local parse = self._parse
   while n > 0 and parse.index > 0 do
      local proto = parse.stack[parse.index]
      parse.stack[parse.index] = nil
      parse.index = parse.index - 1
      parse.offset = parse.offset - proto:sizeof()
      parse.ulp = proto:class()
      proto:free()
      n = n - 1
   end
end

--- Removes the first `n` headers parsed, and their bytes from the packet. Their objects must not be used any more.
-- Errors: if fewer have been parsed; without delayed commit, if more have.
function Datagram:pop(n)
   local parse = self._parse
   local stack, count = parse.stack, parse.index
   if n > count then error("pop: only "..count.." headers have been parsed", 2) end
   if n < count and not self._delayed_commit then error("parse stack not empty", 2) end
   local bytes = 0
   for i = 1, n do
      bytes = bytes + stack[i]:sizeof()
      stack[i]:free()
   end
   for i = 1, count do stack[i] = stack[i + n] end
   parse.index = count - n
   self:pop_raw(bytes)
   -- pop_raw of a delayed commit takes the bytes for a part of the payload; they have been parsed already.
   parse.offset = parse.offset - bytes
end

--- Removes `length` bytes from the front, and takes what follows as a header of the class `ulp`, if given. Errors:
-- "parse stack not empty" without delayed commit; if there are not as many bytes.
function Datagram:pop_raw(length, ulp)
   local p = self._packet[0]
   if self._delayed_commit then
      if self._offset + length > p.length then error("pop: the packet has only "..p.length.." bytes", 2) end
      self._offset = self._offset + length
      self._parse.offset = self._parse.offset + length
   else
      check_stack(self)
      if length > p.length then error("pop: the packet has only "..p.length.." bytes", 2) end
      self._packet[0] = packet.shiftleft(p, length)
   end
   if ulp then self._parse.ulp = ulp end
end

--- The array of the objects of the headers parsed. It changes with the datagram.
function Datagram:stack()
   return self._parse.stack
end

--- The packet.
function Datagram:packet()
   return self._packet[0]
end

--- A pointer to the payload and its length. With `mem`, appends `size` bytes at `mem` to the packet first.
function Datagram:payload(mem, size)
   if mem then self._packet[0] = packet.append(self._packet[0], ffi.cast(u8_p, mem), size) or self._packet[0] end
   local p, offset = self._packet[0], self._parse.offset
   return p.data + offset, p.length - offset
end

--- A pointer to the packet's bytes and their number.
function Datagram:data()
   local p = self._packet[0]
   return p.data, p.length
end

--- Does what has been pushed and popped since the last commit; nothing without delayed commit. The packet stays where
-- it is. Errors: "parse stack not empty"; if the packet would be too long.
function Datagram:commit()
   if not self._delayed_commit then return end
   check_stack(self)
   local p, push = self._packet[0], self._push
   local kept = p.length - self._offset
   if push.size + kept > packet.max_payload then error("commit: the packet would be too long", 2) end
   if push.size ~= self._offset then memmove(p.data + push.size, p.data + self._offset, kept) end
   ffi.copy(p.data, push.buffer + push.offset, push.size)
   p.length = push.size + kept
   self._parse.offset = self._parse.offset + push.size - self._offset
   push.offset, push.size = Datagram.push_buffer_size, 0
   self._offset = 0
end

local function test_headers()
   local ethernet, ipv6 = require("lib.protocol.ethernet"), require("lib.protocol.ipv6")
   local tunnel, udp = require("lib.protocol.keyed_ipv6_tunnel"), require("lib.protocol.udp")
   local mac, ip = ethernet:pton("02:00:00:00:00:01"), ipv6:pton("2001:db8::1")
   return {
      ether = ethernet:new({src = mac, dst = mac, type = 0x86dd}),
      ip = ipv6:new({src = ip, dst = ip, next_header = 115}),
      tunnel = tunnel:new(), udp = udp:new({src_port = 1, dst_port = 2}), ethernet = ethernet, ipv6 = ipv6
   }
end

local function bytes_of(...)
   local parts = {}
   for i, h in ipairs {...} do parts[i] = type(h) == "string" and h or ffi.string(h:header(), h:sizeof()) end
   return table.concat(parts)
end

local function contents(dgram)
   return ffi.string(dgram:data())
end

local function test_immediate(h)
   local dgram = Datagram:new()
   dgram:push(h.tunnel)
   dgram:push(h.ip)
   dgram:push(h.ether)
   local _, size = dgram:payload("payload", 7)
   assert(size == 7 and contents(dgram) == bytes_of(h.ether, h.ip, h.tunnel, "payload"))
   local p = dgram:packet()
   assert(rawequal(dgram:new(p, h.ethernet), dgram))
   assert(dgram:parse_match(nil, function (header) return header:type() == 1 end) == nil and #dgram:stack() == 0)
   local ether = dgram:parse()
   assert(ether:eq(h.ether) and dgram:parse():eq(h.ip) and #dgram:stack() == 2)
   assert(not pcall(dgram.push, dgram, h.ether) and not pcall(dgram.pop, dgram, 1) and not pcall(dgram.pop, dgram, 3))
   dgram:unparse(1)
   assert(dgram:parse({{h.ipv6, function () return true end}, {nil, nil}}):eq(h.tunnel))
   local payload
   payload, size = dgram:payload()
   assert(ffi.string(payload, size) == "payload" and dgram:parse() == nil and dgram:parse_n(2) == nil)
   dgram:pop(3)
   assert(contents(dgram) == "payload" and #dgram:stack() == 0)
   dgram:pop_raw(3, h.ethernet)
   assert(contents(dgram) == "load" and dgram:parse() == nil and not pcall(dgram.pop_raw, dgram, 5))
   assert(ffi.string(dgram:payload()) == "load")
   dgram:commit()
   packet.free(dgram:packet())
   dgram:free()
end

local function test_delayed(h)
   local original = bytes_of(h.ether, h.ip, h.tunnel, "payload")
   local p = packet.from_string(original)
   local dgram = Datagram:new(p, h.ethernet, {delayed_commit = true})
   dgram:push(h.udp)
   dgram:push_raw("raw", 3)
   assert(dgram:parse_n(2):eq(h.ip) and contents(dgram) == original)
   assert(not pcall(dgram.commit, dgram), "parse stack not empty")
   dgram:pop(1)
   assert(#dgram:stack() == 1 and dgram:stack()[1]:eq(h.ip))
   dgram:pop(1)
   assert(ffi.string(dgram:payload()) == bytes_of(h.tunnel, "payload"))
   dgram:commit()
   assert(contents(dgram) == bytes_of("raw", h.udp, h.tunnel, "payload") and dgram:packet() == p)
   assert(ffi.string(dgram:payload()) == bytes_of(h.tunnel, "payload"))
   dgram:pop_raw(11)
   dgram:commit()
   assert(contents(dgram) == bytes_of(h.tunnel, "payload"))
   dgram:push_raw(("x"):rep(512), 512)
   assert(not pcall(dgram.push_raw, dgram, "y", 1))
   dgram:commit()
   assert(contents(dgram) == ("x"):rep(512)..bytes_of(h.tunnel, "payload"))
   dgram:new(packet.resize(p, packet.max_payload), nil, {delayed_commit = true})
   dgram:push(h.ether)
   assert(not pcall(dgram.commit, dgram), "too long")
   packet.free(p)
end

function Datagram.selftest()
   local headers = test_headers()
   test_immediate(headers)
   test_delayed(headers)
end

return Datagram
