-- SPDX-License-Identifier: MIT
-- The selftest of core.lib and of the files that it is made of.
local ffi = require("ffi")

local M = {}

-- The error of func(...) must contain `wanted`.
local function fails(wanted, func, ...)
   local ok, message = pcall(func, ...)
   assert(not ok, "expected an error: "..wanted)
   assert(tostring(message):find(wanted, 1, true), tostring(message))
end

local function test_equal(lib)
   local meta = setmetatable({}, {})
   assert(lib.equal({a = {1, 2}, b = "x"}, {a = {1, 2}, b = "x"}))
   assert(not lib.equal({a = 1}, {a = 1, b = 2}) and not lib.equal({a = 1, b = 2}, {a = 1}))
   assert(not lib.equal(1, "1") and lib.equal(nil, nil) and not lib.equal({}, meta) and lib.equal(meta, meta))
   local t = ffi.typeof("struct { uint8_t a, b; }")
   assert(lib.equal(t(1, 2), t(1, 2)) and not lib.equal(t(1, 2), t(1, 3)))
   assert(not lib.equal(ffi.new("uint8_t[2]"), ffi.new("uint8_t[3]")))
   assert(lib.equal(3ULL, 3ULL) and not lib.equal(3ULL, 4ULL))
end

local function test_copies(lib)
   local inner = {ffi.new("uint8_t[2]", 7, 8), ffi.new("uint16_t[?]", 3, 9), ffi.typeof("int"), 5ULL}
   local original = setmetatable({inner, inner, name = "x"}, {__index = {y = 1}})
   local copy = lib.deepcopy(original)
   assert(copy[1] == copy[2] and copy[1] ~= inner and copy.y == 1 and copy.name == "x")
   assert(lib.equal(copy[1][1], inner[1]) and copy[1][1] ~= inner[1])
   assert(ffi.sizeof(copy[1][2]) == 6 and copy[1][2][2] == 9 and copy[1][3] == inner[3] and copy[1][4] == 5ULL)
   local array = lib.array_copy({1, 2, 3, x = 4})
   assert(lib.equal(array, {1, 2, 3}))
   assert(lib.equal(lib.set("a", "b"), {a = true, b = true}) and next(lib.set()) == nil)
end

local function test_parse(lib)
   local required, optional = {required = true}, {default = 42}
   local schema = {a = required, b = required, c = optional, d = {}}
   local arg = {a = false, b = 2}
   local parsed = lib.parse(arg, schema)
   assert(lib.equal(parsed, {a = false, b = 2, c = 42}) and arg.c == nil and parsed ~= arg)
   assert(lib.parse({a = 1, b = 2, c = false}, schema).c == false)
   assert(lib.equal(lib.parse(nil, {}), {}) and lib.equal(lib.parse({x = 1}, nil), {x = 1}))
   fails("missing required parameter 'a'", lib.parse, {}, schema)
   fails("missing required parameter 'b'", lib.parse, {a = 1}, schema)
   fails("unrecognized parameter 'e'", lib.parse, {a = 1, b = 2, e = 3, f = 4}, schema)
   fails("unrecognized parameter '1'", lib.parse, {7}, {})
   fails("expected a table", lib.parse, "text", schema)
end

local function test_files(lib)
   local name = os.tmpname()
   local conf = {foo = "1\n\"", bar = 0.1, [7] = {2, "foo", 4, x = {}}, ["end"] = true, ["a b"] = -3, big = 2^60}
   lib.store_conf(name, conf)
   assert(lib.equal(lib.load_conf(name), conf))
   assert(lib.firstline(name) == "return {" and lib.can_read(name))
   assert(lib.writefile(name, "one\ntwo\n") and lib.readfile(name, "*a") == "one\ntwo\n")
   assert(lib.can_write(name) and lib.readfile(name, "*a") == "")
   assert(os.remove(name) and not lib.can_read(name))
   fails("Unable to open file: "..name, lib.readfile, name, "*a")
   fails("Unable to open file: /nonexistent/x", lib.writefile, "/nonexistent/x", "")
   assert(lib.readcmd("echo a; echo b", "*a") == "a\nb\n")
   assert(lib.dirname("/etc/rc2.d/S99") == "/etc/rc2.d" and lib.basename("/etc/rc2.d/S99") == "S99")
   assert(lib.dirname("x") == "." and lib.dirname(nil) == nil and lib.basename(nil) == nil)
   local files = lib.set(unpack(lib.files_in_directory("/proc/self")))
   assert(files.status and files.exe and not files["."])
   assert(#lib.files_in_directory("/nonexistent") == 0 and lib.firstfile("/nonexistent") == nil)
   assert(lib.firstfile("/proc/self/fdinfo") == "0" and lib.firstfile("/proc/sel[f]/status") == "/proc/self/status")
   assert(lib.readlink("/proc/self/exe"):sub(1, 1) == "/" and select(2, lib.readlink("/nonexistent")) == 2)
   assert(lib.equal(lib.load_string("{1, 2}"), {1, 2}))
   fails("unexpected symbol", lib.load_string, "}")
end

local function test_bits(lib)
   assert(lib.bits({RESET = 0, ENABLE = 4}, 32) == 49 and lib.bitset(16, 4) and not lib.bitset(16, 3))
   local s = ffi.new("struct { uint8_t a; uint16_t b; uint32_t c; }")
   lib.bitfield(16, s, "b", 3, 13, 0x1234)
   lib.bitfield(16, s, "b", 0, 3, 5)
   assert(s.b == lib.htons(0xb234))
   assert(lib.bitfield(16, s, "b", 0, 3) == 5 and lib.bitfield(16, s, "b", 3, 13) == 0x1234)
   lib.bitfield(8, s, "a", 4, 4, 0x1f)
   assert(s.a == 15)
   lib.bitfield(32, s, "c", 0, 32, 0xfedcba98)
   assert(s.c == lib.htonl(0xfedcba98) and lib.bitfield(32, s, "c", 0, 32) == 0xfedcba98)
   lib.bitfield(32, s, "c", 4, 8, 0)
   assert(lib.bitfield(32, s, "c", 0, 16) == 0xf00c and lib.bitfield(32, s, "c", 16, 16) == 0xba98)
   assert(lib.ntohl(0xf0d0b0f1) == 0xf1b0d0f0 and lib.ntohl(lib.ntohl(0xf0d0b0f0)) == 0xf0d0b0f0)
   assert(lib.htons(0x1234) == 0x3412 and lib.ntohs(0xff00) == 0xff)
   assert(lib.htonll(0x0102030405060708ULL) == 0x0807060504030201ULL and lib.ntohll(1) == 0x0100000000000000ULL)
   assert(lib.align(0, 8) == 0 and lib.align(1, 8) == 8 and lib.align(8, 8) == 8 and lib.align(13, 6) == 18)
end

local function test_text(lib)
   assert(lib.hexdump("\69\0\182\10") == "45 00 B6 0A" and lib.hexdump("") == "")
   assert(lib.hexundump("4500 B67D\n00:FA", 6) == "\69\0\182\125\0\250" and lib.hexundump("010203", 2) == "\1\2")
   fails("Wanted 3 bytes, but only got 2", lib.hexundump, "0102", 3)
   fails("too short", lib.hexundump, "0102", 3, "too short")
   assert(lib.hexundump("0102", 3, false) == "\1\2\0" and lib.hexundump("0a0b") == "\10\11")
   assert(lib.comma_value(1000000) == "1,000,000" and lib.comma_value(999) == "999")
   assert(lib.comma_value(-1000) == "-1,000" and lib.comma_value(1e15) == "1,000,000,000,000,000")
   assert(lib.comma_value(18446744073709551615ULL) == "18,446,744,073,709,551,615")
   assert(lib.comma_value(1234.5) == "1,234.5" and lib.comma_value(0 / 0) == "NaN")
   local parts = {}
   for part, separator in ("foo!bar!!baz"):split("!") do parts[#parts + 1] = part..(separator or "$") end
   assert(table.concat(parts, " ") == "foo! bar! ! baz$")
   for part, space in (" a"):split(",(.)") do assert(part == " a" and space == nil) end
   assert(("a, b"):split(",(%s)")() == "a" and select(2, ("a, b"):split(",(%s)")()) == " ")
   assert(lib.yesno(1) == "yes" and lib.yesno(false) == "no")
   assert(lib.tointeger("0xffffffffffffffff") == 0xffffffffffffffffULL and lib.tointeger("-12") == -12)
   assert(lib.tointeger("18446744073709551616") == nil and lib.tointeger("1.5") == nil and lib.tointeger("") == nil)
   assert(lib.tointeger("007") == 7 and lib.tointeger(2.5) == nil)
   assert(lib.tointeger(7ULL) == 7 and lib.tointeger("zz") == nil)
end

local function test_checksum(lib)
   local data = "\x45\x00\x00\x73\x00\x00\x40\x00\x40\x11\xc0\xa8\x00\x01\xc0\xa8\x00\xc7"
   assert(lib.csum(data, #data) == 0xb861)
   local in_parts = lib.update_csum("\x40\x11\xc0", 3, lib.update_csum("\1\2", 2))
   assert(lib.finish_csum(in_parts) == 0xffff - (0x4011 + 0xc000 + 0x0102) % 0xffff)
   assert(lib.csum("", 0) == 0xffff and lib.csum("\255\255\255\255", 4) == 0)
end

local function test_system(lib)
   assert(#lib.random_data(16) == 16 and lib.random_data(16) ~= lib.random_data(16))
   assert(#lib.random_printable_string() == 27 and lib.random_printable_string(12):find("^[%w_-][%w_-]$"))
   assert(ffi.sizeof(lib.random_bytes(5)) == 5)
   local stderr = io.stderr
   io.stderr = {write = function () end}
   lib.randomseed(7)
   local first = lib.random_data(8)
   lib.randomseed("7")
   io.stderr = stderr
   assert(lib.random_data(8) == first)
   lib.randomseed()
   assert(lib.getenv("PATH") and lib.getenv("PERIGEE_NO_SUCH_VARIABLE") == nil)
   assert(lib.have_module("core.lib") and not lib.have_module("core.no_such_module"))
   assert(lib.is_iface("lo") and not lib.is_iface("nosuchiface") and not lib.is_iface(nil))
   local nothing, message = lib.execv("/nonexistent/program", {"program"})
   assert(nothing == nil and message == "No such file or directory")
   local array = ffi.new("uint16_t[4]", 1, 2, 3, 4)
   local guarded = lib.bounds_checked("uint16_t", array, 2, 3)
   guarded[2] = 9
   assert(guarded[0] == 2 and array[3] == 9)
   fails("index 3 is out of bounds", function () return guarded[3] end)
   fails("index -1 is out of bounds", function () guarded[-1] = 0 end)
end

local function test_time(lib)
   local now = 10
   local function clock() return now end
   local once, often = lib.timer(5, nil, clock), lib.timer(5, "repeating", clock)
   assert(not once() and not often())
   now = 15
   assert(once() and often() and once() and not often())
   now = 26
   assert(often() and often() and not often() and not lib.timer(1, nil, clock)())
   now = 30
   assert(often() and not often())
   fails("unknown mode", lib.timer, 1, "sometimes")
   assert(not lib.timer(1e12)() and lib.timer(0)())
   local calls = 0
   lib.waitfor(function () calls = calls + 1 return calls == 3 end)
   assert(calls == 3)
end

local function test_options(lib)
   local seen = {}
   local actions = {}
   for _, name in ipairs {"h", "p"} do
      actions[name] = function (value) seen[#seen + 1] = name..tostring(value) end
   end
   local rest = lib.dogetopt({"--port=7", "-h", "-p", "8", "x", "-h"}, actions, "hp:", {port = "p"})
   assert(table.concat(seen, " ") == "p7 hnil p8" and table.concat(rest, " ") == "x -h")
   fails("unimplemented option: q", lib.dogetopt, {"-q"}, actions, "q", {})
end

--- Runs all tests on `lib`, which is core.lib.
function M.run(lib)
   for _, test in ipairs {test_equal, test_copies, test_parse, test_files, test_bits, test_text, test_checksum,
                          test_system, test_time, test_options} do
      test(lib)
   end
end

return M
