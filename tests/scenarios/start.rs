// SPDX-License-Identifier: MIT
//! A start: what the log says first, and its end before the router runs.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, LONGEST_WAIT, Router, Signal, World, perigee, run, wait_for, wait_until};
use rustix::fs::{Mode, OFlags, open};
use std::fs::File;
use std::io::Write;
use std::process::Command;

perigee_tests::scenarios![
    a_start_that_is_interrupted_while_dpdk_starts_ends_in_order,
    an_interface_that_carries_the_machines_own_traffic_is_refused,
];

/// The head of a pcap file: little-endian, version 2.4, Ethernet.
const PCAP: [u8; 24] = [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 1, 0, 0, 0];

/// `perigee run` was silent until DPDK had started, 12 s on a busy machine, and a signal in that time ended it by
/// SIGKILL.
fn a_start_that_is_interrupted_while_dpdk_starts_ends_in_order(world: &World) {
    let _pair = Pair::new(world);
    let interfaces = world.interfaces();
    // DPDK makes its devices while it starts, and this one's file has no end until somebody writes to it.
    run(Command::new("mkfifo").arg("/run/slow.pcap")).good();
    let device = "args = [\"--vdev=net_pcap9,rx_pcap=/run/slow.pcap\"]";
    let file = world.configuration("", &format!("{device}\n{PORTS}"));
    for signal in [Signal::TERM, Signal::INT] {
        let mut router = world.start(Command::new(perigee()).arg("run").arg(&file).env("NO_COLOR", "1"));
        let mut writer = wait_for("DPDK to open the file", || {
            open("/run/slow.pcap", OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).ok().map(File::from)
        });
        let log = router.stderr();
        let lines: Vec<_> = log.lines().collect();
        let [first, second, ..] = lines[..] else { panic!("two lines while DPDK starts:\n{log}") };
        assert!(first.contains("perigee 0.") && first.ends_with("configuration /run/router.toml"), "{first}");
        assert!(second.contains("DPDK ") && second.ends_with(" starts"), "{second}");
        router.signal(signal).good();
        wait_until("the signal to be heard", || router.stderr().contains("as soon as DPDK has started"));
        writer.write_all(&PCAP).expect("DPDK reads");
        drop(writer);
        let status = router.wait(LONGEST_WAIT).good();
        let log = router.stderr();
        assert!(status.success() && log.contains("nothing is left behind"), "{status}:\n{log}");
        assert!(!log.contains("by force") && !log.contains("running;") && !log.contains("panicked"), "{log}");
        world.nothing_left(&interfaces);
    }
}

/// `perigee run` on an interface with the machine's address cut it off without a warning: over SSH that was the end.
fn an_interface_that_carries_the_machines_own_traffic_is_refused(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    world.ip("link set r-client up");
    world.ip("addr add 10.5.0.1/24 dev r-client");
    world.ip("route add default via 10.5.0.9");
    client.run("ip addr add 10.5.0.2/24 dev eth0").good();
    let file = world.configuration("", PORTS);
    let words = "the interface r-client under port wan carries the address 10.5.0.1/24 of this machine and the default route of IPv4: \
                 that would be cut off";
    let start = || {
        let mut command = Command::new(perigee());
        command.arg("run").arg(&file).env("NO_COLOR", "1");
        command
    };
    run(&mut start()).refused(words);
    run(start().env("SSH_CONNECTION", "10.7.0.2 50000 10.5.0.1 22")).refused("and the session from 10.7.0.2 in which");
    // What is on top of it is lost with it.
    world.ip("addr flush dev r-client");
    world.ip("link add link r-client name upper type macvlan");
    world.ip("addr add 2001:db8:5::1/64 dev upper nodad");
    run(&mut start()).refused("carries the address 2001:db8:5::1/64 of this machine:");
    world.ip("link del upper");
    world.ip("addr add 10.5.0.1/24 dev r-client");
    let interfaces = world.interfaces();
    let router = Router::start_with(&file, &["--force"]);
    client.reaches("10.0.2.2");
    router.says("of this machine: that is cut off while the router runs, as --force says");
    router.stop();
    world.nothing_left(&interfaces);
}
