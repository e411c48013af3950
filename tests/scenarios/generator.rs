// SPDX-License-Identifier: MIT
//! `perigee gen`: across a cable, through a router, into `perigee task`, from a capture, every script of examples/gen;
//! what it prints; how it ends; mistakes.

use perigee_packet::wire::checksum::{pseudo_v4, sum};
use perigee_tests::{Asserts, Ended, Good, Signal, World, perigee, run, wait_until};
use serde_json::Value;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

perigee_tests::scenarios![
    nothing_is_lost_on_a_cable,
    a_link_that_was_down_in_between_is_said,
    an_interface_that_is_gone_is_no_loss_of_the_device,
    by_af_xdp_the_summary_is_printed_and_no_buffer_is_missing as root,
    into_a_task_that_counts,
    a_ramp_before_the_trial_is_in_no_figure,
    through_a_router_of_both_families,
    a_capture_is_sent_as_it_is,
    a_full_frame_with_a_tag_needs_no_larger_mtu,
    loss_is_seen,
    an_interrupted_run_keeps_its_figures,
    every_example_has_a_scenario,
    a_script_describes_clients_and_servers,
    a_script_changes_frames_as_time_goes_by,
    a_script_writes_whole_payloads,
    a_script_that_throws_ends_the_generator_in_order,
    a_script_that_does_not_return_is_ended,
    its_interfaces_are_as_they_were,
    mistakes_are_described,
];

/// Frames that are sent late, or arrive while their receiver has no core, have to fit into the rings: their 1,024
/// frames are two seconds of this.
const RATE: &str = "500pps";

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(perigee());
    // A busy machine may stop the generator for long: it should catch up, not give frames up.
    command.args(["gen", "--hugepages", "no", "--memory", "256", "--late", "5e6"]).args(words).current_dir("/run");
    command
}

/// The JSON of a run. The machine may be busy: that something speaks against the figures is no failure.
fn figures(ended: &Ended) -> Value {
    assert!(matches!(ended.code, Some(0 | 2)), "{}:\n{}", ended.command, ended.text);
    serde_json::from_str(&ended.out).unwrap_or_else(|error| panic!("{error}:\n{}", ended.text))
}

fn generate(words: &[&str]) -> Value {
    figures(&run(&mut command(&[words, &["--json"]].concat())))
}

fn number(of: &Value, path: &str) -> u64 {
    of.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no number {path} in {of:#}"))
}

/// A pair of interfaces here, up; their numbers are far apart, as tests/scenarios/tasks.rs explains.
fn cable(world: &World, one: &str, other: &str) {
    world.ip(&format!("link add {one} index 100 type veth peer name {other} index 4100"));
    for name in [one, other] {
        world.ip(&format!("link set {name} addrgenmode none up"));
    }
}

fn nothing_is_lost_on_a_cable(world: &World) {
    cable(world, "here", "there");
    let words = ["here", "--to", "there", "--rate", RATE, "-n", "1000"];
    let flags = ["--sizes", "imix", "--source", "random:198.18.0.0/20", "--csv", "/run/lines.csv"];
    let all = generate(&[&words[..], &flags].concat());
    let sent = number(&all, "/sent/sent");
    assert_eq!(sent + number(&all, "/sent/unsent"), 1000, "{all:#}");
    assert!(sent > 250, "{all:#}");
    for (path, expected) in [
        ("/received/sent", sent),
        ("/received/lost", 0),
        ("/received/counters/unique", sent),
        ("/received/counters/duplicates", 0),
        ("/received/counters/corrupted", 0),
        ("/received/flows", 4096),
        ("/latency/count", sent),
    ] {
        assert_eq!(number(&all, path), expected, "{path} of {all:#}");
    }
    // A line of the file for each interval.
    let file = fs::read_to_string("/run/lines.csv").expect("the file of intervals");
    let intervals = all["intervals"].as_array().expect("intervals");
    assert_eq!(file.lines().count(), intervals.len() + 1);
    let in_intervals: u64 = intervals.iter().map(|interval| number(interval, "/sent")).sum();
    assert_eq!(in_intervals, sent);
    // For people.
    let text = run(&mut command(&["here", "--to", "there", "--rate", RATE, "-s", "1.5", "--poisson"]));
    for part in ["frames in", "gaps: mean", "received on there: ", " 0 lost", "latency: min", "jitter (RFC 3550)"] {
        assert!(text.out.contains(part), "{part:?} is missing:\n{}", text.text);
    }
}

/// A generator that has received frames for a second; what it says at its end, after `change` by `ip`.
fn changed_meanwhile(world: &World, changes: &[&str]) -> Ended {
    cable(world, "here", "there");
    let mut process = world.start(&mut command(&["here", "--to", "there", "--rate", RATE, "-s", "5"]));
    wait_until("the first second", || process.said().contains("received"));
    changes.iter().for_each(|change| drop(world.ip(change)));
    wait_until("its end", || process.ended().good().is_some());
    let ended = process.end();
    assert_eq!(ended.code, Some(2), "{}", ended.text);
    // Nothing that may be the tester's doing is called lost.
    assert!(!ended.out.contains(" lost (") || ended.out.contains(" 0 lost ("), "{}", ended.text);
    ended
}

/// `ip link set left down; sleep 1; up`: the exit code was 0, without a sentence.
fn a_link_that_was_down_in_between_is_said(world: &World) {
    let ended = changed_meanwhile(world, &["link set here down", "link set here up"]);
    assert!(ended.out.contains("of the tester w") && ended.out.contains(" down "), "{}", ended.text);
}

/// "798 frames of 1822, 1024 lost (56.2020 %)": these lay in the tester's own ring.
fn an_interface_that_is_gone_is_no_loss_of_the_device(world: &World) {
    let ended = changed_meanwhile(world, &["link del here"]);
    assert!(ended.out.contains("of the tester w") && ended.out.contains(" down "), "{}", ended.text);
    assert!(ended.out.contains("NOT SENT"), "{}", ended.text);
}

/// It ended with "2048 packet buffers are missing", without its summary.
fn by_af_xdp_the_summary_is_printed_and_no_buffer_is_missing(world: &World) {
    cable(world, "here", "there");
    let receivers = [("xdp:here", "xdp:there"), ("here", "xdp:there"), ("xdp:here", "there")];
    for (from, to) in receivers {
        let all = generate(&[from, "--to", to, "--rate", RATE, "-n", "500"]);
        let sent = number(&all, "/sent/sent");
        assert!(sent > 125 && number(&all, "/received/counters/unique") == sent, "{from} to {to}: {all:#}");
        assert_eq!(number(&all, "/received/lost"), 0, "{from} to {to}: {all:#}");
    }
    for words in [&["xdp:here"][..], &["xdp:here", "--to", "xdp:there"]] {
        let ended = run(&mut command(&[words, &["--rate", RATE, "-s", "1"]].concat()));
        assert!(matches!(ended.code, Some(0 | 2)), "{}", ended.text);
        assert!(
            ended.out.contains("sent on xdp:here: ") && !ended.text.contains("missing at the end"),
            "{}",
            ended.text
        );
    }
}

fn into_a_task_that_counts(world: &World) {
    cable(world, "here", "there");
    let count = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tasks/count.lua");
    let mut counter = Command::new(perigee());
    counter.args(["task", "--hugepages", "no", "--memory", "256"]).arg(count).arg("there");
    let mut counter = world.start(&mut counter);
    wait_until("the counter to run", || counter.said().contains("Mpps"));
    let all = generate(&["here", "--rate", RATE, "-n", "1000", "--flows", "100", "--source-port", "1-100"]);
    let lines = counter.said().lines().count();
    wait_until("the counter's next lines", || counter.said().lines().count() > lines + 1);
    counter.signal(Signal::INT).good();
    wait_until("its end", || counter.ended().good().is_some());
    let said = counter.said();
    let expected = format!("{} packets, {} bytes", number(&all, "/sent/sent"), number(&all, "/sent/sent") * 60);
    assert!(said.contains(&expected), "{expected:?} is missing:\n{said}");
}

/// A jump from nothing to the full rate fakes loss where flows are learned, and `gen` had no other start.
fn a_ramp_before_the_trial_is_in_no_figure(world: &World) {
    cable(world, "here", "there");
    let words = ["here", "--to", "there", "--rate", RATE, "-n", "500", "--ramp", "0.8"];
    let all = generate(&words);
    let sent = number(&all, "/sent/sent");
    assert_eq!(sent + number(&all, "/sent/unsent"), 500, "{all:#}");
    assert!(sent > 125, "{all:#}");
    // 500 frames per second rise in eight steps of 0.1 s, each with a frame at its start: 7 + 13 + 19 + 25 + 32 + 38 +
    // 44 + 50.
    let ramp = number(&all, "/ramp/sent");
    assert!((1..=228).contains(&ramp), "{all:#}");
    for (path, expected) in [
        ("/received/counters/ramp", ramp),
        ("/received/counters/unique", sent),
        ("/received/counters/other_run", 0),
        ("/received/lost", 0),
        ("/latency/count", sent),
    ] {
        assert_eq!(number(&all, path), expected, "{path} of {all:#}");
    }
    assert_eq!(all["intervals"][0]["from_s"], 0.0, "{all:#}");
    let text = run(&mut command(&words));
    assert!(text.out.contains("of a load that rose to 500pps; they do not count"), "{}", text.text);
    assert!(!text.out.contains("of another trial"), "{}", text.text);
    run(&mut command(&["here", "--ramp", "1", "-n", "1"])).refused("--ramp 1 needs a rate to rise to");
}

/// The router asks for the destination by ARP and neighbor discovery, which the other host answers for.
fn through_a_router_of_both_families(world: &World) {
    for (interface, number) in [("left", 100), ("right", 9100)] {
        world.ip(&format!(
            "link add {interface} index {number} type veth peer name {interface}-port index {}",
            number + 4000
        ));
        world.ip(&format!("link set {interface} addrgenmode none up"));
    }
    let router = world.router(
        "",
        "[port.a]\ninterface = \"left-port\"\naddresses = [\"198.18.0.1/16\", \"2001:2::1/64\"]\nmac = \"02:00:00:00:0a:0a\"\n\
         [port.b]\ninterface = \"right-port\"\naddresses = [\"198.19.0.1/16\", \"2001:2:0:8000::1/64\"]\n\
         [[neighbor]]\ndev = \"b\"\naddress = \"198.19.0.2\"\nmac = \"02:00:00:00:00:02\"\n\
         [[neighbor]]\ndev = \"b\"\naddress = \"2001:2:0:8000::2\"\nmac = \"02:00:00:00:00:02\"\n",
    );
    for family in ["ipv4", "ipv6"] {
        let words = ["left", "--to", "right", "--rate", RATE, "-n", "1000", "--family", family];
        let all = generate(&[&words[..], &["--destination-mac", "02:00:00:00:0a:0a"]].concat());
        assert!(number(&all, "/sent/sent") > 250 && number(&all, "/received/lost") == 0, "{family}: {all:#}");
    }
    router.stop();
}

fn a_capture_is_sent_as_it_is(_: &World) {
    // Frames of a description, into a file; the file, into another.
    run(&mut command(&[
        "net_pcap0,tx_pcap=/run/one.pcap",
        "-n",
        "300",
        "--sizes",
        "imix",
        "--flows",
        "50",
        "--source-port",
        "1-50",
    ]));
    let all = generate(&["net_pcap0,tx_pcap=/run/two.pcap", "--pcap", "/run/one.pcap", "--loops", "2"]);
    assert_eq!(number(&all, "/sent/sent"), 600);
    let (one, two) = (frames("/run/one.pcap"), frames("/run/two.pcap"));
    assert_eq!((one.len(), two.len()), (300, 600));
    assert!(two[..300] == one && two[300..] == one);
}

/// The tag was taken for payload, and frames were refused that Linux sends at an MTU of 1500 bytes.
fn a_full_frame_with_a_tag_needs_no_larger_mtu(world: &World) {
    cable(world, "here", "there");
    let words = ["here", "--to", "there", "--rate", RATE, "-n", "100", "--sizes", "1522"];
    let all = generate(&[&words[..], &["--vlan", "300"]].concat());
    assert_eq!(number(&all, "/received/counters/unique"), number(&all, "/sent/sent"), "{all:#}");
    assert!(number(&all, "/sent/sent") > 25, "{all:#}");
    // Without a tag these are larger, and a provider's tag is not allowed for.
    for more in [&[][..], &["--vlan", "300", "--service-vlan", "10"]] {
        drop(run(&mut command(&[&words[..], more].concat())).refused("frames of 1522 need 1504"));
    }
}

/// The frames of a capture that DPDK wrote.
fn frames(path: &str) -> Vec<Vec<u8>> {
    let file = fs::read(path).expect("a capture");
    let mut rest = &file[24..];
    let mut frames = Vec::new();
    while let Some(length) = rest.get(8..12) {
        let length = u32::from_le_bytes(length.try_into().expect("four bytes")) as usize;
        frames.push(rest[16..16 + length].to_vec());
        rest = &rest[16 + length..];
    }
    frames
}

/// A task between the two ports drops every tenth frame.
fn loss_is_seen(world: &World) {
    for (interface, number) in [("left", 100), ("right", 9100)] {
        world.ip(&format!(
            "link add {interface} index {number} type veth peer name {interface}-port index {}",
            number + 4000
        ));
        for name in [interface.to_owned(), format!("{interface}-port")] {
            world.ip(&format!("link set {name} addrgenmode none up"));
        }
    }
    let lossy = r#"
        function main(from, to)
          local rx, tx, burst, drop, seen = task.device(from):rx(), task.device(to):tx(), task.burst(), task.mask(), 0
          print "ready" io.stdout:flush()
          while task.running() do
            drop:zero()
            for slot = 0, rx:receive(burst, 0.1) - 1 do
              seen = seen + 1
              if seen % 10 == 0 then drop:set(slot) end
            end
            burst:free(drop)
            tx:send(burst)
          end
        end"#;
    let script = world.file("lossy.lua", lossy);
    let mut device = Command::new(perigee());
    device.args(["task", "--hugepages", "no", "--memory", "256"]).arg(script).args(["left-port", "right-port"]);
    let device = world.start(&mut device);
    wait_until("the device", || device.said().contains("ready"));
    let all = generate(&["left", "--to", "right", "--rate", RATE, "-n", "1000"]);
    let (sent, lost) = (number(&all, "/sent/sent"), number(&all, "/received/lost"));
    assert!(sent > 250 && lost.abs_diff(sent / 10) <= 1, "{all:#}");
}

fn an_interrupted_run_keeps_its_figures(world: &World) {
    cable(world, "here", "there");
    let mut process = world.start(&mut command(&["here", "--to", "there", "--rate", "1kpps"]));
    wait_until("a line", || process.said().contains("received"));
    process.signal(Signal::INT).good();
    wait_until("its end", || process.ended().good().is_some());
    let said = process.said();
    assert!(said.contains("frames in") && said.contains("received on there: "), "{said}");
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/gen")
}

/// The scenarios below name each of them.
fn every_example_has_a_scenario(_: &World) {
    let text = include_str!("generator.rs");
    for entry in fs::read_dir(examples()).expect("the folder of examples").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        assert!(!name.ends_with(".lua") || text.contains(&format!("\"{name}\"")), "no scenario runs {name}");
    }
}

/// What a script of examples/gen makes of a device, flags and its own arguments.
fn scripted(script: &str, words: &[&str], arguments: &[&str]) -> Value {
    let script = examples().join(script).display().to_string();
    let mut command = command(&[words, &["--json", "--script", &script, "--"], arguments].concat());
    figures(&run(&mut command))
}

fn a_script_describes_clients_and_servers(world: &World) {
    cable(world, "here", "there");
    let words = ["here", "--to", "there", "--rate", RATE, "-n", "1000", "--destination-port", "53"];
    let all = scripted("clients.lua", &words, &["300", "5"]);
    let traffic = &all["traffic"];
    assert_eq!(traffic["source"], "198.18.0.1-198.18.1.44");
    assert_eq!(traffic["destination"], "zipf(1.1):198.19.0.1-198.19.0.5");
    assert_eq!(traffic["destination_port"], "53", "flags come on top");
    assert!(traffic["script"].as_str().is_some_and(|name| name.ends_with("clients.lua")), "{all:#}");
    assert_eq!((number(&all, "/received/flows"), number(&all, "/received/lost")), (300, 0), "{all:#}");
    let script = examples().join("clients.lua").display().to_string();
    run(&mut command(&["here", "--script", &script, "--", "0"])).refused("expected 1 to 65534 clients and servers");
}

/// The IPv4 header and the UDP datagram of an untagged frame, whose checksums are right.
fn datagram(frame: &[u8]) -> (&[u8], &[u8]) {
    let (ip, udp) = (&frame[14..34], &frame[34..]);
    let is_right = |sum: u32| (sum & 0xffff) + (sum >> 16) == 0xffff;
    let address = |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]);
    assert!(is_right(sum(ip)), "the checksum of {ip:x?}");
    let pseudo = pseudo_v4(address(12), address(16), 17, udp.len() as u16);
    assert!(is_right(pseudo + sum(udp)), "the checksum of {udp:x?}");
    (ip, udp)
}

fn a_script_changes_frames_as_time_goes_by(world: &World) {
    // Across a cable, where the stamps are as they were.
    cable(world, "here", "there");
    let words = ["here", "--to", "there", "--rate", RATE, "-n", "1000"];
    let all = scripted("sweep.lua", &words, &["0.1"]);
    let sent = number(&all, "/sent/sent");
    assert!(sent > 250 && number(&all, "/received/counters/unique") == sent, "{all:#}");
    assert_eq!((number(&all, "/received/lost"), number(&all, "/received/counters/corrupted")), (0, 0), "{all:#}");
    // Into a file, byte by byte.
    let words = ["net_pcap0,tx_pcap=/run/sweep.pcap", "--rate", "1kpps", "-n", "300"];
    let all = scripted("sweep.lua", &words, &["0.1"]);
    let frames = frames("/run/sweep.pcap");
    assert_eq!(frames.len() as u64, number(&all, "/sent/sent"));
    let mut classes: Vec<u8> = frames.iter().map(|frame| datagram(frame).0[1] >> 2).collect();
    assert_eq!(classes[0], 0);
    classes.dedup();
    assert!(
        classes.len() > 1 && classes.iter().all(|class| [0, 8, 10, 18, 26, 34, 46, 48].contains(class)),
        "{classes:?}"
    );
}

fn a_script_writes_whole_payloads(_: &World) {
    // More than one batch.
    let all = scripted("dns.lua", &["net_pcap0,tx_pcap=/run/dns.pcap", "-n", "300"], &["example.org"]);
    assert_eq!(number(&all, "/sent/sent"), 300);
    for (i, frame) in frames("/run/dns.pcap").iter().enumerate() {
        let (_, udp) = datagram(frame);
        let (id, name) = ((i as u16).to_be_bytes(), format!("\x08{i:08x}\x07example\x03org\0"));
        let query = [&id[..], &[1, 0, 0, 1, 0, 0, 0, 0, 0, 0], name.as_bytes(), &[0, 1, 0, 1]].concat();
        assert_eq!((&udp[2..4], &udp[8..]), (&[0, 53][..], &query[..]), "query {i}");
    }
}

fn a_script_that_throws_ends_the_generator_in_order(world: &World) {
    let throws = "function modify(burst, first)\n  if first >= 100 then\n    burst.nothing = 1\n  end\nend";
    let script = world.file("throws.lua", throws).display().to_string();
    let ended = run(&mut command(&["net_null0", "--rate", "2kpps", "--script", &script])).refused("throws.lua:3: ");
    // What was sent before; that no packet buffer is missing is part of it.
    assert!(ended.out.contains("sent on net_null0: ") && ended.out.contains(" frames in "), "{}", ended.text);
    assert!(ended.text.contains("(in modify, at frame 1"), "{}", ended.text);
}

fn a_script_that_does_not_return_is_ended(world: &World) {
    let stuck = "function modify()\n  print 'at work'\n  while true do end\nend";
    let script = world.file("stuck.lua", stuck).display().to_string();
    let mut process = world.start(&mut command(&["net_null0", "--seconds", "1", "--script", &script]));
    wait_until("the script to work", || process.said().contains("at work"));
    process.signal(Signal::INT).good();
    wait_until("its end", || process.ended().good().is_some());
    let ended = process.end();
    assert!(ended.code == Some(1) && ended.text.contains("stuck.lua: modify does not return"), "{}", ended.text);
}

fn mistakes_are_described(world: &World) {
    cable(world, "here", "there");
    let refused = |words: &[&str], part: &str| drop(run(&mut command(words)).refused(part));
    refused(&["nothing"], "nothing cannot be used: there is no interface `nothing`");
    refused(&["here", "--to", "here"], "found --to here, which is the device that sends, expected another one");
    refused(&["here", "--rate", "10%"], "needs the port's line rate");
    refused(&["here", "--sizes", "64", "--family", "ipv6"], "84");
    refused(&["here", "--sizes", "9000"], "here has an MTU of 1500 bytes, and frames of 9000 need 8982");
    refused(&["here", "--pcap", "/run/nothing.pcap"], "/run/nothing.pcap cannot be read");
    refused(&["here", "--csv", "/nothing/at/all.csv"], "/nothing/at/all.csv cannot be written");
    refused(&["here", "--destination", "routes:/run/nothing"], "/run/nothing");
    let file = world.file("traffic.toml", "sizes = 64\nsauce = \"198.18.0.1\"\n");
    refused(&["here", "--traffic", &file.display().to_string()], "sauce");
    let script = world.file("traffic.lua", "traffic = {\n  sauce = 1 }").display().to_string();
    refused(&["here", "--script", &script], "traffic.lua: the table of the traffic: sauce: unknown field `sauce`");
    let script = world.file("traffic.lua", "traffic = {\n  sizes =").display().to_string();
    refused(&["here", "--script", &script], "traffic.lua:2: unexpected symbol");
    refused(&["here", "--script", "/run/nothing.lua"], "/run/nothing.lua: ");
    world.ip("link set there down");
    refused(&["here", "-n", "1"], "the link of here is down");
    for (words, part) in [
        (["--rate", "fast"], "is not a rate"),
        (["--sizes", "20"], "expected 64 to 16000"),
        (["--seconds", "0"], "expected seconds above 0"),
        (["--", "words"], "--script <FILE>"),
    ] {
        let ended = run(&mut command(&[&["here"], &words[..]].concat()));
        assert!(ended.code == Some(2) && ended.text.contains(part), "{words:?}: {}", ended.text);
    }
}

/// They stayed promiscuous.
fn its_interfaces_are_as_they_were(world: &World) {
    cable(world, "here", "there");
    world.ip("link set there promisc on");
    let before = world.interfaces();
    generate(&["here", "--to", "there", "--rate", RATE, "-n", "10"]);
    assert_eq!(world.interfaces(), before);
    // A mistyped one was DPDK's business.
    let words = "there is no interface `eth99` in this network namespace: `ip link` lists those there are";
    run(&mut command(&["eth99", "--to", "there"])).refused(words);
}
