-- SPDX-License-Identifier: MIT
-- core.lib.value: comparing, copying, checking, writing and reading Lua values. Part of core.lib, which re-exports it.
--
-- What differs from Snabb: `print_object` writes keys in a fixed order, quotes keys that are not Lua names, keeps all 17
-- digits of a number and writes tables with both an array part and keys; `deepcopy` keeps shared and cyclic references.
local ffi = require("ffi")

ffi.cdef [[
int perigee_lib_memcmp(const void *, const void *, size_t) __asm__("memcmp");
]]

local M = {}

-- x and y are not the same cdata, nor equal numbers or pointers.
local function equal_cdata(x, y)
   local ctype = ffi.typeof(x)
   if ctype ~= ffi.typeof(y) or tonumber(x) or tostring(ctype):find("%*>$") then return false end
   local size = ffi.sizeof(x)
   return size == ffi.sizeof(y) and ffi.C.perigee_lib_memcmp(x, y, size) == 0
end

--- True if `x` and `y` are the same by structure: tables by all their keys and values, cdata by type and bytes,
-- everything else by `==`. Tables with a metatable are equal only to themselves.
function M.equal(x, y)
   local kind = type(x)
   if kind ~= type(y) then return false end
   if x == y then return true end
   if kind == "cdata" then return equal_cdata(x, y) end
   if kind ~= "table" or getmetatable(x) ~= nil or getmetatable(y) ~= nil then return false end
   for key, value in pairs(x) do
      if not M.equal(value, y[key]) then return false end
   end
   for key in pairs(y) do
      if x[key] == nil then return false end
   end
   return true
end

local function copy_cdata(original)
   -- A ctype object is a type, not data: nothing to copy.
   if tostring(original):find("^ctype<") then return original end
   local ctype = ffi.typeof(original)
   if pcall(ffi.sizeof, ctype) then return ffi.new(ctype, original) end
   -- Of variable length: sizeof needs the number of elements. Find it.
   local empty, size = ffi.sizeof(ctype, 0), ffi.sizeof(original)
   local copy = ffi.new(ctype, (size - empty) / (ffi.sizeof(ctype, 1) - empty))
   ffi.copy(copy, original, size)
   return copy
end

local function copy_value(original, seen)
   local kind = type(original)
   if kind == "cdata" then
      return copy_cdata(original)
   elseif kind ~= "table" then
      return original
   elseif seen[original] then
      return seen[original]
   end
   local copy = {}
   seen[original] = copy
   for key, value in next, original do
      copy[copy_value(key, seen)] = copy_value(value, seen)
   end
   local meta = getmetatable(original)
   return type(meta) == "table" and setmetatable(copy, copy_value(meta, seen)) or copy
end

--- A copy of `original` down to its leaves: tables (with their keys and metatables) and cdata are copied, all else is
-- shared. A table reached twice is copied once.
function M.deepcopy(original)
   return copy_value(original, {})
end

--- A new array with the elements 1..#`original` of the array `original`.
function M.array_copy(original)
   local copy = {}
   for i = 1, #original do copy[i] = original[i] end
   return copy
end

--- A table whose keys are the arguments, each with the value true.
function M.set(...)
   local members = {}
   for i = 1, select("#", ...) do
      local member = select(i, ...)
      if member ~= nil then members[member] = true end
   end
   return members
end

-- The least (by name) of the keys of `t` that satisfy `wanted`, so that messages do not depend on hash order.
local function first_key(t, wanted)
   local found
   for key, value in pairs(t) do
      if wanted(key, value) and (found == nil or tostring(key) < found) then found = tostring(key) end
   end
   return found
end

--- Checks the table `arg` (nil: empty) against the schema `config` = `{key = {required = true}, key = {default =
-- value}, key = {}}` and returns a new table of the parameters with defaults filled in. Without a schema anything is right.
-- Errors: "missing required parameter 'KEY'", "unrecognized parameter 'KEY'".
function M.parse(arg, config)
   if arg == nil then arg = {} end
   if type(arg) ~= "table" then error("expected a table of parameters, got "..type(arg), 0) end
   if config == nil then
      local all = {}
      for key, value in pairs(arg) do all[key] = value end
      return all
   end
   local missing = first_key(config, function (key, rule) return rule.required and arg[key] == nil end)
   if missing then error("missing required parameter '"..missing.."'", 0) end
   local unknown = first_key(arg, function (key) return config[key] == nil end)
   if unknown then error("unrecognized parameter '"..unknown.."'", 0) end
   local parameters = {}
   for key, value in pairs(arg) do parameters[key] = value end
   for key, rule in pairs(config) do
      if parameters[key] == nil then parameters[key] = rule.default end
   end
   return parameters
end

local KEYWORDS = M.set("and", "break", "do", "else", "elseif", "end", "false", "for", "function", "goto", "if", "in",
   "local", "nil", "not", "or", "repeat", "return", "then", "true", "until", "while")

local function write_number(n)
   if n ~= n then return "0/0" end
   if n == math.huge then return "1/0" end
   if n == -math.huge then return "-1/0" end
   local short = ("%.14g"):format(n)
   return tonumber(short) == n and short or ("%.17g"):format(n)
end

local function write_key(key)
   if type(key) == "string" then
      if key:find("^[%a_][%w_]*$") and not KEYWORDS[key] then return key end
      return ("[%q]"):format(key)
   elseif type(key) == "number" then
      return "["..write_number(key).."]"
   end
   return "["..tostring(key).."]"
end

-- Keys outside of the array part, in a fixed order: by type, then by value.
local function other_keys(t)
   local keys, count = {}, #t
   for key in pairs(t) do
      local in_array = type(key) == "number" and key % 1 == 0 and key >= 1 and key <= count
      if not in_array then keys[#keys + 1] = key end
   end
   table.sort(keys, function (a, b)
      if type(a) ~= type(b) then return type(a) < type(b) end
      if type(a) == "number" or type(a) == "string" then return a < b end
      return tostring(a) < tostring(b)
   end)
   return keys
end

local function write_value(value, stream, indent)
   local kind = type(value)
   if kind == "string" then
      stream:write(("%q"):format(value))
   elseif kind == "number" then
      stream:write(write_number(value))
   elseif kind == "table" then
      local pad = (" "):rep(indent + 2)
      stream:write("{\n")
      for i = 1, #value do
         stream:write(pad)
         write_value(value[i], stream, indent + 2)
         stream:write(",\n")
      end
      for _, key in ipairs(other_keys(value)) do
         stream:write(pad, write_key(key), " = ")
         write_value(value[key], stream, indent + 2)
         stream:write(",\n")
      end
      stream:write((" "):rep(indent), "}")
   else
      stream:write(tostring(value))
   end
end

--- Writes `value` as a Lua expression and a newline to `stream` (default: standard output). Anything that is neither
-- table, string nor number is written by `tostring`.
function M.print_object(value, stream)
   stream = stream or io.stdout
   write_value(value, stream, 0)
   stream:write("\n")
end

--- Writes `value` to the file `filename` such that `load_conf` reads it back.
function M.store_conf(filename, value)
   local stream = assert(io.open(filename, "w"))
   stream:write("return ")
   M.print_object(value, stream)
   assert(stream:close())
end

--- Runs the Lua file `filename` and returns its value.
function M.load_conf(filename)
   return dofile(filename)
end

--- The value of the Lua expression in the string `expression`. Errors: those of the Lua compiler.
function M.load_string(expression)
   return assert(loadstring("return "..expression))()
end

--- The keys of a table, sorted. Not in Snabb.
function M.sorted_keys(t)
   local keys = {}
   for key in pairs(t) do keys[#keys + 1] = key end
   table.sort(keys)
   return keys
end

function M.selftest()
   require("core.lib").selftest()
end

return M
