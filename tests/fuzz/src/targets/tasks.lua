-- SPDX-License-Identifier: MIT
-- A program of `perigee task` that reads its argument as calls: each byte chooses a function or an argument. Arguments are mostly of the kind
-- that a function expects, and else anything. What gets addresses from a script, or waits for itself, is left out.
local ffi = require "ffi"
local frame, histogram = require "perigee.frame", require "perigee.histogram"
local m, packet = require "perigee.modules", require "perigee.packet"

local MOST_CALLS, MOST_TASKS, MOST_MADE = 200, 3, 12

-- What is started as a task.
function echo(...) return ... end
function throws(value) error(value) end
function sends(queue, length)
  local burst, pool = task.burst(), task.pool()
  pool:fill(burst, 3, length)
  queue:send(burst)
end
function receives(queue) return queue:receive(task.burst(), 0.001) end

local function reader(program)
  local at = 0
  local function byte()
    at = at + 1
    return program:byte(at) or 0
  end
  return byte, function() return at >= #program end
end

function main(hex)
  task.quiet = true
  local byte, ended = reader((hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)))
  local device = task.device(0, { rx = 2, tx = 2 })

  -- Objects of each kind; those that are made come on top.
  local made = {
    B = { task.burst(), task.burst(), task.burst() }, M = { task.mask(), task.mask() }, P = { task.pool() },
    Q = { device:rx(1), device:rx(2) }, T = { device:tx(1), device:tx(2) }, R = { task.ring(64) }, I = { task.pipe(16) },
    D = { device }, F = { task.filter "udp" }, G = { task.gather(8, 0) }, H = { histogram.new() }, K = {}, C = {}, A = {}, O = {},
  }
  local odd = {
    0, 1, -1, 2, 63, 64, 65, 255, 256, 257, 65535, 65536, 1e6, 2 ^ 31 - 1, 2 ^ 31, 2 ^ 32 - 1, 2 ^ 32, 2 ^ 53, -2 ^ 31, -2 ^ 53, 1e300,
    0 / 0, 1 / 0, -1 / 0, 0.5, -0.5, true, false, "", "loop0", "a\0b", ("x"):rep(300), "7", {}, { 1, { "a", { x = 5ULL } } }, { [1.5] = true },
    function() end, 5LL, -1LL, 0xffffffffffffffffULL, ffi.new("uint8_t", 7), ffi.new("int[2]"), task, coroutine.create(print),
    setmetatable({}, { __index = error }), "10Mbit/s", "1e999pps", "02:00:00:00:00:01", "2001:db8::1", "udp and (ip or", echo,
  }
  local texts = {
    "udp", "tcp port 80", "not ip", "10.0.0.1", "2001:db8::1", "02:00:00:00:00:09", "100kpps", "5", "loop0", "loop1", "broken", "name", "",
  }
  local lengths = { 0, 13, 14, 15, 18, 33, 34, 42, 60, 64, 128, 1514, 2048, 9000, 65535, 65536 }
  local function value(n)
    n = n or byte()
    -- Beyond the table there is nil.
    return odd[n % (#odd + 2) + 1]
  end
  local function options(keys)
    return function()
      local to = {}
      for _ = 1, byte() % 4 do to[keys[byte() % #keys + 1]] = value() end
      return to
    end
  end
  local kinds = {
    N = function() return byte() end,
    L = function() return lengths[byte() % #lengths + 1] end,
    S = function() return texts[byte() % #texts + 1] end,
    V = value,
    -- Seconds.
    X = function() return ({ 0, 1e-6, 1e-4, 0.001 })[byte() % 4 + 1] end,
    Y = options { "rx", "tx", "rx_descriptors", "buffers", "mtu", "mac", "promiscuous", "share", "odd" },
    Z = options { "buffers", "room", "numa_node", "prototype", "snabb" },
    E = options {
      "source_mac", "destination_mac", "vlan", "length", "source", "destination", "source_port", "destination_port", "ttl", "payload", "flags",
      "sequence", "type", "code", "id", "tos",
    },
  }
  local function argument(kind)
    local n = byte()
    if n >= 215 then return value() end
    if kinds[kind] then return kinds[kind]() end
    local list = made[kind]
    return list[n % math.max(#list, 1) + 1]
  end

  local calls = {}
  local function call(f, arguments, result)
    assert(f, "a function that is not there")
    calls[#calls + 1] = { f, arguments, result }
  end
  local function methods(of, list)
    for _, entry in ipairs(list) do
      local name = entry[1]
      call(function(self, ...) return self[name](self, ...) end, of .. entry[2], entry[3])
    end
  end
  call(task.burst, "", "B")
  call(task.mask, "", "M")
  call(task.pool, "Z", "P")
  call(task.ring, "N", "R")
  call(task.pipe, "N", "I")
  call(task.filter, "S", "F")
  call(task.gather, "LX", "G")
  call(task.device, "SY", "D")
  call(task.opened, "N", "D")
  call(task.leave, "Q")
  call(task.running, "X")
  call(task.sleep, "X")
  call(task.limit, "X")
  for _, f in ipairs { task.now, task.ns, task.cores, task.devices, task.drops, task.wait, task.stop } do call(f, "") end
  call(task.mask_without, "MM")
  call(task.device_of, "Q")
  call(task.device_of, "T")
  call(function(name) return task.shared[name] end, "S")
  call(function(name, to) task.shared[name] = to end, "SV")
  local started = 0
  call(function(f, a, b)
    started = started + 1
    if started <= MOST_TASKS then return task.start(({ "echo", "throws", "sends", "receives", "nothing", echo })[f % 6 + 1], a, b) end
  end, "NTL", "K")
  methods("K", { { "wait", "" }, { "ended", "" } })
  for _ = 1, 3 do methods("P", { { "fill", "BNL" } }) end
  for _ = 1, 2 do methods("T", { { "send", "B" }, { "try_send", "B" } }) end
  methods("T", { { "rate", "S" }, { "rate", "V" } })
  for _ = 1, 2 do methods("Q", { { "receive", "BXN" } }) end
  methods("R", { { "send", "B" }, { "try_send", "B" }, { "receive", "BXN" } })
  methods("I", { { "send", "V" }, { "try_send", "V" }, { "receive", "X" }, { "try_receive", "" }, { "length", "" } })
  -- Objects that travel are the same.
  methods("I", { { "send", "T" }, { "send", "D" }, { "send", "I" } })
  methods("B", { { "free", "" }, { "free", "M" }, { "checksums", "" }, { "checksums", "M" }, { "frame", "N" } })
  methods("F", { { "match", "BM" } })
  call(function(filter, bytes) return filter:matches(bytes, #bytes) end, "FS")
  methods("G", { { "add", "BM" }, { "ready", "" } })
  methods("M", { { "has", "N" }, { "set", "N" }, { "clear", "N" }, { "empty", "" }, { "count", "" } })
  methods("M", { { "assign", "M" }, { "remove", "M" }, { "add", "M" } })
  call(function(mask, burst) return mask:assign(burst.live) end, "MB")
  methods("D", { { "rx", "N", "Q" }, { "tx", "N", "T" }, { "stats", "" }, { "link", "X" }, { "promiscuous", "V" }, { "steer", "NS" } })
  for _, kind in ipairs { "udp", "tcp", "icmp", "ethernet" } do call(frame[kind], "E") end
  for _, name in ipairs { "address", "mac", "text" } do call(frame[name], "S") end
  call(histogram.new, "V", "H")
  methods("H", { { "update", "VN" }, { "merge", "H" }, { "count", "" }, { "average", "" }, { "standard_deviation", "" } })
  methods("H", { { "min", "" }, { "percentile", "V" }, { "quartiles", "" } })
  for _, name in ipairs { "classify", "filter", "urpf", "multicast", "mtu", "redirect", "apply", "distribute" } do call(m[name], "BMM") end
  for _, name in ipairs { "ipv4_valid", "ipv6_valid", "ipv4_lookup", "ttl", "count" } do call(m[name], "BM") end
  call(m.drop, "BML")
  call(m.punt, "BML")
  call(m.move, "BMB")
  call(m.copy, "BMB")
  for _, name in ipairs { "push", "pull", "resize" } do call(m[name], "BNL") end
  for _, name in ipairs { "ethernet", "ipv4", "ipv6", "udp", "tcp" } do
    call(function(burst, slot)
      local header = packet[name](burst, slot)
      return header ~= nil and ffi.string(header, ffi.sizeof(header[0]))
    end, "BN")
  end

  -- libmoon: bursts, pools and queues by other names.
  if byte() % 2 == 1 then
    local memory, devices, stats = require "memory", require "device", require "stats"
    local pipe, namespaces, barrier = require "pipe", require "namespaces", require "barrier"
    require "utils"
    call(memory.createMemPool, "Z", "C")
    call(memory.bufArray, "N", "A")
    methods("C", { { "bufArray", "N", "A" } })
    for _ = 1, 2 do methods("A", { { "alloc", "L" } }) end
    methods("A", {
      { "allocN", "LN" }, { "resize", "N" }, { "freeAll", "" }, { "free", "N" }, { "freeAfter", "N" }, { "offloadUdpChecksums", "" },
      { "offloadIPChecksums", "V" }, { "setVlans", "VVV" },
    })
    call(devices.config, "V", "O")
    call(function(queues) return devices.config { port = 0, rxQueues = queues % 4, txQueues = queues % 3 } end, "N", "O")
    call(devices.get, "N", "O")
    methods("O", { { "getTxQueue", "N", "U" }, { "getRxQueue", "N", "W" }, { "getMac", "V" }, { "getStats", "" } })
    methods("O", { { "getRxStats", "" }, { "l2Filter", "VV" } })
    made.U, made.W = {}, {}
    methods("U", { { "send", "A" }, { "sendN", "AN" }, { "trySend", "A" }, { "setRate", "V" } })
    methods("W", { { "tryRecv", "AN" }, { "tryRecvIdle", "AN" } })
    for _, name in ipairs { "sum", "average", "stdDev", "median" } do call(stats[name], "V") end
    call(function(name, key, to) namespaces:get(name)[key] = to end, "SSV")
    call(function(name, key) return namespaces:get(name)[key] end, "SS")
    call(function(size) return pipe:newPacketRing(size) end, "N", "J")
    made.J = {}
    methods("J", { { "send", "A" }, { "sendN", "AN" }, { "recvN", "AN" } })
    local helpers = { "parseMacAddress", "parseIPAddress", "parseIP4Address", "trim", "strSplit", "ip4ToString", "bswap16" }
    for _, name in ipairs(helpers) do call(_G[name], "SV") end
    call(barrier.new and function(n) return barrier:new(n) end, "V")
  end

  local function keep(kind, ok, ...)
    local result = ...
    if not ok then
      local why = tostring(result)
      if why == "" or why:find("no failure", 1, true) then
        error("failed without saying why: " .. why, 0)
      end
    elseif kind and result ~= nil and result ~= false and #made[kind] < MOST_MADE then
      table.insert(made[kind], result)
    end
  end
  for _ = 1, MOST_CALLS do
    if ended() then break end
    local chosen = calls[byte() % #calls + 1]
    local f, arguments, kind = chosen[1], chosen[2], chosen[3]
    local list, n = {}, #arguments
    for i = 1, n do list[i] = argument(arguments:sub(i, i)) end
    keep(kind, pcall(f, unpack(list, 1, n)))
  end
end
