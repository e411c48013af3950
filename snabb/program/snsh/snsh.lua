-- SPDX-License-Identifier: MIT
-- program.snsh: the Snabb shell, which runs Lua code with Snabb's modules.
--
-- Differs from Snabb: an error in CODE or SCRIPT ends the shell with exit code 1 and a traceback; the interactive
-- shell prints expressions and reads statements of several lines; -j off, -j on, --profile; a profiler also without
-- LuaJIT's jit.p.

local lib = require("core.lib")
local sys = require("core.sys")

local M = {}

local long_options = {eval = "e", load = "l", test = "t", interactive = "i", debug = "d", jit = "j", help = "h",
                      ["package-path"] = "P", profile = 0}

local function usage (code)
   print(require("program.snsh.README_inc"))
   main.exit(code)
end

local function not_empty (text)
   return text ~= "" and text or nil
end

-- What -j p started, to be stopped at the end.
local profiler

local function start_profiler (options, file)
   if profiler then error("-j p: the profiler runs already", 0) end
   local ok, module = pcall(require, "jit.p")
   profiler = ok and module or require("program.snsh.profile")
   profiler.start(options, file)
end

local function stop_profiler ()
   if profiler then profiler.stop() end
   profiler = nil
end

local function lua_jit_module (name)
   local ok, module = pcall(require, name)
   if not ok then
      error("-j: LuaJIT's module "..name.." is not on package.path (see -P); it is part of LuaJIT's Lua files", 0)
   end
   return module
end

local function jit_command (arg)
   local command, rest = arg:match("^(%w+)=?(.*)$")
   if not command then error("-j: expected a command, not '"..arg.."'", 0) end
   local options, file = rest:match("^([^,]*),?(.*)$")
   if command == "v" then
      lua_jit_module("jit.v").start(not_empty(rest))
   elseif command == "dump" then
      lua_jit_module("jit.dump").on(not_empty(options), not_empty(file))
   elseif command == "p" or command == "tprof" then
      start_profiler(not_empty(options), not_empty(file))
   elseif command == "off" then
      jit.off()
   elseif command == "on" then
      jit.on()
   else
      error("-j: unknown command '"..arg.."': expected v, dump, p, tprof, off or on", 0)
   end
end

local function run_script (args)
   local script = table.remove(args, 1)
   local chunk, why = loadfile(script)
   if not chunk then error(why, 0) end
   main.parameters = args
   rawset(_G, "arg", {[0] = script, unpack(args)})
   chunk(unpack(args))
end

-- The function that a text stands for: an expression (its values are printed), or a statement. The second result is
-- true if the text is only the beginning of a statement.
local function compile (text)
   local expression = text:match("^%s*=(.*)$") or text
   local chunk = loadstring("return "..expression, "=stdin")
   if chunk then return chunk end
   local statement, why = loadstring(text, "=stdin")
   if statement then return statement end
   return nil, why:match("'<eof>'") ~= nil, why
end

local function show (ok, ...)
   if not ok then return print("Error: "..tostring((...))) end
   if select("#", ...) > 0 then print(...) end
end

-- The traceback of an error, without the shell's own part.
local function trace (reason)
   return (debug.traceback(tostring(reason), 2):gsub("\n%s*%[C%]: in function 'xpcall'.*$", ""))
end

--- Read Lua from *input* (standard input if omitted) line by line and run it, until it ends. An error is printed and
--- the next line read.
function M.repl (input)
   input = input or io.stdin
   local prompts = sys.isatty(0) and input == io.stdin
   local text
   while true do
      if prompts then
         io.stdout:write(text and "    >> " or "Snabb> ")
         io.stdout:flush()
      end
      local line = input:read("*l")
      if not line then break end
      text = text and text.."\n"..line or line
      local chunk, unfinished, why = compile(text)
      if chunk then
         show(xpcall(chunk, trace))
         text = nil
      elseif not unfinished then
         print("Error: "..why)
         text = nil
      end
      io.stdout:flush()
   end
   if text then print("Error: unexpected end of input") end
   if prompts then io.stdout:write("\n") end
end

local function evaluate (code)
   local chunk, why = loadstring(code, "=(-e)")
   if not chunk then error(why, 0) end
   chunk()
end

--- Run the program: *args* are options, a script and its arguments.
function M.run (args)
   local nothing, interactive = true, false
   local handlers = {
      h = function () usage(0) end,
      d = function () rawset(_G, "developer_debug", true) end,
      P = function (arg) package.path = arg end,
      j = jit_command,
      profile = function () start_profiler() end,
      i = function () nothing, interactive = false, true end,
      e = function (arg)
         nothing = false
         evaluate(arg)
      end,
      l = function (arg)
         nothing = false
         require(arg)
      end,
      t = function (arg)
         nothing = false
         local module = require(arg)
         if type(module) ~= "table" or not module.selftest then error(arg.." has no selftest", 0) end
         module.selftest()
      end,
   }
   args = lib.dogetopt(args, handlers, "hdie:l:t:j:P:", long_options)
   if #args > 0 then
      run_script(args)
   elseif nothing then
      usage(1)
   end
   if interactive then M.repl() end
   stop_profiler()
end

-- What a function prints.
local function printed (fn, ...)
   local lines, print_ = {}, print
   rawset(_G, "print", function (...)
      local words = {}
      for i = 1, select("#", ...) do words[i] = tostring((select(i, ...))) end
      lines[#lines + 1] = table.concat(words, "\t")
   end)
   local ok, why = pcall(fn, ...)
   rawset(_G, "print", print_)
   if not ok then error(why, 0) end
   return table.concat(lines, "\n")
end

local function with_file (text, fn)
   local name = os.tmpname()
   local file = assert(io.open(name, "w"))
   file:write(text)
   file:close()
   local result = fn(name)
   os.remove(name)
   return result
end

local function test_repl ()
   local out = with_file([[
1 + 1
= "a", nil
local x = 5
for i = 1, 2 do
   print("loop", i)
end
error("oops")
this is wrong
nil
require("core.lib") ~= nil
(function () end)()
while]], function (name)
      local input = io.open(name)
      local text = printed(M.repl, input)
      input:close()
      return text
   end)
   out = out:gsub("\nstack traceback:.-\n(Error)", "\n%1")
   local lines = {}
   for line in out:gmatch("[^\n]+") do lines[#lines + 1] = line end
   local expected = {"2", "a\tnil", "loop\t1", "loop\t2", "Error: .*oops", "Error: .*'?=?'? ?expected near 'is'", "nil",
                     "true", "Error: unexpected end of input"}
   assert(#lines == #expected, out)
   for i, pattern in ipairs(expected) do assert(lines[i]:match("^"..pattern.."$"), lines[i]) end
end

local function test_scripts ()
   local text = [[
local a, b = ...
print(a, b, #main.parameters, main.parameters[2], arg[1])
]]
   local saved = main.parameters
   local had_arg = rawget(_G, "arg")
   local out = with_file(text, function (name)
      return printed(M.run, {"-e", "print('before')", name, "x", "-y"})
   end)
   assert(out == "before\nx\t-y\t2\t-y\tx", out)
   assert(not pcall(M.run, {"/none/such"}))
   with_file("error('in script')", function (name)
      local ok, why = pcall(M.run, {name})
      assert(not ok and why:match("in script"))
   end)
   main.parameters = saved
   rawset(_G, "arg", had_arg)
end

function M.selftest ()
   local exit_code = require("program.endpoint").exit_code
   -- Options work in order.
   package.loaded["selftest.snsh.module"] = nil
   package.preload["selftest.snsh.module"] = function ()
      print("loaded")
      return {selftest = function () print("tested") end}
   end
   local out = printed(M.run, {"-e", "print(1)", "-l", "selftest.snsh.module", "--eval", "print(2)", "-t",
                               "selftest.snsh.module", "-e", "local n = 3 print(n)"})
   assert(out == "1\nloaded\n2\ntested\n3", out)
   -- Errors reach the caller, who ends with 1; 43 goes through.
   for _, bad in ipairs{{"-e", "error('x')"}, {"-e", "not Lua"}, {"-l", "no.such"}, {"-t", "string"}, {"-j", "fly"},
                        {"-t", "no.such"}, {"-j", ""}} do
      assert(not pcall(M.run, bad), bad[2])
   end
   assert(exit_code(M.run, {"-e", "main.exit(43)"}) == 43)
   assert(exit_code(M.run, {"-h"}) == 0 and exit_code(M.run, {}) == 1)
   test_scripts()
   test_repl()
   -- LuaJIT.
   M.run({"-j", "off", "-e", "assert(not jit.status())", "-j", "on", "-e", "assert(jit.status())"})
   require("program.snsh.profile").selftest()
   with_file("", function (name)
      local ok, p = pcall(require, "jit.p")
      M.run({"-j", "p=fi1,"..name, "-e", "for i = 1, 1e6 do end"})
      if not (ok and p) then assert(io.open(name):read("*a"):match("samples")) end
   end)
   local path, debugging = package.path, rawget(_G, "developer_debug")
   M.run({"-P", "/x/?.lua", "-d", "-e", "assert(package.path == '/x/?.lua' and developer_debug)"})
   package.path = path
   rawset(_G, "developer_debug", debugging)
end

return M
