-- SPDX-License-Identifier: MIT
--
-- apps.test.synth: Ethernet frames of given sizes.
--
-- What differs from Snabb: `packet_id` works as documented there (the number is written, and counts on each output
-- link); frames may be as long as a packet.

local ffi = require("ffi")
local engine = require("core.app")
local lib = require("core.lib")
local link = require("core.link")
local packet = require("core.packet")
local ethernet = require("lib.protocol.ethernet")

local transmit, clone = link.transmit, packet.clone

local M = {}

local header_size = 14

--- Synth: sends Ethernet frames to all its output links, engine.pull_npackets to each in a breath, going round a list.
--- Configuration: `sizes`, the sizes of the frames in bytes with the Ethernet header, an array ({64} by default); `src`
--- and `dst`, MAC addresses as text; `random_payload`, random bytes instead of zeros; `packet_id`, a 32-bit number
--- behind the Ethernet header that counts the frames sent to each link from 0; or `packets`, an array of packets to
--- send instead (which then belong to the app).
M.Synth = {
   config = {
      sizes = {default = {64}},
      src = {default = "00:00:00:00:00:00"},
      dst = {default = "00:00:00:00:00:00"},
      random_payload = {default = false},
      packet_id = {default = false},
      packets = {},
   }
}
local Synth = M.Synth

local function check_size(size, least)
   if type(size) ~= "number" or size < least or size > packet.max_payload then
      error(("Synth: expected sizes from %d to %d, got %s"):format(least, packet.max_payload, tostring(size)))
   end
end

local function make(size, src, dst, random_payload)
   local payload = size - header_size
   local p = packet.resize(packet.allocate(), size)
   ffi.copy(p.data, dst, 6)
   ffi.copy(p.data + 6, src, 6)
   -- The field is a length, as in IEEE 802.3.
   p.data[12] = bit.rshift(payload, 8)
   p.data[13] = bit.band(payload, 0xff)
   if random_payload then ffi.copy(p.data + header_size, lib.random_bytes(payload), payload) end
   return p
end

--- Makes the frames. Throws if there is none, or one is too short or too long, or an address is invalid.
function Synth:new(conf)
   local packets = conf.packets
   if #(packets or conf.sizes) == 0 then error("Synth: expected at least one size") end
   local least = header_size + (conf.packet_id and 4 or 0)
   if not packets then
      packets = {}
      for _, size in ipairs(conf.sizes) do check_size(size, least) end
      local src, dst = assert(ethernet:pton(conf.src)), assert(ethernet:pton(conf.dst))
      for k, size in ipairs(conf.sizes) do packets[k] = make(size, src, dst, conf.random_payload) end
   elseif conf.packet_id then
      for _, p in ipairs(packets) do check_size(p.length, least) end
   end
   return setmetatable({cursor = 0, pktid = conf.packet_id and 0, packets = packets}, {__index = Synth})
end

local function number(p, id)
   local field = p.data + header_size
   field[0], field[1] = bit.rshift(id, 24), bit.band(bit.rshift(id, 16), 0xff)
   field[2], field[3] = bit.band(bit.rshift(id, 8), 0xff), bit.band(id, 0xff)
end

--- Sends the next frames to all outputs.
function Synth:pull()
   local burst = engine.pull_npackets
   local packets, output, id = self.packets, self.output, self.pktid
   local npackets = #packets
   for k = 1, #output do
      local o, cursor = output[k], self.cursor
      for n = 0, burst - 1 do
         local p = clone(packets[cursor + 1])
         if id then number(p, id + n) end
         transmit(o, p)
         cursor = cursor + 1
         if cursor == npackets then cursor = 0 end
      end
   end
   self.cursor = (self.cursor + burst) % npackets
   if id then self.pktid = (id + burst) % 2^32 end
end

--- Frees the frames that were copied.
function Synth:stop()
   for _, p in ipairs(self.packets) do packet.free(p) end
   self.packets = {}
end

--- Compares what is sent with bytes.
function M.selftest()
   local harness = require("apps.test.harness")
   local h = harness.new(Synth, {sizes = {32, 64, 128}, src = "11:11:11:11:11:11", dst = "22:22:22:22:22:22"}, {},
                         {"a", "b"})
   engine.breathe()
   engine.breathe()
   local expected = {}
   for k = 1, 2 * engine.pull_npackets do
      local size = ({32, 64, 128})[(k - 1) % 3 + 1]
      expected[k] = ("\x22"):rep(6) .. ("\x11"):rep(6) .. "\0" .. string.char(size - 14) .. ("\0"):rep(size - 14)
   end
   h:expect("a", expected)
   h:expect("b", expected)
   h = harness.new(Synth, {sizes = {18, 300}, packet_id = true, random_payload = true}, {}, {"a", "b"})
   for _ = 1, 3 do engine.breathe() end
   for _, name in ipairs({"a", "b"}) do
      local got = h:take(name)
      assert(#got == 3 * engine.pull_npackets)
      for k, s in ipairs(got) do
         assert(#s == (k % 2 == 1 and 18 or 300))
         assert(s:sub(13, 18) == (k % 2 == 1 and "\0\4" or "\1\30") .. "\0\0" .. string.char(bit.rshift(k - 1, 8),
                                                                                             (k - 1) % 256))
      end
      assert(got[2]:sub(19) ~= ("\0"):rep(282) and got[2]:sub(19) == got[4]:sub(19))
   end
   h:stop()
   h = harness.new(Synth, {packets = {packet.from_string("own")}}, {}, {"a"})
   engine.breathe()
   assert(h:take("a")[1] == "own")
   h:stop()
   for _, bad in ipairs({{sizes = {}}, {sizes = {13}}, {sizes = {10241}}, {sizes = {17}, packet_id = true}}) do
      local ok, err = pcall(Synth.new, Synth, bad)
      assert(not ok and tostring(err):match("Synth: expected"), err)
   end
   assert(not pcall(Synth.new, Synth, {sizes = {64}, src = "nonsense", dst = "00:00:00:00:00:00"}))
end

return M
