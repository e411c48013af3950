-- SPDX-License-Identifier: MIT
-- core.lib.file: files, paths, directories, shell commands. Part of core.lib, which re-exports it.
--
-- What differs from Snabb: directories are listed by readdir(3), not by `ls`, so that any name will do; `readlink` has
-- no limit of 511 bytes short of PATH_MAX.
local ffi = require("ffi")
local C = ffi.C

ffi.cdef [[
char *perigee_lib_dirname(char *path) __asm__("dirname");
char *perigee_lib_basename(char *path) __asm__("__xpg_basename");
ssize_t perigee_lib_readlink(const char *path, char *buf, size_t size) __asm__("readlink");
]]

local PATH_MAX = 4096

local M = {}

--- True if the file `filename` can be opened with `mode` (as for io.open; default "r").
function M.can_open(filename, mode)
   local file = io.open(filename, mode or "r")
   if file == nil then return false end
   file:close()
   return true
end

--- True if the file `filename` can be opened for reading.
function M.can_read(filename)
   return M.can_open(filename, "r")
end

--- True if the file `filename` can be opened for writing. As in Snabb, a file that can be is empty afterwards.
function M.can_write(filename)
   return M.can_open(filename, "w")
end

--- Runs `command` in the shell and returns `what` (as for file:read) of its output.
function M.readcmd(command, what)
   local pipe = assert(io.popen(command))
   local value = pipe:read(what)
   pipe:close()
   return value
end

local function open(filename, mode)
   local file = io.open(filename, mode)
   if file == nil then error("Unable to open file: "..filename) end
   return file
end

--- `what` (as for file:read) of the file `filename`. Errors: "Unable to open file: FILENAME".
function M.readfile(filename, what)
   local file = open(filename, "r")
   local value = file:read(what)
   file:close()
   return value
end

--- Writes `value` (a string or number) to the file `filename`. Returns a true value, or nil if it could not be written
-- (such as by a full disk). Errors: "Unable to open file: FILENAME".
function M.writefile(filename, value)
   local file = open(filename, "w")
   local result = file:write(value)
   return file:close() and result
end

--- The first line of the file `filename` without its newline, nil if it is empty.
function M.firstline(filename)
   return M.readfile(filename, "*l")
end

--- What the symbolic link `path` points to, or nil and the errno.
function M.readlink(path)
   local buffer = ffi.new("char[?]", PATH_MAX)
   local length = C.perigee_lib_readlink(path, buffer, PATH_MAX)
   if length < 0 then return nil, ffi.errno() end
   return ffi.string(buffer, length)
end

-- dirname(3) and basename(3) may write into their argument.
local function on_copy(func, path)
   local buffer = ffi.new("char[?]", #path + 1)
   ffi.copy(buffer, path)
   return ffi.string(func(buffer))
end

--- dirname(3) of `path`; nil of nil.
function M.dirname(path)
   return path and on_copy(C.perigee_lib_dirname, path)
end

--- basename(3) of `path`; nil of nil.
function M.basename(path)
   return path and on_copy(C.perigee_lib_basename, path)
end

-- struct dirent of 64-bit Linux: inode, offset (8 bytes each), record length (2), type (1), name.
ffi.cdef [[
struct perigee_dirent { uint64_t ino; int64_t off; uint16_t reclen; uint8_t type; char name[256]; };
void *perigee_lib_opendir(const char *path) __asm__("opendir");
struct perigee_dirent *perigee_lib_readdir(void *dir) __asm__("readdir");
int perigee_lib_closedir(void *dir) __asm__("closedir");
]]

--- The names in the directory `path`, sorted, without those that begin with a dot. Empty if there is no such directory.
function M.files_in_directory(path)
   local names = {}
   local dir = C.perigee_lib_opendir(path)
   if dir == nil then return names end
   while true do
      local entry = C.perigee_lib_readdir(dir)
      if entry == nil then break end
      local name = ffi.string(entry.name)
      if name:sub(1, 1) ~= "." then names[#names + 1] = name end
   end
   C.perigee_lib_closedir(dir)
   table.sort(names)
   return names
end

--- The first name, sorted, in the directory `path`; nil if there is none. As in Snabb, `path` may hold shell wildcards.
function M.firstfile(path)
   if path:find("[*?%[]") then return M.readcmd("ls -1 "..path.." 2>/dev/null", "*l") end
   return M.files_in_directory(path)[1]
end

function M.selftest()
   require("core.lib").selftest()
end

return M
