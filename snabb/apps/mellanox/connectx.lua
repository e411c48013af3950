-- SPDX-License-Identifier: MIT
-- apps.mellanox.connectx: Mellanox ConnectX cards, by DPDK: see apps.dpdk.hardware. Queues are set up by one app and used
-- by others: see apps.dpdk.control. A queue's tag stays in its packets, as with Snabb's driver.
--
-- Differs from Snabb: a queue may have a VLAN without a MAC address.

local control = require("apps.dpdk.control")
local names = require("apps.dpdk.names")

local M = {}

--- The app that sets a card up for the apps of its queues; {pciaddress =, queues = {{id =, mac =, vlan =}, ...}, mtu =, sendq_size =,
--- recvq_size =}. Queues with the same MAC address and VLAN share packets by flow; multicasts go to the first of them.
M.ConnectX = {
   config = {
      pciaddress = {required = true}, queues = {required = true}, sendq_size = {}, recvq_size = {}, mtu = {},
      fc_rx_enable = {}, fc_tx_enable = {}, macvlan = {}, sync_stats_interval = {},
   },
}
local ConnectX = M.ConnectX

local function check (queues)
   if type(queues) ~= "table" or #queues == 0 then error("queues: expected an array of {id =, mac =, vlan =}", 0) end
   local with_mac, with_vlan = 0, false
   for _, queue in ipairs(queues) do
      if type(queue) ~= "table" then error("queues: expected an array of {id =, mac =, vlan =}", 0) end
      if queue.mac then with_mac = with_mac + 1 end
      if queue.vlan then with_vlan = true end
   end
   if with_mac ~= 0 and with_mac ~= #queues then
      error("queues: expected a MAC address for all of them or for none", 0)
   end
   return with_vlan
end

--- Makes the app. Errors if some queues have a MAC address and others have none.
function ConnectX:new (conf)
   local with_vlan = check(conf.queues)
   local unmapped = not names.mapped(conf.pciaddress) and names.is_pci(conf.pciaddress)
   -- The card's own limit counts the Ethernet header, a tag and the checksum.
   local mtu = conf.mtu and math.max(68, conf.mtu - 22) or unmapped and 9478 or nil
   return control.publish(conf.pciaddress, conf.queues, {
      descriptors = math.max(conf.sendq_size or 1024, conf.recvq_size or 1024), mtu = mtu, promisc = true, strip = false,
      no_vlan = with_vlan and 0 or nil, -- with VLANs at all, a queue without one takes what has no tag
   })
end

--- One pair of queues of a card; {pciaddress =, queue =}.
M.IO = {config = {pciaddress = {}, pciaddr = {}, queue = {required = true}, packetblaster = {}}}
local IO = M.IO

local function address_of (conf)
   local address = conf.pciaddress or conf.pciaddr
   if not address then error("ConnectX.IO: expected a PCI address (pciaddress)", 0) end
   return address
end

--- Makes the app. It waits for the app that sets the card up.
function IO:new (conf) return control.io("ConnectX.IO", address_of(conf), conf.queue) end
--- The device and the queue of an app with this argument.
function IO.port_of (conf) return control.port_of(address_of(conf), conf.queue) end

-- As in Snabb: the driver is the app of a queue.
M.driver = M.IO

function M.selftest () control.selftest() end

return M
