-- SPDX-License-Identifier: MIT
-- ARP: a task that answers requests and asks for addresses, and what others ask it.
--
--   arp.startArpTask { { rxQueue = dev:getRxQueue(1), txQueue = dev:getTxQueue(1), ips = "10.0.0.1" } }
--   local mac = arp.blockingLookup("10.0.0.2", 5)
local native = require "perigee.native"
local task = require "perigee.task"
local frame = require "perigee.frame"
local libmoon = require "libmoon.libmoon"
local memory = require "libmoon.memory"
local namespaces = require "libmoon.namespaces"
local pipe = require "libmoon.pipe"
local eth = require "libmoon.proto.ethernet"
require "libmoon.device"

local arp = { OP_REQUEST = 1, OP_REPLY = 2, HARDWARE_ADDRESS_TYPE_ETHERNET = 1, arpTask = "__MG_ARP_TASK" }

-- What is known: by the address as text, { mac, when } once there was an answer, { asked } before. `control` has running, stop, inputs.
local known = namespaces:get "libmoon.arp.known"
local control = namespaces:get "libmoon.arp.control"

local LIFE = 30 -- seconds until an answer is asked for again
local ASK_EVERY = 1

-- Each entry: txQueue, ips (one or a list), rxQueue (or handlePacket gives it packets). `gratArpInterval`: seconds between announcements;
-- without it, there is one, at the start.
function arp.startArpTask(queues)
  control.stop = nil
  libmoon.startSharedTask(arp.arpTask, queues)
end
function arp.stopArpTask() control.stop = true end
function arp.waitForStartup()
  while not control.running and libmoon.running() do libmoon.sleepMillisIdle(1) end
end

-- Gives a packet to the task, which frees it; `number` is the entry that it came in on.
function arp.handlePacket(buf, number)
  local inputs = control.inputs
  local input = inputs and inputs[number or 1]
  if not input then native.throw(("ARP has no entry %d: was its task started?"):format(number or 1)) end
  input:send(buf.batch:frame(buf.slot))
  buf:free()
end

local function text_of(ip)
  if type(ip) == "cdata" then return ip:getString() end
  if type(ip) == "number" then return ip4ToString(ip) end
  if not parseIP4Address(ip) then native.throw(("%s is no IPv4 address"):format(tostring(ip))) end
  return ip
end

-- The MAC address of an IPv4 address, and when it was learned; nil if it is not known yet: then it is asked for.
function arp.lookup(ip)
  ip = text_of(ip)
  for _ = 1, 100 do
    if control.running or not libmoon.running() then break end
    libmoon.sleepMillisIdle(10)
  end
  if not control.running and libmoon.running() then native.throw "the ARP task is not running: arp.startArpTask starts it" end
  local entry = known[ip]
  if entry and entry.mac then return entry.mac, entry.when end
  if not entry then known[ip] = { asked = 0 } end
end

function arp.blockingLookup(ip, timeout)
  local stop = libmoon.getTime() + timeout
  repeat
    local mac, when = arp.lookup(ip)
    if mac then return mac, when end
    libmoon.sleepMillisIdle(10)
  until libmoon.getTime() >= stop or not libmoon.running()
end

-- The task -------------------------------------------------------------------------------------------------------------------

local txBufs
local function send(nic, bytes)
  txBufs = txBufs or memory.createMemPool(511):bufArray(1)
  txBufs:alloc(#bytes)
  if txBufs.n == 0 then return end
  txBufs[1]:setRawPacket(bytes)
  nic.txQueue:send(txBufs)
end

local function request(nic, ip)
  send(nic, frame.arp(arp.OP_REQUEST, { sender_mac = nic.mac, sender = nic.ips[1], target = ip }))
end

-- An answer to a request for one of the entry's addresses; what answers say is remembered.
local function handle(nic, bytes)
  if #bytes < 42 or bytes:sub(13, 14) ~= "\8\6" then return end
  local operation, sender_mac, sender, target = bytes:byte(22), bytes:sub(23, 28), bytes:sub(29, 32), bytes:sub(39, 42)
  if operation == arp.OP_REPLY then
    known[frame.text(sender)] = { mac = frame.text(sender_mac), when = time() }
  elseif operation == arp.OP_REQUEST and nic.mine[target] then
    send(nic, frame.arp(arp.OP_REPLY, { sender_mac = nic.mac, sender = frame.text(target), target_mac = frame.text(sender_mac),
      target = frame.text(sender) }))
  end
end

local function ask(nics)
  local now = time()
  known:forEach(function(ip, entry)
    local due = entry.mac and math.max(entry.when + LIFE, (entry.asked or 0) + ASK_EVERY) or entry.asked + ASK_EVERY
    if now < due then return end
    entry.asked = now
    known[ip] = entry
    for _, nic in ipairs(nics) do request(nic, ip) end
  end)
end

local function announce(nics)
  for _, nic in ipairs(nics) do
    for _, ip in ipairs(nic.ips) do request({ txQueue = nic.txQueue, mac = nic.mac, ips = { ip } }, ip) end
  end
end

function __MG_ARP_TASK(nics)
  if nics.txQueue then nics = { nics } end
  local inputs = {}
  for i, nic in ipairs(nics) do
    nic.ips = type(nic.ips) == "string" and { nic.ips } or nic.ips
    nic.mac, nic.mine = nic.txQueue.dev:getMacString(), {}
    for _, ip in pairs(nic.ips) do nic.mine[frame.address(ip)] = true end
    if nic.rxQueue then nic.rxQueue.dev:l2Filter(eth.TYPE_ARP, nic.rxQueue) end
    nic.input = pipe:newSlowPipe()
    inputs[i] = nic.input
  end
  control.inputs, control.running = inputs, true
  local rxBufs, next_announcement = memory.bufArray(), 0
  while libmoon.running() and not control.stop do
    if task.now() >= next_announcement then
      announce(nics)
      next_announcement = task.now() + (nics.gratArpInterval or math.huge)
    end
    for _, nic in ipairs(nics) do
      if nic.rxQueue then
        for i = 1, nic.rxQueue:tryRecv(rxBufs, 0) do handle(nic, rxBufs.batch:frame(rxBufs[i].slot)) end
        rxBufs:freeAll()
      end
      local bytes = nic.input:tryRecv(0)
      while bytes do
        handle(nic, bytes)
        bytes = nic.input:tryRecv(0)
      end
    end
    ask(nics)
    libmoon.sleepMillisIdle(1)
  end
  control.running = nil
end

return arp
