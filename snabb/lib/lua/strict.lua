-- SPDX-License-Identifier: MIT
-- lib.lua.strict: once loaded, reading a global variable that has never been assigned is an error, and so is creating
-- one anywhere but at the top level of a file (or in C, or by rawset). Assigning nil at the top level declares a
-- global.
local M = {}

local getinfo, rawset = debug.getinfo, rawset

-- Whether the function that assigns (level 3: this function, the metamethod, the assignment) may create globals.
local function at_top_level()
   local info = getinfo(3, "S")
   local what = info and info.what or "C"
   return what == "main" or what == "C"
end

--- Makes `environment` (default: the globals) strict. If it already has a metatable, that keeps its other metamethods.
function M.enable(environment)
   environment = environment or _G
   local meta = getmetatable(environment) or {}
   if meta.perigee_strict then return end
   local declared = {}
   meta.perigee_strict = true
   function meta.__newindex(t, name, value)
      if not declared[name] then
         if not at_top_level() then error("assign to undeclared variable '"..tostring(name).."'", 2) end
         declared[name] = true
      end
      rawset(t, name, value)
   end
   function meta.__index(_, name)
      if not declared[name] then error("variable '"..tostring(name).."' is not declared", 2) end
   end
   setmetatable(environment, meta)
end

M.enable()

function M.selftest()
   local function fails(wanted, func, ...)
      local ok, message = pcall(func, ...)
      assert(not ok and tostring(message):find(wanted, 1, true), message)
   end
   local environment = {print = print, known = 1}
   M.enable(environment)
   M.enable(environment)
   local function run(code)
      return setfenv(assert(loadstring(code)), environment)()
   end
   assert(run("return known") == 1)
   fails("variable 'unknown' is not declared", run, "return unknown")
   fails("assign to undeclared variable 'x'", run, "(function () x = 1 end)()")
   run("y = nil")
   assert(run("return y") == nil)
   run("(function () y = 2 end)()")
   run("z = 3")
   assert(run("return y + z") == 5)
   fails("is not declared", function () return perigee_no_such_global end) -- luacheck: ignore
   fails("assign to undeclared", function () perigee_no_such_global = 1 end) -- luacheck: ignore
end

return M
