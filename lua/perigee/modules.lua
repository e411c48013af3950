-- SPDX-License-Identifier: MIT
-- The modules of the registry as Lua functions, and what a script needs to write its own.
--
--   m.ttl(burst, mask)                       a module of the registry; throws what it fails with
--   m.native("./mine.so", "mine", 1)         a module from a shared library, for one mask or two
--   m.reason("mine", "too_old")              a drop reason of the script's own (a third argument, true: a punt)
--   m.drop(burst, mask, reason), m.punt(...) consumes the packets of the mask
--   m.counter("mine", "flows"):add(n)        a counter of the script's own; `perigee show counters`, metrics
--   m.gauge("mine", "entries"):set(n)        a gauge: the workers' are added
--   m.checksums(burst, mask)                 writes the checksums of IPv4, UDP, TCP and ICMP, after headers were written
--   m.move(from, mask, to)                   split: packets change batch, with their metadata
--   m.copy(from, mask, to)                   mirror: deep copies
--   m.port("wan")                            number of the port an interface belongs to, or nil
local ffi = require "ffi"
local C = ffi.C

local m = {}

-- The context in a box, as it changes once: a script is loaded with one of its own, and runs with its worker's.
local context = ffi.new("perigee_context *[1]")

-- One function per module, each with its symbol as a constant, so that the call compiles to a plain machine call.
-- Half of a fast path's modules of one mask have nothing to do where all packets are of the other family: they are not called.
local one = [[
local C, context, fail, changed, bor = ...
return function(burst, mask)
  changed(burst)
  if burst ~= nil and mask ~= nil and mask ~= burst.live then
    local word = mask.word
    if bor(bor(word[0], word[1]), bor(word[2], word[3])) == 0ULL then return end
  end
  if C.perigee_NAME(context[0], burst, mask) ~= 0 then fail() end
end]]
local two = [[
local C, context, fail, changed = ...
return function(burst, ip4, ip6)
  changed(burst)
  if C.perigee_NAME(context[0], burst, ip4, ip6) ~= 0 then fail() end
end]]

-- Has the host forget what it has read of a burst's headers: bytes of the frames may have been written.
local function changed(burst)
  local word = burst.loaded.word
  word[0], word[1], word[2], word[3] = 0ULL, 0ULL, 0ULL, 0ULL
end

-- Throws what went wrong, as an error of the line that called.
local function fail(level)
  error(ffi.string(C.perigee_failure(context[0])), level or 3)
end

local function check(result)
  if result ~= 0 then fail(4) end
end

-- For the host: the modules that there are, and for whom they work.
local host = {}
local library -- not in tasks
function host.define(registry, copy)
  library = copy
  for name, masks in pairs(registry) do
    local text = (masks == 2 and two or one):gsub("NAME", name)
    -- Tasks write frames as they like.
    if copy then text = text:gsub("changed%(burst%)", "") end
    m[name] = assert(loadstring(text, "=perigee." .. name))(C, context, fail, changed, bit.bor)
  end
end
host.changed = changed
function host.bind(pointer) context[0] = pointer end

function m.drop(burst, mask, reason) check(C.perigee_drop(context[0], burst, mask, reason)) end
function m.punt(burst, mask, reason) check(C.perigee_punt(context[0], burst, mask, reason)) end
function m.checksums(burst, mask)
  changed(burst)
  check(C.perigee_checksums(context[0], burst, mask or burst.live))
end
function m.move(from, mask, to) check(C.perigee_move(context[0], from, mask, to)) end
function m.copy(from, mask, to) check(C.perigee_copy(context[0], from, mask, to)) end
function m.push(burst, slot, bytes) check(C.perigee_push(context[0], burst, slot, bytes)) end
function m.pull(burst, slot, bytes) check(C.perigee_pull(context[0], burst, slot, bytes)) end
function m.resize(burst, slot, bytes) check(C.perigee_resize(context[0], burst, slot, bytes)) end
function m.now() return tonumber(C.perigee_now(context[0])) end

function m.reason(module, name, punt)
  return C.perigee_reason(context[0], module, name, punt and 1 or 0)
end

local counter, gauge = {}, {}
counter.__index, gauge.__index = counter, gauge
function counter:add(n) check(C.perigee_value_change(context[0], self.number, n or 1, 0)) end
function gauge:set(n) check(C.perigee_value_change(context[0], self.number, n, 1)) end

local function value(kind, module, name, is_gauge)
  local number = C.perigee_value(context[0], module, name, is_gauge)
  if number < 0 then fail(4) end
  return setmetatable({ number = number }, kind)
end
function m.counter(module, name) return value(counter, module, name, 0) end
function m.gauge(module, name) return value(gauge, module, name, 1) end

function m.port(interface)
  local port = C.perigee_port(context[0], interface)
  return port >= 0 and port or nil
end

-- Drop-out: `gather:add(burst, mask)` takes diverging packets out of a burst (what found no room stays in the mask);
-- `gather:ready()` is the batch of them once there are enough or the first has waited long enough, else nil.
local gather = {}
gather.__index = gather
function gather:add(burst, mask) check(C.perigee_gather_add(context[0], self, burst, mask)) end
function gather:ready()
  local batch = C.perigee_gather_ready(context[0], self)
  return batch ~= nil and batch or nil
end
ffi.metatype("perigee_gather", gather)

function m.native(path, name, masks)
  local two = masks == 2
  ffi.cdef(("int %s(perigee_context *, perigee_batch *, perigee_mask *%s);"):format(name, two and ", perigee_mask *" or ""))
  -- A copy, so that a library which was rebuilt is loaded anew.
  local given = path
  if library then
    local copy, why = library(path)
    path = copy or error(why, 2)
  end
  local found, f = pcall(function() return ffi.load(path)[name] end)
  if not found then
    -- The copy's path means nothing to anybody.
    error((tostring(f):gsub(path:gsub("%p", "%%%0"), (given:gsub("%%", "%%%%")))), 2)
  end
  if two then
    return function(burst, a, b)
      changed(burst)
      local result = f(context[0], burst, a, b)
      changed(burst)
      check(result)
    end
  end
  return function(burst, mask)
    changed(burst)
    local result = f(context[0], burst, mask)
    changed(burst)
    check(result)
  end
end

m.host = host
return m
