-- SPDX-License-Identifier: MIT
-- apps.dpdk.card: a device and the apps of one thread that share it, as the apps of a card with VMDq and RSS do.
--
-- Each app is a *member* of the card: it belongs to a pool, which is a MAC address, a VLAN, both or neither, and has a
-- number among the pool's queues, if it receives. If there is one pool, and the device has as many queues as the apps
-- ask for, each app polls a queue of the device. Otherwise one app of each breath polls for all, and frames are given out
-- here: by address and VLAN to pools, by a hash of their flow to the queues of a pool; multicasts to all pools of the
-- VLAN; those that no pool wants are freed and counted. With *loopback*, what a pool sends to another pool's address is
-- delivered there (82599 datasheet, 7.10.3: virtual machine to virtual machine switching).

local ffi = require("ffi")
local engine = require("core.app")
local flow = require("apps.dpdk.flow")
local group = require("apps.dpdk.group")
local lib = require("core.lib")
local link = require("core.link")
local native = require("core.native")
local packet = require("core.packet")
local switch = require("apps.dpdk.switch")
local empty = link.empty

--- A device, as the apps of this thread have it: see `join`.
local Card = {}
Card.__index = Card

local cards = {} -- by device

--- Receive for a member, or for all of them if they share the device's queues.
Card.receive = switch.receive
--- Send what is in a link for a member, as far as the device takes it and the member's limit lets it.
Card.transmit = switch.transmit

local function position (list, value)
   for i, v in ipairs(list) do
      if v == value then return i - 1 end
   end
end

-- ---- queues of the device ----

local function open (card, index, ask)
   local opened, why = native.open_port(card.name, {
      queue = index, receive = ask.receive, transmit = ask.transmit, queues = ask.queues, mac = ask.mac,
      promiscuous = ask.promisc, mtu = ask.mtu, copy = ask.copy, descriptors = ask.descriptors,
   })
   if not opened then
      local hint = tostring(why):match("has no %w+ queue") and
         "; a port has the queues of the graph that opened it: give queues = N there" or ""
      if tostring(why):match("in use by another thread") then
         hint = "; apps that share it have to run on one worker: config.app(..., {worker = N})"
      end
      error(tostring(why)..hint, 0)
   end
   local pair = {
      index = index, address = opened.address, queues = ffi.cast("struct perigee_snabb_port *", opened.queues),
      receives = ask.receive, sends = ask.transmit,
   }
   card.pairs[#card.pairs + 1] = pair
   return pair, opened
end

local function close (card, pair)
   for i, known in ipairs(card.pairs) do
      if known == pair then table.remove(card.pairs, i) end
   end
   native.close_port(pair.address)
end

-- Which of the device's queues a member has, if each has its own.
local function index_of (card, m)
   if card.explicit then return m.queue end
   return position(engine.port_queues[card.name] or card.queue_list, m.queue)
end

-- The numbers of queues that this thread's members have asked for.
local function asked_for (card)
   local mine, seen = {}, {}
   for _, m in ipairs(card.members) do
      if m.queue and not seen[m.queue] then
         seen[m.queue] = true
         mine[#mine + 1] = m.queue
      end
   end
   return mine
end

-- Have those queues of the device open that this thread polls.
local function choose_queues (card)
   local wanted = {}
   local mine, all = asked_for(card), engine.port_queues[card.name]
   card.queue_list = mine
   if card.explicit or all and all.spread then
      for _, m in ipairs(card.members) do
         local index = m.queue and index_of(card, m)
         if index then wanted[index] = true end
      end
   elseif #mine > 0 then
      for index = 0, card.info.receive_queues - 1 do wanted[index] = true end
   end
   for _, pair in ipairs({unpack(card.pairs)}) do
      if pair.receives and not wanted[pair.index] and pair ~= card.sending then close(card, pair) end
   end
   card.receiving = {}
   for _, pair in ipairs(card.pairs) do
      if pair.receives and wanted[pair.index] then
         wanted[pair.index] = nil
         card.receiving[#card.receiving + 1] = pair
      end
   end
   for index in pairs(wanted) do
      card.receiving[#card.receiving + 1] = open(card, index, {receive = true, transmit = false})
   end
   table.sort(card.receiving, function (a, b) return a.index < b.index end)
   if not card.sending then card.sending = open(card, card.first_index, {receive = false, transmit = true}) end
end

-- ---- pools ----

local function add (to, key, pool)
   to[key] = to[key] or {}
   table.insert(to[key], pool)
end

-- Where every process gets all packets of an interface: each member's place among the queues of all processes.
local function place_in_group (card, pool)
   local list, others = group.queues(card.name, pool.key)
   if not others then return end
   local all = engine.port_queues[card.name]
   if all and all.spread then
      error(("port %s: its queues are used by other processes, so that this one's apps have to run on one worker"):format(
         card.name), 0)
   end
   pool.slots, pool.count = {}, #list
   for _, m in ipairs(pool.members) do
      local at = position(list, m.queue)
      if at then pool.slots[at] = m end
   end
end

-- A member's place in its pool, by what its configuration says or by the numbers of the others' queues.
local function place (card, pool)
   local with_place = pool.members[1] and pool.members[1].rss
   table.sort(pool.members, function (a, b)
      if type(a.queue) == type(b.queue) then return a.queue < b.queue end
      return tostring(a.queue) < tostring(b.queue)
   end)
   pool.slots, pool.count = {}, #pool.members
   for i, m in ipairs(pool.members) do
      pool.slots[with_place and m.rss.index or i - 1] = m
      if with_place then pool.count, pool.first_only = m.rss.count, m.rss.first_only end
   end
   if pool.members[1] and pool.members[1].in_group then place_in_group(card, pool) end
end

local function make_pools (card)
   local pools, by_key = {}, {}
   for _, m in ipairs(card.members) do
      local key = m.key
      local pool = by_key[key]
      if not pool then
         pool = {key = key, mac = m.mac, vlan = m.vlan, number = m.poolnum or #pools, members = {}}
         by_key[key] = pool
         pools[#pools + 1] = pool
      end
      m.pool = pool
      if m.queue then pool.members[#pool.members + 1] = m end
   end
   return pools
end

local function index_pools (card, pools)
   card.macs, card.wild, card.of_vlan = {}, {}, {}
   local vlans = {any = true}
   for _, pool in ipairs(pools) do vlans[pool.vlan or "any"] = true end
   for _, pool in ipairs(pools) do
      place(card, pool)
      local vlan = pool.vlan or "any"
      if pool.mac then
         card.macs[pool.mac] = card.macs[pool.mac] or {}
         add(card.macs[pool.mac], vlan, pool)
      else
         add(card.wild, vlan, pool)
      end
      -- A pool without a VLAN gets the multicasts of all.
      for v in pairs(vlans) do
         if vlan == "any" or v == vlan then add(card.of_vlan, v, pool) end
      end
   end
end

-- Find out who polls what, and who is given what.
local function arrange (card)
   card.configs = tonumber(engine.configs.c)
   choose_queues(card)
   local pools = make_pools(card)
   index_pools(card, pools)
   card.mirrors, card.receivers, card.mirrors_out = {}, 0, false
   local looped = false
   for _, m in ipairs(card.members) do
      if m.queue then card.receivers = card.receivers + 1 end
      if m.mirrors then card.mirrors[#card.mirrors + 1] = m end
      if m.mirror_out then card.mirrors_out = true end
      m.alone = #pools == 1
      if m.mac_loopback or m.loopback and not m.alone then looped = true end
   end
   card.shared = #pools > 1 or looped or #card.mirrors > 0 or card.receivers ~= #card.receiving or
      pools[1] ~= nil and pools[1].count ~= #pools[1].members
   for _, m in ipairs(card.members) do
      m.own, m.filters = nil, m.mac ~= nil or m.vlan ~= nil
      local index = not card.shared and m.queue and index_of(card, m)
      for _, pair in ipairs(card.receiving) do
         if pair.index == index then m.own = pair end
      end
      m.plain = not (m.tci or m.mac_loopback or m.loopback and not m.alone or m.limit or card.mirrors_out)
         and (not m.out or empty(m.out))
      if not m.plain then m.out = m.out or link.new(card.name..".out") end
      if m.filters or card.shared then card.inbox = card.inbox or link.new(card.name..".inbox") end
   end
   for _, m in ipairs(card.members) do
      -- Its queue is polled by somebody else of this thread.
      if not card.shared and m.queue and not m.own then card.shared = true end
   end
   for _, m in ipairs(card.members) do
      if card.shared and m.queue then
         m.ring = m.ring or link.new(card.name..".ring")
      elseif m.ring then
         if m.to then
            while not empty(m.ring) do link.transmit(m.to, link.receive(m.ring)) end
         end
         link.free(m.ring)
         m.ring = nil
      end
   end
end

-- ---- members ----

local function lowest_free_pool (card)
   local taken = {}
   for _, m in ipairs(card.members) do taken[m.poolnum or -1] = true end
   local n = 0
   while taken[n] do n = n + 1 end
   return n
end

-- Two apps cannot have the same queue of a pool.
local function check_queue (card, m)
   for _, other in ipairs(card.members) do
      if m.queue and m.queue == other.queue and m.key == other.key then
         error(("port %s: receive queue %s is already in use by another app"):format(card.name, tostring(m.queue)), 0)
      end
   end
end

local function member_of (card, conf, queue)
   local m = {
      queue = queue, dropped = 0, tx_dropped = 0, rss = conf.rss,
      mac = conf.vmdq and conf.mac and flow.mac(conf.mac) or nil, vlan = conf.vlan, strip = (conf.vlan or 0) > 0 and not conf.keep_tag,
      loopback = conf.loopback, mac_loopback = conf.mac_loopback, poolnum = conf.poolnum,
   }
   if conf.poolnum == "auto" then m.poolnum = lowest_free_pool(card) end
   m.key = ("%s_%s_%s"):format(m.mac or "any", m.vlan or "any", m.poolnum or "")
   if m.strip then m.tci = lib.htons(m.vlan) end
   if m.loopback or m.mac_loopback then m.looped = link.new(card.name..".looped") end
   local how = conf.mirror
   if how then
      m.mirrors, m.mirror_all = true, how.pool == true
      m.mirror_in, m.mirror_out = how.port == "in" or how.port == "inout", how.port == "out" or how.port == "inout"
      if type(how.pool) == "table" then
         m.mirror_pools = {}
         for _, number in ipairs(how.pool) do m.mirror_pools[number] = true end
      end
      m.mirrored = link.new(card.name..".mirrored")
   end
   local limit = conf.rate_limit or 0
   if limit > 0 then
      m.limit = limit * 1e6 / 8
      m.burst = math.max(m.limit / 100, packet.max_payload + 24)
      m.tokens, m.filled_at = m.burst, engine.now()
   end
   return m
end

local function free_links (m)
   for _, name in ipairs{"out", "looped", "mirrored", "ring"} do
      if m[name] then link.free(m[name]) end
      m[name] = nil
   end
end

local function new_card (name, conf, queue)
   local list = engine.port_queues[name] or {queue}
   -- A task has opened it (core.tasks): the others of its queues are not ours.
   local of_task = native.port_is_open(name) and not list.spread
   local card = setmetatable({
      name = name, members = {}, pairs = {}, receiving = {}, queue_list = {queue}, explicit = conf.queues ~= nil or of_task,
      filtered = 0, multicasts = 0, broadcasts = 0, quiet = 0, polled = -1, first_index = 0, mac_asked = conf.mac,
   }, Card)
   card.first_index = card.explicit and (queue or 0) or queue and position(list, queue) or 0
   local pair
   pair, card.info = open(card, card.first_index, {
      receive = queue ~= false, transmit = true, queues = conf.queues or math.max(#list, 1), mac = conf.mac,
      promisc = conf.promisc or conf.vmdq, mtu = conf.mtu, copy = conf.copy, descriptors = conf.descriptors,
   })
   card.sending = pair
   cards[name] = card
   return card
end

--- Make an app a member of the card *name*, a device, which is opened for the first. *conf*: mac, vlan, vmdq (only frames
--- to that address), queue (a number or a name, or false: nothing is received), poolnum ("auto": one of its own), keep_tag,
--- loopback, mac_loopback, mirror, rate_limit (Mbit/s), rss ({index =, count =}: the place among a pool's queues), group (other processes of the
--- group may have queues of the pool), and for
--- the device queues, promisc, mtu, copy, descriptors. Returns the card and the member. Errors if the device cannot be
--- opened, or another app has the queue.
function Card.join (name, conf)
   local queue = conf.queue
   local card = cards[name] or new_card(name, conf, queue)
   local ok, m = pcall(member_of, card, conf, queue)
   local why = m
   if ok then
      ok, why = pcall(check_queue, card, m)
      -- Pools that got their number here are this process's own.
      if ok and conf.group and type(m.queue) == "number" and conf.poolnum ~= "auto" and
         card.info.driver == "net_af_packet" then
         ok, why = pcall(group.claim, name, m.key, m.queue)
         m.in_group = ok
      end
      if ok then
         table.insert(card.members, m)
         ok, why = pcall(arrange, card)
      end
      if not ok then card:leave(m) end
   elseif #card.members == 0 then
      card:close()
   end
   if not ok then error(why, 0) end
   return card, m
end

-- What the processes of the group have of the card's pools, as a text.
local function group_now (card)
   local all
   for _, m in ipairs(card.members) do
      if m.in_group then all = (all or "")..m.key.."="..table.concat((group.queues(card.name, m.key)), " ")..";" end
   end
   return all
end

--- Have the graph or other processes changed since the queues were shared out? Then that is done anew.
function Card:look_again ()
   local now = group_now(self)
   if self.configs ~= tonumber(engine.configs.c) or now ~= self.group_seen then
      self.group_seen = now
      arrange(self)
   end
end

--- Close the device, as far as this thread is concerned.
function Card:close ()
   cards[self.name] = nil
   if self.inbox then link.free(self.inbox) end
   for _, pair in ipairs({unpack(self.pairs)}) do close(self, pair) end
end

--- Take a member away; the last one closes the device.
function Card:leave (m)
   local at = position(self.members, m)
   if at then table.remove(self.members, at + 1) end
   if m.in_group then group.release(self.name, m.key, m.queue) end
   free_links(m)
   if #self.members == 0 then self:close() else arrange(self) end
end

--- What this thread's queues of the device have counted together, and what the device has: a table of numbers.
function Card:counts ()
   local sum
   for _, pair in ipairs(self.pairs) do
      local now = native.port_counts(pair.address)
      if not sum then
         sum = now
      else
         for _, key in ipairs{"received", "transmitted", "copied_in", "copied_out", "rx_long", "rx_dropped", "tx_long",
                              "tx_no_buffer"} do
            sum[key] = sum[key] + now[key]
         end
      end
   end
   return sum
end

--- What the device's driver counts by names of its own.
function Card:device_counts ()
   return native.device_counts(self.pairs[1].address)
end

function Card.selftest () require("apps.dpdk.card_test").run(Card) end

return Card
