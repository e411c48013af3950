-- SPDX-License-Identifier: MIT
--
-- apps.links: the links that an app cannot do without. Snabb has no such module: there an app without one of them fails
-- with Lua's error about a nil value.

local M = {}

--- Throws that the app has no link in the direction "input" or "output" of any of the names.
function M.missing(app, direction, ...)
   error(("%s: no %s link named '%s'"):format(app.appname or "app", direction, table.concat({...}, "' or '")), 3)
end
local missing = M.missing

--- Returns the app's input link `name`. Throws, naming app and link, if it is not connected.
function M.input(app, name)
   return app.input[name] or missing(app, "input", name)
end

--- Returns the app's output link `name`. Throws, naming app and link, if it is not connected.
function M.output(app, name)
   return app.output[name] or missing(app, "output", name)
end

--- Returns the input `input` and the output `output` of an app that has no others. Throws if one is not connected.
function M.one_in_one_out(app)
   return app.input.input or missing(app, "input", "input"), app.output.output or missing(app, "output", "output")
end

--- Looks at what is said.
function M.selftest()
   local app = {appname = "me", input = {input = 1, other = 2}, output = {output = 3}}
   assert(M.input(app, "other") == 2 and M.output(app, "output") == 3)
   local i, o = M.one_in_one_out(app)
   assert(i == 1 and o == 3)
   local function says(text, fn, ...)
      local ok, why = pcall(fn, ...)
      assert(not ok and why:find(text, 1, true), why)
   end
   says("me: no input link named 'rx'", M.input, app, "rx")
   says("me: no output link named 'north'", M.output, app, "north")
   says("me: no input link named 'input' or 'rx'", M.missing, app, "input", "input", "rx")
   app.output = {}
   says("me: no output link named 'output'", M.one_in_one_out, app)
end

return M
