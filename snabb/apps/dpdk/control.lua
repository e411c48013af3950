-- SPDX-License-Identifier: MIT
-- apps.dpdk.control: drivers with an app that sets a card up, and apps for its queues, in any order, on any thread or in
-- another process of the group: ConnectX and Intel's virtual functions. What a queue is, the control app writes to shared
-- memory, group/pci/ADDRESS/QUEUE; the queues' apps look for it there until it comes.

local ffi = require("ffi")
local lib = require("core.lib")
local shm = require("core.shm")
local sys = require("core.sys")
local hardware = require("apps.dpdk.hardware")
local names = require("apps.dpdk.names")
local Port = require("apps.dpdk.port")

local M = {}

-- `ready` is written last: the number of the process whose control app it is.
local queue_t = ffi.typeof([[struct {
   int32_t ready; uint32_t descriptors; int32_t vlan, mtu; uint16_t place, count; char mac[18]; bool promisc, strip;
}]])

local function path (address, id)
   return ("group/pci/%s/%s"):format(address, (tostring(id):gsub("/", "_")))
end

-- A number of descriptors that a queue may have.
local function descriptors (n)
   return math.max(64, math.min(n or 1024, 32768))
end

-- ---- the control app ----

--- The app that sets a card up. It does nothing itself: DPDK does it when the first of its queues' apps starts.
local Control = {}
Control.__index = Control

--- Write down what the queues of the card at *address* are: an array of {id =, mac =, vlan =}, and what they have in
--- common: {descriptors =, mtu =, promisc =, strip =}.
function M.publish (address, queues, common)
   local self = setmetatable({pciaddress = names.qualified(address), objects = {}}, Control)
   local groups, seen = {}, {}
   for _, queue in ipairs(queues) do
      if queue.id == nil then error("queues: expected {id =} for each queue", 0) end
      if seen[queue.id] then error(("queues: the id %s is there twice"):format(tostring(queue.id)), 0) end
      seen[queue.id] = true
      if queue.mac then require("apps.dpdk.flow").mac(queue.mac) end
      local key = ("%s %s"):format(queue.mac or "", queue.vlan or "")
      groups[key] = groups[key] or {}
      table.insert(groups[key], queue)
   end
   for _, group in pairs(groups) do
      for i, queue in ipairs(group) do
         local name = path(self.pciaddress, queue.id)
         local object = shm.create(name, queue_t)
         object.ready = 0
         object.mac, object.vlan = queue.mac or "", queue.vlan or common.no_vlan or -1
         object.place, object.count = i - 1, #group
         object.descriptors, object.mtu = descriptors(common.descriptors), common.mtu or 0
         object.promisc, object.strip = common.promisc, common.strip
         object.ready = sys.getpid()
         self.objects[name] = object
      end
   end
   return self
end

--- Take the queues back. Their apps keep what they have.
function Control:stop ()
   for name, object in pairs(self.objects) do
      object.ready = 0
      shm.unmap(object)
      shm.unlink(name)
   end
   self.objects = {}
end

-- ---- the app of a queue ----

--- The app of one queue.
local IO = {}
IO.__index = IO

local function read (address, id)
   local name = path(address, id)
   if not shm.exists(name) then return nil end
   local ok, object = pcall(shm.open, name, queue_t, true)
   if not ok then return nil end
   local found = object.ready ~= 0 and {
      mac = ffi.string(object.mac), vlan = object.vlan, place = object.place, count = object.count,
      descriptors = object.descriptors, mtu = object.mtu, promisc = object.promisc, strip = object.strip,
   } or nil
   shm.unmap(object)
   return found
end

--- The app for the queue *id* of the card at *address*, for *driver*.
function M.io (driver, address, id)
   local self = setmetatable({driver = driver, pciaddress = names.qualified(address), port = address, queue = id,
                              again = lib.throttle(0.01)}, IO)
   self:attach()
   return self
end

--- What a queue's app has opened: its device and its queue.
function M.port_of (address, id)
   -- Which pool it is in, the control app says: on one thread they may share what they need.
   return names.device(address), id, false
end

--- Open the queue, if the control app has written it down.
function IO:attach ()
   local about = read(self.pciaddress, self.queue)
   if not about then return false end
   local arg = {
      port = self.port, address = self.pciaddress, queue = self.queue, queue_name = tostring(self.queue), promisc = about.promisc,
      descriptors = about.descriptors, mtu = about.mtu > 0 and about.mtu or nil, rss = {index = about.place,
      count = about.count, first_only = true},
   }
   if about.mac ~= "" then arg.mac, arg.vmdq = about.mac, true end
   if about.vlan >= 0 then arg.vlan, arg.keep_tag = about.vlan, not about.strip end
   self.nic = Port:new(arg)
   self.nic.shm = nil
   self.stats = self.nic.stats
   if self.input then self:link() end
   return true
end

--- The queue's links are those of the app.
function IO:link ()
   local nic = self.nic
   if not nic then return end
   nic.appname, nic.input, nic.output = self.appname, self.input, self.output
   nic:link()
end
IO.unlink = IO.link

--- Receive, once the queue is there.
function IO:pull ()
   if self.nic then
      self.nic:pull()
   elseif self.again() then
      self:attach()
   end
end

--- Send, once the queue is there.
function IO:push ()
   if self.nic then self.nic:push() end
end

--- Give the queue back.
function IO:stop ()
   if self.nic then self.nic:stop() end
   self.nic = nil
end

--- Print what the queue counted.
function IO:report ()
   if self.nic then self.nic:report() end
end

-- The port's own methods, as far as there is one: numbers are 0 until then.
for _, name in ipairs{"rxpackets", "rxbytes", "rxmcast", "rxbcast", "rxdrop", "rxerrors", "rxdmapackets", "txpackets", "txbytes",
                      "txmcast", "txbcast", "txdrop", "txerrors", "link_speed"} do
   IO[name] = function (self) return self.nic and self.nic[name](self.nic) or 0 end
end

--- As apps.dpdk.port's.
function IO:get_rxstats ()
   return self.nic and self.nic:get_rxstats() or {packets = 0, bytes = 0, dropped = 0}
end
--- As apps.dpdk.port's.
function IO:get_txstats ()
   return self.nic and self.nic:get_txstats() or {packets = 0, bytes = 0}
end
--- As apps.dpdk.port's.
function IO:link_status () return self.nic ~= nil and self.nic:link_status() end

M.notice = hardware.notice

function M.selftest () require("apps.dpdk.hardware_test").run_control(M) end

return M
