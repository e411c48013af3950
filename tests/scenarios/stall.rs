// SPDX-License-Identifier: MIT
//! Scripts that do not return: the router stops them, goes on with the last good one, and always ends.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Router, Signal, World, wait_seeing, wait_until};
use std::process::Command;

perigee_tests::scenarios![
    a_script_that_never_returns_is_stopped_and_the_last_good_one_forwards,
    a_first_script_that_never_returns_does_not_stop_the_end,
    a_router_that_cannot_end_in_order_ends_by_force_and_is_cleaned_up_after,
    a_second_signal_ends_a_router_by_force,
];

/// The default fast path.
const SCRIPT: &str = include_str!("../../lua/fastpath.lua");

fn a_script_that_never_returns_is_stopped_and_the_last_good_one_forwards(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let good = world.file("good.lua", SCRIPT);
    let router = world.router(&format!("script = {:?}", good.display()), PORTS);
    client.reaches("10.0.2.2");
    world.file("loop.lua", "return function(worker) while true do end end");
    // Compiled code, with packets in the batch.
    let late = SCRIPT.replace("m.classify(burst, ip4, ip6)", "while true do end");
    assert_ne!(late, SCRIPT);
    world.file("late.lua", &late);
    let refused = router.ask("reload /run/loop.lua").refused("/run/loop.lua did not return for ");
    assert!(refused.text.contains(" and was stopped"), "{}", refused.text);
    client.reaches("10.0.2.2");
    let shown = router.show("scripts")[0].clone();
    assert_eq!(
        (&shown["path"], &shown["state"]),
        (&good.display().to_string().into(), &"rolled_back".into()),
        "{shown}"
    );
    assert_eq!(shown["stalls"], 1, "{shown}");
    // It runs as long as there are no packets. A station that probes its neighbor may send one before the answer.
    let answer = router.ask("reload /run/late.lua");
    let ran = answer.code == Some(0);
    if !ran {
        answer.refused("/run/late.lua did not return for ");
    }
    client.reaches("10.0.2.2");
    router.says("the script /run/good.lua runs again: /run/late.lua did not return");
    assert_eq!(router.show("scripts")[0]["stalls"], 2);
    let log = router.stop();
    log.says("reloaded, but");
    if ran {
        log.says("reloaded: script /run/late.lua");
    }
}

fn a_first_script_that_never_returns_does_not_stop_the_end(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let script = world.file("loop.lua", "return function(worker) while true do end end");
    let stubborn = format!("script = {:?}\nstall_budget = \"60s\"", script.display());
    let router = world.router(&stubborn, PORTS);
    client.run("ping -n -c 3 -i 0.2 -W 1 10.0.2.2");
    router.stop();
    let router = world.router(&stubborn.replace("60s", "100ms"), PORTS);
    client.reaches("10.0.2.2");
    router.stop();
}

/// A router with a script that nothing can stop, which its stall budget lets run.
fn deaf(world: &World, end_budget: &str) -> Router {
    // A C module that no signal reaches.
    let source = world.file(
        "deaf.c",
        "#include <signal.h>\nint deaf(void) { sigset_t all; sigfillset(&all); \
        sigprocmask(SIG_BLOCK, &all, 0); for (;;) ; }\n",
    );
    let library = source.with_extension("so");
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(built.expect("a C compiler").success());
    let script = world.file(
        "deaf.lua",
        &format!(
            "local ffi = require 'ffi' ffi.cdef 'int deaf(void);' local lib = ffi.load({:?})
        return function(worker) io.stderr:write('no signal from here on\\n') lib.deaf() end",
            library.display()
        ),
    );
    let budgets = format!("stall_budget = \"60s\"\nend_budget = {end_budget:?}");
    let router = world.router(&format!("script = {:?}\n{budgets}", script.display()), PORTS);
    router.says("no signal from here on");
    router
}

fn is_cleaned_up_after(world: &World, before: &[String]) {
    wait_seeing("the helper to restore the interfaces", || world.interfaces(), |now| now == before);
}

fn a_router_that_cannot_end_in_order_ends_by_force_and_is_cleaned_up_after(world: &World) {
    let _pair = Pair::new(world);
    let before = world.interfaces();
    let router = deaf(world, "1s");
    router.signal(Signal::TERM);
    router.says("did not end in order within 1.3s: it ends by force");
    is_cleaned_up_after(world, &before);
}

fn a_second_signal_ends_a_router_by_force(world: &World) {
    let _pair = Pair::new(world);
    let before = world.interfaces();
    let router = deaf(world, "600s");
    // Two at once would be one: again and again until it has heard of the second. It may have ended before.
    wait_until("the end by force", || {
        let _ = perigee_lab::Router::signal(&router, Signal::TERM);
        router.log().contains("a second signal asks for the end: it ends by force")
    });
    is_cleaned_up_after(world, &before);
}
