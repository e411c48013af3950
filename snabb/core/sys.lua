-- SPDX-License-Identifier: MIT
-- The few calls of the C library that the core needs: files, directories, memory maps, processes. Source:
-- POSIX.1-2017, Linux man-pages (statx(2), flock(2), mmap(2)). Not part of Snabb, whose core has them from ljsyscall.
-- Every C function is declared under a name of our own that refers to the libc symbol, so that a library that
-- declares the same function in another way (ljsyscall does) neither changes ours nor trips over it.

local ffi = require("ffi")
local bit = require("bit")
local C = ffi.C

ffi.cdef[[
int      perigee_sys_open(const char *path, int flags, int mode) __asm__("open");
int      perigee_sys_close(int fd) __asm__("close");
int64_t  perigee_sys_read(int fd, void *buf, size_t n) __asm__("read");
int64_t  perigee_sys_write(int fd, const void *buf, size_t n) __asm__("write");
int      perigee_sys_ftruncate(int fd, int64_t size) __asm__("ftruncate");
int      perigee_sys_flock(int fd, int operation) __asm__("flock");
void    *perigee_sys_mmap(void *at, size_t n, int prot, int flags, int fd, int64_t offset) __asm__("mmap");
int      perigee_sys_munmap(void *at, size_t n) __asm__("munmap");
int      perigee_sys_madvise(void *at, size_t n, int advice) __asm__("madvise");
int      perigee_sys_mkdir(const char *path, unsigned int mode) __asm__("mkdir");
int      perigee_sys_rmdir(const char *path) __asm__("rmdir");
int      perigee_sys_unlink(const char *path) __asm__("unlink");
int      perigee_sys_symlink(const char *target, const char *path) __asm__("symlink");
int64_t  perigee_sys_readlink(const char *path, char *buf, size_t n) __asm__("readlink");
int      perigee_sys_statx(int dir, const char *path, int flags, unsigned int mask, void *buf) __asm__("statx");
void    *perigee_sys_opendir(const char *path) __asm__("opendir");
void    *perigee_sys_readdir(void *dir) __asm__("readdir");
int      perigee_sys_closedir(void *dir) __asm__("closedir");
int      perigee_sys_getpid(void) __asm__("getpid");
int      perigee_sys_getppid(void) __asm__("getppid");
unsigned perigee_sys_geteuid(void) __asm__("geteuid");
int      perigee_sys_access(const char *path, int mode) __asm__("access");
int      perigee_sys_kill(int pid, int signal) __asm__("kill");
int      perigee_sys_waitpid(int pid, int *status, int options) __asm__("waitpid");
int      perigee_sys_nanosleep(const int64_t request[2], int64_t rest[2]) __asm__("nanosleep");
int      perigee_sys_isatty(int fd) __asm__("isatty");
char    *perigee_sys_strerror(int errnum) __asm__("strerror");
int      perigee_sys_posix_spawn(int *pid, const char *path, const void *actions, const void *attributes,
                                 char *const argv[], char *const envp[]) __asm__("posix_spawn");
extern char **environ;
struct perigee_sys_dirent { uint64_t ino; int64_t off; uint16_t reclen; uint8_t type; char name[256]; };
struct perigee_sys_statx {
   uint32_t mask, blksize; uint64_t attributes; uint32_t nlink, uid, gid; uint16_t mode, pad0;
   uint64_t ino, size, blocks, attributes_mask; uint8_t rest[192];
};
]]

local M = {}

--- Error numbers of Linux that callers compare `ffi.errno()` with.
M.errno = {EPERM = 1, ENOENT = 2, ESRCH = 3, EINTR = 4, EAGAIN = 11, EACCES = 13, EEXIST = 17, ENOTDIR = 20,
           EISDIR = 21, ENOTEMPTY = 39}
--- Flags of open(2).
M.open_flags = {RDONLY = 0, WRONLY = 1, RDWR = 2, CREAT = 0x40, EXCL = 0x80, TRUNC = 0x200, DIRECTORY = 0x10000,
                NOFOLLOW = 0x20000, CLOEXEC = 0x80000}
if ffi.arch == "arm64" then -- the one architecture of ours whose numbers differ
   M.open_flags.DIRECTORY, M.open_flags.NOFOLLOW = 0x4000, 0x8000
end
--- Signals that the core sends.
M.signal = {HUP = 1, INT = 2, KILL = 9, TERM = 15}

local errno, O = M.errno, M.open_flags
local PROT_READ, PROT_WRITE = 1, 2
local MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS, MAP_HUGETLB = 0x01, 0x02, 0x20, 0x40000
local LOCK_SH, LOCK_EX, LOCK_NB = 1, 2, 4
local AT_FDCWD, AT_SYMLINK_NOFOLLOW, AT_EMPTY_PATH, STATX_BASIC = -100, 0x100, 0x1000, 0x7ff
local S_IFMT, S_IFDIR, S_IFREG, S_IFLNK = 0xf000, 0x4000, 0x8000, 0xa000
local failed = ffi.cast("void *", -1)
local dirent_ptr = ffi.typeof("struct perigee_sys_dirent *")
local WNOHANG = 1

--- The text of an error number (default: that of the last failed call).
function M.strerror (number)
   return ffi.string(C.perigee_sys_strerror(number or ffi.errno()))
end
local strerror = M.strerror

--- This process's number.
function M.getpid () return C.perigee_sys_getpid() end
--- The parent process's number.
function M.getppid () return C.perigee_sys_getppid() end
--- The effective user's number; 0 is root.
function M.geteuid () return C.perigee_sys_geteuid() end

--- Open a file. *flags* is a sum of `open_flags` (CLOEXEC is added), *mode* the permissions of a file that this
--- creates. Returns the descriptor, or nil, the reason and the error number.
function M.open (path, flags, mode)
   local fd
   repeat
      fd = C.perigee_sys_open(path, bit.bor(flags, O.CLOEXEC), mode or 0)
   until fd >= 0 or ffi.errno() ~= errno.EINTR
   if fd < 0 then return nil, strerror(), ffi.errno() end
   return fd
end

--- Close a descriptor.
function M.close (fd) C.perigee_sys_close(fd) end

--- Set a file's size in bytes. Returns true, or nil and the reason.
function M.ftruncate (fd, size)
   if C.perigee_sys_ftruncate(fd, size) ~= 0 then return nil, strerror() end
   return true
end

--- Take a lock on an open file or directory without waiting; kind is "shared" or "exclusive". True if it was taken. The
--- kernel drops it when the process ends, however it ends.
function M.try_lock (fd, kind)
   return C.perigee_sys_flock(fd, bit.bor(kind == "exclusive" and LOCK_EX or LOCK_SH, LOCK_NB)) == 0
end

local stat_buffer = ffi.new("struct perigee_sys_statx")
local stat_kinds = {[S_IFDIR] = "directory", [S_IFREG] = "file", [S_IFLNK] = "symlink"}

--- What stands at a path, or behind a descriptor: a table {kind = "directory" | "file" | "symlink" | "other", size,
--- uid, mode}. A symbolic link is not followed. nil, the reason and the error number if there is nothing.
function M.stat (where)
   local status
   if type(where) == "number" then
      status = C.perigee_sys_statx(where, "", AT_EMPTY_PATH, STATX_BASIC, stat_buffer)
   else
      status = C.perigee_sys_statx(AT_FDCWD, where, AT_SYMLINK_NOFOLLOW, STATX_BASIC, stat_buffer)
   end
   if status ~= 0 then return nil, strerror(), ffi.errno() end
   local mode = stat_buffer.mode
   return {kind = stat_kinds[bit.band(mode, S_IFMT)] or "other", size = tonumber(stat_buffer.size),
           uid = stat_buffer.uid, mode = bit.band(mode, 4095)}
end

--- Map *size* bytes of an open file (shared; readonly if so asked). Returns a `void *`, or nil and the reason.
function M.map_file (fd, size, readonly)
   local prot = readonly and PROT_READ or bit.bor(PROT_READ, PROT_WRITE)
   local at = C.perigee_sys_mmap(nil, size, prot, MAP_SHARED, fd, 0)
   if at == failed then return nil, strerror() end
   return at
end

--- Map *size* bytes of zeroed memory that belongs to no file; *huge*: from huge pages that are reserved. Returns a
--- `void *`, or nil and the reason.
function M.map_memory (size, huge)
   local flags = bit.bor(MAP_PRIVATE, MAP_ANONYMOUS, huge and MAP_HUGETLB or 0)
   local at = C.perigee_sys_mmap(nil, size, bit.bor(PROT_READ, PROT_WRITE), flags, -1, 0)
   if at == failed then return nil, strerror() end
   return at
end

--- Ask the kernel to back a range of memory by huge pages when it can. Advice only: nothing is returned.
function M.prefer_huge_pages (at, size)
   C.perigee_sys_madvise(at, size, 14) -- MADV_HUGEPAGE
end

--- Undo a mapping.
function M.unmap (at, size)
   if C.perigee_sys_munmap(at, size) ~= 0 then return nil, strerror() end
   return true
end

--- Make one directory. Returns true if it is there afterwards, or nil, the reason and the error number.
function M.mkdir (path, mode)
   if C.perigee_sys_mkdir(path, mode) == 0 or ffi.errno() == errno.EEXIST then return true end
   return nil, strerror(), ffi.errno()
end

--- Make a symbolic link at *path* to *target*. Returns true, or nil, the reason and the error number.
function M.symlink (target, path)
   if C.perigee_sys_symlink(target, path) == 0 then return true end
   return nil, strerror(), ffi.errno()
end

--- Where a symbolic link points to, or nil and the reason.
function M.readlink (path)
   local buffer = ffi.new("char[4096]")
   local n = C.perigee_sys_readlink(path, buffer, 4096)
   if n < 0 then return nil, strerror() end
   return ffi.string(buffer, n)
end

--- May this user do *mode* (a sum of 4 read, 2 write, 1 enter) with what is at *path*?
function M.access (path, mode)
   return C.perigee_sys_access(path, mode) == 0
end

--- Sleep for this many seconds (a fraction, too); a signal ends it earlier.
function M.sleep (seconds)
   local whole = math.floor(seconds)
   C.perigee_sys_nanosleep(ffi.new("int64_t[2]", whole, math.floor((seconds - whole) * 1e9)), nil)
end

--- Is the descriptor a terminal?
function M.isatty (fd)
   return C.perigee_sys_isatty(fd) == 1
end

--- The names in a directory, sorted, without "." and "..". nil and the reason if it cannot be read.
function M.list (path)
   local dir = C.perigee_sys_opendir(path)
   if dir == nil then return nil, strerror() end
   local names = {}
   while true do
      local entry = C.perigee_sys_readdir(dir)
      if entry == nil then break end
      local name = ffi.string(ffi.cast(dirent_ptr, entry).name)
      if name ~= "." and name ~= ".." then names[#names + 1] = name end
   end
   C.perigee_sys_closedir(dir)
   table.sort(names)
   return names
end

--- Remove a file, a symbolic link (not what it points to) or a directory with all that is in it. Returns true, or nil
--- and the reason; what is not there is an error, too.
function M.remove (path)
   if C.perigee_sys_unlink(path) == 0 then return true end
   local number = ffi.errno()
   if number ~= errno.EISDIR and number ~= errno.EPERM then return nil, strerror(number) end
   for _, name in ipairs(M.list(path) or {}) do
      M.remove(path.."/"..name)
   end
   if C.perigee_sys_rmdir(path) ~= 0 then return nil, strerror() end
   return true
end

--- Send a signal; 0 only asks whether there is such a process. True if there is one and it may be signalled, or if it
--- is another user's (EPERM); false otherwise.
function M.kill (pid, signal)
   return C.perigee_sys_kill(pid, signal) == 0 or ffi.errno() == errno.EPERM
end

--- Is there a process of this number that runs? One that has ended and waits for its parent to notice does not.
function M.alive (pid)
   if not M.kill(pid, 0) then return false end
   local file = io.open(("/proc/%d/stat"):format(pid))
   if not file then return true end -- no /proc, or not for us
   local state = (file:read("*l") or ""):match("^.*%) (%a)")
   file:close()
   return state ~= "Z" and state ~= "X"
end

--- Has child process *pid* ended? Returns nil while it runs; then, once, its exit status (128 + the signal if it was
--- killed), and -1 if it is no child (any more). *wait*: wait for its end.
function M.reap (pid, wait)
   local status = ffi.new("int[1]")
   local got
   repeat
      got = C.perigee_sys_waitpid(pid, status, wait and 0 or WNOHANG)
   until got >= 0 or ffi.errno() ~= errno.EINTR
   if got == 0 then return nil end
   if got < 0 then return -1 end
   local signal = bit.band(status[0], 0x7f)
   if signal ~= 0 then return 128 + signal end
   return bit.band(bit.rshift(status[0], 8), 0xff)
end

local function c_strings (list)
   local array = ffi.new("char *[?]", #list + 1)
   local keep = {}
   for i, text in ipairs(list) do
      local copy = ffi.new("char[?]", #text + 1, text)
      array[i - 1], keep[i] = copy, copy
   end
   return array, keep
end

--- Start a program: *argv* is an array, *variables* a table of environment variables to set on top of ours (false: to
--- remove). Returns the process number, or nil and the reason.
function M.spawn (path, argv, variables)
   local environment, i = {}, 0
   while C.environ[i] ~= nil do
      local text = ffi.string(C.environ[i])
      if variables[text:match("^([^=]*)=")] == nil then environment[#environment + 1] = text end
      i = i + 1
   end
   local names = {}
   for name in pairs(variables) do names[#names + 1] = name end
   table.sort(names)
   for _, name in ipairs(names) do
      if variables[name] then environment[#environment + 1] = name.."="..variables[name] end
   end
   local args, keep_args = c_strings(argv)
   local env, keep_env = c_strings(environment)
   local pid = ffi.new("int[1]")
   local number = C.perigee_sys_posix_spawn(pid, path, nil, nil, args, env)
   if number ~= 0 then return nil, strerror(number) end
   assert(#keep_args + #keep_env >= 0) -- the strings live until here
   return pid[0]
end

function M.selftest ()
   local dir = ("/tmp/perigee-sys-%d"):format(M.getpid())
   assert(M.mkdir(dir, tonumber("700", 8)) and M.mkdir(dir, tonumber("700", 8)))
   local status = assert(M.stat(dir))
   assert(status.kind == "directory" and status.mode == tonumber("700", 8) and status.uid == M.geteuid())
   local fd = assert(M.open(dir.."/file", O.RDWR + O.CREAT, tonumber("600", 8)))
   assert(M.ftruncate(fd, 5000))
   local other = M.open(dir.."/file", O.RDWR)
   assert(M.try_lock(fd, "shared") and M.try_lock(other, "shared") and not M.try_lock(other, "exclusive"))
   local a, b = assert(M.map_file(fd, 5000)), assert(M.map_file(other, 5000, true))
   ffi.cast("uint8_t *", a)[4999] = 77
   assert(ffi.cast("uint8_t *", b)[4999] == 77 and M.stat(fd).size == 5000)
   assert(M.unmap(a, 5000) and M.unmap(b, 5000))
   M.close(fd); M.close(other)
   assert(M.symlink("file", dir.."/link") and not M.symlink("file", dir.."/link"))
   assert(M.readlink(dir.."/link") == "file" and M.stat(dir.."/link").kind == "symlink")
   assert(not M.readlink(dir.."/file"))
   -- Removing a tree removes links, not what they lead to.
   assert(M.mkdir(dir.."/tree", tonumber("700", 8)) and M.mkdir(dir.."/tree/in", tonumber("700", 8)))
   assert(M.symlink("..", dir.."/tree/in/up") and M.symlink(dir.."/file", dir.."/tree/to"))
   assert(table.concat(M.list(dir), " ") == "file link tree")
   assert(M.remove(dir.."/tree") and not M.stat(dir.."/tree") and M.stat(dir.."/file"))
   local none, why, number = M.open(dir.."/none", O.RDONLY)
   assert(not none and #why > 0 and number == errno.ENOENT)
   assert(not M.list(dir.."/none") and not M.remove(dir.."/none"))
   -- Processes.
   local code = 'test "$PERIGEE_A" = 1 && test -z "$HOME"; exit $((3 + $?))'
   local pid = assert(M.spawn("/bin/sh", {"sh", "-c", code}, {PERIGEE_A = "1", HOME = false}))
   assert(M.reap(pid, true) == 3 and M.reap(pid) == -1 and not M.kill(pid, 0) and M.kill(M.getpid(), 0))
   pid = assert(M.spawn("/bin/sh", {"sh", "-c", "sleep 100"}, {}))
   assert(M.reap(pid) == nil and M.alive(pid) and M.kill(pid, M.signal.KILL) and M.reap(pid, true) == 128 + 9)
   assert(not M.alive(pid) and M.alive(M.getpid()))
   pid = assert(M.spawn("/bin/true", {"true"}, {}))
   for _ = 1, 1000 do
      if not M.alive(pid) then break end
      M.sleep(0.01)
   end
   assert(not M.alive(pid) and M.kill(pid, 0) and M.reap(pid, true) == 0) -- it was a zombie
   assert(not M.spawn("/none/such", {"such"}, {}))
   assert(M.remove(dir) and not M.stat(dir))
end

return M
