-- SPDX-License-Identifier: MIT
-- Reads packets of queue 1 as programs: each byte chooses a function or an argument. Arguments are mostly of the kind that a function
-- expects, and else anything. Only what scripts may not write is left out: `live`, `moved`, `count`, `data`, `handle`, `length`.
local m = require "perigee.modules"
local packet = require "perigee.packet"
local ffi = require "ffi"

local DONE, GONE = m.reason("fuzz", "done", true), m.reason("fuzz", "gone")
-- What `worker:batch()` and its like make lasts as long as the script.
local MOST_MADE = 400

return function(worker)
  local inbox, all = worker:batch(), worker:mask()
  local batches, masks, gathers = {}, {}, {}
  for i = 1, 4 do batches[i], masks[i] = worker:batch(), worker:mask() end
  for i = 1, 2 do gathers[i] = worker:gather(8, 0) end
  local made = 0

  local program, length, at = nil, 0, 0
  local function byte()
    if at >= length then return 0 end
    at = at + 1
    return program[at - 1]
  end

  local function make(name)
    return function(self, ...)
      made = made + 1
      if made < MOST_MADE then return worker[name](self, ...) end
    end
  end

  local odd = {
    0, 1, -1, 2, 31, 32, 63, 64, 127, 255, 256, 257, 300, 511, 65535, 65536, 1e6, 2 ^ 31 - 1, 2 ^ 31, 2 ^ 32 - 1, 2 ^ 32, 2 ^ 53,
    -2 ^ 31, -2 ^ 53, 1e300, 0 / 0, 1 / 0, -1 / 0, 0.5, 1.5, -0.5, 255.5, true, false, "", "p0", "p1", "a\0b", ("x"):rep(300), "7",
    {}, function() end, 5LL, -1LL, 0xffffffffffffffffULL, ffi.new("uint8_t", 7), worker,
  }
  local kinds = {
    B = function(n) return batches[n % 4 + 1] end,
    M = function(n) return masks[n % 4 + 1] end,
    G = function(n) return gathers[n % 2 + 1] end,
    W = function() return worker end,
    N = function(n) return n end,
    L = function(n) return n * 257 end,
    S = function(n) return ({ "p0", "p1", "fuzz", "name", "" })[n % 5 + 1] end,
  }
  local function argument(kind)
    local n = byte()
    if n >= 200 then
      n = byte()
      -- Beyond the table there is nil.
      return odd[n % (#odd + 4) + 1]
    end
    return kinds[kind](n)
  end

  local calls = {}
  local function call(f, kinds) calls[#calls + 1] = { f, kinds } end
  for _, name in ipairs { "classify", "filter", "urpf", "multicast", "mtu", "redirect", "apply", "distribute" } do
    call(m[name], { "B", "M", "M" })
  end
  for _, name in ipairs { "ipv4_valid", "ipv6_valid", "ipv4_lookup", "ipv6_lookup", "ttl", "hop_limit", "count" } do
    call(m[name], { "B", "M" })
  end
  call(m.drop, { "B", "M", "L" })
  call(m.punt, { "B", "M", "L" })
  call(m.move, { "B", "M", "B" })
  call(m.copy, { "B", "M", "B" })
  for _, name in ipairs { "push", "pull", "resize" } do call(m[name], { "B", "N", "L" }) end
  call(m.now, {})
  call(m.reason, { "S", "S", "N" })
  call(m.port, { "S" })
  for _, name in ipairs { "has", "set", "clear" } do
    call(function(mask, ...) return mask[name](mask, ...) end, { "M", "N" })
  end
  for _, name in ipairs { "assign", "remove", "add", "keep" } do
    call(function(mask, ...) return mask[name](mask, ...) end, { "M", "M" })
  end
  for _, name in ipairs { "empty", "count", "zero" } do call(function(mask) return mask[name](mask) end, { "M" }) end
  -- The masks that packets are in.
  for _ = 1, 4 do call(function(mask, burst) return mask:assign(burst.live) end, { "M", "B" }) end
  for _ = 1, 6 do call(function(burst) return worker:receive(2, burst) end, { "B" }) end
  call(worker.receive, { "W", "N", "B" })
  call(worker.running, { "W" })
  call(worker.housekeeping, { "W" })
  call(make("batch"), { "W" })
  call(make("mask"), { "W" })
  call(make("gather"), { "W", "L", "L" })
  call(function(gather, ...) return gather.add(gather, ...) end, { "G", "B", "M" })
  call(function(gather) return gather.ready(gather) end, { "G" })
  for _, name in ipairs { "ethernet", "ipv4", "ipv6", "arp", "udp", "tcp", "icmp" } do
    local view = packet[name]
    call(function(burst, slot)
      local header = view(burst, slot)
      -- It is looked at: a pointer to nowhere is found.
      return header ~= nil and ffi.string(header, ffi.sizeof(header[0]))
    end, { "B", "N" })
  end
  call(packet.ntohs, { "L" })
  call(packet.ntohl, { "L" })
  for _, field in ipairs { "out_port", "interface", "l3", "flags", "next_hop", "hash", "time" } do
    call(function(burst, slot, value)
      -- An array of C has no bounds: that a slot is one is for scripts to see to.
      if type(slot) == "number" and slot >= 0 and slot < 256 then burst[field][slot] = value end
    end, { "B", "N", "L" })
  end

  local function run(f, kinds)
    local a, b, c
    if kinds[1] then a = argument(kinds[1]) end
    if kinds[2] then b = argument(kinds[2]) end
    if kinds[3] then c = argument(kinds[3]) end
    local ok, why = pcall(f, a, b, c)
    if not ok and (type(why) ~= "string" or why == "" or why:find("no failure", 1, true)) then
      error("failed without saying why: " .. tostring(why))
    end
  end

  local function clean()
    for i = 1, 4 do
      all:assign(batches[i].live)
      m.drop(batches[i], all, GONE)
    end
    -- Their time is up at once, but a burst of them may be too many for one.
    for i = 1, 2 do
      local gathered = gathers[i]:ready()
      if gathered then
        all:assign(gathered.live)
        m.drop(gathered, all, GONE)
      end
    end
    for i = 1, 4 do masks[i]:zero() end
  end

  while worker:running() do
    if worker:receive(1, inbox) > 0 then
      program, length, at = inbox.data[0], inbox.length[0], 0
      while at < length do
        local chosen = calls[byte() % #calls + 1]
        run(chosen[1], chosen[2])
      end
      clean()
      all:assign(inbox.live)
      m.punt(inbox, all, DONE)
    end
    worker:housekeeping()
    -- A round without packets sends what waits.
    worker:housekeeping()
  end
end
