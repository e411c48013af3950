-- SPDX-License-Identifier: MIT
-- apps.dpdk.switch: what happens to packets on a card that several apps share: which of them gets a frame, and what an app
-- sends to another one. apps.dpdk.card says who they are; the fields that are read here are its.

local ffi = require("ffi")
local bit = require("bit")
local C = ffi.C
local engine = require("core.app")
local flow = require("apps.dpdk.flow")
local lib = require("core.lib")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")
local band = bit.band
local receive, transmit, empty, full = link.receive, link.transmit, link.empty, link.full
local mac_at, vlan_of, hash = flow.mac_at, flow.vlan, flow.hash

local M = {}

-- ---- tags ----

local tag_t = ffi.typeof("struct { uint8_t mac[12]; uint16_t tpid, tci; } *")
local TAGGED = lib.htons(0x8100)

local function untag (p)
   -- The addresses move up over the tag.
   local at = p.data
   C.memmove(at + 4, at, 12)
   return (packet.shiftleft(p, 4))
end

local function tag (p, tci)
   p = packet.shiftright(p, 4)
   C.memmove(p.data, p.data + 4, 12)
   local header = ffi.cast(tag_t, p.data)
   header.tpid, header.tci = TAGGED, tci
   return p
end

-- ---- giving frames out ----

-- The member of a pool that a frame is for; nil: another process has that queue, or nobody.
local function pick (pool, p)
   if pool.count == 1 then return pool.slots[0] end
   return pool.slots[(hash(p) or 0) % pool.count]
end

-- Members that share the device's queues have a ring each, of which every pull takes a share: apps rely on no more coming
-- at once than engine.pull_npackets.
local function give (card, m, p, tagged)
   local to = m and (m.ring or m.to)
   if not to or m.ring and full(to) then
      if m then m.dropped = m.dropped + 1 else card.filtered = card.filtered + 1 end
      packet.free(p)
      return
   end
   if m.strip and tagged then p = untag(p) end
   transmit(to, p)
end

local function empty_ring (m)
   local ring, to, left = m.ring, m.to, engine.pull_npackets
   if not to then return end
   while left > 0 and not empty(ring) and not full(to) do
      transmit(to, receive(ring))
      left = left - 1
   end
end

-- Which pools a frame to one station is for: those of its address and VLAN, else those that take any address.
local function pools_for (card, mac, vlan)
   local of_mac = card.macs[mac]
   return of_mac and (of_mac[vlan] or of_mac.any) or card.wild[vlan] or card.wild.any
end

-- The member of a pool that a multicast is for: on ConnectX cards the first.
local function pick_multicast (pool, p)
   if pool.first_only then return pool.slots[0] end
   return (pick(pool, p))
end

-- Copies for apps that mirror what goes to other pools, or what comes from the wire.
local function mirror (card, p, pools, tagged, from_wire)
   for i = 1, #card.mirrors do
      local m = card.mirrors[i]
      local wanted, has_it = from_wire and m.mirror_in, false
      for j = 1, pools and #pools or 0 do
         local pool = pools[j]
         if pool == m.pool then has_it = true end
         if m.mirror_all or m.mirror_pools and m.mirror_pools[pool.number] then wanted = true end
      end
      if wanted and not has_it then give(card, m, packet.clone(p), tagged) end
   end
end

-- Give a frame to the pools that it is for, but not to *source*, which has sent it.
local function deliver (card, p, source, from_wire)
   if p.length < 14 then
      card.filtered = card.filtered + 1
      packet.free(p)
      return
   end
   local data, vlan, pools, choose = p.data, vlan_of(p), nil, pick
   local tagged = vlan ~= 0
   if band(data[0], 1) == 0 then
      pools = pools_for(card, mac_at(data), vlan)
   else
      choose = pick_multicast
      card.multicasts = card.multicasts + 1
      if mac_at(data) == 281474976710655 then card.broadcasts = card.broadcasts + 1 end
      pools = card.of_vlan[vlan] or card.of_vlan.any
   end
   if card.mirrors[1] then mirror(card, p, pools, tagged, from_wire) end
   local last
   for i = 1, pools and #pools or 0 do
      local pool = pools[i]
      if pool ~= source and pool.count > 0 then
         if last then give(card, choose(last, p), packet.clone(p), tagged) end
         last = pool
      end
   end
   if last then
      give(card, choose(last, p), p, tagged)
   else
      card.filtered = card.filtered + 1
      packet.free(p)
   end
end

-- ---- receive ----

-- Nothing came for a while: because the device has no free packets to receive into? Then more are made, as a driver
-- of Snabb's would by allocating them.
local function feed (card)
   local at = card.pairs[1].address
   local made, available = native.packets(at)
   if available >= 512 or card.starved then return end
   local more, why = native.grow(math.max(1024, math.min(made, 65536)), at)
   if not more then
      card.starved = true
      io.stderr:write("note: ", card.name, " has no packets to receive into: ", tostring(why), "\n")
   end
end

local function poll (card, queues, to, n)
   local got = C.perigee_snabb_receive(queues, to, n)
   if got > 0 then
      card.quiet = 0
      return
   end
   card.quiet = card.quiet + 1
   if card.quiet % 64 == 1 then feed(card) end
end

local function give_out_looped (card)
   for i = 1, #card.members do
      local m = card.members[i]
      local looped, mirrored = m.looped, m.mirrored
      if looped then
         local source = not m.mac_loopback and m.pool or nil
         while not empty(looped) do deliver(card, receive(looped), source, m.mac_loopback) end
      end
      if mirrored then
         while not empty(mirrored) do
            local p = receive(mirrored)
            give(card, m, p, vlan_of(p) ~= 0)
         end
      end
   end
end

-- Once in a breath: for all members.
local function poll_for_all (card)
   local breath = tonumber(engine.breaths.c)
   if card.polled == breath then return end
   card.polled = breath
   local inbox, most = card.inbox, math.min(link.max, engine.pull_npackets * card.receivers)
   for i = 1, #card.receiving do
      poll(card, card.receiving[i].queues, inbox, most)
      while not empty(inbox) do deliver(card, receive(inbox), nil, true) end
   end
   give_out_looped(card)
end

-- The member's own queue of the device, of which it takes what is its pool's.
local function poll_filtered (card, m)
   local inbox, pool = card.inbox, m.pool
   poll(card, m.own.queues, inbox, engine.pull_npackets)
   while not empty(inbox) do
      local p = receive(inbox)
      local vlan = vlan_of(p)
      local right = p.length >= 14 and (not pool.vlan or pool.vlan == vlan)
      if right and pool.mac and band(p.data[0], 1) == 0 then right = mac_at(p.data) == pool.mac end
      if right then
         give(card, m, p, vlan ~= 0)
      else
         card.filtered = card.filtered + 1
         packet.free(p)
      end
   end
end

--- Receive for a member of a card, or for all of them if they share the device's queues.
function M.receive (card, m)
   if card.shared then
      poll_for_all(card)
      empty_ring(m)
   elseif m.to and m.own then
      if m.filters then poll_filtered(card, m) else poll(card, m.own.queues, m.to, engine.pull_npackets) end
   end
end

-- ---- transmit ----

-- May a packet of so many bytes leave now? The limit is in bytes per second; a hundredth of a second's may come at once.
local function may_send (m, bytes)
   local now = engine.now()
   m.tokens = math.min(m.burst, m.tokens + (now - m.filled_at) * m.limit)
   m.filled_at = now
   if m.tokens < bytes then return false end
   m.tokens = m.tokens - bytes
   return true
end

local function copy_out_mirrors (card, p)
   for i = 1, #card.mirrors do
      local m = card.mirrors[i]
      if m.mirror_out then transmit(m.mirrored, packet.clone(p)) end
   end
end

-- Does a packet that a member sends leave by the wire? What is for other pools is put where `poll_for_all` finds it.
local function leaves (card, m, p)
   if m.mac_loopback then
      transmit(m.looped, p)
      return false
   end
   if not m.loopback or p.length < 14 then return true end
   if band(p.data[0], 1) == 1 then
      if not m.alone then transmit(m.looped, packet.clone(p)) end
      return true
   end
   local of_mac = card.macs[mac_at(p.data)]
   local pools = of_mac and (of_mac[vlan_of(p)] or of_mac.any)
   if not pools or pools[1] == m.pool and not pools[2] then return true end
   transmit(m.looped, p)
   return false
end

-- Move packets from a member's link to the link that the device takes them from.
local function prepare (card, m, from, out)
   local tci = m.tci
   while not empty(from) and not full(out) do
      if m.limit and not may_send(m, link.front(from).length + 24) then return end
      local p = receive(from)
      if tci and (p.length < 14 or p.length + 4 > packet.max_payload) then
         m.tx_dropped = m.tx_dropped + 1
         packet.free(p)
      else
         if tci then p = tag(p, tci) end
         if leaves(card, m, p) then
            if card.mirrors_out then copy_out_mirrors(card, p) end
            transmit(out, p)
         end
      end
   end
end

--- Send what is in a link, as far as the device takes it and the member's limit lets it; the rest stays there. For members that are not
--- plain: the others' links go to the device as they are.
function M.transmit (card, m, from)
   prepare(card, m, from, m.out)
   C.perigee_snabb_transmit(card.sending.queues, m.out, packet.freelist)
end

function M.selftest () require("apps.dpdk.card_test").run() end

return M
