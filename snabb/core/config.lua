-- SPDX-License-Identifier: MIT
-- core.config: descriptions of app graphs, which engine.configure brings to life. The API is Snabb's.
--
-- Differs from Snabb: `config.app` takes a fifth argument, {worker = N}, the thread that the app is to run on.

local lib = require("core.lib")

local M = {}

--- An empty description.
function M.new ()
   return {apps = {}, links = {}}
end

local function check_name (what, name)
   if type(name) ~= "string" or not name:match("^[%w_][%w_%-:/]*$") then
      error(("%s %q: expected letters, digits, _ - : and /"):format(what, tostring(name)), 3)
   end
end

local function check_placement (name, placement)
   if placement == nil then return end
   local worker = type(placement) == "table" and placement.worker
   if type(worker) ~= "number" or worker < 1 or worker % 1 ~= 0 or worker > 128 then
      error("app "..name..": expected {worker = 1 .. 128} as the place where it runs", 3)
   end
   return worker
end

-- The Lua value that a text stands for, or the text itself.
local function read_value (text)
   local read = loadstring("return "..text)
   local ok, value = pcall(setfenv(read or function () end, {}))
   if ok and value ~= nil then return value end
   return text
end

--- Add an app *name* of *class* with argument *arg*. If the class has a schema, `config`, the argument (or the Lua
--- value that it stands for, if it is a text) is checked by lib.parse. *placement*, {worker = N}, puts it on a thread
--- of its own.
function M.app (c, name, class, arg, placement)
   check_name("app", name)
   if type(class) ~= "table" then
      error("app "..name..": expected a class (a table with a method new), got "..type(class), 2)
   end
   if class.config then
      local ok, parsed = pcall(M.parse_app_arg, arg, class.config)
      if not ok then error("failed to configure '"..name.."': "..tostring(parsed), 2) end
      arg = parsed
   end
   c.apps[name] = {class = class, arg = arg, worker = check_placement(name, placement)}
end

--- Check an app's argument, a table or its text as a Lua value, against a schema: see lib.parse. Without a schema, it
--- is only read.
function M.parse_app_arg (arg, schema)
   if type(arg) == "string" then arg = read_value(arg) end
   if not schema then return arg end
   if arg ~= nil and type(arg) ~= "table" then error("bad argument: expected a table, got "..tostring(arg)) end
   return lib.parse(arg, schema)
end

--- A pattern for links, for programs that look for them in text; `parse_link` takes more names.
M.link_syntax = [[ *([%w_]+)%.([%w_]+) *-> *([%w_]+)%.([%w_]+) *]]

--- The four parts of "from.output -> to.input": app, link, app, link. Errors if it is written in another way.
function M.parse_link (spec)
   local fa, fl, ta, tl = tostring(spec):match("^%s*([^%s.]+)%.(%S+)%s*%->%s*([^%s.]+)%.(%S+)%s*$")
   if not fa then error("link parse error: "..tostring(spec)..": expected \"app.output -> app.input\"", 2) end
   return fa, fl, ta, tl
end

local function canonical (fa, fl, ta, tl)
   return fa.."."..fl.." -> "..ta.."."..tl
end

--- A link's description in its canonical form.
function M.format_link (fa, fl, ta, tl)
   return canonical(fa, fl, ta, tl)
end

--- The canonical form of a link's description, which may have any form that `link` takes.
function M.canonical_link (spec)
   return canonical(M.parse_link(spec))
end

--- Add the link "app.output -> app.input".
function M.link (c, spec)
   local ok, fa, fl, ta, tl = pcall(M.parse_link, spec)
   if not ok then error((fa:gsub("^.-: link parse", "link parse")), 2) end
   c.links[canonical(fa, fl, ta, tl)] = true
end

--- The graph in Graphviz's language.
function M.graphviz (c)
   local lines = {}
   for spec in pairs(c.links) do
      local fa, fl, ta, tl = M.parse_link(spec)
      lines[#lines + 1] = ('  "%s" -> "%s" [taillabel="%s", headlabel="%s"]\n'):format(fa, ta, fl, tl)
   end
   table.sort(lines)
   return "digraph config {\n"..table.concat(lines).."}\n"
end

--- A copy of a description; its apps' classes and arguments are the same.
function M.copy (c)
   local copy = M.new()
   for name, app in pairs(c.apps) do
      copy.apps[name] = {class = app.class, arg = app.arg, worker = app.worker}
   end
   for spec in pairs(c.links) do copy.links[spec] = true end
   return copy
end

function M.selftest ()
   local fa, fl, ta, tl = M.parse_link(" a.x->b-2.y ")
   assert(fa == "a" and fl == "x" and ta == "b-2" and tl == "y")
   for _, bad in ipairs{"", "a.x", "a.x -> b", "a -> b.y", "a.x b.y", "a.x -> b.y c", "-> b.y"} do
      local c = M.new()
      local ok, why = pcall(M.link, c, bad)
      assert(not ok and why:match("expected \"app.output %-> app.input\""), bad)
      assert(next(c.links) == nil)
   end
   local c = M.new()
   M.link(c, "a.x  ->  b.y")
   M.link(c, "a.x->b.y")
   assert(c.links["a.x -> b.y"] and next(c.links, "a.x -> b.y") == nil)
   local Class = {config = {needed = {required = true}, other = {default = 7}}}
   M.app(c, "one", Class, {needed = 1})
   assert(c.apps.one.arg.other == 7)
   for _, arg in ipairs{{}, {needed = 1, unknown = 2}, {other = 1}} do
      local ok, why = pcall(M.app, c, "two", Class, arg)
      assert(not ok and why:match("two"))
   end
   assert(not pcall(M.app, c, "two", Class, 5) and c.apps.two == nil)
   M.app(c, "text", Class, "{needed = 1, other = 'x'}")
   assert(c.apps.text.arg.needed == 1 and c.apps.text.arg.other == "x")
   -- Without a schema, an argument is what it is: a file may be called 1e3.
   M.app(c, "text", {}, "1e3")
   assert(c.apps.text.arg == "1e3")
   assert(M.parse_app_arg("{needed = 2}", Class.config).other == 7 and M.parse_app_arg("{x = 3}").x == 3)
   assert(M.canonical_link("a.x->b.y") == "a.x -> b.y")
   assert(M.graphviz(c) == 'digraph config {\n  "a" -> "b" [taillabel="x", headlabel="y"]\n}\n')
   M.app(c, "plain", {}, "just text")
   assert(c.apps.plain.arg == "just text")
   assert(not pcall(M.app, c, "a b", {}) and not pcall(M.app, c, "nil", nil))
   M.app(c, "placed", {}, nil, {worker = 2})
   assert(c.apps.placed.worker == 2)
   assert(not pcall(M.app, c, "bad", {}, nil, {worker = 0}) and not pcall(M.app, c, "bad", {}, nil, 3))
   local copy = M.copy(c)
   copy.apps.one, copy.links["a.x -> b.y"] = nil, nil
   assert(c.apps.one and c.links["a.x -> b.y"] and copy.apps.placed.worker == 2)
end

return M
