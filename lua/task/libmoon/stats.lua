-- SPDX-License-Identifier: MIT
-- Counters that print a line per second, for programs of libmoon, and the task that prints those of devices. Bytes include the FCS.
--
--   local ctr = stats:newDevTxCounter([name,] device or queue [, format, file])       ctr:update()     ctr:finalize()
--   stats:newPktRxCounter(name, format, file): ctr:countPacket(buf); stats:newManualTxCounter(name, ...): ctr:updateWithSize(packets, size)
--
-- Formats: "plain", "CSV", "nil" (prints nothing).
local native = require "perigee.native"
local task = require "perigee.task"
local libmoon = require "libmoon.libmoon"
require "libmoon.device"

local stats = {}

-- Numbers in lists ------------------------------------------------------------------------------------------------------------

function stats.sum(list)
  local sum = 0
  for _, n in ipairs(list) do sum = sum + n end
  return sum
end
function stats.average(list) return stats.sum(list) / #list end
function stats.stdDev(list)
  local average, squares = stats.average(list), 0
  for _, n in ipairs(list) do squares = squares + (n - average) ^ 2 end
  return math.sqrt(squares / (#list - 1))
end
function stats.percentile(list, percent)
  local sorted = { unpack(list) }
  table.sort(sorted)
  return sorted[math.max(math.ceil(#list * percent / 100), 1)]
end
function stats.median(list) return stats.percentile(list, 50) end
-- Writes avg, stdDev, median and sum into the list; of the seconds between the first and the last, which are no whole ones, if there are any.
function stats.addStats(list, without_ends)
  local inner = list
  if without_ends and #list > 2 then inner = { unpack(list, 2, #list - 1) } end
  list.sum = stats.sum(inner)
  list.avg = #inner > 0 and list.sum / #inner or 0
  list.stdDev = #inner > 1 and stats.stdDev(inner) or 0
  list.median = stats.median(inner) or 0
end

-- Formats ---------------------------------------------------------------------------------------------------------------------

local COLORS = { RX = "cyan", TX = "blue" }
local formats = { ["nil"] = { init = function() end, update = function() end, final = function() end } }

formats.plain = {
  init = function() end,
  update = function(self, mpps, mbit, wire)
    self.file:write(("%s[%s] %s%s: %.2f Mpps, %.0f Mbit/s (%.0f Mbit/s with framing)\n"):format(getColorCode(COLORS[self.direction]), self.name,
      self.direction, getColorCode(), mpps, mbit, wire))
  end,
  final = function(self)
    self.file:write(("%s[%s] %s%s: %.2f (StdDev %.2f) Mpps, %.0f (StdDev %.0f) Mbit/s (%.0f Mbit/s with framing), total %d packets with %d bytes (incl. CRC)\n")
      :format(getColorCode(COLORS[self.direction]), self.name, self.direction, getColorCode(), self.mpps.avg, self.mpps.stdDev, self.mbit.avg,
        self.mbit.stdDev, self.wireMbit.avg, self.total, self.totalBytes))
  end,
}

local titled = setmetatable({}, { __mode = "k" })
local function row(self, ...) self.file:write(toCsv(("%d"):format(time()), self.name, self.direction, ...), "\n") end
formats.CSV = {
  init = function(self)
    if titled[self.file] then return end
    titled[self.file] = true
    self.file:write "Time,Device,Direction,PacketRate,Mbit,MbitWithFraming,TotalPackets,TotalBytes\n"
  end,
  update = function(self, mpps, mbit, wire) row(self, mpps, mbit, wire, self.total, self.totalBytes) end,
  final = function(self) row(self, self.mpps.avg, self.mbit.avg, self.wireMbit.avg, self.total, self.totalBytes) end,
}
formats.csv = formats.CSV

-- Counters --------------------------------------------------------------------------------------------------------------------

local counter = {}
counter.__index = counter

-- Files that counters of this task write to, by their names: { file, number of counters }.
local files = {}

local function new(name, direction, format, file, more)
  format = format or "plain"
  if not formats[format] then native.throw(("counters print in the formats plain, CSV and nil, not %s"):format(tostring(format))) end
  name = tostring(name):gsub("^%[(.*)%]$", "%1")
  local self = setmetatable({ name = name, direction = direction, format = formats[format], file = file or io.stdout, total = 0, totalBytes = 0,
    current = 0, currentBytes = 0, mpps = {}, mbit = {}, wireMbit = {}, sleep = 0 }, counter)
  if type(file) == "string" then
    if not files[file] then
      local opened, why = io.open(file, "w")
      if not opened then native.throw("statistics cannot be written: " .. why) end
      files[file] = { opened, 0 }
    end
    files[file][2] = files[file][2] + 1
    self.file, self.opened = files[file][1], file
  end
  for key, value in pairs(more or {}) do self[key] = value end
  return self
end

-- Packets and bytes so far.
function counter:getThroughput()
  if self.read then return self.read() end
  return self.current, self.currentBytes
end

local function advance(self, now, silent)
  local packets, bytes = self:getThroughput()
  if not self.lastUpdate then
    self.total, self.totalBytes, self.lastUpdate = packets, bytes, now
    self.format.init(self)
    return false
  end
  local elapsed = math.max(now - self.lastUpdate, 1e-9)
  local mpps, mbit = (packets - self.total) / elapsed / 1e6, (bytes - self.totalBytes) / elapsed / 1e6 * 8
  local wire = mbit + mpps * 20 * 8
  self.total, self.totalBytes, self.lastUpdate = packets, bytes, now
  table.insert(self.mpps, mpps)
  table.insert(self.mbit, mbit)
  table.insert(self.wireMbit, wire)
  if not silent then
    self.format.update(self, mpps, mbit, wire)
    self.file:flush()
  end
  return true
end

local function tick(self)
  local now = task.now()
  if self.lastUpdate and now <= self.lastUpdate + 1 then return false end
  return advance(self, now)
end

-- Prints a line if a second is over. Manual counters are given what came since the last time.
function counter:update(packets, bytes)
  if packets then self.current, self.currentBytes = self.current + packets, self.currentBytes + (bytes or 0) end
  return tick(self)
end
function counter:updateWithSize(packets, size)
  self.current, self.currentBytes = self.current + packets, self.currentBytes + packets * (size + 4)
  return tick(self)
end
function counter:countPacket(buf)
  self.current, self.currentBytes = self.current + 1, self.currentBytes + buf.pkt_len + 4
end

-- Lists of Mpps, Mbit/s and Mbit/s with framing, a number per second, each with avg, stdDev, median and sum; packets; bytes.
function counter:getStats(update)
  if update then advance(self, task.now(), true) end
  for _, list in ipairs { self.mpps, self.mbit, self.wireMbit } do stats.addStats(list, true) end
  return self.mpps, self.mbit, self.wireMbit, self.total, self.totalBytes
end

-- Prints the summary; waits `ms` before, for packets that are on their way.
function counter:finalize(ms)
  libmoon.sleepMillis(ms or self.sleep)
  self:getStats(true)
  self.format.final(self)
  self.file:flush()
  local file = self.opened and files[self.opened]
  if not file then return end
  file[2] = file[2] - 1
  if file[2] == 0 then
    file[1]:close()
    files[self.opened] = nil
  end
end

local function is_device(value) return type(value) == "table" and (value.getRxStats or value.dev) end

local function of_device(direction, name, dev, format, file)
  if is_device(name) then name, dev, format, file = nil, name, dev, format end
  if not is_device(dev) then native.throw "a counter of a device needs the device, or a queue of it" end
  dev = dev.dev or dev
  local read = direction == "RX" and function() return dev:getRxStats() end or function() return dev:getTxStats() end
  if direction == "RX" then dev:clearRxStats() end
  return new(name or tostring(dev), direction, format, file, { dev = dev, read = read, sleep = direction == "RX" and 100 or 50 })
end
function stats:newDevRxCounter(...) return of_device("RX", ...) end
function stats:newDevTxCounter(...) return of_device("TX", ...) end
for _, kind in ipairs { "Pkt", "Manual" } do
  for _, direction in ipairs { "Rx", "Tx" } do
    stats["new" .. kind .. direction .. "Counter"] = function(_, name, format, file) return new(name, direction:upper(), format, file) end
  end
end

-- The task for devices --------------------------------------------------------------------------------------------------------

-- Prints the rates of devices: { devices = {...}, rxDevices = {...}, txDevices = {...}, format =, file = }, or just a list of devices. Each
-- is a device, or { dev =, format =, file = }.
function stats.startStatsTask(args)
  libmoon.startSharedTask("__LIBMOON_STATS_TASK", args)
end

local function add(counters, list, make, args)
  local seen = {}
  for _, entry in ipairs(list) do
    local own = not entry.id and entry or args
    local dev = entry.id and entry or entry.dev
    if not seen[dev.id] then
      seen[dev.id] = true
      table.insert(counters, make(stats, dev, own.format, own.file))
    end
  end
end

function __LIBMOON_STATS_TASK(args)
  local both = concatArrays(args.devices or {}, args)
  local counters = {}
  add(counters, concatArrays(args.rxDevices or {}, both), stats.newDevRxCounter, args)
  add(counters, concatArrays(args.txDevices or {}, both), stats.newDevTxCounter, args)
  while libmoon.running(200) do
    for _, ctr in ipairs(counters) do ctr:update() end
    libmoon.sleepMillisIdle(10)
  end
  for _, ctr in ipairs(counters) do ctr:finalize(0) end
end

return stats
