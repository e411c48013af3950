-- SPDX-License-Identifier: MIT
-- core.auditlog: a log of what the compiler does, as a text file: which code became a trace, and why other code did not. A line
-- for each event, seconds of the monotonic clock first:
--
--     12.345678 start 17 at apps/basic/basic_apps.lua:91 from 12/3
--     12.345912 stop 17: loop, 84 instructions, 612 bytes
--     12.401377 abort 18 at lib/pcap.lua:20: NYI: bytecode 51
--     12.402001 flush
--
-- A trace "from 12/3" begins at exit 3 of trace 12; "stop" says what follows it (`loop`; `root`, `stitch` or `side` and the
-- number of the trace). Where it grows beyond a megabyte the log ends, with a line that says so.
--
-- Differs from Snabb: RaptorJIT's log is binary, for its Studio, and always on; this one is written from `start` on. LuaJIT tells one
-- listener at a time: `snsh -j v` and `-j dump` end the log.

local ffi = require("ffi")
local C = ffi.C
local jit = require("jit")
local util = require("jit.util")
local vmdef = require("jit.vmdef")
require("core.lib_h")

local M = {}

--- Bytes at which the log ends.
M.limit = 2^20

local file, written

local function place (func, pc)
   local info = util.funcinfo(func, pc)
   if info.loc then return (info.loc:gsub("^@", "")) end
   if info.ffid then return vmdef.ffnames[info.ffid] or "a C function" end
   return info.addr and ("C:%x"):format(info.addr) or "?"
end

local function reason (code, info)
   if type(code) ~= "number" then return tostring(code) end
   if type(info) == "function" then info = place(info) end
   local format = vmdef.traceerr[code] or "error "..code
   local ok, text = pcall(string.format, format, info)
   return ok and text or format
end

local function write (format, ...)
   local line = ("%.6f "..format.."\n"):format(C.get_monotonic_time(), ...)
   written = written + #line
   if written > M.limit then
      file:write("the log ends here: it has a megabyte\n")
      M.stop()
   else
      file:write(line)
   end
end

-- LuaJIT's events: jit.attach(f, "trace").
local function listen (what, trace, func, pc, other, exit)
   if not file then return end
   if what == "start" then
      local from = other and other > 0 and (" from %d/%d"):format(other, exit) or ""
      write("start %d at %s%s", trace, place(func, pc), from)
   elseif what == "stop" then
      local info, code = util.traceinfo(trace), util.tracemc(trace)
      local to = info.link ~= 0 and info.link ~= trace and " to "..info.link or ""
      write("stop %d: %s%s, %d instructions, %d bytes", trace, info.linktype, to, info.nins, code and #code or 0)
   elseif what == "abort" then
      write("abort %d at %s: %s", trace, place(func, pc), reason(other, exit))
   elseif what == "flush" then
      write("flush")
   end
end

--- Starts the log in the file *path*, which is made anew; one that is being written ends.
function M.start (path)
   local new, why = io.open(path, "w")
   if not new then error("audit log: "..why, 0) end
   M.stop()
   new:setvbuf("line")
   file, written = new, 0
   jit.attach(listen, "trace")
end

--- Ends the log.
function M.stop ()
   if not file then return end
   jit.attach(listen)
   file:close()
   file = nil
end

function M.selftest ()
   local name = os.tmpname()
   M.start(name)
   local function sum (n)
      local s = 0
      for i = 1, n do s = s + i % 7 end
      return s
   end
   jit.flush()
   for _ = 1, 100 do sum(100) end
   -- A closure made in a loop cannot be compiled.
   local f
   for i = 1, 1000 do f = function () return i end end
   assert(f() == 1000)
   M.stop()
   local text = io.open(name):read("*a")
   assert(text:match("%d+%.%d+ flush\n") and text:match("\n%d+%.%d+ start %d+ at [^\n]*auditlog.lua:%d+\n"), text)
   assert(text:match("\n%d+%.%d+ stop %d+: loop, %d+ instructions, %d+ bytes\n"), text)
   assert(text:match("\n%d+%.%d+ abort %d+ at [^\n]*auditlog.lua:%d+: NYI: [^\n]*\n"), text)
   local limit = M.limit
   M.limit = 200
   M.start(name)
   for _ = 1, 20 do listen("flush") end
   M.limit = limit
   text = io.open(name):read("*a")
   assert(not file and #text < 300 and text:match("the log ends here"), text)
   local ok, why = pcall(M.start, "/nowhere/audit.log")
   assert(not ok and why:match("^audit log: /nowhere"))
   os.remove(name)
   local engine, path = require("core.app"), require("core.shm").path("audit.log")
   engine.enable_auditlog()
   jit.flush()
   M.stop()
   assert(engine.auditlog_enabled and io.open(path):read("*a"):match("flush"))
end

return M
