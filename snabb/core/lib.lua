-- SPDX-License-Identifier: MIT
-- core.lib: the helpers that apps and programs use, as Snabb's core.lib has them. The larger groups are in
-- core.lib.value, core.lib.file, core.lib.bytes, core.lib.random and core.lib.time; whatever they offer is found here.
--
-- Needs nothing but ffi, bit and libc when loaded: what depends on the engine, on DMA memory or on core.main loads
-- them when called. What differs from Snabb is said in the head comments of those files. New: `tointeger`.
local ffi = require("ffi")
local C = ffi.C
local getopt = require("lib.lua.alt_getopt")

-- These are for the programs, too, which call them as C.memcmp and C.usleep.
ffi.cdef [[
int memcmp(const void *, const void *, size_t);
int usleep(unsigned int);
int perigee_lib_execv(const char *path, const char *const *argv) __asm__("execv");
char *perigee_lib_strerror(int) __asm__("strerror");
unsigned int perigee_lib_geteuid(void) __asm__("geteuid");
]]

local M = {}

for _, name in ipairs {"value", "file", "bytes", "random", "time"} do
   for key, value in pairs(require("core.lib."..name)) do M[key] = value end
end

--- "yes" if `flag` is a true value, else "no".
function M.yesno(flag)
   return flag and "yes" or "no"
end

--- An iterator over the parts of the string `s` between matches of `pattern` (as for string.gmatch). With each part, it
-- gives the captures of the match that ends it, or the match where there are none; the last part comes alone.
-- Also a method of all strings: `s:split(pattern)`.
function M.split(s, pattern)
   local position, done = 1, false
   local function pass(from, first, last, capture, ...)
      if first == nil then
         done = true
         return s:sub(from)
      end
      position = last + 1
      return s:sub(from, first - 1), capture or s:sub(first, last), ...
   end
   return function ()
      if done then return nil end
      local from = position
      local first, last = s:find(pattern, from)
      -- A match of nothing splits between characters, never at the very start.
      if first and last < first then first, last = s:find(pattern, from + 1) end
      if first and first > #s then first = nil end
      if first == nil then return pass(from) end
      return pass(from, s:find(pattern, first))
   end
end
string.split = M.split

--- A guard around `size` elements of the C type `ctype` at the address `base` + `offset` bytes: reads and writes by
-- index, from 0, are errors outside of them.
function M.bounds_checked(ctype, base, offset, size)
   local elements = ffi.cast(ffi.typeof("$ *", ffi.typeof(ctype)), ffi.cast("uint8_t *", base) + offset)
   local function check(index)
      if not (index >= 0 and index < size) then
         error(("index %s is out of bounds: 0 to %d"):format(tostring(index), size - 1), 3)
      end
   end
   return setmetatable({}, {
      __index = function (_, index)
         check(index)
         return elements[index]
      end,
      __newindex = function (_, index, value)
         check(index)
         elements[index] = value
      end
   })
end

--- A pointer to new DMA memory for one `etype` (C type or its name).
function M.malloc(etype)
   etype = ffi.typeof(etype)
   local ptr = require("core.memory").dma_alloc(ffi.sizeof(etype))
   return ffi.cast(ffi.typeof("$ *", etype), ptr)
end

--- Parses the options in the array of strings `args` and calls, in their order, `actions[name]` with each one's value
-- (nil without one). `opts`, `long_opts`: as for lib.lua.alt_getopt. Returns the array of arguments that remain.
-- Errors: "unimplemented option: NAME" if there is no action; wrong options end the process.
function M.dogetopt(args, actions, opts, long_opts)
   local names, index, values = getopt.get_ordered_opts(args, opts, long_opts)
   for i, name in ipairs(names) do
      local action = actions[name]
      if action == nil then error("unimplemented option: "..name) end
      action(values[i])
   end
   local rest = {}
   for i = index, #args do rest[#rest + 1] = args[i] end
   return rest
end

--- True if the module `name` is loaded or could be; this does not load it.
function M.have_module(name)
   if package.loaded[name] or package.preload[name] then return true end
   for _, searcher in ipairs(package.loaders or package.searchers) do
      local loader = searcher(name)
      if type(loader) == "function" then
         package.preload[name] = loader
         return true
      end
   end
   return false
end

--- Unless the process is root's: prints `message` (default "error: must run as root") and exits with status 1.
function M.root_check(message)
   if C.perigee_lib_geteuid() ~= 0 then
      print(message or "error: must run as root")
      require("core.main").exit(1)
   end
end

--- The environment variable `name`; nil if it is not set or empty.
function M.getenv(name)
   local value = os.getenv(name)
   if value ~= "" then return value end
end

--- execv(3): replaces the process by the program at `path` with the arguments `argv` (an array of strings, the
-- program's name first). Returns only if that fails: nil and a message.
function M.execv(path, argv)
   argv = argv or {}
   local pointers = ffi.new("const char *[?]", #argv + 1)
   for i = 1, #argv do pointers[i - 1] = argv[i] end
   C.perigee_lib_execv(path, pointers)
   return nil, ffi.string(C.perigee_lib_strerror(ffi.errno()))
end

--- Keeps LuaJIT from moving loads and stores across the call: any call by FFI does.
function M.compiler_barrier()
   C.perigee_lib_geteuid()
end

--- True if `name` is a network interface of the kernel, in this network namespace.
function M.is_iface(name)
   if type(name) ~= "string" then return false end
   local file = assert(io.open("/proc/net/dev"))
   for line in file:lines() do
      if line:match("^%s*([^%s:]+):") == name then
         file:close()
         return true
      end
   end
   file:close()
   return false
end

-- The uint64_t that the string `digits` gives; nil if it gives none or more than 64 bits.
local function parse_digits(digits)
   local hex = digits:match("^0[xX](%x+)$")
   local significant = (hex or digits:match("^%d+$") or "none"):gsub("^0+(.)", "%1")
   local chunk = loadstring("return "..(hex and "0x" or "")..significant.."ULL")
   if significant == "none" or #significant > (hex and 16 or 20) or not chunk then return nil end
   local value = chunk()
   -- What wraps round has other digits.
   if not hex and tostring(value) ~= significant.."ULL" then return nil end
   return value
end

--- The integer in `value`, a number, a 64-bit cdata or a string in decimal or hexadecimal ("0x..."): a number where it
-- has at most 53 bits, else a 64-bit cdata. nil if it is none.
function M.tointeger(value)
   if type(value) == "string" then
      local sign, digits = value:match("^%s*(%-?)(%w+)%s*$")
      value = digits and parse_digits(digits)
      if value == nil or sign == "-" and value > 0x8000000000000000ULL then return nil end
      if sign == "-" then value = -ffi.cast("int64_t", value) end
   end
   if type(value) == "cdata" then
      local number = tonumber(value)
      if number and number >= -2^53 and number <= 2^53 then return number end
      return number and value
   elseif type(value) == "number" and value % 1 == 0 then
      return value
   end
   return nil
end

--- A rate-limited logger: lib.logger.new(config).
function M.logger_new(config)
   return require("lib.logger").new(config)
end

--- A token bucket: lib.token_bucket.new(config).
function M.token_bucket_new(config)
   return require("lib.token_bucket").new(config)
end

function M.selftest()
   require("core.lib.selftest").run(M)
end

return M
