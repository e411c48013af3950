-- SPDX-License-Identifier: MIT
-- The host's end of a VM: sets the modules up, counts what the JIT compiler does, and starts the script's loop.
local definitions, registry, bcnames, library = ...
local ffi = require "ffi"
local jutil = require "jit.util"

ffi.cdef(definitions)
local modules = require "perigee.modules"
local host = modules.host
modules.host = nil
require "perigee.worker"
host.define(registry, library)

-- The host keeps what it has read of headers (`loaded`, see perigee.h). Whoever asks for `data`, which is called `frames` in truth, may
-- write there, so the host forgets. (Tasks' modules forget before each call.)
local batch = { changed = host.changed, checksums = modules.checksums }
function batch.__index(self, key)
  if key == "data" then
    host.changed(self)
    return self.frames
  end
  return batch[key]
end
ffi.metatype("perigee_batch", batch)

-- Else lines wait in a buffer for others, and a log file stays empty.
io.stdout:setvbuf("line")

-- The process is the router's, not the script's. Here it is an error like any other, with the caller's line.
-- luacheck: ignore os
os.exit = function()
  error("os.exit was called, and a script cannot end the router: expected it to return or to throw an error", 2)
end

-- LuaJIT binds a function of a library when it is first called: where one is missing then, the dynamic loader ends the process, without a
-- line of the router's. With all of them bound here, it is an error of the script.
ffi.cdef [[
void *perigee_dlopen(const char *path, int flags) __asm__("dlopen");
int perigee_dlclose(void *handle) __asm__("dlclose");
char *perigee_dlerror(void) __asm__("dlerror");
]]
-- Found here, as looking a function up forgets the last error.
local dlopen, dlclose, dlerror = ffi.C.perigee_dlopen, ffi.C.perigee_dlclose, ffi.C.perigee_dlerror
local RTLD_NOW = 2
local load = ffi.load
ffi.load = function(name, global)
  -- A name without a folder is one of the system's libraries.
  local handle
  if type(name) == "string" and name:find("/", 1, true) then
    handle = dlopen(name, RTLD_NOW)
    if handle == nil then error(ffi.string(dlerror()), 2) end
  end
  local loaded, found = pcall(load, name, global)
  if handle then dlclose(handle) end
  if not loaded then error(found, 2) end
  return found
end

local worker -- set once the loop runs

-- Code that failed to compile too often is blacklisted: its first bytecode becomes one of these, and it is interpreted for
-- ever after. There is no event for that, so every abort looks where its trace started.
local interpreted = { IFORL = true, IITERL = true, ILOOP = true, IFUNCF = true, IFUNCV = true }
local starts, seen = {}, {}

local function opcode(func, pc)
  local instruction = jutil.funcbc(func, pc)
  if not instruction then return "" end
  local at = bit.band(instruction, 0xff) * 6
  return (bcnames:sub(at + 1, at + 6):gsub("%s", ""))
end

jit.attach(function(what, trace, func, pc)
  if worker == nil then return end
  if what == "start" then
    starts[trace] = { func, pc }
  elseif what == "stop" then
    ffi.C.perigee_worker_trace(worker, 0)
  elseif what == "abort" then
    ffi.C.perigee_worker_trace(worker, 1)
    local start = starts[trace]
    if start and interpreted[opcode(start[1], start[2])] then
      local key = tostring(start[1]) .. ":" .. start[2]
      if not seen[key] then
        seen[key] = true
        ffi.C.perigee_worker_trace(worker, 2)
      end
    end
  end
end, "trace")

return function(context) host.bind(ffi.cast("perigee_context *", context)) end, function(loop, pointer)
  worker = ffi.cast("perigee_worker *", pointer)
  host.bind(ffi.C.perigee_worker_context(worker))
  -- worker:next() and worker:housekeeping() collect garbage.
  collectgarbage("setpause", 1000)
  collectgarbage("restart", -1)
  return loop(worker)
end
