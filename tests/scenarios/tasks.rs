// SPDX-License-Identifier: MIT
//! `perigee task`: every script of examples/tasks, between real hosts or on software devices, and how programs of tasks
//! end.

use perigee_tests::{Asserts, Ended, Good, Host, Process, Signal, World, perigee, run, wait_seeing, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

perigee_tests::scenarios![
    every_example_has_a_scenario,
    hello,
    frames_are_forwarded_between_two_hosts,
    frames_come_back_with_their_addresses_swapped,
    what_arrives_is_counted,
    captures_are_what_tcpdump_reads,
    a_filter_lets_through_what_matches,
    tasks_talk,
    packets_go_through_a_ring,
    probes_measure_latency,
    flows_are_told_apart,
    arp_and_pings_are_answered,
    a_syn_flood_reaches_a_host_and_its_answers_come_back,
    tasks_end_by_signals_errors_and_force,
    a_program_of_libmoon_asks_by_arp_and_measures_latency,
];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tasks")
}

fn command(script: &str, words: &[&str]) -> Command {
    let mut command = Command::new(perigee());
    command.args(["task", "--hugepages", "no", "--memory", "256"]);
    command.arg(examples().join(script)).args(words).current_dir("/run");
    command
}

fn task(script: &str, words: &[&str]) -> Ended {
    run(&mut command(script, words)).good()
}

/// Ends a task as Ctrl-C does; what it printed.
fn interrupted(mut process: Process) -> String {
    process.signal(Signal::INT).good();
    wait_until("its end", || process.ended().good().is_some());
    let ended = process.end();
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    ended.text
}

/// A number before a word in a text.
fn number(text: &str, word: &str) -> u64 {
    let before = text.split(word).next().expect("the text before it");
    let digits = before.trim_end().rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or_else(|_| panic!("no number before {word:?} in:\n{text}"))
}

/// Two hosts in one network, and the cables' ends here, up.
fn two_hosts(world: &World) -> (Host, Host) {
    let left = world.host("left", &["10.0.0.1/24", "fd00::1/64"], &[]);
    let right = world.host("right", &["10.0.0.2/24", "fd00::2/64"], &[]);
    for name in ["r-left", "r-right"] {
        world.ip(&format!("link set {name} up"));
    }
    (left, right)
}

/// A pair of interfaces here, up; `number` is the cable's, from 1. DPDK numbers its groups of AF_PACKET sockets by
/// process number XOR interface number: processes that follow each other must not meet in one group.
fn cable(world: &World, number: u32, one: &str, other: &str) {
    let index = 100 + number * 9000;
    world.ip(&format!("link add {one} index {index} type veth peer name {other} index {}", index + 4000));
    world.ip(&format!("link set {one} addrgenmode none up"));
    world.ip(&format!("link set {other} addrgenmode none up"));
}

/// Waits until somebody has a packet socket on an interface here: what comes from then on is received.
#[track_caller]
fn listens(world: &World, interface: &str) {
    let link = world.ip(&format!("-o link show {interface}"));
    let number = link.split(':').next().expect("its number").to_owned();
    let sockets = || fs::read_to_string("/proc/net/packet").expect("packet sockets");
    // The fifth column is the interface, the sixth says that the socket receives.
    let on_it = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.get(4) == Some(&number.as_str()) && words.get(5) == Some(&"1")
    };
    wait_seeing(&format!("a packet socket on {interface}, {number}"), sockets, |text| text.lines().any(on_it));
}

/// The scenarios below name each of them.
fn every_example_has_a_scenario(_: &World) {
    let text = include_str!("tasks.rs");
    for entry in fs::read_dir(examples()).expect("the folder of examples").flatten() {
        let name = entry.file_name().into_string().expect("a name");
        assert!(!name.ends_with(".lua") || text.contains(&format!("\"{name}\"")), "no scenario runs {name}");
    }
}

fn hello(_: &World) {
    let said = task("hello.lua", &["Ada", "Grace"]).out;
    assert_eq!(said, "Hello, Ada, from greet, task 2\nHello, Grace, from greet, task 3\n");
}

fn frames_are_forwarded_between_two_hosts(world: &World) {
    let (left, _right) = two_hosts(world);
    let process = world.start(&mut command("forward.lua", &["r-left", "r-right"]));
    wait_until("packets to cross", || left.run("ping -c 1 -W 1 10.0.0.2").code == Some(0));
    left.ping(20, "-i 0.02 10.0.0.2").every_reply(20);
    left.ping(20, "-i 0.02 -s 1400 fd00::2").every_reply(20);
    let said = interrupted(process);
    assert!(said.contains("r-left to r-right") && said.contains("r-right to r-left"), "{said}");
}

fn frames_come_back_with_their_addresses_swapped(world: &World) {
    cable(world, 1, "here", "there");
    let mut reflector = world.start(&mut command("reflect.lua", &["there", "2"]));
    let path = world.file("probe.lua", PROBE).display().to_string();
    wait_until("a frame to come back", || {
        let probe = run(&mut command(&path, &["here"])).good();
        assert!(reflector.ended().good().is_none(), "the reflector has ended: {}", reflector.said());
        probe.out.contains("swapped")
    });
    interrupted(reflector);
}

const PROBE: &str = r#"
local frame, packet, ffi = require "perigee.frame", require "perigee.packet", require "ffi"
function main(name)
  local device, burst = task.device(name), task.burst()
  local pool = task.pool { prototype = frame.udp { source_mac = "02:00:00:00:00:01", destination_mac = "02:00:00:00:00:02", length = 60 } }
  pool:fill(burst, 1, 60)
  device:tx():send(burst)
  for slot = 0, device:rx():receive(burst, 1) - 1 do
    local ethernet = packet.ethernet(burst, slot)
    if ethernet.source[5] == 2 and ethernet.destination[5] == 1 and packet.udp(burst, slot).destination == packet.htons(9) then print "swapped" end
  end
end"#;

fn what_arrives_is_counted(world: &World) {
    cable(world, 1, "here", "there");
    let process = world.start(&mut command("count.lua", &["there"]));
    let path = world.file("send.lua", SEND).display().to_string();
    wait_until("the counter to run", || {
        run(&mut command(&path, &["here", "1"])).good();
        process.said().contains("Mpps")
    });
    let sent = 1000;
    let before = process.said().lines().count();
    run(&mut command(&path, &["here", &sent.to_string()])).good();
    wait_until("another line", || process.said().lines().count() > before + 1);
    let said = interrupted(process);
    let packets = number(&said, " packets");
    assert!(packets >= sent, "{sent} were sent:\n{said}");
}

const SEND: &str = r#"
local frame = require "perigee.frame"
function main(name, packets)
  local queue, burst, left = task.device(name):tx(), task.burst(), tonumber(packets)
  local pool = task.pool { prototype = frame.udp { length = 100, destination_port = 53 } }
  while left > 0 do
    local n = math.min(left, 50)
    assert(pool:fill(burst, n, 100))
    left = left - queue:send(burst)
  end
end"#;

fn captures_are_what_tcpdump_reads(world: &World) {
    cable(world, 1, "here", "there");
    let process = world.start(&mut command("dump.lua", &["there", "/run/there.pcapng", "udp and port 53"]));
    let path = world.file("send.lua", SEND).display().to_string();
    wait_until("the file", || Path::new("/run/there.pcapng").exists());
    // The file is there before the first packet can be received.
    wait_until("packets in the file", || {
        run(&mut command(&path, &["here", "2000"])).good();
        fs::metadata("/run/there.pcapng").is_ok_and(|file| file.len() > 1_000_000)
    });
    let said = interrupted(process);
    let packets = number(&said, " packets");
    let read = run(Command::new("unshare").args(["-U", "tcpdump", "-n", "-r", "/run/there.pcapng"])).good().out;
    assert_eq!(read.lines().count() as u64, packets);
    assert!(read.lines().all(|line| line.contains("198.18.0.1.1024 > 198.19.0.1.53")), "{}", &read[..500]);
}

fn a_filter_lets_through_what_matches(world: &World) {
    cable(world, 1, "left", "left-inside");
    cable(world, 2, "right-inside", "right");
    let filter = world.start(&mut command("filter.lua", &["left-inside", "right-inside", "udp port 53"]));
    let count = world.start(&mut command("count.lua", &["right"]));
    let path = world.file("both.lua", BOTH).display().to_string();
    wait_until("packets on the other side", || {
        run(&mut command(&path, &["left"])).good();
        count.said().lines().any(|line| line.contains("now") && !line.ends_with(" 0.0 Mbit/s"))
    });
    let (filter, count) = (interrupted(filter), interrupted(count));
    let (passed, dropped) = (number(&filter, " passed"), number(&filter, " dropped"));
    assert!(passed > 0 && dropped >= passed && dropped <= passed + 100, "{filter}");
    assert_eq!(number(&count, " packets"), passed, "{count}");
}

const BOTH: &str = r#"
local frame, packet = require "perigee.frame", require "perigee.packet"
function main(name)
  local queue, burst = task.device(name):tx(), task.burst()
  local pool = task.pool { prototype = frame.udp { length = 60, destination_port = 53 } }
  -- As many as fit into the rings of a process that has no core at the moment.
  for _ = 1, 4 do
    pool:fill(burst, 64, 60)
    for slot = 0, 31 do packet.udp(burst, slot).destination = packet.htons(54) end
    queue:send(burst)
  end
end"#;

fn tasks_talk(_: &World) {
    let said = task("talk.lua", &["500"]).out;
    assert!(said.contains("500 answered; the last was to: question 500") && said.contains("samples: 500"), "{said}");
}

fn packets_go_through_a_ring(_: &World) {
    let said = task("ring.lua", &["0.5"]).out;
    assert!(number(&said, " packets made") > 0 && said.contains(" 0 out of order"), "{said}");
}

fn probes_measure_latency(world: &World) {
    let said = task("latency.lua", &["net_ring0", "net_ring0", "100"]).out;
    assert!(said.contains("samples: 100") && said.contains("lost: 0"), "{said}");
    cable(world, 1, "here", "there");
    let said = task("latency.lua", &["here", "there", "20"]).out;
    // A probe may take longer than the tenth of a second that it has.
    let (samples, lost) = (number(&said, ", average"), said.trim().rsplit(' ').next().expect("what is lost"));
    assert_eq!((samples > 0, samples + lost.parse::<u64>().expect("a number")), (true, 20), "{said}");
}

fn flows_are_told_apart(world: &World) {
    let left = world.host("left", &["10.0.0.1/24", "fd00::1/64"], &[]);
    world.ip("link set r-left up");
    left.run("ip neigh add 10.0.0.2 lladdr 02:00:00:00:00:02 dev eth0").good();
    left.run("ip neigh add fd00::2 lladdr 02:00:00:00:00:02 dev eth0").good();
    let process = world.start(&mut command("flows.lua", &["r-left"]));
    listens(world, "r-left");
    for target in ["10.0.0.2", "fd00::2"] {
        left.run(&format!("ping -c 10 -i 0.05 -W 0.1 {target}"));
    }
    let said = interrupted(process);
    assert!(said.contains("icmp   10.0.0.1 > 10.0.0.2: 10 packets, 980 bytes"), "{said}");
    assert!(said.contains("icmp6  fd00::1 > fd00::2: 10 packets, 1180 bytes"), "{said}");
}

fn arp_and_pings_are_answered(world: &World) {
    let left = world.host("left", &["10.0.0.1/24"], &[]);
    world.ip("link set r-left up");
    let process = world.start(&mut command("arp.lua", &["r-left", "10.0.0.9"]));
    wait_until("an answer", || left.run("ping -c 1 -W 1 10.0.0.9").code == Some(0));
    left.ping(10, "-i 0.02 10.0.0.9").every_reply(10);
    assert!(left.run("ping -c 1 -W 1 10.0.0.8").code != Some(0), "somebody else's address is answered for");
    let said = interrupted(process);
    assert!(number(&said, " ARP requests") >= 1 && number(&said, " echo requests") >= 11, "{said}");
}

fn a_syn_flood_reaches_a_host_and_its_answers_come_back(world: &World) {
    let left = world.host("left", &["10.0.0.2/8"], &[]);
    world.ip("link set r-left up");
    let link = left.run("ip -br link show eth0").good().out;
    let mac = link.split_whitespace().nth(2).expect("its MAC address").to_owned();
    let said = task("syn_flood.lua", &["r-left", &mac, "10.0.0.2", "81", "5kpps", "1"]).out;
    assert!(number(&said, " packets") >= 32, "{said}");
    // Nobody listens there: the host answered with resets, to addresses that it asked for first.
    let resets = || {
        let counters = left.run("nstat -azs TcpOutRsts").good().out;
        let resets = counters.lines().find_map(|line| line.strip_prefix("TcpOutRsts")).expect("the counter");
        resets.split_whitespace().next().and_then(|n| n.parse::<u64>().ok()).expect("a number")
    };
    wait_seeing("32 resets", resets, |resets| *resets >= 32);
}

fn tasks_end_by_signals_errors_and_force(world: &World) {
    let script = |name: &str, text: &str| world.file(name, text).display().to_string();
    let waiting = script(
        "wait.lua",
        "function main() print 'ready' io.stdout:flush() while task.running() do task.sleep(1) end print 'done' end",
    );
    for signal in [Signal::INT, Signal::TERM] {
        let mut process = world.start(&mut command(&waiting, &[]));
        wait_until("its first word", || process.said().contains("ready"));
        process.signal(signal).good();
        wait_until("its end", || process.ended().good().is_some());
        assert_eq!((process.said().as_str(), process.end().code), ("ready\ndone\n", Some(0)));
    }
    let stuck = script("stuck.lua", "function main() print 'ready' io.stdout:flush() while true do end end");
    let mut process = world.start(&mut command(&stuck, &[]));
    wait_until("its first word", || process.said().contains("ready"));
    process.signal(Signal::INT).good();
    wait_until("its end", || process.ended().good().is_some());
    process.end().refused("task main on core");
    let mut process = world.start(&mut command(&stuck, &[]));
    wait_until("its first word", || process.said().contains("ready"));
    // Two signals at once would be one: again and again until it has ended.
    wait_until("its end", || {
        let _ = process.signal(Signal::INT);
        process.ended().good().is_some()
    });
    assert_eq!(process.end().code, Some(130));
    let throws =
        script("throw.lua", "function main()\n  task.start(f)\n  task.wait()\nend\nfunction f() error 'no luck' end");
    run(&mut command(&throws, &[])).refused("throw.lua:5: no luck");
    run(&mut command("/nothing.lua", &[])).refused("/nothing.lua: No such file");
    let missing = script("missing.lua", "function main() task.device('no-such-if') end");
    run(&mut command(&missing, &[])).refused("missing.lua:1: there is no interface `no-such-if`");
}

/// Two queues of an interface that has one: latencies on a cable beside other frames, ARP with a host.
const LIBMOON: &str = r#"
local mg, memory, device = require "moongen", require "memory", require "device"
local arp, ts, hist = require "proto.arp", require "timestamping", require "histogram"
function configure(parser)
  parser:argument("dev", "Devices."):args(3):convert(tonumber)
  parser:option("-n --number", "Latencies to measure."):default(50):convert(tonumber)
end
function master(args)
  for i, port in ipairs(args.dev) do args.dev[i] = device.config { port = port, rxQueues = 2, txQueues = 2 } end
  device.waitForLinks()
  arp.startArpTask { { rxQueue = args.dev[3]:getRxQueue(1), txQueue = args.dev[3]:getTxQueue(1), ips = "10.0.0.9" } }
  local mac = arp.blockingLookup("10.0.0.2", 30)
  args.dev[1]:getTxQueue(0):setRate(1)
  mg.startTask("load", args.dev[1]:getTxQueue(0))
  local h = mg.startTask("measure", args.dev[1]:getTxQueue(1), args.dev[2]:getRxQueue(1), args.number):wait()
  print(("10.0.0.2 is at %s, measured %d"):format(mac, h.numSamples))
  mg.waitForTasks()
end
function load(queue)
  local bufs = memory.createMemPool(function(buf) buf:getUdpPacket():fill { ethSrc = queue, udpDst = 319 } end):bufArray(8)
  while mg.running() do
    bufs:alloc(60)
    queue:send(bufs)
  end
end
function measure(tx, rx, number)
  local stamper, h = ts:newUdpTimestamper(tx, rx), hist:new()
  while mg.running() and h.numSamples < number do h:update((stamper:measureLatency(function() end, 1000))) end
  return h
end
"#;

fn a_program_of_libmoon_asks_by_arp_and_measures_latency(world: &World) {
    let (_, right) = two_hosts(world);
    cable(world, 1, "here", "there");
    let path = world.file("libmoon.lua", LIBMOON).display().to_string();
    let mut command = Command::new(perigee());
    command.args([
        "task",
        "--hugepages",
        "no",
        "--memory",
        "256",
        "--port",
        "here",
        "--port",
        "there",
        "--port",
        "r-right",
    ]);
    command.args([&path, "0", "1", "2", "-n", "30"]).current_dir("/run");
    let mut process = world.start(&mut command);
    wait_until("latencies", || {
        assert!(process.ended().good().is_none(), "the program has ended: {}", process.said());
        process.said().contains("measured 30")
    });
    // It answers, too.
    right.run("ip neigh flush dev eth0").good();
    wait_until("an answer to ARP", || {
        right.run("ping -c 1 -W 1 10.0.0.9");
        right.run("ip neigh show 10.0.0.9").out.contains("lladdr")
    });
    let link = right.run("ip -br link show dev eth0").good().out;
    let mac = link.split_whitespace().nth(2).expect("its MAC address").to_owned();
    let said = interrupted(process);
    assert!(said.contains(&format!("10.0.0.2 is at {mac}, measured 30")), "{said}");
}
