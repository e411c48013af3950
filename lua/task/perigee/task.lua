-- SPDX-License-Identifier: MIT
-- Tasks: functions of a script, each in a VM and on a core of its own. docs/tasks.md describes all of it.
--
--   function main(interface)                                     perigee task count.lua eth1
--     local device = task.device(interface, { rx = 2 })
--     task.start(count, device:rx(1))                            a global function, by itself or by its name
--     task.wait()
--   end
--
-- Times are in seconds. Whatever waits returns early when the tasks are asked to end; then `task.running()` is false.
local ffi = require "ffi"
local native = require "perigee.native"
local values = require "perigee.values"
local modules = require "perigee.modules"
local C = ffi.C

local task = { name = native.task_name, id = native.id, script = native.script_name }
local host = native.host
local context = C.perigee_task_context(host)
local FAILED = 0xffffffff
local FOREVER = 0xffffffffffffffffULL

local throw = native.throw

local function checked(n)
  if n == FAILED then throw(ffi.string(C.perigee_failure(context))) end
  return n
end

local function ns(seconds)
  if seconds == nil then return FOREVER end
  -- More than the number has digits for is for ever, too.
  return seconds < 1e9 and ffi.cast("uint64_t", seconds * 1e9) or FOREVER
end

-- Time ---------------------------------------------------------------------------------------------------------------------

-- False once the tasks are to end (and `extra` seconds later).
function task.running(extra)
  return C.perigee_task_running(host, extra and ns(extra) or 0) ~= 0
end

-- Seconds of a clock that all tasks share; `task.ns()` counts nanoseconds.
function task.now() return tonumber(C.perigee_task_now(host)) / 1e9 end
function task.ns() return tonumber(C.perigee_task_now(host)) end

function task.sleep(seconds)
  C.perigee_task_sleep(host, ns(seconds))
  native.waited()
end

-- Asks all tasks to end, now or in some seconds.
function task.stop() native.stop() end
function task.limit(seconds) native.limit(seconds) end

-- Tasks --------------------------------------------------------------------------------------------------------------------

local handle = {}
handle.__index = handle
values.class("task", handle, function(self) return { id = self.id, name = self.name } end, function(plain) return setmetatable(plain, handle) end)

-- What a task's function returned; nothing if it threw.
function handle:wait()
  local result = native.wait(self.id)
  native.waited()
  if result then return values.decode_all(result) end
end
function handle:ended() return native.ended(self.id) end
function handle:__tostring() return "task " .. self.name end

-- The NUMA node of the devices among the arguments.
local function node_of(value, depth)
  if type(value) == "table" then
    if rawget(value, "numa_node") and rawget(value, "driver") then return value.numa_node end
    if depth < 4 and getmetatable(value) == nil then
      for _, entry in pairs(value) do
        local node = node_of(entry, depth + 1)
        if node then return node end
      end
    end
  elseif type(value) == "cdata" and (ffi.istype("perigee_receive_queue *", value) or ffi.istype("perigee_transmit_queue *", value)) then
    local device = task.device_of(value)
    return device and device.numa_node
  end
end

local function start(core, f, ...)
  local name = native.name_of(f)
  local node
  for i = 1, select("#", ...) do node = node or node_of((select(i, ...)), 1) end
  native.started()
  local id, other, shared = native.start(name, values.encode_all("an argument of " .. name, ...), core, node)
  if other and not task.quiet then
    io.stderr:write(("note: task %s shares core %d with %s: there are %d cores for tasks\n"):format(name, shared, other, #native.cores()))
  end
  return setmetatable({ id = id, name = name }, handle)
end

-- Starts a global function as a task, on a free core or on a named one; the arguments are copied.
function task.start(f, ...) return start(nil, f, ...) end
function task.start_on(core, f, ...) return start(core, f, ...) end
function task.cores() return native.cores() end

-- Waits until all other tasks have ended.
function task.wait()
  native.wait_others()
  native.waited()
end

-- A value that all tasks see, by its name: copied in, copied out.
task.shared = setmetatable({}, {
  __index = function(_, name)
    local text = native.shared(name)
    if text then return (values.decode_all(text)) end
  end,
  __newindex = function(_, name, value)
    native.set_shared(name, value ~= nil and values.encode_all(name, value) or nil)
  end,
})

-- Devices and queues -------------------------------------------------------------------------------------------------------

local device = {}
device.__index = device
values.class("device", device, function(self) return self.number end, function(number) return task.opened(number) end)
values.pointer_class("perigee_receive_queue")
values.pointer_class("perigee_transmit_queue")
values.pointer_class("perigee_ring")
values.pointer_class("perigee_pipe")

-- A device that is open, by its number, from 0 on.
local opened = {}
function task.opened(number)
  if not opened[number] then
    local found = native.device(number)
    found.number = number
    for i, queue in ipairs(found.receive) do found.receive[i] = ffi.cast("perigee_receive_queue *", queue) end
    for i, queue in ipairs(found.transmit) do found.transmit[i] = ffi.cast("perigee_transmit_queue *", queue) end
    opened[number] = setmetatable(found, device)
  end
  return opened[number]
end
function task.devices() return native.devices() end

-- Opens a device: a Linux interface, "xdp:INTERFACE", a PCI address, a DPDK device with its arguments, or the number of a --port. Without
-- options, one that is open already is found. Options: rx, tx (queues), rx_descriptors, tx_descriptors, buffers, mtu, mac, promiscuous (true),
-- share (false; true: the queues share one queue of the device each way, see device:steer).
function task.device(name, options) return task.opened(native.open(name, options or {})) end

local function same(a, b) return ffi.cast("void *", a) == ffi.cast("void *", b) end

-- The device of a queue, and the queue's number, from 1.
function task.device_of(queue)
  for number = 0, native.devices() - 1 do
    local found = task.opened(number)
    for _, kind in ipairs { "receive", "transmit" } do
      for i, other in ipairs(found[kind]) do
        if same(queue, other) then return found, i end
      end
    end
  end
end

local function queue_of(self, list, number, what)
  local queue = list[number or 1]
  if not queue then
    throw(("%s has no %s queue %s: it has %d, counted from 1; ask for more when it is opened"):format(self.name, what, tostring(number), #list))
  end
  return queue
end
function device:rx(number) return queue_of(self, self.receive, number, "receive") end
function device:tx(number) return queue_of(self, self.transmit, number, "transmit") end
function device:stats() return native.stats(self.number) end
-- Is the link up, and how fast (Mbit/s, nil if unknown)? Waits for it up to `seconds`.
function device:link(seconds) return native.link(self.number, seconds or 0) end
function device:promiscuous(on) native.promiscuous(self.number, on) end
-- Sends packets that match an expression to a receive queue, of a device that was opened with share = true. The first rule that matches
-- counts; without one, packets are queue 1's.
function device:steer(number, expression)
  queue_of(self, self.receive, number, "receive")
  native.steer(self.number, number - 1, "expression", expression)
end
function device:__tostring() return self.name end

local receive_queue = {}
receive_queue.__index = receive_queue
-- Fills the burst with up to 64 packets (or `most`, 256 at most); waits for the first up to `timeout` seconds. Returns their number.
function receive_queue:receive(burst, timeout, most)
  return checked(C.perigee_task_receive(host, self, burst, most or 64, timeout and ns(timeout) or 0))
end
function receive_queue:__tostring()
  local found, number = task.device_of(self)
  return ("receive queue %d of %s"):format(number or 0, tostring(found))
end
ffi.metatype("perigee_receive_queue", receive_queue)

local transmit_queue = {}
transmit_queue.__index = transmit_queue
-- Sends the burst's packets and waits until the device has taken all. What it has not when the tasks are to end is freed. Returns their number.
function transmit_queue:send(burst)
  local sent = checked(C.perigee_task_send(host, self, burst, FOREVER))
  burst:free()
  return sent
end
-- Sends what the device takes now; the others stay in the burst.
function transmit_queue:try_send(burst) return checked(C.perigee_task_send(host, self, burst, 0)) end
-- Limits the rate: "100kpps", "1.5Mpps", "100Mbit/s" (of frames without their FCS), or a number of packets per second; nil: no limit. Any
-- task may set it.
function transmit_queue:rate(rate)
  local address = tonumber(ffi.cast("uintptr_t", self))
  if rate == nil then return native.rate(address, 0, 0) end
  local units = { pps = { 1, 0 }, kpps = { 1e3, 0 }, mpps = { 1e6, 0 }, ["bit/s"] = { 0, 1 / 8 },
    ["kbit/s"] = { 0, 1e3 / 8 }, ["mbit/s"] = { 0, 1e6 / 8 }, ["gbit/s"] = { 0, 1e9 / 8 } }
  local number, unit = tostring(rate):match("^%s*([%d.eE+]+)%s*(%S*)%s*$")
  local kind = units[unit == "" and "pps" or (unit or ""):lower()]
  number = tonumber(number)
  if not number or not kind then
    throw(("a rate of %s: expected packets per second, or a text such as 100kpps or 10Mbit/s"):format(tostring(rate)))
  elseif not (number > 0 and number < math.huge) then
    throw(("a rate of %s per second: expected a number above 0"):format(number))
  end
  native.rate(address, kind[1] > 0 and 1e9 / (number * kind[1]) or 0, kind[2] > 0 and 1e9 / (number * kind[2]) or 0)
end
function transmit_queue:__tostring()
  local found, number = task.device_of(self)
  return ("transmit queue %d of %s"):format(number or 0, tostring(found))
end
ffi.metatype("perigee_transmit_queue", transmit_queue)

-- Packets ------------------------------------------------------------------------------------------------------------------

-- A burst: up to 256 packets, see perigee.h. Made once, used again and again.
function task.burst() return C.perigee_task_batch(host) end
function task.mask() return C.perigee_task_mask(host) end
-- The slots of one mask that are not in another, as a mask that is good until the next call.
local difference
function task.mask_without(all, others)
  difference = difference or task.mask()
  difference:assign(all)
  difference:remove(others)
  return difference
end
function task.gather(size, timeout) return C.perigee_task_gather(host, size, ns(timeout)) end

local burst = {}
function burst.__index(self, key)
  -- Its name in the definitions is another: see perigee/host.lua.
  if key == "data" then return self.frames end
  return burst[key]
end
-- Frees all packets, or those of a mask.
function burst:free(mask) C.perigee_task_free(host, self, mask or self.live) end
-- Writes all checksums of all packets, or of those of a mask: IPv4, UDP, TCP, ICMP.
function burst:checksums(mask) C.perigee_task_checksums(host, self, mask or self.live) end
-- The frame of a slot as a string.
function burst:frame(slot)
  if not self.live:has(slot) then
    throw(("slot %s of the burst has no packet: burst.live has those that do"):format(slot))
  end
  return ffi.string(self.data[slot], self.length[slot])
end
ffi.metatype("perigee_batch", burst)

local pool = {}
pool.__index = pool
-- Fills the burst with `packets` new packets of `length` bytes (without FCS) like the prototype; false if there are not as many buffers.
function pool:fill(into, packets, length)
  return checked(C.perigee_task_fill(host, self, into, packets, length)) == packets
end
ffi.metatype("perigee_pool", pool)

-- A pool of packet buffers. Options: buffers (4095), room (2048 bytes), prototype: the frame that new packets are copies of, as a string;
-- snabb: beside a Snabb program, take the program's packets, which its apps take without copying.
function task.pool(options)
  options = options or {}
  local prototype = options.prototype or ""
  if type(prototype) ~= "string" then prototype = prototype:bytes() end
  return ffi.cast("perigee_pool *", native.pool(options.buffers or 4095, options.room or 2048, options.numa_node, prototype,
    options.snabb or false))
end

-- An expression like tcpdump's: `filter:match(burst, mask)` narrows the mask to the packets that match.
local filter = {}
filter.__index = filter
function filter:match(of, mask) C.perigee_task_match(host, self, of, mask) end
-- Does a frame match, given as a pointer to its bytes and their number?
function filter:matches(bytes, length) return C.perigee_task_match_bytes(host, self, bytes, length) == 1 end
ffi.metatype("perigee_expression", filter)
function task.filter(text) return ffi.cast("perigee_expression *", native.filter(text)) end

-- Between tasks ------------------------------------------------------------------------------------------------------------

-- A ring takes packets from any task to one, without copying.
local ring = {}
ring.__index = ring
function ring:send(of)
  local sent = checked(C.perigee_task_ring_send(host, self, of, FOREVER))
  of:free()
  return sent
end
function ring:try_send(of) return checked(C.perigee_task_ring_send(host, self, of, 0)) end
function ring:receive(into, timeout, most)
  return checked(C.perigee_task_ring_receive(host, self, into, most or 64, timeout and ns(timeout) or 0))
end
ffi.metatype("perigee_ring", ring)
function task.ring(packets) return ffi.cast("perigee_ring *", native.ring(packets or 1024)) end

-- Lets another task have a receive queue, a transmit queue or a ring that this one has used, before this one ends.
function task.leave(queue) native.leave(tonumber(ffi.cast("uintptr_t", queue))) end

-- A pipe takes values from any task to any task.
local pipe = {}
pipe.__index = pipe
local bytes, length = ffi.new("const char *[1]"), ffi.new("size_t[1]")

local function put(self, value, timeout)
  local at, n = values.encode(value, "the value")
  return C.perigee_task_pipe_send(host, self, at, n, timeout)
end
-- Sends a value; waits while the pipe is full. False only if the tasks are to end.
function pipe:send(value) return put(self, value, FOREVER) == 1 end
function pipe:try_send(value) return put(self, value, 0) == 1 end
-- The next value, waiting up to `timeout` seconds (without one: until the tasks are to end); nil if none came.
function pipe:receive(timeout)
  if C.perigee_task_pipe_receive(host, self, ns(timeout), bytes, length) ~= 1 then return nil end
  return values.decode(ffi.cast("const uint8_t *", bytes[0]), tonumber(length[0]))
end
function pipe:try_receive() return self:receive(0) end
function pipe:length() return C.perigee_task_pipe_length(host, self) end
ffi.metatype("perigee_pipe", pipe)
function task.pipe(messages) return ffi.cast("perigee_pipe *", native.pipe(messages or 1024)) end

-- What modules have dropped in all tasks: { ["ipv4_valid.checksum"] = packets }
function task.drops() return native.drops() end

task.modules = modules
return task
