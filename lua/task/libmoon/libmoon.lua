-- SPDX-License-Identifier: MIT
-- The interface of libmoon and MoonGen, for their programs: a thin layer over perigee.task. docs/tasks.md lists what differs.
--
-- This module: tasks and time. Times are in ms where their names say so, else in seconds.
local ffi = require "ffi"
local native = require "perigee.native"
local task = require "perigee.task"
require "libmoon.utils"
require "libmoon.packet"

local libmoon = { config = {} }

LIBMOON_TASK_NAME = native.task_name == "main" and "master" or native.task_name
LIBMOON_TASK_ID = native.id

-- What has no counterpart here can be required, and says so when it is called.
local missing = {
  webserver = "there is no web server; write the counters to a file (format = \"csv\") instead",
  ["proto.lacp"] = "LACP is not there: configure the link without it",
  kni = "there are no kernel interfaces (KNI): open a Linux interface, or net_tap0, as a device",
  hs = "Hyperscan is not there: pf.compile_filter or task.filter match packets",
  ipsec = "IPsec offloads are not there",
  lpm = "there are no lookup tables: the router has them (perigee run)",
  bitmask = "bit masks are perigee's: task.mask()",
  distribute = "there is no distributor: rings (pipe:newPacketRing) take packets to tasks",
  drivers = "there are no drivers in Lua: DPDK has them",
  dpdkc = "DPDK's functions are not called directly: device, memory and pipe do what is needed",
  graphite = "there is no sink for Graphite; write the counters to a file (format = \"csv\") instead",
  syscall = "ljsyscall is not there: LuaJIT's ffi calls Linux",
  Serpent = "values travel by pipes, as arguments and in namespaces; string.buffer encodes them",
}
for _, name in ipairs { "vxlan", "dns", "esp", "ah", "gre", "sflow", "ipfix", "proto", "template", "packetChecks" } do
  missing["proto." .. name] = "there is no such header: createStack makes views of eth, ip4, ip6, udp, tcp, icmp, arp and ptp"
end
for name, why in pairs(missing) do
  package.preload["libmoon." .. name] = function()
    local function refuse() native.throw(("%s: %s"):format(name, why)) end
    local module = { running = function() return false end }
    return setmetatable(module, { __index = function(_, key) return type(key) == "string" and refuse or nil end, __call = refuse })
  end
end

-- What others load is loaded with the modules that there are.
for _, name in ipairs { "software-timestamps", "crc-ratecontrol", "moongen-compat", "phobos" } do
  package.preload["libmoon." .. name] = function() return require "libmoon.device" and libmoon end
end

-- Tasks ---------------------------------------------------------------------------------------------------------------------

local handle = {}
handle.__index = handle
function handle:wait() return self.task:wait() end
function handle:isRunning() return not self.task:ended() end

local function started(new)
  return setmetatable({ id = new.id, task = new }, handle)
end

function libmoon.startTask(name, ...) return started(task.start(name, ...)) end
function libmoon.startTaskOnCore(core, name, ...) return started(task.start_on(core, name, ...)) end
-- A task that leaves its core to others most of the time.
function libmoon.startSharedTask(name, ...)
  task.quiet = true
  local new = task.start(name, ...)
  task.quiet = nil
  return started(new)
end
function libmoon.waitForTasks() task.wait() end
libmoon.waitForSlaves = libmoon.waitForTasks

function libmoon.running(extra_ms) return task.running(extra_ms and extra_ms / 1000) end
function libmoon.stop() task.stop() end
function libmoon.setRuntime(seconds) task.limit(seconds) end

-- Time: the clock is the task's, in ns, so that it has a billion cycles a second -----------------------------------------------

local FREQUENCY = 1e9
function libmoon.getTime() return task.now() end
function libmoon.getCycles() return ffi.C.perigee_task_now(native.host) end
function libmoon.getCyclesFrequency() return FREQUENCY end

ffi.cdef "int usleep(unsigned);"
-- Sleeping ends when the tasks are to end. After that, programs sleep to let others finish: up to a second of it.
local function idle(seconds)
  if task.running() then return task.sleep(seconds) end
  ffi.C.usleep(math.min(seconds, 1) * 1e6)
end
-- Short times are waited for on the core, as they are to be exact.
local function exact(seconds)
  if seconds > 0.005 then return idle(seconds) end
  local stop = task.now() + seconds
  while task.now() < stop do end
end
function libmoon.sleepMillis(ms) exact(ms / 1e3) end
function libmoon.sleepMicros(us) exact(us / 1e6) end
function libmoon.sleepMillisIdle(ms) idle(ms / 1e3) end
function libmoon.sleepMicrosIdle(us) idle(us / 1e6) end

function libmoon.getCores() return task.cores() end
-- The core and its NUMA node.
function libmoon.getCore() return native.core, 0 end
function libmoon.disableBadSocketWarning() end
function libmoon.setupPaths() end

-- The program ---------------------------------------------------------------------------------------------------------------

-- Words that are numbers become numbers, as libmoon does it.
local function convert(words)
  local all = {}
  for i, word in ipairs(words) do all[i] = tonumber(word) or word end
  return all
end

-- configure(parser), then master(what it returned, words...).
function libmoon.run_master(words)
  local argparse = require "libmoon.argparse"
  local converted, parsed = convert(words), {}
  local configure = rawget(_G, "configure")
  if configure then
    local parser = argparse("perigee task " .. native.script_name)
    parser:args(unpack(words))
    local results = { pcall(configure, parser, unpack(converted)) }
    if not results[1] and results[2] == argparse.stopped then return end
    if not results[1] then error(results[2], 0) end
    for i = 2, table.maxn(results) do parsed[i - 1] = results[i] end
    if #parsed == 0 and #parser._arguments + #parser._options > 1 then
      local ok, result = pcall(parser.parse, parser)
      if not ok and result == argparse.stopped then return end
      if not ok then error(result, 0) end
      parsed[1] = result
    end
  end
  for _, word in ipairs(converted) do table.insert(parsed, word) end
  -- What master returns is nobody's.
  rawget(_G, "master")(unpack(parsed, 1, table.maxn(parsed)))
end

return libmoon
