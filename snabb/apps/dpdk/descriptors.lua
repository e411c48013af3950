-- SPDX-License-Identifier: MIT
-- apps.dpdk.descriptors: a ring of receive descriptors as an Intel 82599 has it (data sheet, 7.1.5, "legacy"), filled with what
-- a DPDK port receives. Programs that walk such a ring themselves (Snabb's `firehose`, whose callbacks are C) run on any port
-- so; each packet is copied into the buffer that the program gave its descriptor.

local ffi = require("ffi")
local link = require("core.link")
local packet = require("core.packet")

local M = {}

local ring_t = ffi.typeof[[
   union {
      struct { uint64_t address, dd; } data;                 /* as a program gives it to the card */
      struct { uint64_t address; uint16_t length, checksum; uint8_t status, errors; uint16_t vlan; } done;
   }[?]
]]

-- Descriptor done, end of packet.
local DONE = 3

-- Descriptors that the program has given back take what waits.
local function deliver (port, ring)
   local waiting, descriptors = ring.waiting, port.rxdesc
   if link.empty(waiting) then port:pull() end
   while not link.empty(waiting) do
      local d = descriptors[ring.next].done
      if d.status ~= 0 or d.address == 0 then return end
      local p = link.receive(waiting)
      ffi.copy(ffi.cast("void *", d.address), p.data, p.length)
      d.length, d.errors, d.status = p.length, 0, DONE
      packet.free(p)
      ring.next = (ring.next + 1) % ring.size
   end
end

--- Gives an app of apps.dpdk.port what such a program takes for a card's: `rxdesc`, a ring of *size* descriptors (2048, if omitted),
--- and `r`, its registers. Writing the ring's tail (`r.RDT`) has packets delivered; all other registers do nothing and read as 0.
function M.attach (port, size)
   size = size or 2048
   if type(size) ~= "number" or size < 2 or size > 32768 or bit.band(size, size - 1) ~= 0 then
      error("ring_buffer_size: expected a power of two from 2 to 32768, got "..tostring(size), 0)
   end
   local ring = {size = size, next = 0, waiting = link.new(port.device..".descriptors")}
   -- What the engine does for an app, which this one is not.
   port.input, port.output = {}, {output = ring.waiting, ring.waiting}
   if port.link then port:link("output", "output") end
   port.shm = nil -- the device's counters are its card's, under pci/
   port.rxdesc = ring_t(size)
   local registers = {RDT = function (tail) if tail then deliver(port, ring) end return 0 end}
   port.r = setmetatable(registers, {__index = function () return function () return 0 end end})
end

function M.selftest ()
   require("core.memory")
   local port = require("apps.dpdk.port"):new{port = "net_null_descriptors", queue = 0, promisc = false}
   assert(not pcall(M.attach, port, 100) and not pcall(M.attach, port, 65536))
   M.attach(port, 8)
   local buffers = {}
   for i = 0, 7 do
      buffers[i] = ffi.new("uint8_t[10240]", 0xff)
      port.rxdesc[i].data.address = ffi.cast("uint64_t", ffi.cast("uintptr_t", buffers[i]))
      port.rxdesc[i].data.dd = 0
   end
   port.r.SRRCTL(7)
   local index, seen = 0, 0
   for _ = 1, 5 do
      port.r.RDT(index)
      -- The ring is full; a card waits then, too.
      port.r.RDT(index)
      for _ = 1, 8 do
         local d = port.rxdesc[index].done
         assert(d.status == DONE and d.length == 64 and buffers[index][0] == 0 and buffers[index][64] == 0xff)
         d.status, seen, index = 0, seen + 1, (index + 1) % 8
      end
   end
   assert(seen == 40 and port.r.MPC() == 0)
   port:stop()
end

return M
