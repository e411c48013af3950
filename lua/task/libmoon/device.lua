-- SPDX-License-Identifier: MIT
-- Devices and queues, for programs of libmoon. A device's number is that of its --port, from 0 on; queues count from 0.
local ffi = require "ffi"
local native = require "perigee.native"
local task = require "perigee.task"
local values = require "perigee.values"
local modules = require "perigee.modules"
local packet = require "libmoon.packet"
local log = require "libmoon.log"
require "libmoon.memory"
local C = ffi.C
local host = native.host

local FOREVER = 0xffffffffffffffffULL
local FAILED = 0xffffffff

-- Programs that read DPDK's extended statistics declare nothing themselves.
ffi.cdef [[
struct rte_eth_xstat { uint64_t id, value; };
struct rte_eth_xstat_name { char name[64]; };
int rte_eth_xstats_get(uint16_t, struct rte_eth_xstat *, unsigned);
int rte_eth_xstats_get_names(uint16_t, struct rte_eth_xstat_name *, unsigned);
]]

local device, dev, tx, rx = {}, { __type = "device", DROP = -1 }, { __type = "txQueue" }, { __type = "rxQueue" }
dev.__index, tx.__index, rx.__index = dev, tx, rx
device.__devicePrototype, device.__txQueuePrototype, device.__rxQueuePrototype = dev, tx, rx

local function checked(n)
  if n == FAILED then native.throw(ffi.string(C.perigee_failure(C.perigee_task_context(host)))) end
  return n
end

-- Devices ---------------------------------------------------------------------------------------------------------------------

local known = {}
-- The device of that number; it is opened, with one queue each way, when it is used first, unless config() did it.
function device.get(id)
  if not known[id] then known[id] = setmetatable({ id = id, rxQueues = {}, txQueues = {}, hadRx = { 0, 0 } }, dev) end
  return known[id]
end
local function opened(self)
  if not self.opened then self.opened = task.device(self.id) end
  return self.opened
end

values.class("libmoon.device", dev, function(self) return self.id end, device.get)
values.class("libmoon.txQueue", tx, function(self) return { self.id, self.qid } end, function(q) return device.get(q[1]):getTxQueue(q[2]) end)
values.class("libmoon.rxQueue", rx, function(self) return { self.id, self.qid } end, function(q) return device.get(q[1]):getRxQueue(q[2]) end)

local configured = "libmoon.configured\0"
local function is_pci(name) return name:match "^%x+:%x+:%x+%.%x" or name:match "^%x+:%x+%.%x" end

-- Opens a device: port, rxQueues, txQueues, rxDescs, txDescs, numBufs, rssQueues, mtu. Receive queues that filters choose between, and more
-- queues than a software device has, are made in software.
function device.config(...)
  local args = ...
  if type(args) ~= "table" then
    local names = { "port", "rxQueues", "txQueues", "rxDescs", "txDescs" }
    args = {}
    for i, name in ipairs(names) do args[name] = (select(i, ...)) end
  end
  local port = args.port
  if port == nil then native.throw "device.config needs the port, such as device.config { port = 0 }" end
  local self = device.get(port)
  if native.shared(configured .. port) then
    log:warn("Device %s already configured, skipping initilization", port)
    return self
  end
  local name = type(port) == "number" and native.ports()[port + 1] or tostring(port)
  local receive, transmit = args.rxQueues or 1, args.txQueues or 1
  local rss = math.max(args.rssQueues or args.rssNQueues or 1, 1)
  local share = rss == 1 and (receive > 1 or transmit > 1 and not is_pci(name))
  self.opened = task.device(port, {
    rx = receive, tx = transmit, share = share, rx_descriptors = args.rxDescs, tx_descriptors = args.txDescs, buffers = args.numBufs,
    mtu = args.mtu,
  })
  native.set_shared(configured .. port, values.encode_all("port", port))
  return self
end

function device.numDevices() return #native.ports() end
function device.getDevices()
  local all = {}
  for i, name in ipairs(native.ports()) do all[i] = { id = i - 1, name = name } end
  return all
end
function device.reclaimTxBuffers() end
function device.cleanupDevices() end

-- Waits for the links of these devices, or of all; returns how many are up.
function device.waitForLinks(...)
  local all = { ... }
  if #all == 0 then
    for _, name in ipairs(native.shared_names()) do
      if name:sub(1, #configured) == configured then table.insert(all, device.get((values.decode_all(native.shared(name))))) end
    end
  end
  log:info "Waiting for devices to come up..."
  local up, seen = 0, {}
  for _, self in ipairs(all) do
    if not seen[self.id] then
      seen[self.id] = true
      up = up + (self:wait() and 1 or 0)
    end
  end
  log:info(green(up == 1 and "%d device is up." or "%d devices are up.", up))
  return up
end

function dev:wait(longest)
  local up = opened(self):link(longest or 9)
  local link = self:getLinkStatus()
  log[up and "info" or "error"](log, "Device %s (%s) is %s: %s MBit/s", self.id, self:getMacString(), up and "up" or "DOWN", link.speed)
  return up
end
function dev:getLinkStatus()
  local up, speed = opened(self):link()
  return { status = up, duplexAutoneg = false, duplex = true, speed = speed or 0 }
end

function dev:__tostring() return ("[Device: id=%s]"):format(self.id) end
function dev:store() end
function dev:checkSocket() return true end
function dev:getMacString() return opened(self).mac end
function dev:getMac(number) return parseMacAddress(self:getMacString(), number) end
dev.getMacAddr = dev.getMac
function dev:getSocket() return opened(self).numa_node or 0 end
function dev:getName() return opened(self).name end
function dev:getDriverName() return opened(self).driver end
function dev:getPciId() return 0 end
function dev:getFirmware() return nil end
function dev:getInfo()
  local found = opened(self)
  return { nb_rx_queues = #found.receive, nb_tx_queues = #found.transmit, max_rx_queues = #found.receive, max_tx_queues = #found.transmit,
    driver_name = found.driver }
end
function dev:setPromisc(on) opened(self):promiscuous(on and true or false) end
-- Devices are promiscuous: frames to other addresses arrive anyway.
function dev:addMac() end
function dev:removeMac() end
function dev:stop() end
function dev:setRate() log:warn "There is no rate of a device: set that of its queues (queue:setRate)" end
function dev:unsupported(operation) native.throw(("%s: %s is not there on a %s"):format(self:getName(), operation, self:getDriverName())) end

-- Packets and bytes, those of the FCS counted; what is received since clearRxStats.
function dev:getTxStats()
  local stats = opened(self):stats()
  return stats.tx_packets, stats.tx_bytes + 4 * stats.tx_packets
end
local function received(self)
  local stats = opened(self):stats()
  local packets = stats.rx_packets + stats.rx_missed
  return packets, stats.rx_bytes + 4 * stats.rx_packets
end
function dev:getRxStats()
  local packets, bytes = received(self)
  return packets - self.hadRx[1], bytes - self.hadRx[2]
end
function dev:clearRxStats() self.hadRx = { received(self) } end

-- There are no counters per queue.
local QUEUE_COUNTERS = { "q_ipackets", "q_opackets", "q_ibytes", "q_obytes", "q_errors" }
function dev:getStats()
  local s = opened(self):stats()
  local all = { ipackets = s.rx_packets, opackets = s.tx_packets, ibytes = s.rx_bytes, obytes = s.tx_bytes, imissed = s.rx_missed,
    ierrors = s.rx_errors, oerrors = s.tx_errors, rx_nombuf = s.rx_no_buffer }
  for _, name in ipairs(QUEUE_COUNTERS) do
    all[name] = {}
    for i = 0, 15 do all[name][i] = 0 end
  end
  return all
end

local function queue_of(self, class, cache, list, number, what)
  if cache[number] then return cache[number] end
  local found = list[number + 1]
  if not found then native.throw(("%s has %s queues 0 to %d, and %s was asked for"):format(self, what, #list - 1, tostring(number))) end
  cache[number] = setmetatable({ id = self.id, qid = number, dev = self, queue = found }, class)
  return cache[number]
end
function dev:getTxQueue(number) return queue_of(self, tx, self.txQueues, opened(self).transmit, number, "transmit") end
function dev:getRxQueue(number) return queue_of(self, rx, self.rxQueues, opened(self).receive, number, "receive") end

-- Filters ---------------------------------------------------------------------------------------------------------------------

-- Sends what matches to a queue, given itself or by its number.
local function steer(self, queue, kind, what)
  local number = type(queue) == "table" and queue.qid or queue
  if number == dev.DROP then native.throw "filters choose a queue; to drop packets, receive and free them" end
  if #opened(self).receive == 1 and number == 0 then return end
  local ok, why = pcall(native.steer, opened(self).number, number, kind, what)
  if not ok then log:warn("%s", why) end
end
function dev:l2Filter(ether_type, queue) steer(self, queue, "ether_type", ether_type) end
dev.l2GenericFilter = dev.l2Filter
function dev:UdpGenericFilter(queue) steer(self, queue, "expression", "udp") end
function dev:filterUdpTimestamps(queue)
  if (type(queue) == "table" and queue.qid or queue) ~= 0 then steer(self, queue, "ptp_over_udp") end
end
function dev:filterL2Timestamps(queue)
  if (type(queue) == "table" and queue.qid or queue) ~= 0 then steer(self, queue, "ether_type", 0x88f7) end
end
dev.filterTimestamps = dev.filterL2Timestamps
-- srcIp, dstIp, srcPort, dstPort, proto; masks are not there.
function dev:fiveTupleFilter(filter, queue)
  local terms = {}
  for key, word in pairs { srcIp = "src host", dstIp = "dst host", srcPort = "src port", dstPort = "dst port", proto = "proto" } do
    if filter[key] then table.insert(terms, ("%s %s"):format(word, filter[key])) end
  end
  steer(self, queue, "expression", table.concat(terms, " and "))
end
function dev:dumpFilters() end
function rx:filterUdpTimestamps() self.dev:filterUdpTimestamps(self) end
function rx:filterL2Timestamps() self.dev:filterL2Timestamps(self) end

-- Time stamps: in software, see the module timestamping ------------------------------------------------------------------------

function dev:enableRxTimestamps() end
function dev:enableTxTimestamps() end
function dev:clearTimestamps() end
function dev:enableRxTimestampsAllPackets(queue) queue:enableTimestampsAllPackets() end
function dev:hasRxTimestamp() return nil end
function dev:readTime() return task.ns() end
function dev:resetTimeCounters() end
function tx:enableTimestamps() end
function rx:enableTimestamps() end
function rx:enableTimestampsAllPackets() self.stamps = true end
local function no_stamps() native.throw "a queue's last time stamp is hardware's: timestamper:measureLatency measures in software" end
tx.getTimestamp, rx.getTimestamp, dev.getTxTimestamp, dev.getRxTimestamp = no_stamps, no_stamps, no_stamps, no_stamps

-- Receiving -------------------------------------------------------------------------------------------------------------------

function rx:__tostring() return ("[RxQueue: id=%s, qid=%d]"):format(self.id, self.qid) end
function rx:getMacAddr(number) return self.dev:getMac(number) end

local function stamp(bufs, n)
  local now = task.ns()
  for i = 0, n - 1 do bufs.array[i].stamp = now end
end

local function receive(self, bufs, most, timeout)
  local n = checked(C.perigee_task_receive(host, self.queue, bufs.batch, most, timeout))
  bufs:received(n)
  if self.stamps then stamp(bufs, n) end
  return n
end

local function least(bufs, n) return n and math.min(n, bufs.size) or bufs.size end
-- Waits for packets, until the tasks are to end.
function rx:recv(bufs, n) return receive(self, bufs, least(bufs, n), FOREVER) end
-- Waits up to that many us; the second leaves the core to others meanwhile.
function rx:tryRecv(bufs, us)
  return receive(self, bufs, bufs.size, us and us < 1e15 and ffi.cast("uint64_t", us * 1000) or FOREVER)
end
function rx:tryRecvIdle(bufs, us)
  local stop = task.now() + (us or math.huge) / 1e6
  while true do
    local n = receive(self, bufs, bufs.size, 0)
    if n > 0 or task.now() >= stop or not task.running() then return n end
    task.sleep(0.00005)
  end
end
-- Writes when they were received into udata64, in cycles (libmoon.getCycles).
function rx:recvWithTimestamps(bufs, n)
  local received = self:recv(bufs, n)
  local now = C.perigee_task_now(host)
  for i = 0, received - 1 do bufs.array[i].udata64 = now end
  return received
end

-- Sending ---------------------------------------------------------------------------------------------------------------------

function tx:__tostring() return ("[TxQueue: id=%s, qid=%d]"):format(self.id, self.qid) end
function tx:getMacAddr(number) return self.dev:getMac(number) end
function tx:start() end
function tx:stop() end

-- In Mbit/s of frames with their FCS. The link's own rate, or 0, is no limit.
function tx:setRate(rate)
  rate = tonumber(rate) or native.throw(("a rate of %s: expected Mbit/s"):format(tostring(rate)))
  local speed = self.dev:getLinkStatus().speed
  local address = tonumber(ffi.cast("uintptr_t", self.queue))
  if rate <= 0 or speed > 0 and rate >= speed then return native.rate(address, 0, 0) end
  native.rate(address, 4 * 8000 / rate, 8000 / rate)
end
function tx:setRateMpps(rate, size) self:setRate(rate * ((size or 60) + 4) * 8) end

-- Sends a batch; what the device has not taken when the tasks are to end is freed.
local function send(self, batch)
  local sent = checked(C.perigee_task_send(host, self.queue, batch, FOREVER))
  if not batch.live:empty() then batch:free() end
  return sent
end

local scratch
-- Packets of a mask, in a batch of their own.
local function apart(batch, mask)
  scratch = scratch or task.burst()
  if not scratch.live:empty() then scratch:free() end
  scratch.count = 0
  modules.move(batch, mask, scratch)
  return scratch
end

function tx:send(bufs) return send(self, bufs.batch) end
function tx:sendN(bufs, n)
  if n == bufs.n then return send(self, bufs.batch) end
  if n <= 0 then return 0 end
  return send(self, apart(bufs.batch, bufs:places(0, n)))
end
-- Sends what the device takes now; returns how many that are.
function tx:trySend(bufs) return checked(C.perigee_task_send(host, self.queue, bufs.batch, 0)) end
function tx:sendSingle(buf) return send(self, apart(buf.batch, packet.only(buf))) end
function tx:trySendSingle(buf)
  local one = apart(buf.batch, packet.only(buf))
  local sent = checked(C.perigee_task_send(host, self.queue, one, 0))
  if sent == 0 then
    modules.move(one, one.live, buf.batch)
    buf.slot = buf.batch.count - 1
  end
  return sent
end

-- Sends the first `n` packets one by one: gap(buf) says how many ns after the one before each starts. `state.due` is kept between calls.
function device.__paced(self, bufs, n, state, gap)
  local sent, i = 0, 0
  n = n or bufs.n
  while i < n do
    local now = task.ns()
    if not state.due or now - state.due > 1e6 then state.due = now end
    local first = i
    while i < n and state.due <= now do
      state.due = state.due + gap(bufs.array[i])
      i = i + 1
    end
    if i > first then
      sent = sent + send(self, apart(bufs.batch, bufs:places(first, i)))
    elseif not task.running() then
      bufs.batch:free()
      return sent
    end
  end
  return sent
end

local BYTE_NS = 0.8 -- of a 10 Gbit/s link
local function delay(buf) return (tonumber(buf.udata64) + buf.pkt_len + 24) * BYTE_NS end
-- Waits before each packet as buf:setDelay says.
function tx:sendWithDelay(bufs, _, n)
  self.pace = self.pace or {}
  return device.__paced(self, bufs, n, self.pace, delay)
end

-- Writes the time, in cycles, into the first packet's bytes from `offset` (48) on, and sends that packet.
function tx:sendWithTimestamp(bufs, offset)
  ffi.cast("uint64_t *", bufs.array[0]:getBytes())[offset and offset / 8 or 6] = C.perigee_task_now(host)
  return self:sendN(bufs, 1)
end

return device
