// SPDX-License-Identifier: MIT
//! The helper inside user, network and mount namespaces: real TAPs, real settings, no root.
//!
//! This binary plays three parts (hence no test harness): the test, which runs itself again under `unshare -Urnm`;
//! there, the router; and, started by that one, the helper.

#[path = "helper/ends.rs"]
mod ends;
#[path = "helper/many.rs"]
mod many;
#[path = "helper/silent.rs"]
mod silent;

use std::fs;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::{Duration, Instant};

use perigee_helper::privileges;
use perigee_helper::twin::Twin;
use perigee_helper::{
    Helper, LinkChange, LinkPreparation, NeighborChange, Reach, SocketWanted, TwinStatus, TwinWanted, serve_stdin,
};
use perigee_net::{MacAddr, Namespace};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

fn main() -> ExitCode {
    let part = std::env::args().nth(1);
    match part.as_deref() {
        Some("helper") => serve_stdin(Reach::Processes, |_, text| text.lines().map(silent::named).collect())
            .map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS),
        Some("inside") => {
            inside();
            ExitCode::SUCCESS
        }
        Some("unprivileged") => {
            unprivileged();
            ExitCode::SUCCESS
        }
        // A filter for other tests.
        Some(filter) if !filter.starts_with('-') && !"helper".contains(filter) => ExitCode::SUCCESS,
        _ => outside(),
    }
}

/// Runs the parts in namespaces of their own, or says why not; under CI that is a failure.
fn outside() -> ExitCode {
    let itself = std::env::current_exe().expect("the path of this test");
    let possible = Command::new("unshare").args(["-Urnm", "test", "-w", "/dev/net/tun"]).status();
    if !possible.as_ref().is_ok_and(|status| status.success()) {
        println!("skipped: `unshare -Urnm` with /dev/net/tun is not possible here ({possible:?})");
        println!("test result: ok. 0 passed; 0 failed; 1 ignored");
        return ExitCode::from(u8::from(std::env::var_os("CI").is_some_and(|ci| ci == "true")));
    }
    let parts = ["inside", "unprivileged"];
    for part in parts {
        let status = Command::new("unshare").args(["-Urnm"]).arg(&itself).arg(part).status().expect("unshare");
        if !status.success() {
            println!("helper {part}: FAILED");
            return ExitCode::FAILURE;
        }
        println!("helper {part}: ok");
    }
    println!("test result: ok. {} passed; 0 failed; 0 ignored", parts.len());
    ExitCode::SUCCESS
}

fn start() -> Helper {
    Helper::start(&std::env::current_exe().unwrap(), Reach::Processes).unwrap()
}

fn twin(name: &str) -> TwinWanted {
    TwinWanted {
        name: name.into(),
        mac: MacAddr([2, 0, 0, 0, 0, 7]),
        mtu: 1400,
        namespace: None,
        addresses: vec!["10.0.0.1/24".parse().unwrap(), "2001:db8::1/64".parse().unwrap()],
        up: true,
    }
}

fn setting(family: &str, name: &str, key: &str) -> String {
    let path = format!("/proc/sys/net/{family}/conf/{name}/{key}");
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}")).trim().to_owned()
}

/// `ip ARGS`, as a check that is independent of our own netlink code.
fn ip(args: &str) -> String {
    let output = Command::new("ip").args(args.split(' ')).output().expect("the `ip` command");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {args}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn exists(name: &str) -> bool {
    Path::new("/proc/sys/net/ipv4/conf").join(name).exists()
}

/// Waiting for anything longer than this is a failure. Minutes: the machine may be busy.
const LONGEST_WAIT: Duration = Duration::from_secs(180);

/// Waits for something that another process or the kernel does at some point.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while start.elapsed() < LONGEST_WAIT {
        if holds() {
            return;
        }
        // sleep: between two looks
        sleep(Duration::from_millis(10));
    }
    panic!("waited {} s in vain: {what}", LONGEST_WAIT.as_secs());
}

/// Its answer quoted the name twice, and was longer than a message may be.
fn a_name_of_any_length_does_not_end_the_helper() {
    let helper = start();
    for name in ["x".repeat(100_000), "../all".to_owned(), "a\n".to_owned()] {
        let refused = helper.link_macs(&[name]).unwrap_err().to_string();
        assert!(refused.contains("as the name of an interface") && refused.len() < 1000, "{refused}");
        assert!(!refused.contains(char::is_control), "{refused}");
    }
    let missing = Path::new("/nowhere").join("x".repeat(100_000));
    let refused = helper.open_file(&missing).unwrap_err().to_string();
    assert!(refused.contains("the helper knows of no configuration"), "{refused}");
    helper.configuration(&missing).unwrap();
    let refused = helper.open_file(&missing).unwrap_err().to_string();
    assert!(refused.contains("x ... x") && refused.len() < 1500, "{refused}");
    assert!(helper.look().is_some_and(|health| health.alive));
}

fn inside() {
    a_name_of_any_length_does_not_end_the_helper();
    a_twin_is_made_as_wanted_and_carries_frames();
    a_twin_ends_with_its_descriptor();
    twins_in_another_namespace();
    ends::a_twin_that_outlives_its_router_is_removed();
    ends::an_interface_that_got_the_number_of_a_twin_or_vlan_stays();
    ends::a_twin_that_was_left_behind_is_made_again_and_anothers_interface_is_not();
    a_prepared_interface_is_restored();
    ends::an_interface_that_got_the_name_of_a_prepared_one_is_left_alone();
    ends::what_a_later_request_changes_is_restored_too();
    ends::the_loopback_is_refused_and_stays_as_it_was();
    ends::one_refusal_leaves_nothing_else_unrestored();
    refusals_are_sentences();
    a_standby_knows_what_its_helper_did();
    a_standby_that_the_router_could_not_take_restores_nothing();
    silent::a_stopped_helper_is_ended_by_its_standby();
    silent::two_stopped_helpers_refuse_in_a_sentence_and_may_go_on();
    silent::a_standby_restores_what_a_stopped_helper_does_not();
    silent::a_file_system_that_does_not_answer_takes_no_helper();
    silent::a_file_that_was_replaced_stays();
    many::many_interfaces_are_prepared_and_restored();
    many::one_of_many_is_refused_by_its_place_and_those_with_it_are_left_alone();
    many::a_standby_carries_on_among_many();
    many::what_was_prepared_by_a_dead_helper_is_restored_by_its_standby();
    many::many_twins_are_removed_together_and_nothing_else();
    a_router_that_runs_changes_its_own_interfaces_alone();
    files_of_the_configuration_are_opened_and_no_others();
    the_helper_goes_on_without_the_routers_privileges();
}

/// Who has taken a router over gets no file that it chooses. Here each line of a configuration names a file.
fn files_of_the_configuration_are_opened_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let (script, other) = (file("script", "hello"), file("other", "secret"));
    let configuration = file("configuration", &format!("{}\n/dev/zero\n", script.display()));
    let helper = start();
    let refused = |path: &Path| helper.open_file(path).unwrap_err().to_string();
    assert!(refused(&script).contains("knows of no configuration"));
    helper.configuration(&configuration).unwrap();
    helper.started().unwrap();
    assert!(helper.configuration(&other).unwrap_err().to_string().contains("named before the start"));
    let read = |path: &Path| std::io::read_to_string(helper.open_file(path).unwrap()).unwrap();
    assert_eq!(read(&script), "hello");
    assert!(read(&configuration).contains("script"));
    assert!(refused(&other).contains("other is no file that"));
    assert!(refused(Path::new("/dev/zero")).contains("is no regular file"));
    // What it names is looked up each time.
    file("configuration", &other.display().to_string());
    assert_eq!(read(&other), "secret");
    assert!(refused(&script).contains("script is no file that"));
}

fn a_twin_is_made_as_wanted_and_carries_frames() {
    let helper = start();
    let (fd, status) = helper.make_twin(&twin("wan")).unwrap();
    let shown = ip("-d addr show dev wan");
    for words in ["02:00:00:00:00:07", "mtu 1400", "10.0.0.1/24", "2001:db8::1/64", "UP", "tun type tap"] {
        assert!(shown.contains(words), "{words} is not in\n{shown}");
    }
    for words in ["fe80:", "tentative", "dadfailed"] {
        assert!(!shown.contains(words), "{words} is in\n{shown}");
    }
    let expected = [
        ("ipv4", "forwarding", "0"),
        ("ipv4", "rp_filter", "0"),
        ("ipv4", "arp_ignore", "8"),
        ("ipv6", "forwarding", "0"),
        ("ipv6", "accept_ra", "0"),
        ("ipv6", "accept_dad", "0"),
        ("ipv6", "dad_transmits", "0"),
        ("ipv6", "addr_gen_mode", "1"),
    ];
    for (family, key, value) in expected {
        assert_eq!(setting(family, "wan", key), value, "{family} {key}");
    }
    assert_eq!(status, TwinStatus { name: "wan".into(), namespace: None, index: status.index });

    frames_pass_both_ways(&fd);
    a_twin_can_be_changed(&helper, &fd);
    a_renamed_twin_can_be_changed(&helper, status.index);
    ip("link del uplink");
    let gone = LinkChange { name: "uplink".into(), index: Some(status.index), up: Some(true), ..LinkChange::default() };
    helper.change_link(&gone).unwrap();
    assert!(fd.read(&mut [0; 64]).is_err(), "its descriptor knows");
}

fn frames_pass_both_ways(fd: &Twin) {
    // Linux answers an echo request that comes from the wire, to the neighbor's MAC address it was given.
    ip("neigh add 10.0.0.2 lladdr 02:00:00:00:00:09 dev wan");
    ip("link set lo up");
    assert!(fd.write(&echo_request()).unwrap());
    let mut buffer = [0; 2048];
    eventually("an echo reply", || match fd.read(&mut buffer).unwrap() {
        Some(length) => length == 42 && buffer[..6] == [2, 0, 0, 0, 0, 9] && buffer[34] == 0,
        None => false,
    });
    assert_eq!(&buffer[26..34], &[10, 0, 0, 1, 10, 0, 0, 2]);
    while fd.read(&mut buffer).unwrap().is_some() {} // nothing more is no waiting
    assert!(fd.write(&[0; 5]).is_err(), "no frame at all");
}

fn a_twin_can_be_changed(helper: &Helper, fd: &Twin) {
    let down = LinkChange { name: "wan".into(), carrier: Some(false), mtu: Some(1300), ..LinkChange::default() };
    helper.change_link(&down).unwrap();
    eventually("no carrier", || ip("link show dev wan").contains("NO-CARRIER"));
    assert!(ip("link show dev wan").contains("mtu 1300"));
    helper.change_link(&LinkChange { name: "wan".into(), up: Some(false), ..LinkChange::default() }).unwrap();
    assert!(!ip("link show dev wan").contains("UP"));
    assert!(fd.write(&echo_request()).is_err(), "a twin that is down takes nothing");
}

/// The port's name found none, or another interface.
fn a_renamed_twin_can_be_changed(helper: &Helper, index: u32) {
    ip("link set wan name uplink");
    ip("link add wan type veth peer name other");
    let mac = Some(MacAddr([2, 0, 0, 0, 0, 8]));
    let change =
        LinkChange { name: "uplink".into(), index: Some(index), mac, mtu: Some(1320), ..LinkChange::default() };
    helper.change_link(&change).unwrap();
    let shown = ip("link show dev uplink");
    assert!(shown.contains("02:00:00:00:00:08") && shown.contains("mtu 1320"), "{shown}");
    assert!(!ip("link show dev wan").contains("mtu 1320"));
    ip("link del wan");
}

/// 10.0.0.2 asks 10.0.0.1 for an echo.
fn echo_request() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 7, 2, 0, 0, 0, 0, 9, 8, 0];
    let mut ip = vec![0x45, 0, 0, 28, 0, 1, 0, 0, 64, 1, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
    let mut icmp = vec![8, 0, 0, 0, 0, 1, 0, 1];
    for (header, at) in [(&mut ip, 10), (&mut icmp, 2)] {
        let sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = !((sum & 0xffff) + (sum >> 16)) as u16;
        header[at..at + 2].copy_from_slice(&folded.to_be_bytes());
    }
    frame.extend(ip);
    frame.extend(icmp);
    frame
}

fn a_twin_ends_with_its_descriptor() {
    let helper = start();
    let (fd, _) = helper.make_twin(&twin("short")).unwrap();
    assert!(exists("short") && fd.as_fd().try_clone_to_owned().is_ok());
    drop(fd);
    eventually("the twin's end", || !exists("short"));
    drop(helper);
}

fn twins_in_another_namespace() {
    // `ip netns add` needs a /run/netns of our own.
    assert!(Command::new("mount").args(["-t", "tmpfs", "tmpfs", "/run"]).status().unwrap().success());
    ip("netns add blue");
    let helper = start();
    let wanted = TwinWanted { namespace: Some(Namespace::Name("blue".into())), ..twin("wan") };
    let (fd, status) = helper.make_twin(&wanted).unwrap();
    assert!(!exists("wan"), "it is in the wrong namespace");
    assert!(ip("-n blue addr show dev wan").contains("10.0.0.1/24"));
    assert_eq!(status.namespace, wanted.namespace);
    let (_own, _) = helper.make_twin(&twin("wan")).expect("the same name in another namespace");
    drop(fd);
    eventually("the twin's end", || !ip("-n blue link show").contains("wan:"));
    assert!(exists("wan"), "the other one lives on");
    let by_path = TwinWanted { namespace: Some(Namespace::Path("/run/netns/blue".into())), ..twin("lan") };
    let (_fd, _) = helper.make_twin(&by_path).unwrap();
    assert!(ip("-n blue link show").contains("lan:"));
}

fn a_prepared_interface_is_restored() {
    ip("link add left type veth peer name right");
    // The queueing discipline appears when an interface is first up, and stays.
    let link = || ip("-o -d link show dev left").replace("qdisc noop ", "qdisc noqueue ");
    let before = link();
    let helper = start();
    let wanted = LinkPreparation {
        name: "left".into(),
        other_mac: Some(MacAddr([2, 9, 9, 9, 9, 9])),
        mtu: Some(1600),
        leaves_program: false,
    };
    helper.prepare_link(&wanted).unwrap();
    let shown = ip("-d link show dev left");
    for words in ["02:09:09:09:09:09", "mtu 1600", ",UP", "gro_max_size 1 "] {
        assert!(
            shown.contains(words),
            "{words} is not in
{shown}"
        );
    }
    assert_eq!(setting("ipv6", "left", "disable_ipv6"), "1");
    assert_eq!(setting("ipv4", "left", "arp_ignore"), "8");
    drop(helper);
    assert_eq!(link(), before);
    assert_eq!(setting("ipv6", "left", "disable_ipv6"), "0");
    assert_eq!(setting("ipv4", "left", "arp_ignore"), "0");
    // One that was renamed stayed as it had been prepared.
    let helper = start();
    helper.prepare_link(&wanted).unwrap();
    ip("link set left down");
    ip("link set left name renamed");
    drop(helper);
    assert_eq!(
        (setting("ipv6", "renamed", "disable_ipv6"), setting("ipv4", "renamed", "arp_ignore")),
        ("0".into(), "0".into())
    );
    ip("link set renamed name left");
    assert_eq!(link(), before);
    // An interface that has vanished meanwhile does no harm.
    let helper = start();
    helper.prepare_link(&wanted).unwrap();
    ip("link del left");
    drop(helper);
}

/// The child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{parent}/task")).map(|list| list.flatten().collect::<Vec<_>>());
    let list = |path: std::path::PathBuf| fs::read_to_string(path.join("children")).unwrap_or_default();
    let all: Vec<String> = threads.unwrap_or_default().iter().map(|entry| list(entry.path())).collect();
    all.join(" ").split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
}

fn a_standby_knows_what_its_helper_did() {
    ip("link add left type veth peer name right");
    let link = || ip("-o -d link show dev left").replace("qdisc noop ", "qdisc noqueue ");
    let before = link();
    let helper = start();
    let mut first = children(std::process::id());
    let wanted = LinkPreparation {
        name: "left".into(),
        other_mac: Some(MacAddr([2, 9, 9, 9, 9, 9])),
        mtu: Some(1600),
        leaves_program: false,
    };
    // Once before the standby is there, once while it is.
    helper.prepare_link(&wanted).unwrap();
    helper.stand_by().unwrap();
    let (_fd, _) = helper.make_twin(&twin("wan")).unwrap();
    helper.prepare_link(&wanted).unwrap();
    helper.started().unwrap();
    assert!(helper.look().is_some_and(|health| health.alive && health.standby && health.deaths == 0));
    let first = first.pop().expect("a process");
    let mut killed = first;
    for deaths in 1..=3 {
        let next = children(killed)[0];
        assert!(Command::new("kill").args(["-9", &killed.to_string()]).status().unwrap().success());
        eventually("its death", || {
            fs::read_to_string(format!("/proc/{killed}/stat")).is_ok_and(|s| s.contains(") Z"))
                || !fs::exists(format!("/proc/{killed}")).unwrap()
        });
        // Whether it was looked at or not: the request arrives.
        if deaths == 2 {
            // A dead process keeps its sockets until the last of its threads has ended: sanitizers have one of their
            // own.
            eventually("it is seen", || helper.look().is_some_and(|health| health.alive && !health.standby));
        }
        let mtu = 1280 + deaths;
        helper.change_link(&LinkChange { name: "wan".into(), mtu: Some(mtu), ..LinkChange::default() }).unwrap();
        assert!(ip("link show dev wan").contains(&format!("mtu {mtu}")));
        assert_eq!(helper.look().unwrap().deaths, u64::from(deaths));
        helper.stand_by().unwrap();
        killed = next;
    }
    assert!(helper.change_link(&LinkChange { name: "left".into(), up: Some(false), ..LinkChange::default() }).is_err());
    drop(helper);
    assert_eq!(link(), before, "what three dead helpers did is undone");
    ip("link del left");
}

/// A standby whose socket the router had no descriptor for took it for dead, and restored the interfaces under it.
fn a_standby_that_the_router_could_not_take_restores_nothing() {
    ip("link add left mtu 1400 type veth peer name right");
    let helper = start();
    helper
        .prepare_link(&LinkPreparation { name: "left".into(), other_mac: None, mtu: Some(1450), leaves_program: false })
        .unwrap();
    helper.started().unwrap();
    let mtu = || ip("link show dev left").split("mtu ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
    assert_eq!(mtu(), "1450");
    let before = getrlimit(Resource::Nofile);
    let lowest = fs::File::open("/dev/null").unwrap().as_raw_fd();
    setrlimit(Resource::Nofile, Rlimit { current: Some(lowest as u64), ..before }).unwrap();
    let refused = helper.stand_by();
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(refused.is_err(), "there was no descriptor left");
    helper.stand_by().unwrap();
    for _ in 0..30 {
        assert_eq!(mtu(), "1450", "restored under the router");
        // sleep: long enough for one that would
        sleep(Duration::from_millis(10));
    }
    drop(helper);
    eventually("the interface to be restored", || mtu() == "1400");
    ip("link del left");
}

fn a_router_that_runs_changes_its_own_interfaces_alone() {
    ip("link add left type veth peer name right");
    let helper = start();
    let (_fd, status) = helper.make_twin(&twin("wan")).unwrap();
    helper.started().unwrap();
    let change =
        |name: &str| helper.change_link(&LinkChange { name: name.into(), up: Some(true), ..LinkChange::default() });
    change("wan").unwrap();
    assert_eq!(change("left").unwrap_err().to_string(), "cannot change `left`: it is no twin of the router's");
    let number = |name: &str| -> u32 {
        let shown = ip(&format!("-o link show dev {name}"));
        shown.split(':').next().and_then(|number| number.trim().parse().ok()).expect("a number first")
    };
    let neighbor = |link: u32| {
        let (address, mac) = ("10.0.0.77".parse().unwrap(), Some(MacAddr([2, 0, 0, 0, 0, 9])));
        helper.change_neighbors(&[NeighborChange { link, address, mac }], None)
    };
    neighbor(status.index).unwrap();
    // Not every kernel has VLAN interfaces.
    let vlan = Command::new("ip").args("link add link wan name wan.7 type vlan id 7".split(' ')).output().unwrap();
    if vlan.status.success() {
        ip("link set wan.7 up");
        neighbor(number("wan.7")).expect("a VLAN on a twin is the router's");
    }
    let refused = neighbor(number("left")).unwrap_err().to_string();
    assert!(refused.ends_with("is no twin of the router's"), "{refused}");
    let listen = SocketWanted::Listener("127.0.0.1:0".parse().unwrap());
    assert!(helper.open_socket(listen, None).is_err(), "listeners are named before the start");
    let refused = helper.make_vlan("left", 7, &twin("wan")).unwrap_err().to_string();
    assert!(refused.ends_with("left is no twin of the router's"), "{refused}");
    let refused = helper.make_vlan("left", 7, &twin("left.7")).unwrap_err().to_string();
    assert!(refused.starts_with("left.7 was not one of the router's interfaces"), "{refused}");
    // Nothing that it names is opened: this would never come back.
    ip("netns add strange");
    let path = std::env::temp_dir().join(format!("perigee-fifo-{}", std::process::id()));
    Command::new("mkfifo").arg(&path).status().unwrap();
    for strange in [Namespace::Path(path.clone()), Namespace::Name("strange".into())] {
        let refused = helper.open_socket(SocketWanted::Dumps, Some(&strange)).unwrap_err().to_string();
        assert!(refused.ends_with("was not the router's network namespace when it started"), "{refused}");
    }
    fs::remove_file(&path).unwrap();
    ip("netns del strange");
    ip("link del left");
}

fn refusals_are_sentences() {
    let helper = start();
    let nowhere = TwinWanted { namespace: Some(Namespace::Name("red".into())), ..twin("wan") };
    let cases = [
        (
            helper.make_twin(&nowhere).map(drop),
            "cannot enter the network namespace red: /run/netns/red: No such file or directory (os error 2); make it with `ip netns add red`",
        ),
        (
            helper.make_twin(&twin("lo")).map(drop),
            "cannot create the twin `lo`: an interface of that name is there already; rename it or the port",
        ),
        (
            helper.change_link(&LinkChange { name: "wan".into(), ..LinkChange::default() }),
            "cannot change `wan`: there is no interface `wan`; `ip link` lists those there are",
        ),
        (
            helper.prepare_link(&LinkPreparation {
                name: "eth9".into(),
                other_mac: None,
                mtu: None,
                leaves_program: false,
            }),
            "cannot prepare the interface `eth9`: there is no interface `eth9`; `ip link` lists those there are",
        ),
    ];
    for (result, expected) in cases {
        assert_eq!(result.unwrap_err().to_string(), expected);
    }
    let impossible = TwinWanted { mac: MacAddr([1, 0, 0, 0, 0, 0]), ..twin("odd") };
    let error = helper.make_twin(&impossible).unwrap_err().to_string();
    assert!(error.starts_with("cannot create the twin `odd`: "), "{error}");
    assert!(!exists("odd"), "half a twin is left behind");
    let gone = Helper::start_with(&mut Command::new("true")).unwrap();
    eventually("an error from a helper that is gone", || gone.link_macs(&["lo".into()]).is_err());
    assert!(
        Helper::start(Path::new("/nonexistent"), Reach::Own)
            .unwrap_err()
            .to_string()
            .contains("cannot start the helper")
    );
}

fn the_helper_goes_on_without_the_routers_privileges() {
    let helper = start();
    privileges::drop_all().unwrap();
    assert_eq!(privileges::still_privileged().unwrap(), Vec::<String>::new());
    assert!(!Command::new("ip").args(["link", "set", "lo", "down"]).output().unwrap().status.success());
    let (_fd, _) = helper.make_twin(&twin("late")).unwrap();
    assert!(exists("late"));
}

/// A helper that never had any privilege says what is missing.
fn unprivileged() {
    privileges::drop_all().unwrap();
    let helper = start();
    let error = helper.make_twin(&twin("wan")).unwrap_err().to_string();
    let expected = "cannot create the twin `wan`: /dev/net/tun: Operation not permitted (os error 1); run as root, with \
                    CAP_NET_ADMIN, or inside `unshare -Urnm`";
    assert_eq!(error, expected);
}
