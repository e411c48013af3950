// SPDX-License-Identifier: MIT
//! What follows when the process that keeps the privileges is killed.

use crate::{PORTS, Pair};
use perigee_lab::seen;
use perigee_tests::{Good, Host, LONGEST_WAIT, Process, Router, World, perigee, wait_for, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

perigee_tests::scenarios![
    a_killed_helper_is_replaced,
    a_router_ends_with_its_helper_if_configured,
    a_standby_restores_what_router_and_helper_cannot,
    a_router_without_helper_forwards_and_says_so_once,
    a_killed_standby_is_replaced,
    a_helper_that_hangs_stops_nothing_but_what_needs_it,
    helpers_that_hang_fail_a_reload_in_a_sentence,
];

/// The processes called `perigee helper`, oldest first: the helper and its standby.
fn helpers() -> Vec<i32> {
    seen::helpers().expect("/proc").iter().map(|helper| helper.pid as i32).collect()
}

/// Waits until helper and standby are there, and returns them.
fn both() -> [i32; 2] {
    wait_for("a helper and its standby", || helpers().try_into().ok())
}

fn kill(pid: i32) {
    signal(pid, Signal::KILL);
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).expect("a number"), signal).expect("the process is there");
}

fn gone(pid: i32) -> bool {
    !Path::new(&format!("/proc/{pid}")).exists()
}

fn deaths(router: &Router) -> u64 {
    router.show("linux")["helper_deaths"].as_u64().expect("a number")
}

fn a_killed_helper_is_replaced(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    for killed in 1..=3 {
        let [helper, standby] = both();
        kill(helper);
        wait_until("the death to be noticed", || deaths(&router) == killed);
        // It stayed in the list of processes until the router ended.
        wait_until("it to be gone", || gone(helper));
        assert_eq!(router.show("linux")["helper"], "alive");
        assert_eq!(both()[0], standby, "the standby is the helper now, and has one itself");
        world.ip("link del wan");
        wait_until("the twin to be made again", || world.ip("-br link").contains("wan"));
        client.reaches("10.0.2.2");
    }
    router.says("its standby has taken its place");
    router.stop();
    assert_eq!(world.interfaces(), before);
    assert!(helpers().is_empty());
}

fn a_router_ends_with_its_helper_if_configured(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let router = world.router("helper_death = \"end\"", PORTS);
    client.reaches("10.0.2.2");
    let [helper, _] = both();
    kill(helper);
    router.says("the router ends");
    router.says("every packet buffer is back");
    wait_for("the standby to restore the interfaces", || (world.interfaces() == before).then_some(()));
    wait_until("the processes to end", || helpers().is_empty());
    let log = router.fails();
    log.says("has died");
}

fn a_standby_restores_what_router_and_helper_cannot(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let [helper, standby] = both();
    kill(helper);
    router.kill();
    wait_for("the standby to restore the interfaces", || (world.interfaces() == before).then_some(()));
    wait_until("the standby to end", || !helpers().contains(&standby));
}

fn a_router_without_helper_forwards_and_says_so_once(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    for pid in both() {
        kill(pid);
    }
    wait_until("the death to be noticed", || router.show("linux")["helper"] == "dead");
    client.ping(20, "10.0.2.2");
    // What cannot be made again is not asked for again and again.
    world.ip("link del wan");
    router.says("was deleted");
    // sleep: time for warnings that must not come
    std::thread::sleep(Duration::from_secs(1));
    let log = router.log();
    assert_eq!(log.matches("standby have died").count(), 1, "{log}");
    // Each of the twin's two addresses may be missed before the twin is.
    assert!(log.matches("WARN").count() < 7, "{log}");
    router.stop();
}

fn a_killed_standby_is_replaced(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let [helper, standby] = both();
    kill(standby);
    wait_until("another standby", || helpers().len() == 2 && !helpers().contains(&standby));
    assert_eq!((both()[0], deaths(&router)), (helper, 0));
    router.says("the standby of the helper process has died");
    router.stop();
}

/// A reload that adds an address, which the helper has to tell Linux; nobody waits for its answer here.
fn reload_another_address(world: &World) -> Process {
    world.configuration("", &PORTS.replace("\"10.0.1.1/24\"", "\"10.0.1.1/24\", \"10.0.1.200/24\""));
    world.start(Command::new(perigee()).args(["reload", "--socket", "/run/t.sock"]).env("NO_COLOR", "1"))
}

/// What does not take the helper goes on: questions, known traffic, ARP, neighbors that are new.
fn all_goes_on(client: &Host, router: &Router) {
    client.run("ip neigh flush dev eth0").good();
    router.ask("neighbor flush").good();
    // Few packets wait for a neighbor, and it may take long to be found.
    client.reaches("10.0.2.2");
    client.ping(20, "10.0.2.2");
    assert_eq!(router.show("ports").as_array().map(Vec::len), Some(2));
}

/// The slow path waited for it: nothing was answered, no neighbor was found, and senders stopped for want of ARP.
fn a_helper_that_hangs_stops_nothing_but_what_needs_it(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let [helper, standby] = both();
    signal(helper, Signal::STOP);
    let mut reload = reload_another_address(world);
    all_goes_on(&client, &router);
    let status = reload.wait(LONGEST_WAIT).good();
    assert!(status.success(), "{}", reload.said());
    router.says("it is ended by its standby, which takes its place");
    wait_until("it to be gone", || gone(helper));
    assert!(world.ip("addr show dev wan").contains("10.0.1.200/24"));
    client.ping(5, "10.0.1.200");
    assert_eq!((both()[0], deaths(&router)), (standby, 1));
    router.stop();
    assert_eq!(world.interfaces(), before);
}

fn helpers_that_hang_fail_a_reload_in_a_sentence(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = world.interfaces();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let [helper, standby] = both();
    [helper, standby].into_iter().for_each(|pid| signal(pid, Signal::STOP));
    let mut reload = reload_another_address(world);
    all_goes_on(&client, &router);
    assert!(!reload.wait(LONGEST_WAIT).good().success());
    let said = reload.said();
    assert!(
        said.contains("the twin wan keeps its old addresses: the helper process has not answered for 10s"),
        "{said}"
    );
    wait_until("it to be shown", || router.show("linux")["helper"] == "silent");
    all_goes_on(&client, &router);
    signal(standby, Signal::CONT);
    wait_until("it to answer", || router.show("linux")["helper"] == "alive");
    router.says("the helper process answers again");
    // The request was sent and is carried out late, or it was refused behind another one that was not answered.
    assert!(reload_another_address(world).wait(LONGEST_WAIT).good().success());
    assert!(world.ip("addr show dev wan").contains("10.0.1.200/24"));
    client.reaches("10.0.1.200");
    wait_until("the first one to be gone", || gone(helper));
    router.stop();
    assert_eq!(world.interfaces(), before);
}
