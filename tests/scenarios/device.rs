// SPDX-License-Identifier: MIT
//! Devices under test as the laboratory builds them: each forwards what the tester sends, and is gone when it is
//! removed.

use perigee_tests::device::{CommandLine, Kind, Perigee, Setup, Side, Testpmd};
use perigee_tests::{Device, Good, World, perigee, tools, wait_until};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

perigee_tests::scenarios![
    linux_is_measured,
    perigee_is_measured,
    testpmd_is_measured,
    a_command_line_is_measured,
    a_device_that_cannot_be_built_says_why,
    devices_of_one_world_do_not_meet,
];

/// Frames of each attempt.
const FRAMES: &str = "500";

fn setup() -> Setup {
    Setup { static_neighbors: true, ..Setup::default() }
}

/// Sends frames of both families through it, both ways, until all of them arrive; returns how many have arrived at
/// least.
#[track_caller]
fn forwards(world: &World, device: &Device) -> u64 {
    forwards_sized(world, device, "128")
}

/// Frames of these sizes.
#[track_caller]
fn forwards_sized(world: &World, device: &Device, sizes: &str) -> u64 {
    let [left, right] = device.sides();
    let mut arrived = 0;
    for (from, to) in [(left, right), (right, left)] {
        for family in ["ipv4", "ipv6"] {
            wait_until(&format!("all frames of {family} from {} at {}", from.port, to.port), || {
                let (sent, received) = send(world, from, to, family, sizes);
                arrived += received;
                sent > 0 && received == sent
            });
        }
    }
    arrived
}

/// Frames sent and received.
#[track_caller]
fn send(world: &World, from: &Side, to: &Side, family: &str, sizes: &str) -> (u64, u64) {
    let (source, destination) = match family {
        "ipv4" => (from.tester_v4.to_string(), to.tester_v4.to_string()),
        _ => (from.tester_v6.to_string(), to.tester_v6.to_string()),
    };
    let words = format!(
        "gen {} --to {} --destination-mac {} --source {source} --destination {destination} --sizes {sizes} \
         --rate 5kpps --frames {FRAMES} --json --hugepages no --memory 256",
        from.port, to.port, from.mac
    );
    let ended = world.perigee(&words.split_whitespace().collect::<Vec<_>>());
    // 2: on a busy machine it does not trust its own figures.
    assert!(matches!(ended.code, Some(0 | 2)), "{}", ended.text);
    let report: Value = serde_json::from_str(&ended.out).expect("JSON on standard output");
    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("no number of frames in {report}"));
    let sent = number(&report["sent"]["sent"]);
    (sent, sent - number(&report["received"]["lost"]))
}

/// Nothing of it is left: neither process nor interface nor namespace.
#[track_caller]
fn is_removed(world: &World, device: Device, interfaces: &[String]) {
    let pid = device.pid();
    device.remove().good();
    assert!(pid.is_none_or(|pid| !Path::new(&format!("/proc/{pid}")).exists()), "its process runs on");
    assert_eq!(world.interfaces(), interfaces);
    assert_eq!(world.ip("netns list"), "");
}

/// A device that was stopped lets nothing through, and forwards again when it has been started.
#[track_caller]
fn stops_and_starts(world: &World, device: &mut Device) {
    device.stop().good();
    assert_eq!(device.pid(), None);
    assert_eq!(device.log(), "");
    device.start().good();
    forwards(world, device);
    let before = device.pid();
    device.reset().good();
    assert!(before.is_none() || device.pid() != before, "the same process after a reset");
    forwards(world, device);
}

fn linux_is_measured(world: &World) {
    let interfaces = world.interfaces();
    let mut device = world.device(setup(), Kind::Linux);
    let arrived = forwards(world, &device);
    let counters = device.host().run("nstat -az IpForwDatagrams Ip6OutForwDatagrams").good().out;
    let count = |name: &str| {
        let line = counters.lines().find(|line| line.starts_with(name)).expect("the counter");
        line.split_whitespace().nth(1).and_then(|number| number.parse::<u64>().ok()).expect("a number")
    };
    let forwarded = count("IpForwDatagrams") + count("Ip6OutForwDatagrams");
    assert!(forwarded >= arrived, "{arrived} frames arrived, Linux forwarded {forwarded}");
    stops_and_starts(world, &mut device);
    is_removed(world, device, &interfaces);
}

/// Frames that its workers have sent.
#[track_caller]
fn transmitted(device: &Device) -> u64 {
    let text = device.router().expect("a router").ask("show workers --json").good().out;
    let workers: Value = serde_json::from_str(&text).expect("JSON");
    workers.as_array().expect("a list").iter().map(|worker| worker["transmitted"].as_u64().expect("a number")).sum()
}

fn perigee_is_measured(world: &World) {
    let interfaces = world.interfaces();
    let options = Perigee { burst: 64, ..Perigee::new(perigee()) };
    let mut device = world.device(Setup { mtu: 9000, ..setup() }, Kind::Perigee(options));
    let arrived = forwards(world, &device) + forwards_sized(world, &device, "9018");
    let sent = transmitted(&device);
    assert!(sent >= arrived, "{arrived} frames arrived, perigee forwarded {sent}");
    assert!(device.log().contains("MTU 9000"), "{}", device.log());
    stops_and_starts(world, &mut device);
    is_removed(world, device, &interfaces);
}

fn testpmd_is_measured(world: &World) {
    // Benchmarks need it, tests do not: its absence is no failure.
    if !tools::found(tools::TESTPMD.0, &tools::search_path()) {
        let error = world.lab().device(setup(), Kind::Testpmd(Testpmd::default())).err().expect("a refusal");
        assert!(error.to_string().contains("apt install dpdk-dev"), "{error:#}");
        world.unable("dpdk-testpmd is not installed; `sudo apt install dpdk-dev` installs it");
        return;
    }
    let interfaces = world.interfaces();
    let mut device = world.device(setup(), Kind::Testpmd(Testpmd::default()));
    forwards(world, &device);
    stops_and_starts(world, &mut device);
    is_removed(world, device, &interfaces);
}

fn a_command_line_is_measured(world: &World) {
    let interfaces = world.interfaces();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tasks/forward.lua");
    // As its second process, which ends with it.
    let line = format!(
        "echo peers $PERIGEE_LEFT_PEER $PERIGEE_RIGHT_PEER; \
         {} task --hugepages no --memory 256 {} $PERIGEE_LEFT $PERIGEE_RIGHT; echo over",
        perigee().display(),
        script.display()
    );
    let mut device =
        world.device(setup(), Kind::Command(CommandLine { line, settle: Duration::from_secs(1), cores: vec![] }));
    let [left, right] = device.sides().each_ref().map(|side| side.tester_mac.clone());
    forwards(world, &device);
    assert!(device.log().contains(&format!("peers {left} {right}")), "{}", device.log());
    stops_and_starts(world, &mut device);
    is_removed(world, device, &interfaces);
    wait_until("all processes to end", || world.processes().is_empty());
}

fn a_device_that_cannot_be_built_says_why(world: &World) {
    let refused = |setup: Setup, kind: Kind| {
        let error = world.lab().device(setup, kind).err().expect("a refusal");
        format!("{error:#}")
    };
    assert!(refused(Setup { number: 7, ..setup() }, Kind::Linux).contains("expected 0 to 6"));
    let line = |line: &str| {
        Kind::Command(CommandLine { line: line.to_owned(), settle: Duration::from_secs(20), cores: vec![] })
    };
    let error = refused(setup(), line("echo no luck; exit 3"));
    assert!(error.contains("exit status: 3; it said: no luck"), "{error}");
    assert_eq!((world.interfaces().len(), world.ip("netns list").as_str()), (0, ""));
}

fn devices_of_one_world_do_not_meet(world: &World) {
    let linux = world.device(setup(), Kind::Linux);
    let perigee = world.device(Setup { number: 1, ..setup() }, Kind::Perigee(Perigee::new(perigee())));
    assert_eq!(perigee.sides().each_ref().map(|side| side.port.as_str()), ["t2", "t3"]);
    for device in [&linux, &perigee, &linux] {
        forwards(world, device);
    }
}
