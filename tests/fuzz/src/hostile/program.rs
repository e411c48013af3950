// SPDX-License-Identifier: MIT
//! Hostile scripts: each is made of deeds, which happen while it loads, in its loop, in a finalizer, or in several of
//! these, and each deed may be done from within something else.

use crate::input::Input;
use std::fmt::Write;

/// The C functions of `module.c`, as the FFI declares them.
pub(super) const DECLARATIONS: &str = "
void computes(int); void computes_on_a_deep_stack(int); void sleeps(int); void waits_for_a_pipe(void); void waits_for_a_file(void);
void waits_for_itself(void); void waits_for_a_condition(void); void allocates(void); void allocates_pages(void);
void keeps_a_file_locked(void); void prints(void); void sorts_for_ever(void); void walks_through_libraries_for_ever(void);
void begins_for_ever(void); void calls_back(void (*)(void)); void sorts_by(int (*)(const void *, const void *));
void loads(const char *); void looks_for_symbols(void); void takes_no_signal(int); void handles_all_signals(void);
void sends_signals(void); void starts_a_thread(void); void starts_a_thread_that_loads(const char *);
void starts_a_thread_that_crashes(void); void joins_a_thread(void); void crashes(void); void calls_nothing(void);
void runs_what_is_no_code(void); void aborts(void); void frees_twice(void); void exits(void); void recurses(void);
";

/// What Lua can do by itself.
const LUA: &[&str] = &[
    "while true do end",
    "for n = 1, 1e6 do end",
    "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
    "while true do tostring({}) end",
    "while true do pcall(error, 'again') end",
    "local function deep(n) return 1 + deep(n + 1) end deep(1)",
    "local function tail() return tail() end tail()",
    "error('no')",
    "error(nil)",
    "error({})",
    "error(setmetatable({}, { __tostring = function() while true do end end }))",
    "error(setmetatable({}, { __tostring = function() error('in the text') end }))",
    "os.exit(3)",
    "io.open('/dev/zero'):read(1000)",
    "string.rep('x', 1e5):find(('.-'):rep(20) .. 'y')",
    "local c c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
    "coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end)()",
    "debug.sethook(function() while true do end end, '', 1)",
    "debug.sethook(function() error('from the hook') end, '', 100)",
    "jit.off() while true do end",
    "jit.attach(function() while true do end end, 'trace')",
    "collectgarbage('stop') for n = 1, 1e5 do local t = {n} end",
    "collectgarbage()",
    "setmetatable(_G, { __index = function() while true do end end }) local x = nothing",
    "package.loaded.string = nil string = nil",
    "require('no.such.module')",
    "loadstring('while true do end')()",
    "local f = ffi.cast('void (*)(void)', function() while true do end end) f()",
    "local a = ffi.new('int[1000000]')",
    "ffi.C.malloc(1)",
    "while true do ffi.C.free(ffi.C.malloc(100)) end",
    "if worker then while true do worker:receive(1, burst) end end",
    "if worker then while true do worker:housekeeping() end end",
];

/// What C can do.
const C: &[&str] = &[
    "C().computes(0)",
    "C().computes(30)",
    "C().computes_on_a_deep_stack(0)",
    "C().sleeps(1000)",
    "C().waits_for_a_pipe()",
    "C().waits_for_a_file()",
    "C().waits_for_itself()",
    "C().waits_for_a_condition()",
    "C().allocates()",
    "C().allocates_pages()",
    "C().keeps_a_file_locked()",
    "C().prints()",
    "C().sorts_for_ever()",
    "C().walks_through_libraries_for_ever()",
    "C().begins_for_ever()",
    "C().calls_back(function() while true do end end)",
    "C().calls_back(function() error('through C') end)",
    "C().sorts_by(function() while true do end return 0 end)",
    "C().sorts_by(function() if worker then while true do worker:housekeeping() end end return 0 end)",
    "C().loads(ENDLESS)",
    "C().loads(LONG)",
    "C().loads(SHORT)",
    "C().looks_for_symbols()",
    "C().takes_no_signal(0)",
    "C().takes_no_signal(30)",
    "C().handles_all_signals()",
    "C().sends_signals()",
    "C().starts_a_thread()",
    "C().starts_a_thread_that_loads(ENDLESS)",
    "C().starts_a_thread_that_crashes()",
    "C().joins_a_thread()",
    "C().crashes()",
    "C().calls_nothing()",
    "C().runs_what_is_no_code()",
    "C().aborts()",
    "C().frees_twice()",
    "C().exits()",
    "C().recurses()",
    "ffi.load('m')",
    "ffi.load(ENDLESS)",
    "ffi.load(LONG)",
    "ffi.load(SHORT)",
    "ffi.load(UNLOADED)",
    "m.native(ENDLESS, 'computes', 1)",
];

/// What a deed may be done from within; `DEED` stands for it.
const WITHIN: &[&str] = &[
    "DEED",
    "DEED",
    "DEED",
    "pcall(function() DEED end)",
    "xpcall(function() DEED end, function() error('in the handler') end)",
    "xpcall(function() error('first') end, function() DEED end)",
    "coroutine.wrap(function() DEED end)()",
    "table.sort({ 3, 2, 1 }, function() DEED end)",
    "(('x'):rep(3)):gsub('x', function() DEED end)",
    "for n = 1, 200 do if n == 200 then DEED end end",
    "setmetatable({}, { __index = function() DEED end }).x = (setmetatable({}, { __index = function() DEED end })).x",
    "C().calls_back(function() DEED end)",
    "C().sorts_by(function() DEED return 0 end)",
    "keep[#keep + 1] = ffi.gc(ffi.new('int[1]'), function() DEED end)",
    "local p = newproxy(true) getmetatable(p).__gc = function() DEED end keep[#keep + 1] = p",
    "local p = newproxy(true) getmetatable(p).__gc = function() DEED end p = nil collectgarbage()",
];

/// A script that follows from an input; `folder` has the modules.
pub(super) fn script(input: &mut Input<'_>, folder: &str) -> String {
    let mut text = format!(
        "local ffi = require 'ffi'\nlocal m = require 'perigee.modules'\nffi.cdef[[{DECLARATIONS} void *malloc(size_t); void free(void *);]]\n"
    );
    for (name, file) in [("ENDLESS", "endless"), ("LONG", "long"), ("SHORT", "short"), ("UNLOADED", "unloaded")] {
        let _ = writeln!(text, "local {name} = '{folder}/{file}.so'");
    }
    let _ = writeln!(text, "local keep, worker, burst, library = {{}}\n_G.kept = keep");
    let _ = writeln!(text, "local function C() library = library or ffi.load(PLAIN) return library end")
        .map(|()| text = text.replace("PLAIN", &format!("'{folder}/plain.so'")));
    // Where something happens: at load, in the loop, both.
    let when = input.below(4);
    for _ in 0..if when == 1 { 0 } else { 1 + input.below(2) } {
        let _ = writeln!(text, "do {} end", deed(input));
    }
    let in_loop = if when == 0 { String::new() } else { deed(input) };
    let _ = write!(
        text,
        "return function(w)
  worker, burst = w, w:batch()
  local rounds = 0
  local ip4, ip6 = w:mask(), w:mask()
  while w:running() do
    if w:receive(1, burst) > 0 then
      m.classify(burst, ip4, ip6) m.ipv4_lookup(burst, ip4) m.apply(burst, ip4, ip6) m.distribute(burst, ip4, ip6)
    end
    rounds = rounds + 1
    if rounds % {} == 0 then do {in_loop} end end
    w:housekeeping()
  end
end
",
        [1, 3, 200][input.below(3)]
    );
    text
}

fn deed(input: &mut Input<'_>) -> String {
    let plain = if input.below(2) == 0 { *input.pick(LUA) } else { *input.pick(C) };
    input.pick(WITHIN).replace("DEED", &format!("do {plain} end"))
}
