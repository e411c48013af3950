// SPDX-License-Identifier: MIT
//! Scripts, C modules and files that would stop the router for good: known traffic crosses again, or the process has
//! ended by itself with a line that says why, and its interfaces are as they were.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, Host, Router, World, run, wait_seeing};
use std::path::{Path, PathBuf};
use std::process::Command;

perigee_tests::scenarios![
    a_constructor_that_never_ends_ends_the_router_by_force,
    a_thread_that_takes_no_signal_ends_the_router_by_force,
    a_finalizer_that_does_not_return_keeps_neither_worker_nor_loader,
    a_file_that_is_no_regular_one_is_refused_and_nothing_waits_for_it,
    a_crash_in_a_c_module_is_in_the_log,
    a_crash_with_all_signals_blocked_is_in_the_log,
    exit_in_a_c_module_is_in_the_log,
    a_destructor_that_does_not_return_does_not_keep_the_end,
];

/// The default fast path.
const SCRIPT: &str = include_str!("../../lua/fastpath.lua");

/// Compiles a C module.
fn module(world: &World, name: &str, text: &str) -> PathBuf {
    let source = world.file(&format!("{name}.c"), text);
    let library = source.with_extension("so");
    let built = Command::new("cc").args(["-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    library
}

/// The default fast path, which calls a function of a C module for every burst.
fn calling(world: &World, library: &Path, function: &str) -> PathBuf {
    let call = format!("lib.{function}() m.classify(burst, ip4, ip6)");
    let text = SCRIPT.replace("m.classify(burst, ip4, ip6)", &call);
    assert_ne!(text, SCRIPT);
    let head =
        format!("local ffi = require 'ffi' ffi.cdef 'int {function}(void);' local lib = ffi.load({library:?})\n");
    world.file(&format!("{function}.lua"), &(head + &text))
}

/// A router that forwards until it gets a script, and packets for it. It may have ended before the answer.
fn takes(world: &World, client: &Host, script: &Path) -> Router {
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let pings = client.start_ping(1000, "-i 0.1 10.0.2.2");
    let _answer = router.ask(&format!("reload {}", script.display()));
    drop(pings);
    router
}

/// Waits until the router has ended, has said why, and its helper has restored the interfaces.
#[track_caller]
fn ends(router: &Router, world: &World, before: &[String], why: &str) {
    router.says(why);
    wait_seeing("the helper to restore the interfaces", || world.interfaces(), |now| now == before);
}

/// It was left inside the dynamic loader, whose lock stayed locked: no packet was forwarded and SIGTERM did nothing.
fn a_constructor_that_never_ends_ends_the_router_by_force(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let text = "__attribute__((constructor)) static void prepare(void) { for (volatile long n = 0;; n++) ; }\n";
    let library = module(world, "endless", &format!("{text}int endless(void) {{ return 0; }}\n"));
    let script = calling(world, &library, "endless");
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    assert_ne!(router.ask(&format!("reload {}", script.display())).code, Some(0));
    ends(&router, world, &before, ": it ends by force, and the helper restores the interfaces");
}

fn a_thread_that_takes_no_signal_ends_the_router_by_force(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let text = "#include <signal.h>\nint deaf(void) { sigset_t all; sigfillset(&all); \
                sigprocmask(SIG_BLOCK, &all, 0); for (;;) ; }\n";
    let script = calling(world, &module(world, "deaf", text), "deaf");
    let router = takes(world, &client, &script);
    ends(
        &router,
        world,
        &before,
        "worker 0 cannot be stopped: the script /run/deaf.lua takes no signal: it ends by force",
    );
}

/// The worker hung in it while it changed scripts, and took none any more; of a refused script, the loader hung, and
/// with it the slow path.
fn a_finalizer_that_does_not_return_keeps_neither_worker_nor_loader(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let finalizer = "local p = newproxy(true) getmetatable(p).__gc = function() while true do end end keep = p\n";
    world.file("gc.lua", &format!("{finalizer}{SCRIPT}"));
    world.file("refused.lua", &format!("{finalizer}error('no')"));
    world.file("good.lua", SCRIPT);
    router.ask("reload /run/gc.lua").good();
    client.reaches("10.0.2.2");
    router.ask("reload /run/good.lua").good();
    client.reaches("10.0.2.2");
    router.says("the finalizers of /run/gc.lua did not return and were stopped");
    router.ask("reload /run/refused.lua").refused("/run/refused.lua:2: no");
    router.says("the finalizers of /run/refused.lua did not return and were stopped");
    router.ask("reload /run/gc.lua").good();
    client.reaches("10.0.2.2");
    let shown = router.show("scripts")[0].clone();
    assert_eq!(
        (&shown["state"], &shown["throws"], &shown["error"]),
        (&"running".into(), &0.into(), &().into()),
        "{shown}"
    );
    router.stop();
}

/// A FIFO kept the slow path for ever, and `/dev/zero` was read until there was no memory left.
fn a_file_that_is_no_regular_one_is_refused_and_nothing_waits_for_it(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    run(Command::new("mkfifo").args(["/run/fifo.lua", "/run/fifo.so", "/run/fifo.routes"])).good();
    router.ask("reload /run/fifo.lua").refused("/run/fifo.lua: it is a FIFO, expected a regular file");
    router.ask("reload /dev/zero").refused("/dev/zero: it is a device, expected a regular file");
    router.ask("reload /run").refused("/run: it is a folder, expected a regular file");
    world.file("module.lua", "require('perigee.modules').native('/run/fifo.so', 'mark', 1)");
    router.ask("reload /run/module.lua").refused("/run/fifo.so: it is a FIFO, expected a regular file");
    let file = world.configuration("", PORTS);
    let text = std::fs::read_to_string(&file).expect("it was just written");
    std::fs::write(&file, format!("routes_file = \"/run/fifo.routes\"\n{text}")).expect("a folder to write to");
    router.ask("reload").refused("cannot read /run/fifo.routes: it is a FIFO, expected a regular file");
    std::fs::remove_file(&file).expect("it is there");
    run(Command::new("mkfifo").arg(&file)).good();
    router.ask("reload").refused("router.toml: it is a FIFO, expected a regular file");
    // The slow path answers, and finds new neighbors.
    router.ask("neighbor flush").good();
    client.reaches("10.0.2.2");
    router.stop();
}

/// There was not a line in the log.
fn a_crash_in_a_c_module_is_in_the_log(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let library = module(world, "crash", "int crash(void) { *(volatile int *)16 = 1; return 0; }\n");
    let script = calling(world, &library, "crash");
    let router = takes(world, &client, &script);
    let why = "SIGSEGV at the address 0x10 in /run/crash.so, in the script /run/crash.lua: the router crashes";
    ends(&router, world, &before, why);
}

/// The kernel kills a thread that has blocked the signal of its crash: no handler runs, and the log said nothing.
fn a_crash_with_all_signals_blocked_is_in_the_log(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let text = "#include <signal.h>\nint silent(void) { sigset_t all; sigfillset(&all); \
                sigprocmask(SIG_BLOCK, &all, 0); *(volatile int *)16 = 1; return 0; }\n";
    let script = calling(world, &module(world, "silent", text), "silent");
    let router = takes(world, &client, &script);
    ends(&router, world, &before, "the router was killed or has ended by force: its interfaces are restored");
}

fn exit_in_a_c_module_is_in_the_log(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let library = module(world, "exits", "#include <stdlib.h>\nint exits(void) { exit(0); }\n");
    let script = calling(world, &library, "exits");
    let router = takes(world, &client, &script);
    ends(&router, world, &before, "exit was called in C code of the script /run/exits.lua: the router ends");
}

/// The process stayed until the end by force, half a minute later: destructors run in `exit`.
fn a_destructor_that_does_not_return_does_not_keep_the_end(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let text = "__attribute__((destructor)) static void leave(void) { for (volatile long n = 0;; n++) ; }\n";
    let library = module(world, "leaves", &format!("{text}int leaves(void) {{ return 0; }}\n"));
    // Its VM is never closed: it is stopped by force, and so the module is there until the end.
    let looping = format!("require('ffi').load({library:?}) return function(worker) while true do end end");
    world.file("looping.lua", &looping);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    router.ask("reload /run/looping.lua").refused("/run/looping.lua did not return for ");
    client.reaches("10.0.2.2");
    router.stop().says("a destructor of a C module did not return within 1s: the process ends without it");
}
