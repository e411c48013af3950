// SPDX-License-Identifier: MIT
//! Cards of Snabb programs on other devices: the table of PCI addresses, queues of one interface in several processes,
//! pools, a guest's virtio device.

use crate::snabb::{command, snabb};
use perigee_net::MacAddr;
use perigee_tests::{
    Asserts, Good, LONGEST_WAIT, Process, Signal, Wire, World, frame, patient, run, wait_seeing, wait_until,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

perigee_tests::scenarios![
    queues_of_a_card_are_shared_by_processes,
    pools_of_a_card_get_their_frames,
    mistakes_in_the_table_of_cards_are_told,
    a_guest_goes_and_comes_back needs TESTPMD,
];

/// Two processes, each with a queue of the first card, that send to the second one what they get. The table is one
/// process's command line and its environment; the others inherit it.
const SHARED: &str = "\
return {run = function ()
   local worker = require('core.worker')
   for i = 0, 1 do
      worker.start('q'..i, ([[
         local intel = require('apps.intel_mp.intel_mp')
         local c = config.new()
         config.app(c, 'from', intel.driver, {pciaddr = '01:00.0', rxq = %d, txq = false, rxcounter = %d})
         config.app(c, 'to', intel.driver, {pciaddr = '0000:01:00.1', rxq = false, txq = 0})
         config.link(c, 'from.output -> to.input')
         engine.configure(c)
         engine.main()
      ]]):format(i, i))
   end
   engine.main{done = function ()
      for name, worker in pairs(worker.status()) do
         if not worker.alive then error('worker '..name..' has ended') end
      end
   end}
end}
";

/// The folders of a card's counters, of all processes that have it open.
fn cards(address: &str) -> Vec<PathBuf> {
    let processes = fs::read_dir("/run/snabb").into_iter().flatten().flatten();
    let folders = processes.map(|process| process.path().join("pci").join(address));
    folders.filter(|folder| folder.join("rxpackets.counter").exists()).collect()
}

fn counter(folder: &std::path::Path, name: &str) -> u64 {
    let bytes = fs::read(folder.join(name).with_extension("counter")).unwrap_or_default();
    bytes.try_into().map_or(0, u64::from_le_bytes)
}

/// What the first card's queues have received; they say so ten times a second.
fn received() -> [u64; 2] {
    let folders = cards("01:00.0");
    ["q0_rxpackets", "q1_rxpackets"].map(|queue| folders.iter().map(|folder| counter(folder, queue)).sum())
}

/// Sends 300 flows from an address; does each frame come out within `longest`, and once?
fn once_each(from: &Wire, to: &Wire, source: &str, longest: Duration) -> bool {
    let sent: Vec<Vec<u8>> = (0..300)
        .map(|i| frame::udp4_ports(MacAddr([2, 0, 0, 0, 0, 9]), source, "10.9.0.1", (1000 + i, 53), 60))
        .collect();
    let mut got: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut take = || {
        let ours = |f: &[u8]| frame::ip4(f).is_some_and(|packet| packet.source().to_string() == source);
        for frame in to.drain().into_iter().filter(|f| frame::is_udp_to(f, "10.9.0.1") && ours(f)) {
            *got.entry(frame).or_default() += 1;
        }
        got.values().sum::<usize>()
    };
    for frame in &sent {
        from.send(frame);
        take();
    }
    let start = Instant::now();
    while take() < sent.len() && start.elapsed() < longest {
        std::thread::yield_now();
    }
    // sleep: time for a frame that comes twice; without it, one might not be noticed
    std::thread::sleep(Duration::from_millis(300));
    take();
    sent.iter().all(|frame| got.get(frame) == Some(&1)) && got.len() == sent.len()
}

fn queues_of_a_card_are_shared_by_processes(world: &World) {
    let (from, to) = (world.wire("w-in"), world.wire("w-out"));
    world.ip("link set w-in up");
    world.ip("link set w-out up");
    let program = world.file("shared.lua", SHARED).display().to_string();
    let words = ["--port", "net_null0", "--port", "01:00.1=w-out", &program];
    // DPDK numbers the groups of AF_PACKET's sockets by process XOR interface: two processes may meet in a number by
    // chance, and say so. The next ones have other numbers.
    let mut tries = 0;
    let mut process: Process = loop {
        let mut process = world.start(command(&words).env("SNABB_PORTS", "01:00.0=w-in; 01:00.1=net_null1"));
        wait_until("both processes to have their queues, or to meet", || {
            cards("01:00.0").len() == 2 || process.said().contains("PACKET_FANOUT")
        });
        let mut tried = 0;
        wait_until("both processes to have their part of the flows, or to meet", || {
            // Until each has looked who is there, the first one has all flows, or both have them.
            tried += 1;
            let before = received();
            let source = format!("10.8.{}.1", tried % 250 + 1);
            let once = once_each(&from, &to, &source, Duration::from_secs(5));
            let both = received().iter().zip(before).all(|(now, before)| *now > before);
            once && both || process.said().contains("PACKET_FANOUT")
        });
        if !process.said().contains("PACKET_FANOUT") {
            break process;
        }
        tries += 1;
        assert!(tries < 8, "{}", process.said());
        let _ended = process.signal(Signal::TERM); // it may have ended by itself
        wait_until("its end", || process.ended().good().is_some());
        // One process more: whether two meet depends on whether the first one's number is even.
        run(&mut Command::new("true"));
    };
    let once = once_each(&from, &to, "10.8.0.1", patient(LONGEST_WAIT));
    assert!(once, "a frame is there twice, or missing: {}", process.said());
    wait_seeing("both queues to have had some", received, |received| received.iter().all(|n| *n > 80));
    process.signal(Signal::TERM).good();
    wait_until("its end", || process.ended().good().is_some());
}

/// Three apps of one interface: two by address, one of them in a VLAN. What one gets, the next one sends.
const POOLS: &str = "\
return {run = function ()
   local intel = require('apps.intel_mp.intel_mp')
   local c = config.new()
   local function nic (name, mac, vlan)
      config.app(c, name, intel.driver, {pciaddr = '01:00.0', vmdq = true, macaddr = mac, vlan = vlan})
   end
   nic('plain', '02:00:00:00:00:0a')
   nic('tagged', '02:00:00:00:00:0b', 7)
   config.link(c, 'plain.output -> tagged.input')
   config.link(c, 'tagged.output -> plain.input')
   engine.configure(c)
   engine.main()
end}
";

fn pools_of_a_card_get_their_frames(world: &World) {
    let wire = world.wire("w-card");
    world.ip("link set w-card up");
    let program = world.file("pools.lua", POOLS).display().to_string();
    for workers in ["1", "2"] {
        let words = ["--workers", workers, "--port", "01:00.0=w-card", &program];
        let mut process: Process = world.start(&mut command(&words));
        wait_until("the card", || cards("01:00.0").len() == 1);
        let to = |mac: u8, vlan: Option<u16>, payload| {
            let plain = frame::udp4(MacAddr([2, 0, 0, 0, 0, mac]), "10.8.0.1", "10.9.0.1", payload);
            vlan.map_or(plain.clone(), |vid| frame::tagged(plain, vid))
        };
        // To nobody: another address, another VLAN, a tag where there is none.
        for stray in [to(0xc, None, 10), to(0xb, None, 11), to(0xb, Some(8), 12), to(0xa, Some(7), 13)] {
            wire.send(&stray);
        }
        wire.send(&to(0xa, None, 20));
        wire.expect("what the first got, with the tag of the second", |f| f == to(0xa, Some(7), 20));
        wire.send(&to(0xb, Some(7), 21));
        wire.expect("what the second got, without its tag", |f| f == to(0xb, None, 21));
        let more = wire.drain();
        assert!(!more.iter().any(|f| frame::is_udp_to(f, "10.9.0.1")), "{} more frames", more.len());
        wait_until("the strays to be counted", || {
            cards("01:00.0").first().is_some_and(|folder| counter(folder, "rxfiltered") >= 4)
        });
        process.signal(Signal::TERM).good();
        wait_until("its end", || process.ended().good().is_some());
        assert!(process.said().contains("0 not returned"), "{}", process.said());
    }
}

fn mistakes_in_the_table_of_cards_are_told(_: &World) {
    let code = ["snsh", "-e", "print(1)"];
    for (port, said) in [
        ("01:00=eth0", "\"01:00\" is not a PCI address such as 0000:01:00.0 or 01:00.0"),
        ("01:00.0=", "0000:01:00.0 has no device: expected one after the equals sign"),
        ("=eth0", "expected a device, or a PCI address, = and a device"),
    ] {
        snabb(&[&["--port", port], &code[..]].concat()).refused(said);
        run(command(&code).env("SNABB_PORTS", format!("net_null0;{port}"))).refused(said);
    }
    snabb(&[&["--port", "01:00.0=eth0", "--port", "0000:01:00.0=eth1"], &code[..]].concat()).refused("is there twice");
    let code = "require('lib.hardware.pci').device_info('ff:1f.7')";
    snabb(&["snsh", "-e", code]).refused("give one with --port ff:1f.7=DEVICE");
}

/// Sends a packet whenever the guest is there, and says when a hundred have come back; and when it has gone.
const GUEST: &str = "\
local link = require('core.link')
local Ball = {}
function Ball:new () return setmetatable({guest = 0, back = 0, up = false}, {__index = Ball}) end
function Ball:pull ()
   local vm = engine.app_table.vm
   local up = vm:link_status()
   if up ~= self.up then
      self.up, self.back = up, 0
      if up then self.guest = self.guest + 1 else print('guest '..self.guest..' has gone') end
      io.stdout:flush()
   end
   if up then link.transmit(self.output.output, packet.from_string(('\\2'):rep(60))) end
end
function Ball:push ()
   while not link.empty(self.input.input) do
      local p = link.receive(self.input.input)
      assert(p.length == 60 and p.data[59] == 2)
      packet.free(p)
      self.back = self.back + 1
      if self.back == 100 then
         print('guest '..self.guest..': 100 came back')
         io.stdout:flush()
      end
   end
end
return {Ball = Ball, run = function ()
   local c = config.new()
   config.app(c, 'vm', require('apps.vhost.vhost_user').VhostUser, {socket_path = '/run/vm.sock', is_server = true})
   config.app(c, 'ball', Ball)
   config.link(c, 'vm.tx -> ball.input')
   config.link(c, 'ball.output -> vm.rx')
   engine.configure(c)
   engine.main()
end}
";

fn a_guest_goes_and_comes_back(world: &World) {
    let usable = rustix::thread::sched_getaffinity(None).expect("the cores that may be used");
    let cores: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU).filter(|core| usable.is_set(*core)).collect();
    let (first, last) = (cores.first().expect("a core"), cores.last().expect("a core"));
    let lcores = format!("--lcores=0@{first},1@{last}");
    let program = world.file("guest.lua", GUEST).display().to_string();
    let mut host: Process = world.start(&mut command(&[&program]));
    wait_until("the socket", || fs::exists("/run/vm.sock").unwrap_or_default());
    for guest in 1..=2 {
        // testpmd sends back what its virtio device gets.
        let mut testpmd = Command::new("dpdk-testpmd");
        // Two of its threads, on one core if this process may use no other.
        testpmd.args(["--no-huge", "-m", "128", "--no-pci", "--file-prefix", "guest", &lcores]);
        testpmd.args(["--vdev", "net_virtio_user0,path=/run/vm.sock", "--", "--total-num-mbufs=4096"]);
        testpmd.args(["--forward-mode=io", "--port-topology=loop", "--auto-start", "--stats-period", "60"]);
        testpmd.env("XDG_RUNTIME_DIR", "/run").env("RUNTIME_DIRECTORY", "/run");
        let mut vm: Process = world.start(&mut testpmd);
        let back = format!("guest {guest}: 100 came back");
        wait_until(&back, || {
            assert!(vm.ended().good().is_none(), "the guest has ended:\n{}", vm.said());
            host.said().contains(&back)
        });
        vm.signal(Signal::KILL).good();
        wait_until("it to be gone", || host.said().contains(&format!("guest {guest} has gone")));
    }
    host.signal(Signal::TERM).good();
    wait_until("its end", || host.ended().good().is_some());
    assert!(host.said().contains("0 not returned"), "{}", host.said());
}
