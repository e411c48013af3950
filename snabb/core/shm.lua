-- SPDX-License-Identifier: MIT
-- core.shm: C objects in memory that processes share, named by paths in a tree of files. The API is Snabb's.
--
--   ROOT/<pid>/engine/breaths.counter      an object of process <pid>; within it: "engine/breaths.counter",
--                                          from elsewhere: "/<pid>/engine/breaths.counter"
--   ROOT/<pid>/group                       a directory; in a worker process a link to its parent's
--
-- ROOT is SNABB_SHM_ROOT; otherwise /var/run/snabb for root if that can be written, otherwise $XDG_RUNTIME_DIR/snabb,
-- otherwise /tmp/snabb-UID. A process's folder is locked (flock(2)) while the process lives; that is how folders of
-- living processes are distinguished from those that dead ones left, also an earlier process of the same number.
--
-- Differs from Snabb: names cannot leave the tree (".." is refused); folders are readable by their owner only;
-- objects are at most `max_size` bytes; creating over an object of another size makes a new one, while those who have
-- mapped the old one keep it; names in a frame are made in sorted order, and a frame that fails half way leaves
-- nothing behind.

local ffi = require("ffi")
local sys = require("core.sys")

local M = {}
local sorted_keys = require("core.lib").sorted_keys

local O = sys.open_flags
local DIRECTORY_MODE, FILE_MODE = 448, 384 -- 0700, 0600

--- The largest object in bytes.
M.max_size = 2^31

local function default_root ()
   local given = os.getenv("SNABB_SHM_ROOT")
   if given and #given > 0 then return (given:gsub("(.)/+$", "%1")) end
   if sys.geteuid() == 0 then
      local standard = "/var/run/snabb"
      if sys.access(standard, 7) or not sys.stat(standard) and sys.access("/var/run", 7) then return standard end
   end
   local runtime = os.getenv("XDG_RUNTIME_DIR")
   if runtime and runtime:match("^/") then return runtime.."/snabb" end
   return ("/tmp/snabb-%d"):format(sys.geteuid())
end

--- The directory that holds the tree.
M.root = default_root()

--- A folder that names of this process are put under, or false. One that a program sets when it runs several Lua
--- states in one process, so that the objects of each have names of their own; names that begin with "group/" stay as
--- they are.
M.scope = false

-- Sizes of all current mappings, by address.
local mappings = {}

--- Registered types of objects: the name (a file extension) -> the module that has create, open and maybe delete.
M.types = {}

local function check (name)
   if type(name) ~= "string" then error("shm: a name must be a string, not a "..type(name), 3) end
   if #name > 1024 then error("shm: a name of more than 1024 bytes: "..name:sub(1, 60).."...", 3) end
   if name:find("%z") then error("shm: a name with a zero byte", 3) end
   for part in name:gmatch("[^/]+") do
      if part == ".." or part == "." then error("shm: '..' and '.' are not allowed in a name: "..name, 3) end
      if #part > 255 then error("shm: a part of a name is longer than 255 bytes: "..part:sub(1, 60).."...", 3) end
   end
end

--- The path below the root that a name stands for: "/1234/a/b" is "1234/a/b", "a/b" is "<own pid>/a/b". Errors if the
--- name contains "..".
function M.resolve (name)
   check(name)
   local slash, rest = name:match("^(/*)(.*)$")
   rest = rest:gsub("//+", "/"):gsub("/$", "")
   if slash ~= "" then return rest end
   local scope = M.scope
   if scope and rest ~= "group" and not rest:match("^group/") then
      rest = rest == "" and scope or scope.."/"..rest
   end
   return rest == "" and tostring(sys.getpid()) or sys.getpid().."/"..rest
end
local resolve = M.resolve

--- The file name of an object.
function M.path (name)
   return M.root.."/"..resolve(name)
end
local path = M.path

local function dirname (p)
   return p:match("^(.*)/[^/]*$") or ""
end

local function make_root ()
   local status = sys.stat(M.root)
   if not status then
      local made = ""
      for part in M.root:gmatch("[^/]+") do -- mkdir -p
         made = made == "" and M.root:sub(1, 1) ~= "/" and part or made.."/"..part
         if not sys.access(made, 0) then sys.mkdir(made, DIRECTORY_MODE) end
      end
      status = sys.stat(M.root)
      if not status then
         error("shm: cannot create "..M.root..": "..sys.strerror(sys.errno.ENOENT).." (set SNABB_SHM_ROOT?)", 0)
      end
   end
   -- Somebody else's directory or link in /tmp would be theirs to change.
   if status.kind == "symlink" and not os.getenv("SNABB_SHM_ROOT") then
      error("shm: "..M.root.." is a symbolic link; expected a folder (set SNABB_SHM_ROOT?)", 0)
   end
   if status.uid ~= sys.geteuid() and status.uid ~= 0 then
      error("shm: "..M.root.." belongs to another user", 0)
   end
end

-- Our own folder: made when it is first needed, locked as long as we live.
local own_pid, own_lock = false, false

local function lock_folder (folder, kind)
   local fd = sys.open(folder, O.RDONLY + O.DIRECTORY + O.NOFOLLOW)
   if not fd then return nil end
   if sys.try_lock(fd, kind) then return fd end
   sys.close(fd)
   return nil
end

local function worker_parent ()
   local parent = tonumber(os.getenv("SNABB_WORKER_PARENT") or "")
   return parent == sys.getppid() and parent or nil
end

-- A folder with this file stays after its process's end, until somebody asks for it to go (SNABB_SHM_KEEP).
local KEPT = ".kept"

local function wants_keeping ()
   return os.getenv("SNABB_SHM_KEEP") ~= nil
end

-- Only folders with this file are ever removed as those of processes that are gone: there may be others in the root.
local OURS = ".process"

local function mark (folder, name)
   local fd = sys.open(folder.."/"..name, O.RDWR + O.CREAT, FILE_MODE)
   if fd then sys.close(fd) end
end

local function make_own_folder ()
   local pid = sys.getpid()
   if own_pid == pid then return end
   own_pid, own_lock = pid, false
   make_root()
   local folder = M.root.."/"..pid
   if sys.stat(folder.."/"..OURS) then
      local fd = lock_folder(folder, "exclusive")
      if fd then -- nobody holds it: an earlier process had our number
         sys.remove(folder)
         sys.close(fd)
      end
   end
   local made, why = sys.mkdir(folder, DIRECTORY_MODE)
   if made then mark(folder, OURS) end
   if not made then
      own_pid = false
      error("shm: cannot create "..folder..": "..why, 0)
   end
   own_lock = lock_folder(folder, "shared")
   if wants_keeping() then mark(folder, KEPT) end
   local parent = worker_parent()
   if parent then
      sys.mkdir(M.root.."/"..parent, DIRECTORY_MODE)
      sys.mkdir(M.root.."/"..parent.."/group", DIRECTORY_MODE)
      sys.symlink("../"..parent.."/group", folder.."/group")
   end
   pcall(M.gc, true)
end

--- Make a directory and those above it. *name* is a path below the root, as `resolve` returns it.
function M.mkdir (name)
   check(name)
   if name:match("^/*(%d+)") == tostring(sys.getpid()) then make_own_folder() else make_root() end
   local dir = M.root
   for part in name:gmatch("[^/]+") do
      dir = dir.."/"..part
      sys.mkdir(dir, DIRECTORY_MODE)
   end
end

local function address (pointer)
   return tonumber(ffi.cast("uintptr_t", ffi.cast("void *", pointer)))
end

local function object_file (name, resolved, size, readonly, create)
   local file = M.root.."/"..resolved
   local flags = readonly and O.RDONLY or O.RDWR
   if create then
      M.mkdir(dirname(resolved))
      flags = O.RDWR + O.CREAT
   end
   local fd, why = sys.open(file, flags, FILE_MODE)
   local status = fd and sys.stat(fd)
   if create and status and status.kind == "file" and status.size > 0 and status.size ~= size then
      -- Cutting it would pull the memory away under those who use it.
      sys.close(fd)
      sys.remove(file)
      fd, why = sys.open(file, flags, FILE_MODE)
      status = fd and sys.stat(fd)
   end
   if not fd then error(("shm: cannot open %s: %s"):format(file, why), 4) end
   if not status or status.kind ~= "file" then
      sys.close(fd)
      error(("shm: %s is not an object"):format(file), 4)
   end
   if create and status.size == 0 then
      local done, reason = sys.ftruncate(fd, size)
      if not done then
         sys.close(fd)
         error(("shm: cannot make %s %d bytes long: %s"):format(file, size, reason), 4)
      end
   end
   return fd, create and size or status.size
end

-- *more* is the length of a type with an open end; such an object may be longer than what is asked for.
local function map (name, ctype, readonly, create, ...)
   ctype = ffi.typeof(ctype)
   local size = ffi.sizeof(ctype, ...)
   if not size or size < 1 or size > M.max_size then
      error(("shm: %s: an object has 1 to %d bytes, not %s"):format(name, M.max_size, tostring(size)), 3)
   end
   local resolved = resolve(name)
   local fd, have = object_file(name, resolved, size, readonly, create)
   if have ~= size and not (select("#", ...) > 0 and have > size) then
      sys.close(fd)
      error(("shm: %s has %d bytes, expected %d"):format(resolved, have, size), 3)
   end
   local at, why = sys.map_file(fd, size, readonly)
   sys.close(fd)
   if not at then error(("shm: cannot map %s: %s"):format(resolved, why), 3) end
   mappings[address(at)] = size
   return ffi.cast(ffi.typeof("$ *", ctype), at)
end

--- Map an object, which is made (zeroed) if it is not there. *ctype* is a C type or its declaration; further
--- arguments are the length of a type with an open end. Returns a pointer to it, valid until `unmap`.
function M.create (name, ctype, ...)
   return map(name, ctype, false, true, ...)
end

--- Map an object that is there already, for reading only if *readonly* is true (writing is then a fault). Errors if
--- it is not there or has another size.
function M.open (name, ctype, readonly, ...)
   return map(name, ctype, readonly, false, ...)
end

--- As `open`, or as `create` if *create* is true.
function M.map (name, ctype, readonly, create, ...)
   return map(name, ctype, readonly, create, ...)
end

--- Is there an object (or folder) of this name?
function M.exists (name)
   return sys.access(path(name), 0)
end

--- Undo a mapping; *pointer* is what `create` or `open` returned. The object stays.
function M.unmap (pointer)
   local key = address(pointer)
   local size = mappings[key]
   if not size then error("shm: no object is mapped at this address", 2) end
   mappings[key] = nil
   assert(sys.unmap(ffi.cast("void *", pointer), size))
end

--- Remove an object, or a folder with all in it. Mappings stay valid. Returns true, or nil and the reason.
function M.unlink (name)
   local resolved = resolve(name)
   if resolved == "" then error("shm: the root cannot be unlinked", 2) end
   return sys.remove(M.root.."/"..resolved)
end

--- Make *name* another name of *target*. Errors if the name exists.
function M.alias (name, target)
   local resolved = resolve(name)
   M.mkdir(dirname(resolved))
   local ok, why = sys.symlink(M.root.."/"..resolve(target), M.root.."/"..resolved)
   if not ok then error(("shm: cannot make the alias %s: %s"):format(resolved, why), 2) end
end

--- The names in a folder, sorted, without the folder; an empty array if it is not there.
function M.children (name)
   return sys.list(path(name)) or {}
end

--- Make a kind of object known to frames. *name* is the file extension, *module* a table with `create(name, ...)`,
--- `open(name, readonly)` and maybe `delete(name)`. Returns the name. Errors if the name is taken.
function M.register (name, module)
   assert(module, "shm: register needs a module")
   assert(not M.types[name], "shm: duplicate type: "..tostring(name))
   M.types[name] = module
   return name
end

local function delete_object (frame, name, module)
   if rawget(module, "delete") then
      module.delete(frame.path..name.."."..module.type)
   else
      M.unmap(frame[name])
   end
end

--- Make the objects of a frame: *specs* is {name = {module, arguments of module.create ...}}, as {drops = {counter,
--- 0}}. Returns a table with the objects by name, and `path`, `specs`.
function M.create_frame (folder, specs)
   local frame = {path = folder.."/", specs = specs}
   local made = {}
   for _, name in ipairs(sorted_keys(specs)) do
      local spec = specs[name]
      local ok, object
      if frame[name] ~= nil then
         ok, object = false, "shm: a frame cannot have an object of the name '"..name.."'"
      elseif type(spec) ~= "table" or type(spec[1]) ~= "table" or not spec[1].create then
         ok, object = false, "shm: "..name..": expected {module, arguments...} with a module such as core.counter"
      else
         ok, object = pcall(spec[1].create, frame.path..name.."."..spec[1].type, unpack(spec, 2, table.maxn(spec)))
      end
      if not ok then
         for _, done in ipairs(made) do delete_object(frame, done, specs[done][1]) end
         error(object, 2)
      end
      frame[name] = object
      made[#made + 1] = name
   end
   return frame
end

--- Open the objects in a folder for reading; which kind each is follows from its extension. Unknown ones are left out,
--- and so are those that cannot be opened, as their owner may remove them at any time.
function M.open_frame (folder)
   local frame = {path = folder.."/", specs = {}, readonly = true}
   for _, file in ipairs(M.children(folder)) do
      local name, kind = file:match("^(.*)%.([^.]*)$")
      local module = name and M.types[kind]
      if module and frame[name] == nil then
         local ok, object = pcall(module.open, frame.path..file, true)
         if ok then
            frame[name] = object
            frame.specs[name] = {{type = kind, delete = rawget(module, "delete")}}
         end
      end
   end
   return frame
end

--- Unmap the objects of a frame, and remove them if `create_frame` made it.
function M.delete_frame (frame)
   for _, name in ipairs(sorted_keys(frame.specs)) do
      delete_object(frame, name, frame.specs[name][1])
   end
   if not frame.readonly then M.unlink(frame.path) end
end

--- The numbers of the processes that have a folder, in ascending order, with whether each lives: {{pid=, alive=}, ...}.
function M.processes ()
   local found = {}
   for _, name in ipairs(sys.list(M.root) or {}) do
      local pid = name:match("^%d+$") and tonumber(name)
      if pid then
         local alive = sys.alive(pid)
         if not alive then -- a process of another process namespace may share this root: it holds the lock
            local fd = lock_folder(M.root.."/"..name, "exclusive")
            if fd then sys.close(fd) else alive = true end
         end
         found[#found + 1] = {pid = pid, alive = alive}
      end
   end
   table.sort(found, function (a, b) return a.pid < b.pid end)
   return found
end

--- Remove the folders of processes that are gone, and names of programs that lead to them. Returns the process numbers.
--- *spare*: not those that are kept, as their processes had SNABB_SHM_KEEP in the environment.
function M.gc (spare)
   local removed = {}
   for _, process in ipairs(M.processes()) do
      local folder = M.root.."/"..process.pid
      local stays = process.alive or not sys.stat(folder.."/"..OURS) or spare and sys.stat(folder.."/"..KEPT)
      if not stays and sys.remove(folder) then removed[#removed + 1] = process.pid end
   end
   for _, name in ipairs(sys.list(M.root.."/by-name") or {}) do
      local link = M.root.."/by-name/"..name
      if sys.readlink(link) and not sys.access(link, 0) then sys.remove(link) end
   end
   return removed
end

--- Remove this process's own folder, when it ends. With SNABB_SHM_KEEP in the environment it stays until `gc`. Objects
--- stay mapped.
function M.cleanup ()
   if own_pid ~= sys.getpid() then return end
   if not wants_keeping() then
      local folder = M.root.."/"..own_pid
      local name = sys.readlink(folder.."/name") -- claimed by core.report
      if name and sys.readlink(name) == folder then sys.remove(name) end
      sys.remove(folder)
   end
   if own_lock then sys.close(own_lock) end
   own_pid, own_lock = false, false
end

-- A worker's group folder is there from the beginning.
if worker_parent() then make_own_folder() end

local function test_names ()
   local pid = tostring(sys.getpid())
   assert(resolve("/"..pid.."/foo/bar/baz") == resolve("foo/bar/baz"))
   assert(resolve("a//b/") == pid.."/a/b" and resolve("") == pid and resolve("/") == "" and resolve("/7/x") == "7/x")
   assert(path("a") == M.root.."/"..pid.."/a")
   for _, bad in ipairs{"../a", "a/../../b", "/..", "a/..", "/1/../../etc", "a/./b", "a\0b", ("x"):rep(256),
                        ("x/"):rep(600), 5} do
      assert(not pcall(resolve, bad) and not pcall(M.create, bad, "int") and not pcall(M.unlink, bad))
   end
   assert(not pcall(M.unlink, "/"))
   M.scope = "thread1"
   assert(resolve("a") == pid.."/thread1/a" and resolve("group/a") == pid.."/group/a" and resolve("/7/a") == "7/a")
   M.scope = false
end

local function test_objects ()
   local name, xyz = "selftest.shm/obj", "struct { int x, y, z; }"
   local a, b = M.create(name, xyz), M.create(name, xyz)
   assert(a ~= b and a.x == 0)
   a.x = 42
   assert(b.x == 42 and M.exists(name) and sys.stat(path(name)).mode == FILE_MODE)
   assert(sys.stat(path("")).mode == DIRECTORY_MODE)
   local c = M.open("/"..sys.getpid().."/"..name, xyz, true)
   assert(c.x == 42)
   M.alias("selftest.shm/deep/alias", name)
   assert(M.open("selftest.shm/deep/alias", xyz).x == 42 and not pcall(M.alias, "selftest.shm/deep/alias", name))
   assert(not pcall(M.open, name, "int") and not pcall(M.open, "selftest.shm/none", "int"))
   assert(not pcall(M.open, "selftest.shm", "int") and not pcall(M.create, name, "int[?]", 2^30))
   assert(M.unlink(name) and not M.exists(name) and not M.unlink(name))
   b.y = 7
   assert(a.y == 7) -- unlinked, still shared
   M.unmap(a); M.unmap(b); M.unmap(c)
   assert(not pcall(M.unmap, a))
   -- An open-ended type; opened shorter to read a header first.
   local open_ended = ffi.typeof("struct { uint32_t n; uint32_t v[?]; }")
   local d = M.create(name, open_ended, 100)
   d.n, d.v[99] = 100, 9
   local head = M.open(name, open_ended, true, 1)
   assert(M.open(name, open_ended, true, head.n).v[99] == 9 and not pcall(M.open, name, open_ended, true, 101))
   -- Another size: a new object.
   assert(M.create(name, "uint32_t")[0] == 0 and d.v[99] == 9)
   -- Many, and what is in a folder.
   local objects = {}
   for i = 1, 2000 do objects[i] = M.create("selftest.shm/many/"..i, "uint64_t[1]") end
   for i = 1, 2000 do M.unmap(objects[i]) end
   assert(#M.children("selftest.shm/many") == 2000 and #M.children("selftest.shm/none") == 0)
   assert(table.concat(M.children("selftest.shm"), " ") == "deep many obj")
end

local function test_frames ()
   local made, int = {}, ffi.typeof("int")
   local kind = {}
   kind.type = M.register("selftestint", kind)
   function kind.create (name, value, second)
      if value == 13 then error("unlucky") end
      made[#made + 1] = name:match("[^/]*$")
      local p = M.create(name, int)
      p[0] = (value or 0) + (second or 0)
      return p
   end
   function kind.open (name, readonly) return M.open(name, int, readonly) end
   assert(not pcall(M.register, "selftestint", kind))
   local frame = M.create_frame("selftest.shm/frame", {b = {kind, 5}, a = {kind}, c = {kind, nil, 3}})
   assert(table.concat(made, " ") == "a.selftestint b.selftestint c.selftestint")
   assert(frame.a[0] == 0 and frame.b[0] == 5 and frame.c[0] == 3 and frame.path == "selftest.shm/frame/")
   M.create("selftest.shm/frame/x.unknown", "int")
   local seen = M.open_frame("/"..sys.getpid().."/selftest.shm/frame")
   assert(seen.b[0] == 5 and seen.readonly and seen.x == nil)
   frame.b[0] = 6
   assert(seen.b[0] == 6)
   M.delete_frame(seen)
   assert(M.exists("selftest.shm/frame/b.selftestint"))
   M.delete_frame(frame)
   assert(not M.exists("selftest.shm/frame") and not pcall(M.unmap, frame.a))
   local n = 0
   for _ in pairs(mappings) do n = n + 1 end
   assert(not pcall(M.create_frame, "selftest.shm/frame", {a = {kind}, b = {kind, 13}}))
   assert(not pcall(M.create_frame, "selftest.shm/frame", {a = {kind}, path = {kind}}))
   assert(not pcall(M.create_frame, "selftest.shm/frame", {a = {kind}, b = {}}))
   for _ in pairs(mappings) do n = n - 1 end
   assert(n == 0)
end

local function test_processes ()
   -- A dead process's folder goes, a living one's stays, and so does what is no process's.
   local dead = assert(sys.spawn("/bin/true", {"true"}, {}))
   assert(sys.reap(dead, true) == 0)
   M.mkdir(dead.."/engine")
   M.gc()
   assert(M.exists("/"..dead)) -- without the mark it is no process's
   mark(M.root.."/"..dead, OURS)
   M.mkdir("by-name")
   sys.remove(M.root.."/by-name/selftest-dead") -- of a run that failed
   sys.symlink(M.root.."/"..dead, M.root.."/by-name/selftest-dead")
   local held = lock_folder(M.root.."/"..dead, "shared")
   assert(#M.gc() == 0 or M.exists("/"..dead)) -- locked: alive, perhaps in another process namespace
   sys.close(held)
   local gone = {}
   for _, pid in ipairs(M.gc()) do gone[pid] = true end
   assert(gone[dead] and not M.exists("/"..dead) and not sys.readlink(M.root.."/by-name/selftest-dead"))
   assert(M.exists("selftest.shm"))
   local own = {}
   for _, process in ipairs(M.processes()) do own[process.pid] = process.alive end
   assert(own[sys.getpid()] == true and own[dead] == nil)
end

-- The next process to start removed what was to be kept.
local function test_kept ()
   local dead = assert(sys.spawn("/bin/true", {"true"}, {}))
   assert(sys.reap(dead, true) == 0)
   M.mkdir(dead.."/engine")
   mark(M.root.."/"..dead, OURS)
   mark(M.root.."/"..dead, KEPT)
   M.gc(true)
   assert(M.exists("/"..dead.."/engine"))
   M.gc()
   assert(not M.exists("/"..dead))
end

function M.selftest ()
   test_kept()
   test_names()
   test_objects()
   test_frames()
   test_processes()
   assert(M.unlink("selftest.shm") and not M.exists("selftest.shm"))
end

return M
