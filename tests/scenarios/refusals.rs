// SPDX-License-Identifier: MIT
//! A router that cannot start says why in a clear sentence, with exit status 1, and leaves nothing behind.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Ended, Good, World, perigee, run};
use std::fs;
use std::path::Path;
use std::process::Command;

perigee_tests::scenarios![
    mistakes_are_named_with_their_place,
    what_does_not_exist_is_named,
    a_port_on_a_capture_of_something_else_is_refused,
    names_and_sockets_that_are_taken_stay_their_owners,
    without_permission_the_way_out_is_told,
    questions_without_a_router_are_answered_with_what_to_do,
];

/// One sentence, and no trace of the attempt.
fn check(world: &World, interfaces: &[String], output: &Ended) {
    let sentences: Vec<_> = output.text.lines().filter(|line| line.starts_with("perigee: ")).collect();
    assert_eq!(sentences.len(), 1, "one sentence:\n{}", output.text);
    assert!(!output.text.contains("panicked") && !output.text.contains("Error {"), "{}", output.text);
    world.nothing_left(interfaces);
}

/// The number of the first line of a file that begins like this.
pub fn line_of(file: &Path, begin: &str) -> usize {
    let text = fs::read_to_string(file).expect("a configuration");
    text.lines().position(|line| line.starts_with(begin)).expect("such a line") + 1
}

fn mistakes_are_named_with_their_place(world: &World) {
    let _pair = Pair::new(world);
    let interfaces = world.interfaces();
    let wrong = PORTS.replace("10.0.1.1/24", "10.0.1.0/24").replace("[port.lan]", "[port.lan]\nspeed = 10");
    let file = world.configuration("workers = 0", &wrong);
    let line = |begin: &str| line_of(&file, begin);
    let places = [(line("workers"), 11), (line("addresses = [\"10.0.1.0/24"), 14), (line("speed"), 1)];
    for command in ["check", "run"] {
        let output = world.perigee(&[command, "/run/router.toml"]).refused("mistakes");
        let places = places.map(|(line, column)| format!("router.toml:{line}:{column}: "));
        for words in places.iter().map(String::as_str).chain(["nothing was started"]) {
            assert!(output.text.contains(words), "{words} is not in\n{}", output.text);
        }
        check(world, &interfaces, &output);
    }
    for (text, words) in [("[router\n", "router.toml:1:"), ("", "found no port"), ("\u{feff}\0", "router.toml:1:")] {
        world.file("router.toml", text);
        check(world, &interfaces, &world.perigee(&["run", "/run/router.toml"]).refused(words));
    }
    check(world, &interfaces, &world.perigee(&["run", "/run/absent.toml"]).refused("absent.toml"));
    // A file that is named and not there is a mistake of the line that names it.
    let file = world.configuration("script = \"absent.lua\"", PORTS);
    let place =
        format!("router.toml:{}:1: cannot read the script /run/absent.lua: No such file", line_of(&file, "script"));
    for command in ["check", "run"] {
        check(world, &interfaces, &world.perigee(&[command, "/run/router.toml"]).refused(&place));
    }
    world.configuration("", PORTS);
    let good = world.perigee(&["check", "/run/router.toml"]).good();
    assert!(good.out.contains("2 ports"), "{}", good.out);
}

/// A capture of raw IP was read as if it were Ethernet.
fn a_port_on_a_capture_of_something_else_is_refused(world: &World) {
    let interfaces = world.interfaces();
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 101].map(u32::to_le_bytes).concat();
    fs::write("/run/raw.pcap", header).expect("a capture");
    let port = "[port.lan]\ndevice = \"net_pcap0,rx_pcap=raw.pcap\"\ntwin = false\naddresses = [\"10.0.1.1/24\"]\n";
    world.configuration("", port);
    for command in ["check", "run"] {
        let output = world.perigee(&[command, "/run/router.toml"]).refused("link type 101, expected Ethernet (1)");
        check(world, &interfaces, &output);
    }
}

fn what_does_not_exist_is_named(world: &World) {
    let _pair = Pair::new(world);
    let interfaces = world.interfaces();
    let lan = PORTS.replace("\"r-server\"", "\"moon0\"");
    check(world, &interfaces, &world.refused("", &lan).refused("moon0"));
    let lan = PORTS.replace("interface = \"r-server\"", "device = \"net_moon0\"");
    check(world, &interfaces, &world.refused("", &lan).refused("net_moon0"));
    let lan = PORTS.replace("interface = \"r-server\"", "device = \"net_af_packet0,iface=moon0\"");
    check(world, &interfaces, &world.refused("", &lan).refused("net_af_packet0"));
    let lan = PORTS.replace("interface = \"r-server\"", "device = \"0000:ff:1f.7\"");
    check(world, &interfaces, &world.refused("", &lan).refused("0000:ff:1f.7"));
    check(world, &interfaces, &world.refused("script = \"absent.lua\"", PORTS).refused("absent.lua"));
    check(world, &interfaces, &world.refused("namespace = \"nowhere\"", PORTS).refused("nowhere"));
    let file = world.configuration("", PORTS);
    let text = fs::read_to_string(&file).expect("the configuration");
    world.file("router.toml", &format!("routes_file = \"absent.txt\"\n{text}"));
    check(world, &interfaces, &world.perigee(&["run", "/run/router.toml"]).refused("absent.txt"));
    world.file("bad.txt", "10.9.0.0/24 via 10.0.2.2 dev lan\n10.9.1.0/24 via 10.0.2.2 dev mars\n");
    world.file("router.toml", &format!("routes_file = \"bad.txt\"\n{text}"));
    check(world, &interfaces, &world.perigee(&["run", "/run/router.toml"]).refused("bad.txt:2:"));
    world.file("bad.lua", "return function(worker)\n  if\nend\n");
    check(world, &interfaces, &world.refused("script = \"bad.lua\"", PORTS).refused("bad.lua:3"));
}

fn names_and_sockets_that_are_taken_stay_their_owners(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    world.ip("link add lan type veth peer name nal");
    let interfaces = world.interfaces();
    check(world, &interfaces, &world.refused("", PORTS).refused("`lan`"));
    world.ip("link del lan");

    let interfaces = world.interfaces();
    world.file("t.sock", "no socket");
    let output = world.refused("", PORTS).refused("/run/t.sock");
    assert_eq!(fs::read_to_string("/run/t.sock").expect("the file"), "no socket");
    fs::remove_file("/run/t.sock").expect("the file");
    check(world, &interfaces, &output);

    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let during = world.interfaces();
    let third = world.host("third", &[], &[]);
    world.file("second.toml", &format!(
        "[router]\nname = \"second\"\nidle = \"sleep\"\nsocket = \"/run/t.sock\"\n[eal]\nhugepages = false\nmemory = 160\n{}",
        "[port.three]\ninterface = \"r-third\"\naddresses = [\"10.0.3.1/24\"]\n"
    ));
    world.perigee(&["run", "/run/second.toml"]).refused("/run/t.sock");
    let after: Vec<_> = world.interfaces().into_iter().filter(|line| !line.contains("r-third")).collect();
    assert_eq!(after, during);
    client.ping(20, "10.0.2.2");
    drop(third);
    router.stop();
}

fn without_permission_the_way_out_is_told(world: &World) {
    let _pair = Pair::new(world);
    let interfaces = world.interfaces();
    let file = world.configuration("", PORTS);
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set", "-all", "--inh-caps", "-all"]).arg(perigee()).arg("run").arg(file);
    let output = run(command.env("XDG_RUNTIME_DIR", "/run").env("NO_COLOR", "1")).refused("unshare -Urnm");
    check(world, &interfaces, &output);
}

fn questions_without_a_router_are_answered_with_what_to_do(world: &World) {
    world.perigee(&["show", "ports"]).refused("no router runs here");
    world.perigee(&["show", "ports", "--socket", "/run/absent.sock"]).refused("no router answers at /run/absent.sock");
    world.perigee(&["reload", "--socket", "/run/absent.sock"]).refused("no router answers");
}
