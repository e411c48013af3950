-- SPDX-License-Identifier: MIT
-- The host's end of a task's VM: sets the modules up, and runs the task's function once the script is loaded.
--
-- In a VM of another program, which tasks run beside (a Snabb program), `beside` is that program's end: name_of(f) and find(name), by
-- which one VM names a function that another finds; started(), before a task is; waited(), after the program has waited.
local definitions, native, pointer, registry, beside = ...
local ffi = require "ffi"

-- Whoever reads the output through a pipe sees each line when it is printed.
if native.id == 1 and not beside then io.stdout:setvbuf "line" end

ffi.cdef(definitions)
require "perigee.worker" -- masks
local modules = require "perigee.modules"
local host = modules.host
modules.host = nil
host.define(registry)
native.host = ffi.cast("perigee_task *", pointer)
host.bind(ffi.C.perigee_task_context(native.host))
package.loaded["perigee.native"] = native

-- Throws, with the place in the user's own files that led to it.
function native.throw(message)
  for level = 2, 50 do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.source:sub(1, 1) == "@" then error(("%s:%d: %s"):format(info.short_src, info.currentline, message), 0) end
  end
  error(message, 0)
end

-- The functions of the host throw objects with a traceback: what users see is where they called.
local function outcome(ok, ...)
  if ok then return ... end
  native.throw((tostring((...)):gsub("\nstack traceback:.*", ""):gsub("^runtime error: ", ""):gsub("%s+$", "")))
end
for name, f in pairs(native) do
  if type(f) == "function" and name ~= "throw" then native[name] = function(...) return outcome(pcall(f, ...)) end end
end

-- Modules of libmoon, such as `device`, which is "libmoon.device" as well. Until the first of them is loaded, a file of the same name beside
-- the script (but not the script itself) comes first: a script that is no program of libmoon finds its own modules. In another program,
-- whatever it has of that name does.
local is_libmoons = false
local function is_beside(name)
  if is_libmoons or not SCRIPT_FOLDER then return false end
  local file_name = name:gsub("%.", "/") .. ".lua"
  if native.script_name:match "([^/]*)$" == file_name then return false end
  local file = io.open(SCRIPT_FOLDER .. "/" .. file_name)
  if file then file:close() end
  return file ~= nil
end
local function libmoons(name)
  local full = "libmoon." .. name
  if not package.preload[full] or not beside and is_beside(name) then return nil end
  is_libmoons = true
  return function() return require(full) end
end
table.insert(package.loaders, beside and #package.loaders + 1 or 2, libmoons)

-- ---- functions that are tasks, by their names

local function global(name)
  local found = rawget(_G, name)
  return type(found) == "function" and found or nil
end

native.find = beside and beside.find or global
native.name_of = beside and beside.name_of or function(f)
  if type(f) == "string" then
    if not global(f) then native.throw(("there is no global function %s to start as a task"):format(f)) end
    return f
  end
  for name, value in pairs(_G) do
    if value == f and type(name) == "string" and type(f) == "function" then return name end
  end
  native.throw("expected a global function of the script, or its name: the new task finds it there, in a VM of its own")
end
local function nothing() end
native.started, native.waited = beside and beside.started or nothing, beside and beside.waited or nothing

local values = require "perigee.values"
local task = require "perigee.task"
if not beside then
  TASK_NAME = native.task_name
  _G.task = task
end

-- A program of libmoon has `master`, and perhaps `configure`, which reads the command line.
local function run_main(words)
  local main = global "main"
  if main then return main(unpack(words)) end
  if global "master" then return require("libmoon").run_master(words) end
  error(native.script_name .. ": has no function main(...): a task's script has one, or master(...) in a program of libmoon", 0)
end

-- What the function returns, encoded for whoever waits for it.
return function(name, arguments)
  if type(arguments) == "table" then return values.encode_all("main returned", run_main(arguments)) end
  local f = native.find(name)
  if not f then error(("%s: has no global function %s to start as a task"):format(native.script_name, name), 0) end
  return values.encode_all(name .. " returned", f(values.decode_all(arguments)))
end
