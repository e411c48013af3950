-- SPDX-License-Identifier: MIT
-- core.timeline: a log of events in a ring in shared memory, to be read while the program runs or afterwards. The API
-- is Snabb's.
--
-- Layout: a header of 64 bytes; entries of 64 bytes (time, index of the message in the string table, core, six
-- arguments); the string table. Each message is stored once, as "level,rate|category name: arguments" and a
-- description in further lines. An event is logged if its rate is at least the timeline's: rates go from 0 (never) to
-- 9 (always), and `sample` picks the timeline's rate at random, so that a sample of rare and of frequent events is
-- in the log.
--
-- The events of a module stand in a text: for each, `level,rate|name: argument argument` and, in further lines, what it
-- means. `load_events(timeline, "apps.my.app")` takes it from the Lua module "apps.my.app_events", which returns the
-- text, or from a file apps/my/app.events on package.path.
--
-- Differs from Snabb: times are nanoseconds of the wall clock instead of cycles of the CPU; loggers are compiled by
-- LuaJIT instead of assembled. Logging is for one writer.

local ffi = require("ffi")
local bit = require("bit")
local shm = require("core.shm")
require("core.lib_h")
local C = ffi.C

local M = {}

ffi.cdef[[
struct perigee_timeline_entry {
   double time;
   uint32_t message;
   uint16_t core, reserved;
   double argument[6];
};
struct perigee_timeline_header {
   uint64_t magic;
   uint16_t major_version, minor_version;
   uint32_t entries, strings;
   uint32_t next;
   uint32_t rate, priority_mask;
   uint8_t pad[32];
};
]]
local MAGIC, MAJOR, MINOR = 0xa3ff7223441d0003ULL, 3, 0
local HEADER, ENTRY, ARGUMENTS = 64, 64, 6
assert(ffi.sizeof("struct perigee_timeline_header") == HEADER and ffi.sizeof("struct perigee_timeline_entry") == ENTRY)
local header_ptr = ffi.typeof("struct perigee_timeline_header *")
local entry_ptr = ffi.typeof("struct perigee_timeline_entry *")

-- What `define` takes as priority, and the rate that it stands for.
local priorities = {fatal = 9, error = 8, warning = 7, info = 6, debug = 5, trace = 4, app = 3, packet = 2, library = 1,
                    ["trace+"] = 3, ["trace++"] = 2, ["trace+++"] = 1}

local function is_power_of_2 (n)
   return n >= 1 and n <= 2^24 and n % 1 == 0 and bit.band(n, n - 1) == 0
end

--- A timeline in shared memory under *name*, with *entries* entries (a power of 2, 2^20 if omitted) and *strings*
--- bytes for messages (10^6 if omitted). All rates are logged until `rate` is called.
function M.new (name, entries, strings)
   entries, strings = entries or 2^20, strings or 1000000
   if not is_power_of_2(entries) then
      error("timeline: the number of entries must be a power of 2 up to 2^24, not "..tostring(entries), 2)
   end
   local memory = shm.create(name, "uint8_t[?]", HEADER + entries * ENTRY + strings)
   local bytes = ffi.cast("uint8_t *", memory)
   local header = ffi.cast(header_ptr, bytes)
   header.major_version, header.minor_version = MAJOR, MINOR
   header.entries, header.strings, header.next = entries, strings, 0
   header.rate, header.priority_mask = 1, 0xffffffff
   header.magic = MAGIC
   return {sample = M.sample, name = name, memory = memory, header = header, entries = entries, ring = ffi.cast(entry_ptr, bytes + HEADER),
           size = HEADER + entries * ENTRY + strings, strings = bytes + HEADER + entries * ENTRY, position = 0,
           known = {}}
end

local function intern (timeline, text)
   local known = timeline.known[text]
   if known then return known end
   local position = timeline.position
   if position + #text + 1 > timeline.header.strings then
      error("timeline: the messages do not fit into "..timeline.header.strings.." bytes", 3)
   end
   ffi.copy(timeline.strings + position, text)
   timeline.position, timeline.known[text] = position + #text + 1, position
   return position
end

-- A function that logs a message. The check comes first and is all that an event costs that is not logged.
local function logger (timeline, message, rate, level, count)
   local header, ring, mask = timeline.header, timeline.ring, timeline.entries - 1
   local level_bit = bit.lshift(1, level)
   local get_time_ns = C.get_time_ns
   return function (...)
      if header.rate > rate or header.rate == 0 or bit.band(header.priority_mask, level_bit) == 0 then return end
      local a, b, c, d, e, f = ...
      local next = header.next
      local entry = ring[next]
      local argument = entry.argument
      entry.time = tonumber(get_time_ns())
      entry.message = message
      argument[0], argument[1], argument[2] = count > 0 and a or 0, count > 1 and b or 0, count > 2 and c or 0
      argument[3], argument[4], argument[5] = count > 3 and d or 0, count > 4 and e or 0, count > 5 and f or 0
      header.next = bit.band(next + 1, mask)
   end
end

local function check_count (count, what)
   if count > ARGUMENTS then
      error(("timeline: %s has %d arguments, at most %d are logged"):format(what, count, ARGUMENTS), 3)
   end
end

--- Define an event. *priority* is "error", "warning", "info", "trace", "app", "packet", "library", or a rate from 0
--- to 9; words of *message*'s first line that begin with "$" are the arguments (at most six). Returns the function
--- that logs it.
function M.define (timeline, category, priority, message)
   local rate = type(priority) == "number" and priority or priorities[priority]
   if not rate then error("timeline: unrecognized priority: "..tostring(priority), 2) end
   local count = 0
   for _ in message:match("^[^\n]*"):gmatch("%$%w+") do count = count + 1 end
   check_count(count, "the event '"..message.."'")
   return logger(timeline, intern(timeline, ("0,%d|%s %s"):format(rate, category, message)), rate, 0, count)
end

-- The first line of an event.
local EVENT = "^(%d+),(%d+)|([%w_]+):(.*)$"

local function read_spec (path)
   local name = path.."_events"
   local ok, spec = pcall(require, name)
   if ok then return spec end
   if not tostring(spec):find("module '"..name.."' not found", 1, true) then error(spec, 0) end
   for template in package.path:gmatch("[^;]+") do
      local file = io.open((template:gsub("%?", (path:gsub("%.", "/"))):gsub("%.lua$", ".events")))
      if file then
         spec = file:read("*a")
         file:close()
         return spec
      end
   end
   error(("timeline: no events for %s: neither a module %s nor a file %s.events"):format(path, name,
         (path:gsub("%.", "/"))), 3)
end

--- Define the events of *spec*, a text as described above. Returns a table of logging functions by name.
function M.parse_events (timeline, category, spec)
   local events, block = {}, {}
   local function finish ()
      if #block == 0 then return end
      local level, rate, name, arguments = block[1]:match(EVENT)
      local count = 0
      arguments = arguments:gsub("%s*(%S+)%s*", function (argument)
         count = count + 1
         return " $"..argument
      end)
      check_count(count, "the event '"..name.."'")
      local first = ("%d,%d|%s %s:%s"):format(level, rate, category, name, arguments)
      local message = intern(timeline, first.."\n"..(table.concat(block, "\n", 2):gsub("%s+$", "")))
      events[name] = logger(timeline, message, tonumber(rate), tonumber(level) % 32, count)
      block = {}
   end
   for line in (spec:gsub("\r", "").."\n"):gmatch("([^\n]*)\n") do
      if line:match(EVENT) then
         finish()
      elseif #block == 0 and line:match("%S") then
         error("timeline: expected 'level,rate|name: arguments', not '"..line.."'", 2)
      end
      if #block > 0 or line:match(EVENT) then block[#block + 1] = line end
   end
   finish()
   return events
end

--- Define the events of a module. *category* is what they are logged under, the module's name if omitted; a table is
--- a set of substitutions, whose values are appended to it ({app = "nic"}: "core.app nic"). Returns a table of
--- logging functions by name. Errors if the module has no events.
function M.load_events (timeline, path, category)
   if type(category) == "table" then
      local keys = {}
      for key in pairs(category) do keys[#keys + 1] = key end
      table.sort(keys)
      local parts = {path}
      for i, key in ipairs(keys) do parts[i + 1] = tostring(category[key]) end
      category = table.concat(parts, "/")
   end
   return M.parse_events(timeline, category or path, read_spec(path))
end

--- Log events of this rate (1 to 9) and above from now on; 0 logs none.
function M.rate (timeline, rate)
   timeline.header.rate = rate
end

--- Log events of this priority and above: "all", "none" or a priority of `define`.
function M.priority (timeline, priority)
   local rate = priority == "all" and 1 or priority == "none" and 0 or priorities[priority]
   if not rate then error("timeline: unrecognized priority: "..tostring(priority), 2) end
   timeline.header.rate = rate
end

-- A sequence of its own, as programs may rely on theirs (math.randomseed): xorshift32.
local random = 2463534242
local tobit, bxor, lshift, rshift = bit.tobit, bit.bxor, bit.lshift, bit.rshift
local RANGE = 2^31

--- Choose the timeline's rate at random: 9 in four of five cases, 8 in four of five of the others, and so on down to 1. So rare
--- events, whose rate is high, are always logged, and frequent ones now and then.
function M.sample (timeline)
   local x = tobit(random)
   x = bxor(x, lshift(x, 13))
   x = bxor(x, rshift(x, 17))
   x = bxor(x, lshift(x, 5))
   random = x
   local rate, left = 9, rshift(x, 1)
   while left < RANGE / 5 and rate > 1 do
      rate, left = rate - 1, left * 5
   end
   timeline.header.rate = rate
end

--- Write a copy of the timeline to a file. Returns true, or nil and the reason.
function M.save (timeline, filename)
   local file, why = io.open(filename, "wb")
   if not file then return nil, why end
   file:write(ffi.string(timeline.memory, timeline.size))
   file:close()
   return true
end

-- The events of a log in memory, newest first, as {time, category, text with arguments filled in}.
local function decode (bytes, size, limit)
   local header = ffi.cast(header_ptr, bytes)
   if size < HEADER or header.magic ~= MAGIC or header.major_version ~= MAJOR then return nil, "not a timeline" end
   local entries, strings = tonumber(header.entries), tonumber(header.strings)
   if not is_power_of_2(entries) or size < HEADER + entries * ENTRY + strings then
      return nil, "a truncated timeline"
   end
   local ring, text = ffi.cast(entry_ptr, bytes + HEADER), bytes + HEADER + entries * ENTRY
   local list, index = {}, bit.band(header.next - 1, entries - 1)
   for _ = 1, math.min(limit or entries, entries) do
      local entry = ring[index]
      if entry.time == 0 or entry.message >= strings then break end
      local raw = ffi.string(text + entry.message, strings - entry.message):match("^%Z*")
      local category, line = raw:match("^%d+,%d+|(%S*) ([^\n]*)")
      local i = -1
      line = (line or "?"):gsub("%$(%w+)", function (name)
         i = i + 1
         return i < ARGUMENTS and ("%s(%.14g)"):format(name, entry.argument[i]) or name
      end)
      list[#list + 1] = {time = entry.time, category = category or "?", text = line}
      index = bit.band(index - 1, entries - 1)
   end
   return list
end

--- The events in a timeline of this process, or in a file (a path), newest first, at most *limit*: an array of {time =
--- (nanoseconds since 1970), category =, text =}. nil and the reason if the file is not a timeline.
function M.events (source, limit)
   if type(source) == "table" then
      return decode(ffi.cast("uint8_t *", source.memory), source.size, limit)
   end
   local file, why = io.open(source, "rb")
   if not file then return nil, why end
   local content = file:read("*a")
   file:close()
   return decode(ffi.cast("const uint8_t *", content), #content, limit)
end

--- Print a timeline (as in `events`), newest first, at most *limit* events: the nanoseconds to the event before, the
--- category, the message. Returns true, or nil and the reason.
function M.dump (source, limit)
   local list, why = M.events(source, limit)
   if not list then return nil, why end
   print(("%14s %-20s %s"):format("-ns", "category", "message"))
   for i, event in ipairs(list) do
      local older = list[i + 1]
      local gap = older and ("%.0f"):format(event.time - older.time) or ""
      print(("%14s %-20s %s"):format(gap, event.category, event.text))
   end
   return true
end

shm.register("timeline", {type = "timeline", open = function (name, readonly)
   local header = shm.open(name, "struct { uint64_t magic; uint8_t rest[?]; }", readonly, HEADER - 8)
   return header
end})

local function test_specs (tl)
   local events = M.parse_events(tl, "test", [[
1,5|first: a b
Two arguments.
Two lines.

2 lines.

2,9|second:
None.

3,2|third:   x
]])
   local names = {}
   for name in pairs(events) do names[#names + 1] = name end
   table.sort(names)
   assert(table.concat(names, " ") == "first second third")
   events.first(7, 8); events.second(1); events.third(2.5)
   local list = M.events(tl, 3)
   assert(list[3].text == "first: a(7) b(8)" and list[2].text == "second:" and list[1].text == "third: x(2.5)")
   assert(list[1].category == "test" and list[1].time >= list[3].time)
   M.rate(tl, 5)
   local next = tl.header.next
   events.third(1)
   assert(tl.header.next == next)
   events.first(1, 2); events.second()
   assert(tl.header.next == (next + 2) % tl.entries)
   -- Rates chosen at random: each a fifth as often as the next.
   local seen = {}
   for _ = 1, 20000 do
      tl:sample()
      local rate = tonumber(tl.header.rate)
      seen[rate] = (seen[rate] or 0) + 1
   end
   assert(seen[9] > 15000 and seen[9] < 17000 and seen[8] > 2500 and seen[8] < 4000 and seen[7] > 400 and seen[7] < 900)
   for rate in pairs(seen) do assert(rate >= 1 and rate <= 9) end
   M.rate(tl, 0)
   events.second()
   assert(tl.header.next == (next + 2) % tl.entries)
   M.rate(tl, 1)
   for _, path in ipairs{"core.engine", "core.app", "core.packet"} do
      local loaded = M.load_events(tl, path)
      assert(loaded.engine_started or loaded.pull or loaded.packet_allocated)
   end
   M.load_events(tl, "core.app", {app = "nic"}).push(1, 2, 3, 4, 5, 6)
   local event = M.events(tl, 1)[1]
   assert(event.category == "core.app/nic" and event.text ==
          "push: inpackets(1) inbytes(2) outpackets(3) outbytes(4) droppackets(5) dropbytes(6)")
   assert(not pcall(M.load_events, tl, "core.no_such"))
   for _, bad in ipairs{"1,1|x: a b c d e f g\n", "x: a\n", "1|x: a", "text\n1,1|x: a"} do
      assert(not pcall(M.parse_events, tl, "test", bad))
   end
end

function M.selftest ()
   local tl = M.new("selftest.timeline/a.timeline", 64, 10000)
   local four = M.define(tl, "selftest", "trace", "four: $i, $j2, $k, and $l\nMore about it, for $5.")
   local none = M.define(tl, "selftest", "info", "none")
   for i = 1, 100 do four(i, 2 * i, 3 * i, 4 * i); none() end
   local list = M.events(tl)
   assert(#list == 64 and list[1].text == "none" and list[2].text == "four: i(100), j2(200), k(300), and l(400)")
   assert(list[64].text == "four: i(69), j2(138), k(207), and l(276)")
   for i = 2, 64 do assert(list[i].time <= list[i - 1].time) end
   local packet = M.define(tl, "selftest", "packet", "packet")
   local function logged (event)
      local before = tl.header.next
      event()
      return tl.header.next ~= before
   end
   for level, expected in pairs{all = "111", library = "111", app = "110", info = "100", none = "000"} do
      M.priority(tl, level)
      local got = ""
      for _, event in ipairs{none, M.define(tl, "selftest", "trace", "t"), packet} do
         got = got..(logged(event) and 1 or 0)
      end
      assert(got == expected, level)
   end
   M.priority(tl, "all")
   test_specs(tl)
   -- Files: what was saved, what is cut off, what is something else.
   local file = os.tmpname()
   assert(M.save(tl, file) and #M.events(file) == 64 and M.events(file)[1].text == M.events(tl)[1].text)
   local out = io.open(file, "wb")
   out:write(ffi.string(tl.memory, 1000)); out:close()
   assert(not M.events(file) and not M.dump(file))
   out = io.open(file, "wb")
   out:write(("x"):rep(100)); out:close()
   assert(not M.events(file) and not M.save(tl, "/none/such"))
   os.remove(file)
   assert(not M.events(file))
   for _, bad in ipairs{3, 0, 2^25, 1.5} do assert(not pcall(M.new, "selftest.timeline/b", bad)) end
   assert(not pcall(M.define, tl, "x", "often", "m") and not pcall(M.priority, tl, "often"))
   assert(not pcall(M.define, tl, "x", "info", "$a $b $c $d $e $f $g"))
   assert(not pcall(M.define, tl, "x", "info", ("long"):rep(10000)))
   shm.unlink("selftest.timeline")
end

return M
