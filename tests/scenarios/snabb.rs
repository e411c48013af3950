// SPDX-License-Identifier: MIT
//! Snabb programs on DPDK's software ports: the runtime's selftests, the example programs between real hosts and on
//! files, on one thread and on two; trees of one's own; mistakes.

use perigee_tests::Signal;
use perigee_tests::{Asserts, Ended, Good, Host, Process, World, perigee, run, wait_until};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

perigee_tests::scenarios![
    an_echo_program_sends_back_what_it_gets,
    a_worker_that_dies_takes_its_graph_down,
    programs_end_with_their_code_from_every_thread,
    auto_cuts_a_graph_when_its_apps_are_known_to_be_slow,
    a_name_is_free_when_its_process_has_ended,
    strange_folders_in_the_root_of_shared_memory_stay,
    mistakes_are_told,
    a_tree_of_ones_own_comes_before_perigees_apps,
    packets_on_a_linux_interface_are_captured_and_blasted,
    the_programs_of_the_benchmark_count_what_they_move,
    selftests_pass_1,
    selftests_pass_2,
    selftests_pass_3,
    selftests_pass_4,
    a_program_of_forwarding_apps_joins_two_hosts,
    a_program_of_forwarding_apps_joins_two_hosts_on_two_threads,
];

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/snabb").join(name).display().to_string()
}

pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(perigee());
    command.args(["snabb", "--memory", "600", "--hugepages", "no"]).args(words);
    command.env("SNABB_SHM_ROOT", "/run/snabb").env("SNABB_DEBUG", "1").current_dir("/run");
    command
}

pub fn snabb(words: &[&str]) -> Ended {
    run(&mut command(words))
}

/// Every module of `snabb/` with a selftest, by name.
fn modules() -> Vec<String> {
    fn collect(folder: &Path, root: &Path, to: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("the folder of sources").flatten() {
            let path = entry.path();
            if path.is_dir() {
                collect(&path, root, to);
            } else if path.extension().is_some_and(|extension| extension == "lua") {
                let text = fs::read_to_string(&path).expect("a source");
                let has =
                    |line: &str| line.contains("selftest") && line.contains("function") && !line.contains("local ");
                if text.lines().any(has) || text.contains(".selftest = ") {
                    let name = path.strip_prefix(root).expect("below it").with_extension("");
                    to.push(name.display().to_string().replace('/', "."));
                }
            }
        }
    }
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../snabb");
    let mut names = Vec::new();
    collect(&root, &root, &mut names);
    names.sort();
    names
}

/// A part of the selftests; the parts run side by side.
fn selftests(part: usize) {
    let names = modules();
    assert!(names.len() > 130, "only {} selftests were found", names.len());
    let mut skipped = Vec::new();
    for name in names.iter().skip(part).step_by(4) {
        let ended = snabb(&["-t", name]);
        match ended.code {
            Some(0) => {}
            Some(43) => skipped.push(name.clone()),
            _ => panic!("the selftest of {name}: {:?}\n{}", ended.code, ended.text),
        }
    }
    // What needs a device that this machine may not have.
    let may: &[&str] = &["apps.tap.tap", "apps.socket.raw", "apps.socket.netdev"];
    assert!(skipped.iter().all(|name| may.contains(&name.as_str())), "skipped: {skipped:?}");
}

fn selftests_pass_1(_: &World) {
    selftests(0);
}

fn selftests_pass_2(_: &World) {
    selftests(1);
}

fn selftests_pass_3(_: &World) {
    selftests(2);
}

fn selftests_pass_4(_: &World) {
    selftests(3);
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

fn forwarding(world: &World, workers: &str) {
    let (left, _right) = two_hosts(world);
    let words = ["--workers", workers, &example("forward.lua"), "5", "r-left", "r-right"];
    let mut program: Process = world.start(&mut command(&words));
    wait_until("packets to cross", || left.run("ping -c 1 -W 1 10.0.0.2").code == Some(0));
    left.ping(20, "-i 0.02 10.0.0.2").every_reply(20);
    left.ping(20, "-i 0.02 -s 1400 fd00::2").every_reply(20);
    let top = snabb(&["top", "--once", "--json"]).good();
    assert!(top.out.contains("there_3"), "top does not show the links:\n{}", top.out);
    program.signal(Signal::TERM).good();
    wait_until("its end", || program.ended().good().is_some());
    let said = program.said();
    assert!(said.contains("0 not returned"), "packets are missing at the end:\n{said}");
}

fn a_program_of_forwarding_apps_joins_two_hosts(world: &World) {
    forwarding(world, "1");
}

fn a_program_of_forwarding_apps_joins_two_hosts_on_two_threads(world: &World) {
    forwarding(world, "2");
}

/// A pcap file of frames, microseconds, little-endian.
fn pcap(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file: Vec<u8> =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65535, 1].iter().flat_map(|n| n.to_le_bytes()).collect();
    for frame in frames {
        let n = frame.len() as u32;
        file.extend([0, 0, n, n].iter().flat_map(|n| n.to_le_bytes()));
        file.extend(frame);
    }
    file
}

fn frames_of(file: &[u8]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut rest = &file[24..];
    while rest.len() >= 16 {
        let n = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        frames.push(rest[16..16 + n].to_vec());
        rest = &rest[16 + n..];
    }
    frames
}

fn an_echo_program_sends_back_what_it_gets(world: &World) {
    let frames: Vec<Vec<u8>> = (0..2000_u32)
        .map(|i| {
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
            frame.extend(i.to_be_bytes());
            frame.resize(60 + (i as usize * 37) % 1400, i as u8);
            frame
        })
        .collect();
    fs::write("/run/in.pcap", pcap(&frames)).expect("a file of frames");
    for workers in ["1", "2"] {
        let port = format!("net_pcap0,rx_pcap=/run/in.pcap,tx_pcap=/run/out{workers}.pcap");
        let ended = snabb(&["--workers", workers, &example("echo.lua"), &port, "3", "2"]).good();
        assert!(ended.text.contains("0 not returned"), "{}", ended.text);
        let back = frames_of(&fs::read(format!("/run/out{workers}.pcap")).expect("the file that it wrote"));
        assert_eq!(back.len(), frames.len(), "with {workers} workers: {}", ended.text);
        for (sent, got) in frames.iter().zip(&back) {
            assert_eq!((&got[..6], &got[6..12], &got[12..]), (&sent[6..12], &sent[..6], &sent[12..]));
        }
    }
    let _ = world;
}

fn a_worker_that_dies_takes_its_graph_down(world: &World) {
    let program = "local T = require('core.threads_test')\n\
        return {run = function ()\n\
          local c = config.new()\n\
          config.app(c, 'source', T.Numbers, {})\n\
          config.app(c, 'bomb', T.Bomb, nil, {worker = 2})\n\
          config.link(c, 'source.output -> bomb.input')\n\
          engine.configure(c)\n\
          engine.main{duration = 170}\n\
        end}\n";
    let file = world.file("bomb.lua", program);
    let ended = snabb(&[&file.display().to_string()]).refused("the bomb went off");
    assert!(ended.text.contains("worker 2") && ended.text.contains("0 not returned"), "{}", ended.text);
}

/// A program that ends from another thread, and one whose other thread does not come back.
/// The first run of a program measures its apps, on one thread; the second has another one for half of those that are
/// slow, and none for those that are not.
fn auto_cuts_a_graph_when_its_apps_are_known_to_be_slow(world: &World) {
    let program = world.file(
        "slow.lua",
        "local basic = require('apps.basic.basic_apps')\n\
         local Slow = {}\n\
         function Slow:new (times) return setmetatable({times = times, sum = 0}, {__index = Slow}) end\n\
         function Slow:push ()\n\
           local input, output = self.input.input, self.output.output\n\
           while not link.empty(input) do\n\
             for i = 1, self.times do self.sum = (self.sum * 7 + i) % 1000003 end\n\
             link.transmit(output, link.receive(input))\n\
           end\n\
         end\n\
         return {Slow = Slow, run = function (args)\n\
           local c = config.new()\n\
           config.app(c, 'a', basic.Source, 60)\n\
           config.app(c, 'b', Slow, tonumber(args[1]))\n\
           config.app(c, 'c', Slow, tonumber(args[1]))\n\
           config.app(c, 'd', basic.Sink)\n\
           config.link(c, 'a.output -> b.input')\n\
           config.link(c, 'b.output -> c.input')\n\
           config.link(c, 'c.output -> d.input')\n\
           engine.configure(c)\n\
           local here = 0\n\
           for _ in pairs(engine.app_table) do here = here + 1 end\n\
           local deadline = engine.now() + 170\n\
           engine.main{no_report = true, done = function ()\n\
             return engine.breaths.c > 12000 or engine.now() > deadline\n\
           end}\n\
           print('apps here: '..here)\n\
         end}\n",
    );
    let program = program.display().to_string();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for (times, second) in [("60", if cores > 1 { "apps here: 2" } else { "apps here: 4" }), ("0", "apps here: 4")] {
        for expected in ["apps here: 4", second] {
            let mut auto = command(&["--workers", "auto", &program, times]);
            let ended = run(auto.env("XDG_CACHE_HOME", "/run/cache"));
            assert!(ended.code == Some(0) && ended.text.contains(expected), "{times}: {}", ended.text);
        }
    }
    let kept = fs::read_to_string("/run/cache/perigee/snabb/slow.slow").expect("what was measured");
    assert!(kept.starts_with("perigee snabb costs 1\n") && kept.matches("\napp b ").count() == 2, "{kept}");
    // What is not a file of costs is no reason to stop.
    fs::write("/run/cache/perigee/snabb/slow.slow", b"app b 1\0\xff").expect("written");
    let ended = run(command(&["--workers", "auto", &program, "0"]).env("XDG_CACHE_HOME", "/run/cache"));
    assert!(ended.text.contains("apps here: 4"), "{}", ended.text);
    let ended = snabb(&["--workers", "many", &program, "0"]);
    assert!(ended.code == Some(2) && ended.text.contains("expected a number from 1 to 64, or auto"), "{}", ended.text);
}

fn programs_end_with_their_code_from_every_thread(world: &World) {
    let program = |name: &str, body: &str| {
        let text = format!(
            "local App = {{new = function (self) return setmetatable({{}}, {{__index = self}}) end}}\n\
             function App:pull ()\n{body}\nend\n\
             return {{App = App, run = function ()\n\
               local c = config.new()\n\
               config.app(c, 'app', App, nil, {{worker = 2}})\n\
               engine.configure(c)\n\
               if os.getenv('SOON') then\n\
                 timer.activate(timer.new('end', function () main.exit(5) end, 3e8))\n\
               end\n\
               engine.main{{duration = 170}}\n\
             end}}\n"
        );
        world.file(name, &text).display().to_string()
    };
    for (name, body) in [("exit.lua", "os.exit(7)"), ("caught.lua", "pcall(main.exit, 7)")] {
        let ended = snabb(&[&program(name, body)]);
        assert_eq!(ended.code, Some(7), "{name}: {}", ended.text);
    }
    let stuck = program("stuck.lua", "while true do end");
    let ended = run(command(&[&stuck]).env("SOON", "1"));
    assert_eq!(ended.code, Some(5), "{}", ended.text);
    assert!(ended.text.contains("a worker is stuck in an app"), "{}", ended.text);
    let quiet = "if not self.said then self.said = true print('at work') io.stdout:flush() end";
    let quiet = program("quiet.lua", quiet);
    for signal in [Signal::TERM, Signal::INT] {
        let mut process = world.start(&mut command(&[&quiet]));
        wait_until("its worker", || process.said().contains("at work"));
        process.signal(signal).good();
        wait_until("its end", || process.ended().good().is_some());
        let status = process.wait(std::time::Duration::ZERO).good();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
    }
}

fn a_name_is_free_when_its_process_has_ended(_: &World) {
    for _ in 0..2 {
        let ended = snabb(&["snsh", "-e", "engine.claim_name('once') print(engine.program_name)"]);
        assert_eq!((ended.code, ended.out.trim()), (Some(0), "once"), "{}", ended.text);
        assert!(fs::symlink_metadata("/run/snabb/by-name/once").is_err());
    }
}

/// A folder in the root whose name is a number but which is not a process's stays.
fn strange_folders_in_the_root_of_shared_memory_stay(_: &World) {
    fs::create_dir_all("/run/snabb/99999999/photos").expect("folders");
    snabb(&["snsh", "-e", "print(1)"]).good();
    snabb(&["gc"]).good();
    assert!(Path::new("/run/snabb/99999999/photos").exists());
}

fn mistakes_are_told(world: &World) {
    snabb(&["no-such-program"]).refused("unknown program: no-such-program. There are: ");
    snabb(&["./nothing.lua"]).refused("there is no file ./nothing.lua");
    snabb(&["-t", "no.such.module"]).refused("no.such.module");
    snabb(&["--tree", "/run/nothing", "snsh"]).refused("expected a folder with apps, lib or program");
    let mistakes = [
        ("config.link(config.new(), 'a.x b.y')", "expected \"app.output -> app.input\""),
        ("local c = config.new() config.link(c, 'a.x -> b.y') engine.configure(c)", "no such app: a"),
        ("config.app(config.new(), 'x', {config = {a = {required = true}}}, {})", "missing required parameter"),
        ("packet.from_string(('x'):rep(10241))", "packet payload overflow"),
        ("config.app(config.new(), 'x', nil)", "expected a class"),
        ("return nothing_of_that_name", "is not declared"),
        (
            "local c = config.new() config.app(c, 'p', require('apps.dpdk.port'), {port = 7}) engine.configure(c)",
            "give one with `perigee snabb --port DEVICE PROGRAM`",
        ),
    ];
    for (code, message) in mistakes {
        let ended = snabb(&["snsh", "-e", code]).refused(message);
        assert!(ended.text.contains("stack traceback"), "{}", ended.text);
    }
    // A file that is not a program.
    let file = world.file("empty.lua", "return 5\n");
    snabb(&[&file.display().to_string()]).refused("expected a module with a function run(args)");
    let file = world.file("wrong.lua", "function (\n");
    snabb(&[&file.display().to_string()]).refused("wrong.lua:1");
}

fn a_tree_of_ones_own_comes_before_perigees_apps(world: &World) {
    let write = |path: &str, text: &str| {
        let path = Path::new("/run/tree").join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file of the tree");
    };
    write(
        "apps/basic/basic_apps.lua",
        "module(..., package.seeall)\nSink = {}\nfunction Sink:new () return setmetatable({mine = true}, {__index = Sink}) \
         end\n",
    );
    write("lib/mine.h", "struct mine { int a, b; };\n");
    write("program/my_program/README.inc", "Usage: my-program\n");
    write(
        "program/my_program/my_program.lua",
        "module(..., package.seeall)\nrequire('lib.mine_h')\nfunction run (args)\n\
         print(require('program.my_program.README_inc'))\n\
         print('sink', require('apps.basic.basic_apps').Sink:new().mine, 'size', require('ffi').sizeof('struct mine'))\n\
         print('core', require('core.link').max, 'fallback', require('apps.fwd.fwd') ~= nil, args[1])\n\
         print('tree', os.getenv('SNABB_TREE'))\nend\n",
    );
    let ended = snabb(&["--tree", "/run/tree", "my-program", "-h"]).good();
    for text in ["Usage: my-program", "sink\ttrue\tsize\t8", "core\t1023\tfallback\ttrue\t-h", "tree\t/run/tree"] {
        assert!(ended.out.contains(text), "{text:?} is missing:\n{}", ended.out);
    }
    // As scripts call it that were written for Snabb.
    std::os::unix::fs::symlink(perigee(), "/run/tree/snabb").expect("a link");
    let ended = run(Command::new("/run/tree/snabb").args(["my-program", "-h"]).env("SNABB_TREE", "/run/tree")).good();
    assert!(ended.out.contains("Usage: my-program"), "{}", ended.out);
    let _ = world;
}

fn packets_on_a_linux_interface_are_captured_and_blasted(world: &World) {
    // DPDK numbers its groups of AF_PACKET sockets by process number XOR interface number: two processes that follow
    // each other must not meet in one group.
    world.ip("link add one index 100 type veth peer name two index 4100");
    world.ip("link set one up");
    world.ip("link set two up");
    let mut capture = world.start(&mut command(&["pcap", "--count", "500", "two", "/run/got.pcap"]));
    wait_until("500 packets", || {
        snabb(&["packetblaster", "synth", "--duration", "0.2", "--sizes", "100", "one"]).good();
        capture.ended().good().is_some()
    });
    let file = fs::read("/run/got.pcap").unwrap_or_else(|error| panic!("{error}: {}", capture.said()));
    let got = frames_of(&file);
    assert!(got.iter().filter(|frame| frame.len() == 100).count() > 400, "{} frames", got.len());
}

/// What `./x bench snabb` runs on both runtimes: the line that it reads, with numbers that can be.
fn the_programs_of_the_benchmark_count_what_they_move(world: &World) {
    let program = |name: &str| format!("{}/../bench/src/snabb/{name}", env!("CARGO_MANIFEST_DIR"));
    let packets = |words: &[&str]| {
        let ended = snabb(&[&["snsh"], words].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.text);
        let line = ended.out.lines().find(|line| line.contains(" packets ")).expect("its line").to_owned();
        let number = |name: &str| {
            let (_, after) = line.split_once(&format!(" {name} ")).expect("a named number");
            after.split_whitespace().next().and_then(|number| number.parse::<f64>().ok()).expect("a number")
        };
        assert!(number("cpu") > 0.0 && number("wall") >= 0.05, "{line}");
        number("packets")
    };
    assert!(packets(&[&program("chain.lua"), "3", "60", "0.05", "1"]) > 1000.0);
    assert_eq!(snabb(&["snsh", &program("start.lua")]).good().out.lines().next(), Some("freed"));
    world.ip("link add cable0 type veth peer name cable1");
    for end in ["cable0", "cable1"] {
        fs::write(format!("/proc/sys/net/ipv6/conf/{end}/disable_ipv6"), "1").expect("no packets of Linux's own");
        world.ip(&format!("link set {end} up"));
    }
    for app in ["raw", "port"] {
        let went = packets(&[&program("forward.lua"), app, "cable0", "cable1", "16", "0.05", "2"]);
        assert!(went > 32.0, "{app}: {went} packets did not go round");
    }
}
