-- SPDX-License-Identifier: MIT
-- The first file that runs in a VM: where modules are found, what is global, and how a program is called and ends.
--
-- `require(name)` looks, in this order, for
--   1. perigee's own `core.*`, its apps in the place of hardware drivers (they reach the hardware through DPDK), and
--      the like (REPLACED below),
--   2. `apps`, `lib` and `program` of the user's own Snabb tree (--tree, SNABB_TREE), with `lib/ljsyscall` and the like
--      beside,
--   3. perigee's own `apps`, `lib` and `program`,
--   4. the files that package.path names,
--   5. the modules of libmoon, such as `device`, which is `libmoon.device` as well.
-- `perigee.core.x`, `perigee.lib.x` and so on are perigee's own whatever the tree has; `perigee.task` and the other names
-- with one dot are those of perigee's tasks (core.tasks).
-- A name that ends in `_h`, `_inc`, `_yang` or `_events` also stands for a C header (given to ffi.cdef) or for a
-- text, as in Snabb. What is not found so is looked for as Snabb's binary does, which has modules under the names of C
-- symbols: there `.`, `-` and `/` are all `_`, so that `lib.x.snabb_softwire_v3_yang` is lib/x/snabb-softwire-v3.yang
-- and `lib.virtio.virtio.h` is lib/virtio/virtio.h.

local native, definitions = ...
local ffi = require("ffi")

ffi.cdef(definitions)
ffi.cdef[[bool perigee_snabb_match(const void *filter, const uint8_t *data, uint32_t length);]]
package.preload["core.native"] = function () return native end

-- LuaJIT's limits are made for scripts, not for graphs of a hundred apps.
require("jit.opt").start("maxtrace=8000", "maxmcode=65536", "sizemcode=1024", "maxrecord=20000", "maxirconst=4000",
                         "maxside=1000", "maxsnap=2000", "loopunroll=15")

-- ---- modules ----

-- Modules that perigee answers for even where a tree has them: they drive hardware, call C code of Snabb's own binary,
-- or hand packets from process to process by pointer, which takes Snabb's memory, shared by all of its processes.
local REPLACED = {}
for _, name in ipairs{"apps.intel.intel_app", "apps.intel.intel1g", "apps.intel_mp.intel_mp",
                      "apps.intel_avf.intel_avf", "apps.mellanox.connectx", "apps.mellanox.connectx4",
                      "apps.solarflare.solarflare", "apps.virtio_net.virtio_net", "apps.xdp.xdp",
                      "lib.hardware.pci", "lib.checksum", "lib.lpm.lpm4_248", "lib.lpm.lpm4_dxr",
                      "apps.bridge.learning", "apps.bridge.mac_table",
                      "program.packetblaster.packetblaster", "lib.interlink", "apps.interlink.receiver",
                      "apps.interlink.transmitter"} do
   REPLACED[name] = true
end

local function own (path)
   return native.source(path), "=snabb/"..path
end

-- Where a tree may keep libraries that Snabb puts on the path when it is built.
local BESIDE = {"", "../lib/ljsyscall/", "../lib/pflua/src/", "../lib/luajit/dynasm/", "../lib/dynasm/"}

local function tree (path)
   if not native.tree then return nil end
   for _, folder in ipairs(BESIDE) do
      local name = native.tree.."/"..folder..path
      local file = io.open(name, "rb")
      if file then
         local text = file:read("*a")
         file:close()
         if text then return text, "@"..name end
      end
   end
end

-- A file that stands for a module, and what the module is then.
local KINDS = {
   {"", ".lua", function (text, name) return assert(loadstring(text, name)) end},
   {"_h", ".h", function (text) return function () ffi.cdef(text) return true end end},
   {"_inc", ".inc", function (text) return function () return text end end},
   {"_inc", "", function (text) return function () return text end end}, -- README for README_inc
   {"_yang", ".yang", function (text) return function () return text end end},
   {"_events", ".events", function (text) return function () return text end end},
}
if ffi.arch == "x64" then -- all files with assembler in them are for that; elsewhere perigee's own module is better
   KINDS[#KINDS + 1] = {"", ".dasl", function (text, name) return require("core.dynasm").load(text, name) end}
end

local function find (places, path)
   for _, place in ipairs(places) do
      for _, kind in ipairs(KINDS) do
         local suffix, extension, load = unpack(kind)
         if suffix == "" or path:sub(-#suffix) == suffix then
            local text, name = place(path:sub(1, #path - #suffix)..extension)
            if text then return load(text, name) end
         end
      end
   end
end

local by_symbol -- made when it is first asked for

-- The tree's files by the symbols that Snabb's binary would have for them.
local function symbols ()
   local found = {}
   for _, path in ipairs(native.files()) do
      -- What stands for itself keeps its extension.
      local stem = path:match("^(.*)%.lua$") or path:match("^(.*)%.dasl$") or path
      local symbol = stem:gsub("%W", "_")
      -- Where two have the same, Lua comes first.
      if not found[symbol] or path:match("%.lua$") then found[symbol] = path end
   end
   return found
end

local function find_symbol (name)
   if not native.tree then return nil end
   by_symbol = by_symbol or symbols()
   local path = by_symbol[(name:gsub("%W", "_"))]
   if not path then return nil end
   local extension = path:match("%.[^./]*$") or ""
   local text, chunk = tree(path)
   for _, kind in ipairs(KINDS) do
      if text and kind[2] == extension then return kind[3](text, chunk) end
   end
end

-- Those of perigee's tasks, and of libmoon's programs: core.tasks puts them among the preloaded.
local function of_tasks (name)
   if not native.task_module(name) then return nil end
   require("core.tasks").attach()
   -- This name may have been loaded meanwhile, as others need it.
   local module = package.loaded[name]
   if module then return function () return module end end
   return package.preload[name] or function () return require("libmoon."..name) end
end

-- What a tree's modules look up in sysfs about a card, for addresses that stand for other devices.
local function no_card (address)
   local names = require("apps.dpdk.names")
   return names.mapped(address) ~= nil or not names.is_pci(address)
end

local AFTER = {}
AFTER["apps.lwaftr.lwutil"] = function (module)
   local exists = module.nic_exists
   module.nic_exists = function (address) return no_card(address) or exists(address) end
end
AFTER["lib.numa"] = function (module)
   local node = module.pci_get_numa_node
   module.pci_get_numa_node = function (address)
      if not no_card(address) then return node(address) end
   end
end

-- A guest that starts its queues and has accepted no features, as DPDK's does where it finds an old device, has accepted none.
AFTER["lib.virtio.net_device"] = function (module)
   local class = module.VirtioNetDevice
   local new = class.new
   function class:new (...)
      local device = new(self, ...)
      device.features = device.features or 0
      return device
   end
end

-- A loader that changes the module once it is there.
local function and_then (name, load)
   local change = type(load) == "function" and AFTER[name]
   return change and function (...)
      local module = load(...)
      change(type(module) == "table" and module or package.loaded[name])
      return module
   end or load
end

local function search (name)
   -- perigee's own module, whatever the tree has: for modules that replace one of the tree's and rely on others.
   local of_perigee = name:match("^perigee%.(%a+%..+)$")
   if of_perigee then return find({own}, (of_perigee:gsub("%.", "/"))) end
   if name:match("^perigee%.") or name:match("^libmoon%.") then return of_tasks(name) end
   local path = name:gsub("%.", "/")
   local places = {tree, own}
   if name:match("^core%.") or name:match("^apps%.dpdk") or REPLACED[name] then places = {own, tree} end
   local also = native.tree and " or in "..native.tree or ""
   return and_then(name, find(places, path)) or find_symbol(name) or "\n\tno module '"..name.."' in perigee"..also
end

-- Snabb's binary has its modules in package.preload: programs that load one once more ask the first loader for it.
package.loaders[1] = function (name)
   return package.preload[name] or search(name)
end
-- Libmoon's own names come last: whatever Snabb, the tree and the program's folder have of a name is what that means.
table.insert(package.loaders, of_tasks)

-- ---- globals ----

local function expose (name, module)
   rawset(_G, name, require(module))
end

-- What Snabb's own compiler has of profilers, which programs start and stop. Here vmprofile does nothing.
local jit = require("jit")
jit.vmprofile = jit.vmprofile or {open = function () end, start = function () end, stop = function () end}
package.preload["jit.vmprofile"] = function () return jit.vmprofile end
jit.auditlog = jit.auditlog or function (path) require("core.auditlog").start(path) end

require("lib.lua.strict")
-- subClass is a global. A tree's module returns nothing, perigee's own modules ask for a field.
if type(require("lib.lua.class")) ~= "table" then
   package.loaded["lib.lua.class"] = {subClass = rawget(_G, "subClass")}
end
rawset(_G, "developer_debug", os.getenv("SNABB_DEBUG") ~= nil)
local plain_assert = assert
-- As in Snabb: an error that is not a text becomes one.
rawset(_G, "assert", function (value, message, ...)
   if value then return value, message, ... end
   return plain_assert(false, message ~= nil and tostring(message) or "assertion failed!")
end)
for _, pair in ipairs{{"lib", "core.lib"}, {"shm", "core.shm"}, {"counter", "core.counter"}, {"memory", "core.memory"},
                      {"packet", "core.packet"}, {"link", "core.link"}, {"config", "core.config"},
                      {"timer", "core.timer"}, {"timeline", "core.timeline"}, {"engine", "core.app"},
                      {"main", "core.main"}} do
   local name, module = unpack(pair)
   if name == "lib" or name == "shm" or name == "counter" then require(module) else expose(name, module) end
end

-- The modules of Snabb's core are fields of a global of their own as well (`module(...)` leaves them there).
rawset(_G, "core", setmetatable({}, {__index = function (core, name)
   local found, module = pcall(require, "core."..tostring(name))
   if not found then return nil end
   rawset(core, name, module)
   return module
end}))
-- Programs of a tree start themselves again, as other programs, which should find the tree, too.
if native.tree then
   ffi.cdef[[int perigee_setenv(const char *name, const char *value, int replace) __asm__("setenv");]]
   ffi.C.perigee_setenv("SNABB_TREE", native.tree, 1)
end
-- A tree's modules take the types of its ljsyscall for granted.
if native.tree then pcall(require, "syscall") end

local lib = require("core.lib")
if lib.getenv("SNABB_RANDOM_SEED") then lib.randomseed(lib.getenv("SNABB_RANDOM_SEED")) end

-- ---- ends ----

local main = require("core.main")
-- luacheck: ignore os
os.exit = function (code)
   if code == true or code == nil then code = 0 elseif code == false then code = 1 end
   main.exit(code)
end

--- What the binary calls: require(module)[fn](args). Returns true and an exit code, or false and a message.
return function (module, fn, args)
   local function call ()
      return require(module)[fn](args)
   end
   local ok, result = xpcall(call, function (reason)
      return debug.traceback(tostring(reason), 2)
   end)
   return ok, result
end
