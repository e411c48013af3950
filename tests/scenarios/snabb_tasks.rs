// SPDX-License-Identifier: MIT
//! Tasks beside the apps of Snabb programs, on one thread and on two, and on a machine that seems to have two NUMA
//! nodes; programs of libmoon's style; how tasks fail and end.

use perigee_tests::Signal;
use perigee_tests::{Asserts, Ended, Good, World, perigee, run, wait_until};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

perigee_tests::scenarios![
    tasks_measure_a_graph_of_apps,
    tasks_measure_a_graph_between_two_nodes,
    a_program_of_libmoon_has_apps,
    what_a_task_throws_ends_the_program,
    tasks_end_with_their_program,
];

fn example(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/snabb").join(name).display().to_string()
}

const OPTIONS: [&str; 5] = ["snabb", "--memory", "600", "--hugepages", "no"];

fn surround(command: &mut Command) {
    command.env("SNABB_SHM_ROOT", "/run/snabb").env("SNABB_DEBUG", "1").current_dir("/run");
}

fn command(words: &[&str]) -> Command {
    let mut command = Command::new(perigee());
    command.args(OPTIONS).args(words);
    surround(&mut command);
    command
}

fn snabb(words: &[&str]) -> Ended {
    run(&mut command(words))
}

fn nothing_is_missing(ended: &Ended) {
    assert!(ended.text.contains(" 0 not returned"), "{}", ended.text);
}

fn tasks_measure_a_graph_of_apps(_: &World) {
    for workers in ["1", "2"] {
        let ended = snabb(&["--workers", workers, &example("latency.lua"), "4", "20000", "0.5"]).good();
        assert!(ended.out.contains("10000 sent, 10000 arrived through 4 apps"), "{}", ended.text);
        assert!(ended.out.contains("latency: median "), "{}", ended.text);
        nothing_is_missing(&ended);
    }
}

/// Linux's folder of nodes is covered by another, in a namespace of the program's own. Worker 1 is on one node, worker
/// 2 on the other: packets cross.
fn tasks_measure_a_graph_between_two_nodes(world: &World) {
    let text = fs::read_to_string("/proc/self/status").expect("this process's status");
    let list = text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("its cores");
    let parts = list.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<u32>().ok()?..=last.parse().ok()?)
    });
    let cores: Vec<u32> = parts.flatten().collect();
    if cores.len() < 2 {
        return world.unable("it takes two cores to be two nodes");
    }
    for (node, core) in cores.iter().take(2).enumerate() {
        let folder = format!("/run/nodes/node{node}");
        fs::create_dir_all(format!("{folder}/cpu{core}")).expect("folders");
        fs::write(format!("{folder}/cpulist"), format!("{core}\n")).expect("a file");
    }
    for words in [
        vec![example("latency.lua"), "4".into(), "20000".into(), "0.5".into()],
        vec!["-t".into(), "core.threads".into()],
    ] {
        let mut command = Command::new("unshare");
        let script = "mount --bind /run/nodes /sys/devices/system/node && exec \"$@\"";
        command
            .args(["-m", "sh", "-c", script, "sh"])
            .arg(perigee())
            .args(OPTIONS)
            .args(["--workers", "2"])
            .args(&words);
        surround(&mut command);
        let ended = run(&mut command).good();
        assert!(words[0] == "-t" || ended.out.contains("10000 sent, 10000 arrived"), "{}", ended.text);
        nothing_is_missing(&ended);
    }
}

/// Devices that libmoon's `device` opens: one is an app's, by its number, one a task's.
fn a_program_of_libmoon_has_apps(world: &World) {
    let program = "local lm, memory, device, stats = require 'libmoon', require 'memory', require 'device', require 'stats'\n\
        local function load (queue)\n\
          local mem = memory.createMemPool(function (buf) buf:getUdpPacket():fill{pktLength = 60, udpDst = 9} end)\n\
          local bufs, n = mem:bufArray(64), 0\n\
          while lm.running() and n < 6400 do\n\
            bufs:alloc(60)\n\
            bufs:offloadUdpChecksums()\n\
            n = n + queue:send(bufs)\n\
          end\n\
          return n\n\
        end\n\
        local function run ()\n\
          device.config{port = 0, rxQueues = 1, txQueues = 1}\n\
          local out = device.config{port = 1}\n\
          device.waitForLinks()\n\
          local task = lm.startTask(load, out:getTxQueue(0))\n\
          local c, basic = config.new(), require('apps.basic.basic_apps')\n\
          config.app(c, 'nic', require('apps.dpdk_device.dpdk_device').dpdk_device, 0)\n\
          config.app(c, 'sink', basic.Sink)\n\
          config.link(c, 'nic.output -> sink.input')\n\
          engine.configure(c)\n\
          engine.main{no_report = true, done = function () return not task:isRunning() end}\n\
          print('sent ' .. task:wait(), link.stats(engine.app_table.sink.input.input).rxpackets > 0)\n\
          print('ours', require('log') ~= require('libmoon.log'), memory.dma_alloc == nil, core.memory.dma_alloc ~= nil)\n\
        end\n\
        return {run = run, load = load}\n";
    let file = world.file("moon.lua", program);
    let ended = snabb(&["--port", "net_null0", "--port", "net_null1", &file.display().to_string()]).good();
    for text in ["2 devices are up.", "sent 6400\ttrue", "ours\ttrue\ttrue\ttrue"] {
        assert!(ended.out.contains(text), "{text:?} is missing:\n{}", ended.text);
    }
    nothing_is_missing(&ended);
}

/// A program that does what its argument says.
fn ends(world: &World) -> String {
    let program = "local task = require('perigee.task')\n\
        local tasks = {}\n\
        function tasks.bad () task.sleep(0.1) error('this is on purpose') end\n\
        function tasks.exits () task.sleep(0.1) main.exit(7) end\n\
        function tasks.stuck () while true do end end\n\
        function tasks.waits (ring)\n\
          print('at work') io.stdout:flush()\n\
          local burst = task.burst() while task.running() do ring:receive(burst, 1) end return 1\n\
        end\n\
        function tasks.run (args)\n\
          local how = args[1]\n\
          if how == 'engine' then task.start(tasks.bad) engine.main{duration = 170}\n\
          elseif how == 'wait' then task.start(tasks.bad):wait()\n\
          elseif how == 'unseen' then task.start(tasks.bad) task.start(tasks.waits, task.ring())\n\
            engine.main{duration = 0.5, keep_tasks = true, no_report = true, no_timers = true}\n\
          elseif how == 'exits' then task.start(tasks.exits) engine.main{duration = 170}\n\
          elseif how == 'stuck' then task.start(tasks.stuck) engine.main{duration = 0.1, no_report = true}\n\
          elseif how == 'unknown' then task.start(function () end)\n\
          elseif how == 'forgotten' then task.start(tasks.waits, task.ring())\n\
          elseif how == 'runs' then task.start(tasks.waits, task.ring()) engine.main{}\n\
          elseif how == 'waits' then task.start(tasks.waits, task.ring()):wait() print('not reached') end\n\
        end\n\
        return tasks\n";
    world.file("ends.lua", program).display().to_string()
}

fn what_a_task_throws_ends_the_program(world: &World) {
    let program = ends(world);
    for how in ["engine", "wait", "unseen"] {
        let ended = snabb(&[&program, how]).refused("task bad: ");
        assert!(ended.text.contains("ends.lua:3: this is on purpose"), "{how}: {}", ended.text);
        nothing_is_missing(&ended);
    }
    snabb(&[&program, "unknown"]).refused("put it in the table that the program (or a module) returns");
    let ended = snabb(&[&program, "exits"]);
    assert_eq!(ended.code, Some(7), "{}", ended.text);
    snabb(&[&program, "stuck"]).refused("task stuck on core ");
}

fn tasks_end_with_their_program(world: &World) {
    let program = ends(world);
    let ended = snabb(&[&program, "forgotten"]).good();
    nothing_is_missing(&ended);
    for (how, signal) in [("runs", Signal::INT), ("waits", Signal::TERM)] {
        let mut process = world.start(&mut command(&[&program, how]));
        wait_until("its task", || process.said().contains("at work"));
        process.signal(signal).good();
        wait_until("its end", || process.ended().good().is_some());
        let status = process.wait(std::time::Duration::ZERO).good();
        assert_eq!(status.signal(), Some(signal.as_raw()), "{status}");
        let said = process.said();
        assert!(said.contains(" 0 not returned") && !said.contains("not reached"), "{said}");
    }
}
