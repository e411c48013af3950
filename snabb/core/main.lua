-- SPDX-License-Identifier: MIT
-- core.main: finds a program, runs it, and ends the process. The API is Snabb's.
--
-- Differs from Snabb: a program may also be a single file anywhere (a name with a slash or ending in .lua).

local ffi = require("ffi")
local native = require("core.native")
local shm = require("core.shm")

local M = {}

--- The program's module, and its file if it is one.
M.program_name, M.program_file = false, false
--- The program's arguments.
M.parameters = {}

local cleaned = false

--- End the process with an exit code (0 if omitted), after giving back what it holds.
function M.exit (code)
   io.stdout:flush()
   -- Another thread's app asks the program's own to end.
   if native.thread ~= 1 then native.exit(code or 0) end
   if not cleaned then
      cleaned = true
      if native.auto then pcall(require("core.auto").keep) end
      pcall(shm.cleanup)
   end
   native.exit(code or 0)
end

--- A function that is called before the user's Ctrl-C (or a SIGTERM) ends the process, to say what was done; or false.
M.at_interrupt = false

--- The user wants it to end (Ctrl-C, SIGTERM).
function M.interrupted ()
   local last_words = M.at_interrupt
   M.at_interrupt = false
   if last_words then pcall(last_words) end
   -- 128 and the signal's number.
   M.exit(ffi.C.perigee_snabb_load(ffi.cast("const int32_t *", native.interrupted)))
end

--- Print an error with its traceback and end the process with code 1.
function M.fail (reason)
   io.stdout:flush()
   io.stderr:write(tostring(reason), "\n")
   M.exit(1)
end

--- The error handler that Snabb's programs install.
function M.handler (reason)
   M.fail(debug.traceback(tostring(reason), 2))
end

-- Perigee's own programs raise errors that the user has to correct without a place in a source file: they are printed as they
-- are. If something else fails, and in programs of the user's own, the traceback helps.
local function with_traceback (reason)
   reason = tostring(reason)
   local text = reason:match("^(.-)\nstack traceback:") or reason
   local own = M.program_name and not M.program_file and not native.tree
   if own and not rawget(_G, "developer_debug") and not text:match("^%S+:%d+: ") then return text end
   return debug.traceback(reason, 2)
end

local function exists (name)
   local file = io.open(name, "rb")
   if file then file:close() end
   return file ~= nil
end

-- A program in a file of its own: its folder is searched by require.
local function program_of_file (path)
   local folder, name = path:match("^(.*)/([^/]*)$")
   folder, name = folder or ".", (name or path):gsub("%.lua$", "")
   package.path = folder.."/?.lua;"..package.path
   M.program_file = path
   local chunk, why = loadfile(path)
   if not chunk then error(why, 0) end
   local module = "program."..name:gsub("%-", "_").."."..name:gsub("%-", "_")
   package.preload[module] = chunk
   return module
end

--- The module of a program: its name with - as _, or a file.
function M.program_module (name)
   if name:match("/") or name:match("%.lua$") then
      if not exists(name) then error("there is no file "..name, 0) end
      return program_of_file(name)
   end
   name = name:gsub("%-", "_")
   if not name:match("^[%w_]+$") then error("bad name of a program: "..name, 0) end
   return "program."..name.."."..name
end

local function find_program (name)
   local module = M.program_module(name)
   M.program_name = module
   local ok, result = pcall(require, module)
   if ok then
      result = type(result) == "table" and result or package.loaded[module]
      if type(result) ~= "table" or not result.run then
         error(name..": expected a module with a function run(args)", 0)
      end
      return result
   end
   if tostring(result):match("module '"..module.."' not found") then
      error("unknown program: "..name..". There are: "..table.concat(native.programs(), ", ")..
               "; or give a file, such as ./my.lua", 0)
   end
   error(result, 0)
end

--- Run a program: args[1] is its name or file, the others are its arguments. Returns an exit code.
function M.run (args)
   local code = require("core.worker").is_worker() and os.getenv("SNABB_PROGRAM_LUACODE")
   if code then
      -- A worker process (core.worker): what it is to do is in the environment.
      local chunk, why = loadstring(code, "=worker")
      if not chunk then error(why, 0) end
      chunk()
      return M.exit(0)
   end
   local ok, program = pcall(find_program, args[1])
   if not ok then
      M.fail("perigee snabb: "..tostring(program))
   end
   M.parameters = {unpack(args, 2)}
   local done, result = xpcall(program.run, with_traceback, M.parameters)
   if not done then M.fail(result) end
   M.exit(0)
end

--- Run the selftest of a module: args[1].
function M.test (args)
   local name = args[1]
   local done, result = xpcall(function ()
      local module = require(name)
      -- A module that was made with package.seeall has the strict globals behind its own fields.
      local ok, selftest = pcall(function () return module.selftest end)
      if not ok or not selftest then error(name.." has no selftest", 0) end
      selftest()
   end, function (reason) return debug.traceback(tostring(reason), 2) end)
   if not done then M.fail(result) end
   M.exit(0)
end

-- What a program finds without asking for it (see core.boot).
local function test_surroundings ()
   for _, name in ipairs{"config", "engine", "memory", "link", "packet", "timer", "main", "subClass"} do
      assert(rawget(_G, name), name)
   end
   local ok, why = pcall(assert, nil)
   assert(not ok and tostring(why):match("assertion failed!"))
   ok, why = pcall(assert, false, setmetatable({}, {__tostring = function () return "an object" end}))
   assert(not ok and why == "an object")
   require("jit.vmprofile").start()
   jit.vmprofile.stop()
   local log = os.tmpname()
   jit.auditlog(log)
   require("core.auditlog").stop()
   os.remove(log)
   -- Functions that programs call without a declaration of their own.
   local C, address, text = ffi.C, ffi.new("uint8_t[16]"), ffi.new("char[48]")
   assert(C.inet_pton(10, "2001:db8::1", address) == 1 and address[15] == 1)
   assert(ffi.string(C.inet_ntop(10, address, text, 48)) == "2001:db8::1")
   assert(C.ntohs(C.htons(0x1234)) == 0x1234 and C.ntohl(C.htonl(0x12345678)) == 0x12345678)
   assert(C.memcmp("ab", "ab", 2) == 0 and C.strncasecmp("AB", "ab", 2) == 0)
   C.nop()
   C.prefetch_for_read(address)
   C.sleep_ns(1)
   assert(C.stat_mtime("/proc/self/exe") > 1e9 and C.stat_mtime("/nowhere") == 0)
   assert(C.ualarm(900000, 0) == 0 and C.ualarm(0, 0) > 0)
   C.full_memory_barrier()
end

-- A wrong file name given to a program ended in a traceback.
local function test_traceback ()
   local name, file, debugging = M.program_name, M.program_file, rawget(_G, "developer_debug")
   M.program_name, M.program_file = "program.dump.dump", false
   rawset(_G, "developer_debug", false)
   local plain = not native.tree
   assert((with_traceback("there is no file x") == "there is no file x") == plain)
   assert((with_traceback("x: damaged\nstack traceback:\n\tf") == "x: damaged") == plain)
   assert(with_traceback("snabb/program/x.lua:7: attempt to call nil"):match("\nstack traceback:"))
   M.program_file = "my.lua"
   assert(with_traceback("there is no file x"):match("\nstack traceback:"))
   M.program_name, M.program_file = name, file
   rawset(_G, "developer_debug", debugging)
end

local function test_interrupt ()
   local exit, said, code = M.exit, 0, nil
   M.exit = function (status) code = status end
   M.at_interrupt = function () said = said + 1 error("must not keep it from ending") end
   M.interrupted()
   M.interrupted()
   M.exit = exit
   assert(said == 1 and code == 0 and not M.at_interrupt) -- there was no signal
end

function M.selftest ()
   test_surroundings()
   test_interrupt()
   test_traceback()
   assert(M.program_module("packet-blaster") == "program.packet_blaster.packet_blaster")
   assert(not pcall(M.program_module, "../x") and not pcall(M.program_module, "a b"))
   local name = os.tmpname()
   local file = assert(io.open(name..".lua", "w"))
   file:write("return {run = function (args) return #args end}")
   file:close()
   local module = M.program_module(name..".lua")
   assert(require(module).run{1, 2} == 2)
   os.remove(name..".lua")
   os.remove(name)
   assert(ffi.abi("64bit"))
end

return M
