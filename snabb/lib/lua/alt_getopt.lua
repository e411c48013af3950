-- SPDX-License-Identifier: MIT
-- lib.lua.alt_getopt: command line options in the manner of getopt_long(3), without permutation: parsing stops at the
-- first argument that is not an option, at "-" and after "--".
--
-- Options are described by a string of letters, each followed by ":" if it takes a value ("hp:"), and a table of long
-- names: {help = "h", port = "p", verbose = 0, file = 1} (a string: the same as that option; 0: no value; 1: a value).
-- Forms: -h, -hv, -p 80, -p80, --help, --port 80, --port=80. A mistake ends the process with status 1 and a message.
--
-- What differs from Snabb: option letters may be any character but ":" and "-"; an alias that leads to itself is an
-- error.
local M = {}

local function fail(message)
   io.stderr:write(message, "\n")
   os.exit(1)
end

local function dashes(name)
   return (#name > 1 and "--" or "-")..name
end

local function describe(short_opts, long_opts)
   local options = {}
   for letter, colon in short_opts:gmatch("([^:%-])(:?)") do options[letter] = #colon end
   for name, what in pairs(long_opts or {}) do options[name] = what end
   return options
end

-- The name that `name` is an alias of, and whether it takes a value.
local function resolve(options, name)
   local hops = 0
   local what = options[name]
   while type(what) == "string" and hops < 100 do
      name, hops = what, hops + 1
      what = options[name]
   end
   if type(what) ~= "number" then fail("Unknown option `"..dashes(name).."'") end
   return name, what ~= 0
end

-- What get_ordered_opts has found so far.
local function found(result, name, value)
   result.count = result.count + 1
   result.names[result.count], result.values[result.count] = name, value
end

-- The argument after `args[i]`, the value of the option `shown`.
local function value_after(args, i, shown)
   if args[i + 1] == nil then fail("Missed value for option `"..shown.."'") end
   return args[i + 1]
end

-- `args[i]` is a long option: returns the index of the last argument that it uses.
local function long_option(args, i, options, result)
   local text = args[i]:sub(3)
   local equals = text:find("=", 1, true)
   local name, valued = resolve(options, equals and text:sub(1, equals - 1) or text)
   if equals then
      if not valued then fail("Bad usage of option `"..args[i].."'") end
      found(result, name, text:sub(equals + 1))
   elseif valued then
      found(result, name, value_after(args, i, args[i]))
      return i + 1
   else
      found(result, name)
   end
   return i
end

-- `args[i]` is a group of short options: returns the index of the last argument that it uses.
local function short_options(args, i, options, result)
   local text = args[i]
   for at = 2, #text do
      local name, valued = resolve(options, text:sub(at, at))
      if not valued then
         found(result, name)
      elseif at < #text then
         found(result, name, text:sub(at + 1))
         return i
      else
         found(result, name, value_after(args, i, "-"..text:sub(at, at)))
         return i + 1
      end
   end
   return i
end

--- Parses the array of strings `args`. Returns an array of the options' names in the order given (aliases resolved),
-- the index in `args` of the first argument that is none, and a table of their values under the same indices as the
-- names.
function M.get_ordered_opts(args, short_opts, long_opts)
   local options = describe(short_opts, long_opts)
   local result = {count = 0, names = {}, values = {}}
   local i = 1
   while i <= #args do
      local argument = args[i]
      if argument == "--" then
         i = i + 1
         break
      elseif argument == "-" or argument:sub(1, 1) ~= "-" then
         break
      elseif argument:sub(1, 2) == "--" then
         i = long_option(args, i, options, result)
      else
         i = short_options(args, i, options, result)
      end
      i = i + 1
   end
   return result.names, i, result.values
end

--- Like get_ordered_opts, but returns a table of values (1 for an option without one) by name, and the index.
function M.get_opts(args, short_opts, long_opts)
   local names, index, values = M.get_ordered_opts(args, short_opts, long_opts)
   local by_name = {}
   for i, name in ipairs(names) do by_name[name] = values[i] or 1 end
   return by_name, index
end

function M.selftest()
   local long = {help = "h", port = "p", verbose = 0, file = 1, documentation = "help"}
   local args = {"-hv", "-p80", "-p", "81", "--port=82", "--port", "83", "--verbose", "--file", "-x",
                 "--documentation", "rest", "-h"}
   local names, index, values = M.get_ordered_opts(args, "hvp:", long)
   assert(table.concat(names, " ") == "h v p p p p verbose file h")
   assert(index == 12)
   local expected = {[3] = "80", [4] = "81", [5] = "82", [6] = "83", [8] = "-x"}
   for i = 1, #names do assert(values[i] == expected[i]) end
   local _, after = M.get_ordered_opts({"-h", "--", "-h"}, "h", {})
   assert(after == 3)
   assert(select(2, M.get_ordered_opts({"-", "-h"}, "h")) == 1)
   assert(select(2, M.get_ordered_opts({}, "h")) == 1)
   local by_name, rest = M.get_opts({"-h", "--port="}, "hp:", long)
   assert(by_name.h == 1 and by_name.p == "" and rest == 3)

   local exit, stderr = os.exit, io.stderr
   local function complains(args, wanted)
      local said = ""
      os.exit = function (status) error({status = status}) end
      io.stderr = {write = function (_, ...) said = said..table.concat({...}) end}
      local ok, problem = pcall(M.get_ordered_opts, args, "hp:", {loop = "pool", pool = "loop", verbose = 0})
      os.exit, io.stderr = exit, stderr
      assert(not ok and type(problem) == "table" and problem.status == 1, problem)
      assert(said:find(wanted, 1, true), said)
   end
   complains({"-x"}, "Unknown option `-x'")
   complains({"--nope"}, "Unknown option `--nope'")
   complains({"--verbose=1"}, "Bad usage of option `--verbose=1'")
   complains({"-hp"}, "Missed value for option `-p'")
   complains({"--loop"}, "Unknown option")
end

return M
