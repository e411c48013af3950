// SPDX-License-Identifier: MIT
//! Starts in any order: behind a killed router, behind one that ends, two at once, two on one interface. A helper
//! undoes what its own router did and nothing else.

use crate::{PORTS, Pair};
use perigee_lab::seen;
use perigee_tests::{Asserts, Good, LONGEST_WAIT, Process, Router, Signal, World, perigee, run, wait_for, wait_until};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, kill_process};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;

perigee_tests::scenarios![
    a_start_right_behind_a_kill_is_not_undone_by_the_old_helper,
    a_start_right_behind_a_signal_waits_for_the_end,
    a_start_behind_a_start_that_was_asked_to_end_waits_for_it,
    a_start_behind_a_start_that_fails_waits_for_its_helper,
    of_two_starts_at_once_one_runs_and_the_other_names_it,
    two_routers_on_one_interface_are_refused,
    the_standby_is_there_before_an_interface_is_prepared,
];

fn signal(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid as i32).expect("a number"), signal).expect("the process is there");
}

fn helpers() -> Vec<u32> {
    seen::helpers().expect("/proc").iter().map(|helper| helper.pid).collect()
}

fn start(world: &World, file: &Path) -> Process {
    world.start(Command::new(perigee()).arg("run").arg(file).env("NO_COLOR", "1").env("XDG_RUNTIME_DIR", "/run"))
}

/// Whether a router that was started so runs, or what it said.
fn runs(router: &Process) -> bool {
    router.stderr().contains("running;")
}

/// The old helper set the new router's interfaces down, gave them other MAC addresses and MTUs, and removed its API's
/// socket.
fn a_start_right_behind_a_kill_is_not_undone_by_the_old_helper(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let mut router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    for _ in 0..3 {
        let old = helpers();
        // Nobody waits for its end.
        signal(router.pid(), Signal::KILL);
        let next = Router::start(Path::new("/run/router.toml"));
        wait_until("the old helpers to end", || helpers().iter().all(|pid| !old.contains(pid)));
        client.reaches("10.0.2.2");
        client.ping(5, "10.0.2.2");
        assert!(next.show("ports").to_string().contains("wan"), "its API answers");
        drop(std::mem::replace(&mut router, next));
    }
    router.stop();
    assert_eq!(world.interfaces(), before);
}

/// `kill PID; perigee run FILE`: DPDK could not access its folder, which the old router removed at its end.
fn a_start_right_behind_a_signal_waits_for_the_end(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let mut router = world.router("", PORTS);
    for _ in 0..3 {
        client.reaches("10.0.2.2");
        router.signal(Signal::TERM);
        let next = Router::start(Path::new("/run/router.toml"));
        drop(std::mem::replace(&mut router, next));
    }
    client.reaches("10.0.2.2");
    router.stop();
    world.nothing_left(&before);
}

/// It took the first one, whose DPDK was still starting, for a router that runs, and was refused after five seconds.
fn a_start_behind_a_start_that_was_asked_to_end_waits_for_it(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let (mut first, writer) = starting(world);
    first.signal(Signal::TERM).good();
    wait_until("the signal to be heard", || first.stderr().contains("the end is asked for"));
    let mut second = start(world, &world.configuration("", PORTS));
    wait_until("the second one to wait", || second.stderr().contains("a router that ends"));
    assert!(!second.stderr().contains("is another router's"), "{}", second.stderr());
    drop(writer);
    assert!(first.wait(LONGEST_WAIT).good().success(), "{}", first.stderr());
    wait_until("the second one to run", || runs(&second));
    client.reaches("10.0.2.2");
    second.signal(Signal::TERM).good();
    assert!(second.wait(LONGEST_WAIT).good().success(), "{}", second.stderr());
    world.nothing_left(&before);
}

/// It took one that had failed, and waited for a helper that was silent, for a router that runs.
fn a_start_behind_a_start_that_fails_waits_for_its_helper(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let (mut first, writer) = starting(world);
    let silent = helpers();
    silent.iter().for_each(|pid| signal(*pid, Signal::STOP));
    let file = world.configuration("", PORTS);
    drop(writer);
    // Its interfaces are not prepared in time. Those that come before it has given up are refused.
    let mut second = start(world, &file);
    wait_until("one to wait", || {
        if second.stderr().contains("perigee: ") {
            second = start(world, &file);
        }
        second.stderr().contains("a router that ends")
    });
    silent.iter().for_each(|pid| signal(*pid, Signal::CONT));
    assert!(!first.wait(LONGEST_WAIT).good().success());
    wait_until("the second one to run", || runs(&second));
    client.reaches("10.0.2.2");
    second.signal(Signal::TERM).good();
    assert!(second.wait(LONGEST_WAIT).good().success(), "{}", second.stderr());
    world.nothing_left(&before);
}

/// A router whose DPDK is still starting, until what comes with it is dropped: DPDK makes its devices before ports are
/// opened, and this one's file has no end until somebody who writes to it has closed it.
fn starting(world: &World) -> (Process, OwnedFd) {
    run(Command::new("mkfifo").arg("/run/slow.pcap")).good();
    let device = "args = [\"--vdev=net_pcap9,rx_pcap=/run/slow.pcap\"]";
    let file = world.configuration("", &format!("{device}\n{PORTS}"));
    let router = start(world, &file);
    let writer = wait_for("DPDK to open the file", || {
        open("/run/slow.pcap", OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty()).ok()
    });
    (router, writer)
}

fn of_two_starts_at_once_one_runs_and_the_other_names_it(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let file = world.configuration("", PORTS);
    for _ in 0..3 {
        let [a, b] = [start(world, &file), start(world, &file)];
        let ended = |router: &Process| router.stderr().contains("perigee: ");
        wait_until("one to run and one to end", || runs(&a) && ended(&b) || runs(&b) && ended(&a));
        let (mut first, mut second) = if runs(&a) { (a, b) } else { (b, a) };
        assert!(!second.wait(LONGEST_WAIT).good().success());
        let said = second.stderr();
        let expected = format!("the API's socket /run/t.sock is another router's: process {} (`", first.pid());
        assert!(said.contains(&expected) && said.contains("this start waits for its end"), "{said}");
        client.reaches("10.0.2.2");
        first.signal(Signal::TERM).good();
        assert!(first.wait(LONGEST_WAIT).good().success(), "{}", first.stderr());
        world.nothing_left(&before);
    }
}

/// Both took every packet, and the one that ended first restored the interface under the other.
fn two_routers_on_one_interface_are_refused(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    let other = "[port.other]\ninterface = \"r-server\"\naddresses = [\"10.0.2.9/24\"]\n";
    let text =
        format!("[router]\nname = \"u\"\nsocket = \"/run/u.sock\"\n[eal]\nhugepages = false\nmemory = 160\n\n{other}");
    let file = world.file("other.toml", &text);
    let refused = world.perigee(&["run", &file.display().to_string()]);
    let refused = refused.refused(&format!("the interface r-server is another router's: process {} (`", router.pid()));
    assert!(refused.text.contains("run /run/router.toml`); stop that one"), "{}", refused.text);
    client.reaches("10.0.2.2");
    // It may have been renamed.
    world.ip("link set r-server down");
    world.ip("link set r-server name s-server");
    let file = world.file("other.toml", &text.replace("r-server", "s-server"));
    world.perigee(&["run", &file.display().to_string()]).refused("the interface s-server is another router's");
    router.stop();
}

/// Of 45 routers whose processes were killed at random, five left their interfaces as they had prepared them: their
/// helper died before it had a standby.
fn the_standby_is_there_before_an_interface_is_prepared(world: &World) {
    let _pair = Pair::new(world);
    let before = world.interfaces();
    let (mut router, writer) = starting(world);
    assert_eq!((helpers().len(), world.interfaces()), (2, before.clone()));
    router.kill().good();
    drop(writer);
    // DPDK's folder stayed behind.
    world.nothing_left(&before);
    let router = world.router("", PORTS);
    let [helper, standby] = helpers()[..] else { panic!("a helper and its standby, as soon as it runs") };
    signal(helper, Signal::KILL);
    signal(router.pid(), Signal::KILL);
    wait_until("the standby to restore the interfaces", || world.interfaces() == before);
    wait_until("it to end", || !helpers().contains(&standby));
}
