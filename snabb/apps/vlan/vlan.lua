-- SPDX-License-Identifier: MIT
--
-- apps.vlan.vlan: VLAN tags of IEEE 802.1Q and 802.1ad: added, removed and distinguished.
--
-- What differs from Snabb: a tag is recognised by its VLAN identifier alone, whatever its priority bits; frames too
-- short to be Ethernet, or too long for a tag, are freed; each VlanMux has its own table of pushes.

local ffi = require("ffi")
local bit = require("bit")
local link = require("core.link")
local links = require("apps.links")
local packet = require("core.packet")

ffi.cdef("void *memmove(void *to, const void *from, size_t n);")

local C = ffi.C
local nreadable, receive, transmit = link.nreadable, link.receive, link.transmit
local free = packet.free
local band, rshift = bit.band, bit.rshift
local uint32_ptr = ffi.typeof("uint32_t *")

local M = {}

local tpids = {dot1q = 0x8100, dot1ad = 0x88a8}
local addresses_size, tag_size, header_size = 12, 4, 14

local encapsulation = {default = "dot1q"}

--- Tagger: puts a tag on all packets from `input` and sends them to `output`. Configuration: `tag`, the VLAN
--- identifier; `encapsulation`, "dot1q" (the default), "dot1ad" or the tag's Ethernet type as a number.
M.Tagger = {config = {encapsulation = encapsulation, tag = {required = true}}}

--- Untagger: takes the tag from packets of one VLAN that come in on `input` and sends them to `output`; frees all
--- others. Configuration: as Tagger's.
M.Untagger = {config = {encapsulation = encapsulation, tag = {required = true}}}

--- VlanMux: joins VLANs to a trunk and splits it. A packet from the input `vlanX` gets the tag X and goes to the output
--- `trunk`; one from the input `trunk` with the tag X loses it and goes to the output `vlanX` (freed if there is none);
--- untagged ones go between `native` and `trunk` as they are. Configuration: `encapsulation`, as Tagger's.
M.VlanMux = {config = {encapsulation = encapsulation}}

local Tagger, Untagger, VlanMux = M.Tagger, M.Untagger, M.VlanMux

-- The four bytes of a tag with priority 0, as a number that a 32-bit store writes in network order.
local function build_tag(vid, tpid)
   local tag = ffi.new("union { uint8_t bytes[4]; uint32_t number; }")
   tag.bytes[0], tag.bytes[1] = rshift(tpid, 8), band(tpid, 0xff)
   tag.bytes[2], tag.bytes[3] = rshift(vid, 8), band(vid, 0xff)
   return tag.number
end

--- Takes the tag out of the packet `pkt`. Returns the packet, which has moved: use only what is returned.
function M.pop_tag(pkt)
   C.memmove(pkt.data + tag_size, pkt.data, addresses_size)
   return packet.shiftleft(pkt, tag_size)
end

--- Puts `tag` (four bytes in network order, as a number) into the packet `pkt`. Returns the packet: use only what is
--- returned.
function M.push_tag(pkt, tag)
   pkt = packet.shiftright(pkt, tag_size)
   C.memmove(pkt.data, pkt.data + tag_size, addresses_size)
   ffi.cast(uint32_ptr, pkt.data + addresses_size)[0] = tag
   return pkt
end

--- Returns the tag control information of a tagged packet, in host order. Does not check that it is one.
function M.extract_tci(pkt)
   return pkt.data[14] * 256 + pkt.data[15]
end

--- Returns the VLAN identifier in the tag control information `tci`.
function M.tci_to_vid(tci)
   return band(tci, 0xfff)
end

--- Sets self.tpid from `conf.encapsulation`; returns self. Throws if that is invalid.
function M.new_aux(self, conf)
   local encap = conf.encapsulation or "dot1q"
   self.tpid = type(encap) == "number" and encap or tpids[encap]
   if not self.tpid then error("Unsupported encapsulation type " .. tostring(encap)) end
   return self
end

--- Returns `tag`. Throws unless it is a VLAN identifier, 0 to 4094.
function M.check_tag(tag)
   if type(tag) ~= "number" or tag < 0 or tag >= 4095 or tag ~= math.floor(tag) then
      error(("VLAN tag %s out of range: expected 0 to 4094"):format(tostring(tag)))
   end
   return tag
end

local push_tag, pop_tag, extract_tci, tci_to_vid = M.push_tag, M.pop_tag, M.extract_tci, M.tci_to_vid

local function can_be_tagged(p)
   return p.length >= header_size and p.length + tag_size <= packet.max_payload
end

local function is_tagged(p, tpid)
   return p.length >= header_size + tag_size and p.data[12] * 256 + p.data[13] == tpid
end

local function tag_all(from, to, tag)
   for _ = 1, nreadable(from) do
      local p = receive(from)
      if can_be_tagged(p) then
         transmit(to, push_tag(p, tag))
      else
         free(p)
      end
   end
end

--- Creates a tagger. Throws if the tag or the encapsulation is invalid.
function Tagger:new(conf)
   local o = M.new_aux(setmetatable({}, {__index = Tagger}), conf)
   o.tag = build_tag(M.check_tag(conf.tag), o.tpid)
   return o
end

--- Tags all waiting packets.
function Tagger:push()
   local i, o = links.one_in_one_out(self)
   tag_all(i, o, self.tag)
end

--- Creates an untagger. Throws if the tag or the encapsulation is invalid.
function Untagger:new(conf)
   local o = M.new_aux(setmetatable({}, {__index = Untagger}), conf)
   o.vid = M.check_tag(conf.tag)
   return o
end

--- Untags all waiting packets.
function Untagger:push()
   local i, o = links.one_in_one_out(self)
   local vid, tpid = self.vid, self.tpid
   for _ = 1, nreadable(i) do
      local p = receive(i)
      if is_tagged(p, tpid) and tci_to_vid(extract_tci(p)) == vid then
         transmit(o, pop_tag(p))
      else
         free(p)
      end
   end
end

-- What is sent where there is no link is freed.
local function send(o, p)
   if o then transmit(o, p) else free(p) end
end

local function push_native(self, from)
   local trunk = links.output(self, "trunk")
   for _ = 1, nreadable(from) do
      transmit(trunk, receive(from))
   end
end

local function push_trunk(self, from)
   local links, tpid = self.vlan_links, self.tpid
   local native = self.output.native
   for _ = 1, nreadable(from) do
      local p = receive(from)
      if is_tagged(p, tpid) then
         local vid = tci_to_vid(extract_tci(p))
         -- VLAN 0 is no VLAN: such a tag only carries a priority (IEEE 802.1Q, 9.6).
         send(links[vid] or (vid == 0 and native or nil), pop_tag(p))
      else
         send(native, p)
      end
   end
end

VlanMux.push_link = {native = push_native, trunk = push_trunk}

--- Creates a multiplexer. Throws if the encapsulation is invalid.
function VlanMux:new(conf)
   -- Its own table, since each link to a VLAN has a push of its own.
   local o = {vlan_links = {}, push_link = {native = push_native, trunk = push_trunk}}
   return M.new_aux(setmetatable(o, {__index = VlanMux}), conf or {})
end

local function link_vid(name)
   local vid = name:match("^vlan(%d+)$")
   if vid then return M.check_tag(tonumber(vid)) end
   if name ~= "native" and name ~= "trunk" then
      error(("VlanMux: invalid link name %s: expected trunk, native or vlan and a number"):format(name))
   end
end

--- Takes a new link in. Throws if its name is none of trunk, native and vlanX.
function VlanMux:link(dir, name)
   local vid = link_vid(name)
   if not vid then return end
   if dir == "output" then
      self.vlan_links[vid] = self.output[name]
   else
      local tag = build_tag(vid, self.tpid)
      self.push_link[name] = function (app, from)
         tag_all(from, links.output(app, "trunk"), tag)
      end
   end
end

--- Forgets a link.
function VlanMux:unlink(dir, name)
   local vid = link_vid(name)
   if not vid then return end
   if dir == "output" then
      self.vlan_links[vid] = nil
   else
      self.push_link[name] = nil
   end
end

local addresses = "\2\xaa\xaa\xaa\xaa\xaa\2\x99\x99\x99\x99\x99"

local function tagged(tpid, tci, rest)
   return addresses .. string.char(rshift(tpid, 8), band(tpid, 0xff), rshift(tci, 8), band(tci, 0xff)) .. rest
end

local function test_tagger(harness)
   local plain, runt = addresses .. "\8\0" .. ("x"):rep(40), addresses .. "\8"
   local long = addresses .. ("y"):rep(packet.max_payload - 12)
   local h = harness.new(Tagger, {tag = 0x123}, {"input"}, {"output"})
   h:send("input", {plain, runt, long, addresses .. "\8\0"})
   h:expect("output", {tagged(0x8100, 0x123, plain:sub(13)), tagged(0x8100, 0x123, "\8\0")})
   h = harness.new(Tagger, {tag = 4094, encapsulation = "dot1ad"}, {"input"}, {"output"})
   h:send("input", {plain})
   h:expect("output", {tagged(0x88a8, 4094, plain:sub(13))})
   h = harness.new(Untagger, {tag = 0x123}, {"input"}, {"output"})
   h:send("input", {plain, tagged(0x8100, 0x124, "\8\0abc"), tagged(0x8100, 0x123, "\8\0def"), runt,
                    tagged(0x8100, 0xf123, "\8\0ghi"), tagged(0x88a8, 0x123, "\8\0jkl"), tagged(0x8100, 0x123, "")})
   h:expect("output", {addresses .. "\8\0def", addresses .. "\8\0ghi"})
   h:stop()
end

local function test_mux(harness)
   local h = harness.new(VlanMux, nil, {"trunk", "native", "vlan1", "vlan300"}, {"trunk", "native", "vlan1", "vlan300"})
   h:send("vlan1", {addresses .. "\8\0one"})
   h:send("vlan300", {addresses .. "\8\0three hundred"})
   h:send("native", {addresses .. "\8\0native"})
   local on_trunk = {tagged(0x8100, 1, "\8\0one"), tagged(0x8100, 300, "\8\0three hundred"), addresses .. "\8\0native"}
   h:expect("trunk", on_trunk)
   h:send("trunk", on_trunk)
   h:send("trunk", {tagged(0x8100, 2, "\8\0nobody's"), tagged(0x8100, 0xe000, "\8\0priority")})
   h:expect("vlan1", {addresses .. "\8\0one"})
   h:expect("vlan300", {addresses .. "\8\0three hundred"})
   h:expect("native", {addresses .. "\8\0native", addresses .. "\8\0priority"})
   local other = VlanMux:new({encapsulation = 0x9100})
   assert(other.tpid == 0x9100 and other.push_link.vlan1 == nil)
   for _, name in ipairs({"vlan4095", "vlanx", "other", "xvlan1"}) do
      assert(not pcall(other.link, other, "input", name))
   end
   h:stop()
end

--- Tags and untags: all tags on one packet, then the apps.
function M.selftest()
   local harness = require("apps.test.harness")
   local bytes = addresses .. "\8\0" .. ("z"):rep(68)
   local p = packet.from_string(bytes)
   for vid = 0, 4094 do
      p = push_tag(p, build_tag(vid, 0x8100))
      assert(p.length == 86 and is_tagged(p, 0x8100) and extract_tci(p) == vid)
      p = pop_tag(p)
   end
   assert(ffi.string(p.data, p.length) == bytes)
   free(p)
   test_tagger(harness)
   test_mux(harness)
   for _, bad in ipairs({{tag = 4095}, {tag = -1}, {tag = 1.5}, {tag = "x"}, {tag = 1, encapsulation = "qinq"}}) do
      assert(not pcall(Tagger.new, Tagger, bad) and not pcall(Untagger.new, Untagger, bad))
   end
end

return M
