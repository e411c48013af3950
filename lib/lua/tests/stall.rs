// SPDX-License-Identifier: MIT
//! Scripts that do not return: in interpreted and in compiled code, in C modules that loop or sleep, in calls of
//! perigee's.

mod common;

use common::*;
use perigee_lua::{Budgets, OverBudget, Script};
use std::path::{Path, PathBuf};

/// Compiles a C module into a folder; its path.
fn library(folder: &Path, name: &str, text: &str) -> PathBuf {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let (source, to) = (folder.join(format!("{name}.c")), folder.join(format!("{name}.so")));
    std::fs::write(&source, text).unwrap();
    let mut command = std::process::Command::new(compiler);
    command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&to).arg(&source);
    assert!(command.status().expect("a C compiler is there: LuaJIT was built with it").success());
    to
}

/// A script that calls a function of a C module once it has packets in its batch.
fn calling(library: &Path, function: &str) -> Script {
    script(&format!(
        "local ffi = require 'ffi'
        ffi.cdef 'int {function}(void);'
        local lib = ffi.load('{}')
        return function(worker)
          local burst = worker:batch()
          while worker:running() do
            if worker:receive(1, burst) > 0 then lib.{function}() end
            worker:housekeeping()
          end
        end",
        library.display()
    ))
}

/// Runs a good script, then a bad one that stalls with a packet in its batch: the good one forwards again.
fn is_stopped(bad: Script) {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        let generation = scripts.replace(bad).unwrap();
        for _ in 0..3 {
            bed.receive[0].inject(&udp(1, 7, 64));
        }
        wait("the built-in script", || scripts.status().generation > generation);
        let status = scripts.status();
        assert_eq!(status.name, "built-in");
        let why = status.reverted.unwrap();
        assert!(why.starts_with("test.lua did not return for 300ms"), "{why}");
        wait("a round of it", || scripts.late(status.generation).is_empty());
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("forwards again", || std::iter::from_fn(|| bed.transmit[1].collect()).count() > 0);
        assert_eq!(scripts.counters()[0].stalls.get(), 1);
    });
}

#[test]
fn a_script_that_never_returns_is_stopped() {
    is_stopped(script("return function(w) while true do end end"));
}

#[test]
fn an_interpreted_loop_is_stopped() {
    is_stopped(script("jit.off() return function(w) while true do end end"));
}

#[test]
fn a_loop_that_allocates_is_stopped() {
    is_stopped(script("return function(w) local t while true do t = {tostring({})} end end"));
}

#[test]
fn a_loop_that_receives_and_never_ends_its_round_is_stopped() {
    is_stopped(script("return function(w) local burst = w:batch() while true do w:receive(1, burst) end end"));
}

#[test]
fn a_loop_in_a_protected_call_is_stopped() {
    is_stopped(script(
        "return function(w) while true do pcall(function() while true do error('again') end end) end end",
    ));
}

#[test]
fn a_loop_in_a_coroutine_is_stopped() {
    is_stopped(script("return function(w) coroutine.wrap(function() while true do end end)() end"));
}

#[test]
fn a_c_module_that_loops_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = library(folder.path(), "loops", "int loops(void) { volatile int n = 0; for (;;) n++; }");
    is_stopped(calling(&path, "loops"));
}

#[test]
fn a_c_module_that_sleeps_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let path = library(folder.path(), "sleeps", "#include <unistd.h>\nint sleeps(void) { for (;;) sleep(1000); }");
    is_stopped(calling(&path, "sleeps"));
}

#[test]
fn a_c_module_that_allocates_for_ever_is_stopped_outside_of_malloc() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <stdlib.h>\n#include <string.h>
        int allocates(void) { for (unsigned n = 1;; n++) { char *p = malloc(n % 4096 + 1); memset(p, 1, n % 4096); free(p); } }";
    is_stopped(calling(&library(folder.path(), "allocates", text), "allocates"));
}

#[test]
fn a_c_module_that_waits_for_a_pipe_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <unistd.h>\nint reads(void) { int fds[2]; char c; pipe(fds); for (;;) read(fds[0], &c, 1); }";
    is_stopped(calling(&library(folder.path(), "reads", text), "reads"));
}

/// What earlier calls have left on the stack looks like return addresses into libraries: the frames are followed then.
#[test]
fn a_c_module_that_loops_above_a_stack_of_old_addresses_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <stdio.h>\n#include <stdlib.h>\n
        static int by(const void *a, const void *b) { char text[64]; return snprintf(text, 64, \"%p %p\", a, b) & 1; }
        static void leaves(void) { char deep[3000][8]; qsort(deep, 3000, 8, by); }
        static void loops(void) { volatile char old[30000]; old[0] = 1; for (;;) old[1]++; }
        int leaves_and_loops(void) { leaves(); loops(); return 0; }";
    is_stopped(calling(&library(folder.path(), "leaves_and_loops", text), "leaves_and_loops"));
}

#[test]
fn a_c_module_that_waits_for_a_condition_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <pthread.h>\nstatic pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
        int waits(void) { pthread_mutex_lock(&m); for (;;) pthread_cond_wait(&c, &m); }";
    is_stopped(calling(&library(folder.path(), "waits", text), "waits"));
}

/// What a handler of a module's has interrupted is not left either: here `malloc`, with its lock. The process lives on,
/// as the handler returns at last.
#[test]
fn a_signal_handler_above_malloc_is_not_left() {
    let folder = tempfile::tempdir().unwrap();
    // It ends after a while, on whichever thread it comes: other tests share the process.
    let text = "#include <signal.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/time.h>\n#include <time.h>
        static volatile int times;
        static void busy(int n) {
          struct itimerval never = {{0, 0}, {0, 0}}; struct timespec a, b; (void)n;
          if (times++ > 100) { setitimer(ITIMER_VIRTUAL, &never, 0); return; }
          clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
          do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
          while ((b.tv_sec - a.tv_sec) * 1000 + (b.tv_nsec - a.tv_nsec) / 1000000 < 20);
        }
        int alarms(void) {
          struct itimerval every = {{0, 1000}, {0, 1000}};
          signal(SIGVTALRM, busy);
          setitimer(ITIMER_VIRTUAL, &every, 0);
          for (unsigned n = 1;; n++) { char *volatile p = malloc(n % 65536 + 1); p[0] = 1; free(p); }
        }";
    let path = library(folder.path(), "alarms", text);
    is_stopped(calling(&path, "alarms"));
}

/// Between two calls of stdio, which hold a lock while they write.
#[test]
fn a_c_module_that_prints_for_ever_is_stopped_outside_of_stdio() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <stdio.h>\nint prints(void) { static char text[100]; static volatile int n;
        for (;;) { snprintf(text, 100, \"%d\", n); for (int i = 0; i < 1000; i++) n++; } }";
    is_stopped(calling(&library(folder.path(), "prints", text), "prints"));
}

#[test]
fn a_script_that_sleeps_by_the_ffi_is_stopped() {
    is_stopped(script(
        "local ffi = require 'ffi' ffi.cdef 'int sleep(int);' return function(w) while true do ffi.C.sleep(1000) end end",
    ));
}

/// One that blocks signals for a while can be stopped afterwards: the signal mask is the script's own.
#[test]
fn signals_that_a_c_module_has_blocked_reach_the_next_script() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <signal.h>\nint blocks(void) { sigset_t all; sigfillset(&all); return sigprocmask(SIG_BLOCK, &all, 0); }";
    let path = library(folder.path(), "blocks", text);
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        let generation = scripts.replace(calling(&path, "blocks")).unwrap();
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("the module", || scripts.late(generation).is_empty());
        let generation = scripts.replace(script("return function(w) while true do end end")).unwrap();
        wait("the script before", || scripts.status().generation > generation);
        assert_eq!(scripts.counters()[0].stalls.get(), 1);
    });
}

/// A module's handler for all signals took the place of the one that stops scripts.
#[test]
fn a_c_module_that_handles_all_signals_is_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let text = "#include <signal.h>\nstatic void nothing(int n) { (void)n; }
        int handles(void) { for (int n = SIGRTMIN; n <= SIGRTMAX; n++) signal(n, nothing); for (;;) ; }";
    is_stopped(calling(&library(folder.path(), "handles", text), "handles"));
}

#[test]
fn many_stalls_leave_a_worker_that_works() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        for round in 0..5 {
            let generation =
                scripts.replace(script("return function(w) local t while true do t = {t} end end")).unwrap();
            wait("the script before", || scripts.status().generation > generation);
            bed.receive[0].inject(&udp(1, 7, 64));
            wait("forwards", || std::iter::from_fn(|| bed.transmit[1].collect()).count() == 1);
            assert_eq!(scripts.counters()[0].stalls.get(), round + 1);
        }
    });
}

#[test]
fn a_script_that_ignores_running_gives_way_to_the_next_and_to_the_end() {
    let bed = Bed::new();
    let ignores = "return function(w)
      local burst = w:batch()
      while true do w:receive(1, burst) w:housekeeping() end
    end";
    let scripts = bed.scripts(script(ignores)).unwrap();
    bed.run(&scripts, || {
        wait("a round", || scripts.late(1).is_empty());
        let generation = scripts.replace(Script::builtin()).unwrap();
        wait("the next one", || scripts.late(generation).is_empty());
        assert_eq!((scripts.status().generation, scripts.counters()[0].stalls.get()), (2, 1));
        scripts.replace(script(ignores)).unwrap();
        wait("it runs", || scripts.late(3).is_empty());
    });
    assert_eq!(scripts.counters()[0].stalls.get(), 2, "it was stopped for the end, too");
}

#[test]
fn a_script_that_does_not_return_while_it_loads_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = library(folder.path(), "loads", "#include <unistd.h>\nint loads(void) { for (;;) sleep(1000); }");
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    let stuck = script(&format!(
        "local ffi = require 'ffi' ffi.cdef 'int loads(void);' ffi.load('{}').loads()",
        path.display()
    ));
    bed.run(&scripts, || {
        let error = scripts.replace(stuck.clone()).expect_err("it never loads");
        assert_eq!(error.to_string(), "test.lua: still loading after a second; expected it to return a function");
        assert_eq!(scripts.status().generation, 1);
        assert_eq!(scripts.replace(Script::builtin()), Ok(2), "the loader works on");
    });
}

/// What the program did with a VM behind a call allocated, and a step of the collector ran a finalizer that nothing
/// watched.
#[test]
fn a_finalizer_never_runs_behind_a_call() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    let of = |end: &str| {
        format!(
            "local hangs, body = newproxy(true), function(worker)
              local burst = worker:batch()
              while worker:next(burst) do end
            end
            getmetatable(hangs).__gc = function() while true do end end
            hangs = nil
            collectgarbage('setstepmul', 0)
            collectgarbage('setpause', 100000)
            {end}"
        )
    };
    bed.run(&scripts, || {
        // The next thing that is allocated runs a whole cycle.
        let thrown = scripts.replace(script(&of("collectgarbage('restart') error(body)"))).expect_err("it throws");
        assert_eq!(thrown.to_string(), "an error that is no text but a function");
        assert_eq!(scripts.replace(script(&of("collectgarbage('restart') return body"))), Ok(2));
    });
}

/// A script's metatable of the registry was asked by the program, and nothing watched it.
#[test]
fn a_metatable_of_the_registry_is_not_asked() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    let text = "local function hangs() while true do end end
        setmetatable(debug.getregistry(), {__index = hangs, __newindex = hangs})
        return function(worker) while worker:next(worker:batch()) do end end";
    bed.run(&scripts, || {
        let thrown = scripts.replace(script(&text.replace("return", "error('thrown') return"))).expect_err("it throws");
        assert!(thrown.to_string().ends_with("thrown"), "{thrown}");
        assert_eq!(scripts.replace(script(text)), Ok(2));
        wait("its rounds", || scripts.late(2).is_empty());
    });
}

/// The program called `jit.on` by the script's own global.
#[test]
fn a_script_that_replaces_jit_is_compiled_all_the_same() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    let text = "local status = jit.status
        jit.on = function() while true do end end
        jit = nil
        return function(worker)
          assert(status(), 'the compiler is off')
          local burst = worker:batch()
          while worker:next(burst) do end
        end";
    bed.run(&scripts, || {
        assert_eq!(scripts.replace(script(text)), Ok(2));
        wait("its rounds", || scripts.late(2).is_empty());
        assert_eq!(scripts.status().last_error, None);
    });
}

/// Whoever asks for a script, the slow path, waited for the loader without limit. What comes too late is not installed.
#[test]
fn a_script_that_is_not_found_in_time_is_not_waited_for() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    let (found, finds) = std::sync::mpsc::channel();
    bed.run(&scripts, || {
        let late = scripts.replace_by(move || Ok(finds.recv().unwrap())).expect_err("it is not found");
        assert_eq!(late.to_string(), "the script was not loaded within 10s; nothing has changed");
        found.send(Script::builtin()).unwrap();
        // The loader works on, and it is the next one that runs.
        assert_eq!(scripts.replace(script(WASTEFUL)), Ok(2));
        assert_eq!(scripts.status().name, "test.lua");
    });
}

#[test]
fn a_first_script_that_stalls_gives_way_to_the_built_in_one() {
    let bed = Bed::new();
    let scripts = bed.scripts(script("return function(w) while true do end end")).unwrap();
    bed.run(&scripts, || {
        wait("the built-in script", || scripts.status().name == "built-in");
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("forwards", || std::iter::from_fn(|| bed.transmit[1].collect()).count() == 1);
    });
}

#[test]
fn a_slow_script_is_no_stalled_one() {
    let bed = Bed::new();
    let slow = "return function(w)
      local burst = w:batch()
      while w:running() do
        w:receive(1, burst)
        for i = 1, 1e6 do end
        w:housekeeping()
      end
    end";
    let scripts = bed.scripts(script(slow)).unwrap();
    bed.run(&scripts, || wait("two hundred rounds", || bed.counters.rounds.get() > 200));
    assert_eq!((scripts.status().generation, scripts.counters()[0].stalls.get()), (1, 0));
}

/// Leaves much garbage in every round.
const WASTEFUL: &str = "return function(w)
  local burst, keep = w:batch(), {}
  while w:running() do
    w:receive(1, burst)
    for i = 1, 1000 do keep[i] = { i, tostring(i) } end
    w:housekeeping()
  end
end";

#[test]
fn garbage_is_collected_between_rounds_and_pauses_are_known() {
    let bed = Bed::new();
    let scripts = bed.scripts(script(WASTEFUL)).unwrap();
    let counters = scripts.counters()[0].clone();
    bed.run(&scripts, || {
        wait("collections", || counters.collections.get() > 500);
    });
    let (heap, pause) = (counters.heap_kb.get(), counters.longest_collection.get());
    assert!((1..20_000).contains(&heap), "the heap does not grow: {heap} KB");
    assert!(pause > 0 && pause <= counters.collection_time.get());
}

#[test]
fn a_script_over_its_budget_is_rolled_back_if_that_is_asked_for() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    scripts.set_budgets(Budgets { round_ns: 1_000_000, over: OverBudget::RollBack, ..budgets() });
    let slow = "return function(w)
      local burst = w:batch()
      while w:running() do
        w:receive(1, burst)
        for i = 1, 2e7 do end
        w:housekeeping()
      end
    end";
    bed.run(&scripts, || {
        scripts.replace(script(slow)).unwrap();
        wait("the script before", || scripts.status().generation == 3);
        let why = scripts.status().reverted.unwrap();
        assert!(why.starts_with("test.lua exceeded its budget"), "{why}");
    });
    assert!(scripts.counters()[0].over_budget.get() >= 3);
}

#[test]
fn budgets_are_only_counted_by_default() {
    let bed = Bed::new();
    let scripts = bed.scripts(script(WASTEFUL)).unwrap();
    scripts.set_budgets(Budgets { round_ns: 1, collection_ns: 1, ..budgets() });
    bed.run(&scripts, || wait("counts", || scripts.counters()[0].over_budget.get() > 100));
    assert_eq!(scripts.status().generation, 1);
}

#[test]
fn a_c_module_rebuilt_under_its_name_is_loaded_anew() {
    let folder = tempfile::tempdir().unwrap();
    let build = |port: u8| {
        let text = format!(
            "int mark(void *ctx, unsigned char *batch, unsigned long *mask) {{ (void)ctx; (void)batch; mask[3] = {port}; return 0; }}"
        );
        library(folder.path(), "mark", &text)
    };
    // Writes what the module has put into the mask into the first byte behind the frame's headers.
    let marked = |path: &Path| {
        script(&format!(
            "local m = require 'perigee.modules'
            local mark = m.native('{}', 'mark', 1)
            return function(worker)
              local burst, ip4, ip6, word = worker:batch(), worker:mask(), worker:mask(), worker:mask()
              while worker:running() do
                if worker:receive(1, burst) > 0 then
                  m.classify(burst, ip4, ip6)
                  m.ipv4_lookup(burst, ip4)
                  mark(burst, word)
                  burst.data[0][50] = tonumber(word.word[3])
                  m.apply(burst, ip4, ip6)
                  m.distribute(burst, ip4, ip6)
                end
                worker:housekeeping()
              end
            end",
            path.display()
        ))
    };
    let bed = Bed::new();
    let path = build(1);
    let scripts = bed.scripts(marked(&path)).unwrap();
    bed.run(&scripts, || {
        for generation in 1..=4 {
            wait("the new script", || scripts.late(generation).is_empty());
            bed.receive[0].inject(&udp(1, 7, 64));
            let mut frame = None;
            wait("forwards", || {
                frame = frame.take().or_else(|| bed.transmit[1].collect());
                frame.is_some()
            });
            assert_eq!(u64::from(frame.unwrap()[50]), generation);
            build(generation as u8 + 1);
            scripts.replace(marked(&path)).unwrap();
        }
    });
}

/// Objects whose finalizers do not return: of Lua's own kind, and of the FFI's.
const FINALIZERS: [&str; 3] = [
    "local p = newproxy(true) getmetatable(p).__gc = function() while true do end end keep = p",
    "local ffi = require 'ffi' keep = ffi.gc(ffi.new('int[1]'), function() while true do end end)",
    "local p = newproxy(true) getmetatable(p).__gc = function() pcall(string.rep, ('x'):rep(2 ^ 20):gsub('x', function() while true do end end)) end
    keep = p",
];

/// A worker hung in the finalizers of the script that it had run, and took no other one.
#[test]
fn a_finalizer_that_does_not_return_does_not_keep_the_worker() {
    for finalizer in FINALIZERS {
        let bed = Bed::new();
        let scripts = bed.scripts(Script::builtin()).unwrap();
        bed.run(&scripts, || {
            let good = include_str!("../../../lua/fastpath.lua");
            let generation = scripts.replace(script(&format!("{finalizer}\n{good}"))).unwrap();
            wait("the bad script", || scripts.late(generation).is_empty());
            let generation = scripts.replace(Script::builtin()).unwrap();
            wait("the good script", || scripts.late(generation).is_empty());
            assert_eq!((scripts.status().generation, scripts.status().reverted), (generation, None));
            bed.receive[0].inject(&udp(1, 7, 64));
            wait("forwards", || std::iter::from_fn(|| bed.transmit[1].collect()).count() == 1);
            assert_eq!(scripts.counters()[0].stalls.get(), 1);
        });
    }
}

/// The loader hung in the finalizers of a script that it had refused, and with it the slow path, which waited for the
/// answer.
#[test]
fn a_finalizer_of_a_refused_script_does_not_keep_the_loader() {
    for finalizer in FINALIZERS {
        let bed = Bed::new();
        let scripts = bed.scripts(Script::builtin()).unwrap();
        bed.run(&scripts, || {
            let refused = scripts.replace(script(&format!("{finalizer}\nerror('no')"))).expect_err("it is refused");
            assert!(refused.to_string().ends_with(": no"), "{refused}");
            assert_eq!(scripts.replace(Script::builtin()), Ok(2), "the loader works on");
        });
    }
}

/// A script's end with the router's: the finalizers are stopped, too.
#[test]
fn a_finalizer_that_does_not_return_does_not_keep_the_end() {
    let bed = Bed::new();
    let scripts =
        bed.scripts(script(&format!("{}\n{}", FINALIZERS[0], include_str!("../../../lua/fastpath.lua")))).unwrap();
    bed.run(&scripts, || wait("a round", || scripts.late(1).is_empty()));
}

/// The text of an error that there was not ended the process.
#[test]
fn a_library_of_the_system_is_loaded_by_its_name() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        scripts.replace(script("assert(require 'ffi'.load('m')) return function() end")).unwrap();
        let none = scripts.replace(script("require 'ffi'.load('perigee-no-such') return function() end")).unwrap_err();
        assert!(none.to_string().contains("perigee-no-such"), "{none}");
        assert_eq!(scripts.status().generation, 2);
    });
}

/// The dynamic loader ended the process when such a function was called for the first time, with a line of its own.
#[test]
fn a_library_that_lacks_a_function_is_refused_before_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let text = "int perigee_no_such(void); int mark(void *c, void *b, void *m) { return perigee_no_such(); }";
    let path = library(folder.path(), "lacks", text);
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        for load in ["require 'perigee.modules'.native('PATH', 'mark', 1)", "require 'ffi'.load('PATH')"] {
            let lacking = load.replace("PATH", &path.display().to_string());
            let error = scripts.replace(script(&format!("local f = {lacking} return function() end"))).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("lacks.so: undefined symbol: perigee_no_such"), "{error}");
        }
        assert_eq!(scripts.status().generation, 1);
    });
}
