// SPDX-License-Identifier: MIT
//! Tasks on a machine of heap packets: what they share, how they fail, and that nothing is left behind.

use perigee_lua::Script;
use perigee_lua::task::{Core, DeviceRequest, Failure, Machine, OpenDevice, Tasks};
use perigee_net::MacAddr;
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Link, Memory, Pool, Port, PortInfo, PortStats, ReceiveQueue, TransmitQueue};
use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A device whose queues lead back to itself.
struct Loop(String, u16);

impl Port for Loop {
    fn info(&self) -> PortInfo {
        PortInfo {
            port: self.1,
            device: self.0.clone(),
            driver: "heap".to_owned(),
            mac: MacAddr([2, 0, 0, 0, 0, self.1 as u8]),
            mtu: 1500,
            receive_queues: 1,
            transmit_queues: 1,
            numa_node: None,
            offloads: vec![],
            notes: vec![],
        }
    }
    fn link(&self) -> Link {
        Link { up: true, speed: Some(10_000), full_duplex: true }
    }
    fn stats(&self) -> PortStats {
        PortStats { rx_packets: 7, ..PortStats::default() }
    }
    fn set_promiscuous(&self, _: bool) -> Result<(), String> {
        Ok(())
    }
    fn set_mtu(&self, _: u16) -> Result<(), String> {
        Ok(())
    }
}

struct Heap {
    pool: &'static HeapPool,
    start: Instant,
}

impl Machine for Heap {
    fn memory(&self) -> &'static dyn Memory {
        self.pool
    }
    fn cores(&self) -> Vec<Core> {
        (0..2).map(|number| Core { number, numa_node: None }).collect()
    }
    fn open(&self, request: &DeviceRequest) -> Result<OpenDevice, String> {
        if request.name == "broken" {
            return Err("broken: there is no such device".to_owned());
        }
        let queues: Vec<HeapQueue> = (0..request.receive_queues.max(request.transmit_queues))
            .map(|_| HeapQueue::new(self.pool, 3, 128))
            .collect();
        Ok(OpenDevice {
            port: Box::new(Loop(request.name.clone(), 3)),
            receive: queues.iter().map(|queue| Box::new(queue.clone()) as Box<dyn ReceiveQueue>).collect(),
            transmit: queues.iter().map(|queue| Box::new(queue.clone()) as Box<dyn TransmitQueue>).collect(),
        })
    }
    fn pool(&self, _: u32, _: u16, _: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        Ok(Arc::new(self.pool))
    }
    fn ring(&self, capacity: u32) -> Result<(Box<dyn TransmitQueue>, Box<dyn ReceiveQueue>), String> {
        let queue = HeapQueue::new(self.pool, 0, capacity as usize);
        Ok((Box::new(queue.clone()), Box::new(queue)))
    }
    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }
    fn enter(&self, _: usize) -> Result<Box<dyn Any>, String> {
        Ok(Box::new(()))
    }
}

struct Program {
    pool: &'static HeapPool,
    tasks: Arc<Tasks>,
}

fn program(source: &str) -> Program {
    let pool = HeapPool::leak(100_000);
    let script = Script { name: "test.lua".to_owned(), source: source.to_owned(), folder: None };
    let machine = Arc::new(Heap { pool, start: Instant::now() });
    Program { pool, tasks: Tasks::new(machine, script, vec!["loop0".to_owned()]) }
}

/// Runs a script; whatever it does, its packets are back.
fn run(source: &str, arguments: &[&str]) -> Result<(), String> {
    let Program { pool, tasks } = program(source);
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    let result = tasks.run(&arguments, Duration::from_secs(60)).map_err(|error| error.to_string());
    assert_eq!(pool.in_use(), 0, "packets are left");
    result
}

#[track_caller]
fn runs(source: &str) {
    run(source, &[]).unwrap_or_else(|error| panic!("{error}"));
}

#[track_caller]
fn fails(source: &str, expected: &str) {
    let error = run(source, &[]).unwrap_err();
    assert!(error.contains(expected), "found {error:?}, expected {expected:?} in it");
}

#[test]
fn arguments_and_results_travel() {
    let source = r##"
        function main(...)
          assert(select("#", ...) == 2 and (...) == "a" and select(2, ...) == "7")
          local t = task.start(twice, 21, nil, { x = { true, 5ULL } })
          local n, nothing, name = t:wait()
          assert(n == 42 and nothing == nil and name == "twice", tostring(n))
          assert(t:ended() and task.start("nothing"):wait() == nil)
        end
        function twice(n, nothing, t)
          assert(nothing == nil and t.x[1] == true and t.x[2] == 5ULL)
          return 2 * n, nil, task.name
        end
        function nothing() end
    "##;
    run(source, &["a", "7"]).unwrap();
}

#[test]
fn values_that_cannot_be_sent_are_named() {
    let case = |value: &str, expected: &str| {
        let source =
            format!("function main() local p = task.pipe()\n local t = {{}} t.a = {{ [3] = t }}\n p:send({value}) end");
        fails(&source, expected);
    };
    case("t", "task main: test.lua:3: the value.a[3] is the value again");
    case("{ f = { print } }", "the value.f[1] is a function");
    case("{ [t] = 1 }", "the value has a table as a key");
    case("{ ['a b'] = coroutine.create(print) }", "the value[\"a b\"] is a thread");
    case("require('ffi').new('int[2]')", "the value is a ctype<int [2]>");
    fails("function main() task.start(main, print) end", "an argument of main[1] is a function");
    fails("function main() return function() end end", "main returned[1] is a function");
    // The same table twice is no cycle; and depth has no limit of its own.
    runs(
        r#"function main()
             local p, shared, deep = task.pipe(), { 1 }, {}
             local t = deep
             for i = 1, 85 do t.x = {} t = t.x end
             p:send({ shared, shared, deep })
             local got = p:receive()
             assert(got[1][1] == 1 and got[2][1] == 1 and got[3].x.x.x)
           end"#,
    );
}

#[test]
fn objects_travel_and_are_the_same() {
    runs(
        r#"
        local histogram = require "perigee.histogram"
        function main()
          local d, h = task.device("loop0", { rx = 2, tx = 2 }), histogram.new()
          h:update(3, 2)
          local p, r = task.pipe(), task.ring()
          local t = task.start(check, d, d:rx(2), d:tx(1), p, r, h)
          local back, again = p:receive(), p:receive()
          assert(back == d:tx(1) and tostring(back) == "transmit queue 1 of loop0")
          assert(again:count() == 3 and again:max() == 4)
          assert(t:wait().mac == d.mac)
        end
        function check(d, rx, tx, p, r, h)
          assert(rx == d:rx(2) and d.name == "loop0" and d:stats().rx_packets == 7 and d:link() == true)
          h:update(4)
          p:send(tx)
          p:send(h)
          return d
        end"#,
    );
}

#[test]
fn packets_are_made_changed_sent_and_received() {
    runs(
        r#"
        local frame, packet = require "perigee.frame", require "perigee.packet"
        local m = require "perigee.modules"
        function main()
          local d = task.device(0)
          local p = task.pool { prototype = frame.udp { source_mac = d.mac, destination_mac = d.mac, length = 100 } }
          local b, ip4, ip6 = task.burst(), task.mask(), task.mask()
          assert(p:fill(b, 10, 60) and b.count == 10 and b.length[9] == 60)
          for slot = 0, 9 do packet.ipv4(b, slot).total_length = packet.htons(46) end
          packet.ipv4(b, 3).ttl = 9
          b:checksums()
          packet.ipv4(b, 5).ttl = 63
          assert(d:tx():send(b) == 10 and b.live:empty())
          assert(d:rx():receive(b, 1) == 10 and packet.ipv4(b, 3).ttl == 9)
          -- The router's modules: the fifth has a wrong checksum now.
          m.classify(b, ip4, ip6)
          m.ipv4_valid(b, ip4)
          assert(ip4:count() == 9 and ip6:empty() and not ip4:has(5))
          assert(task.drops()["ipv4_valid.checksum"] == 1)
          b:free()
          assert(not pcall(p.fill, p, b, 257, 60) and not pcall(p.fill, p, b, 1, 70000))
        end"#,
    );
}

#[test]
fn a_full_queue_keeps_what_it_has_no_room_for() {
    runs(
        r#"
        function main()
          local d, p, b = task.device(0), task.pool(), task.burst()
          assert(p:fill(b, 200, 60))
          assert(d:tx():try_send(b) == 128 and b.live:count() == 72 and not b.live:has(127) and b.live:has(128))
          assert(d:rx():receive(b) == 64, "what was left is freed")
        end"#,
    );
}

#[test]
fn a_queue_is_one_tasks_at_a_time() {
    let source = |end: &str| {
        format!(
            r#"
        function main()
          local d, b, p = task.device(0), task.burst(), task.pipe()
          local t = task.start(other, d:rx(), p)
          p:receive()
          {end}
          d:rx():receive(b)
        end
        function other(queue, p)
          queue:receive(task.burst())
          p:send("I have it")
          task.sleep(0.2)
        end"#
        )
    };
    fails(&source(""), "receive queue 0 of loop0 is used by task other");
    runs(&source("t:wait()"));
}

#[test]
fn packets_go_through_a_ring_in_order() {
    runs(
        r#"
        function main()
          local r, b = task.ring(64), task.burst()
          local t, next = task.start(make, r), 0
          while next < 10000 do
            for slot = 0, r:receive(b, 1) - 1 do
              local n = require("ffi").cast("uint32_t *", b.data[slot])[0]
              assert(n == next, n)
              next = next + 1
            end
          end
          assert(t:wait() == 10000)
        end
        function make(r)
          local p, b, n = task.pool(), task.burst(), 0
          while n < 10000 do
            assert(p:fill(b, 25, 60))
            for slot = 0, 24 do require("ffi").cast("uint32_t *", b.data[slot])[0] = n + slot end
            n = n + r:send(b)
          end
          return n
        end"#,
    );
}

#[test]
fn a_throw_names_its_place_and_ends_the_others() {
    let source = r#"
        function main()
          task.start(fail)
          local others = task.start(count)
          assert(others:wait() == "ended in order")
        end
        function fail() local d = nil
          return d.x end
        function count() while task.running() do task.sleep(0.01) end return "ended in order" end"#;
    fails(source, "task fail: test.lua:8: attempt to index local 'd' (a nil value)");
    fails("function main() error('plain', 0) end", "task main: plain");
    fails("function main() error({ code = 3 }) end", "task main: ");
    fails("x = = 1", "task main: test.lua:1: unexpected symbol near '='");
    fails("function man() end", "test.lua: has no function main(...)");
    fails("function main() task.start('nobody') end", "test.lua:1: there is no global function nobody");
    fails("function main() task.start_on(77, main) end", "there is no core 77 to start main on: expected one of 0, 1");
    fails("function main() task.device('broken') end", "test.lua:1: broken: there is no such device");
    fails(
        "function main() task.device(4) end",
        "there is no port 4: one, 0, is on the command line; add --port DEVICE",
    );
    fails(
        "function main() task.device('x', { rxq = 2 }) end",
        "device x: there is no option rxq; expected one of rx, tx",
    );
    fails("function main() task.device('x', { rx = 0 }) end", "rx is 0, expected a whole number from 1 to 64");
    fails("function main() task.device('x', { mac = 'z' }) end", "device x: mac \"z\"");
    fails("function main() task.device('x'):tx():rate('fast') end", "a rate of fast: expected packets per second");
    fails("function main() task.device('x'):tx():rate(0) end", "a rate of 0 per second");
    fails("function main() task.filter('udp and') end", "test.lua:1: ");
    fails("function main() require('perigee.frame').udp { size = 3 } end", "a frame has no size; expected one of");
    fails(
        "function main() require('perigee.frame').udp { length = 30 } end",
        "a frame of 30 bytes: its headers and payload take 42",
    );
}

#[test]
fn interrupting_ends_whatever_waits() {
    let source = r#"
        function main()
          local d, p = task.device(0), task.pipe(1)
          task.start(receive, d:rx())
          task.start(read, p)
          task.start(sleep)
          task.start(send, task.ring(4))
          task.shared.ready = true
          while task.running() do task.modules.now() end
          assert(task.running(60))
        end
        function receive(q) assert(q:receive(task.burst(), 1e9) == 0) end
        function read(p) assert(p:receive() == nil) end
        function sleep() task.sleep(1e9) end
        function send(r)
          local p, b = task.pool(), task.burst()
          p:fill(b, 9, 60)
          assert(r:send(b) == 4 and b.live:empty())
        end"#;
    let Program { pool, tasks } = program(source);
    let stop = tasks.clone();
    let interrupt = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        stop.stop();
    });
    tasks.run(&[], Duration::from_secs(60)).unwrap();
    interrupt.join().unwrap();
    assert_eq!(pool.in_use(), 0);
    runs("function main() task.limit(0.01) while task.running() do end end");
    runs("function main() task.stop() assert(not task.running()) end");
}

#[test]
fn a_task_that_never_looks_is_named() {
    let source = "function main() task.start(stuck) task.wait() end\nfunction stuck() while true do end end";
    let Program { tasks, .. } = program(source);
    tasks.limit(10_000_000);
    let error = tasks.run(&[], Duration::from_millis(50)).unwrap_err();
    assert!(matches!(error, Failure::Stuck { .. }), "{error}");
    assert!(
        error.to_string().starts_with("task main on core 0, task stuck on core 1 did not end: a task has to call"),
        "{error}"
    );
}

#[test]
fn what_tasks_leave_behind_is_freed() {
    runs(
        r#"
        function main()
          local r, p, b = task.ring(512), task.pool(), task.burst()
          p:fill(b, 256, 60)
          task.start(leave, r):wait()
          assert(r:receive(b, 0, 10) == 10)
          local gather = task.gather(300, 1e6)
          task.modules.now()
          gather:add(b, b.live)
        end
        function leave(r)
          local p, b, c = task.pool(), task.burst(), task.burst()
          p:fill(b, 100, 60)
          r:send(b)
          p:fill(c, 5, 60)
        end"#,
    );
}

#[test]
fn a_rate_is_kept() {
    // 100 packets at 10,000 a second, after the backlog that a queue may catch up with: at least 9 ms. A busy machine takes longer.
    runs(
        r#"
        function main()
          local d, p, b, start = task.device(0), task.pool(), task.burst(), nil
          for rate, least in pairs { [10000] = 0.0098, ["10kpps"] = 0.0098, ["4.8Mbit/s"] = 0.0098 } do
            d:tx():rate(rate)
            assert(p:fill(b, 100, 60))
            start = task.now()
            assert(d:tx():send(b) == 100)
            assert(task.now() - start >= least, task.now() - start)
            repeat until d:rx():receive(b) == 0
          end
        end"#,
    );
}

#[test]
fn tables_of_a_task_follow_the_devices() {
    runs(
        r#"
        function main()
          local m = require "perigee.modules"
          assert(m.port("later") == nil)
          task.device("later")
          assert(task.running() and m.port("later") == 3)
        end"#,
    );
}

#[test]
fn values_are_shared_by_name() {
    runs(
        r#"
        function main()
          assert(task.shared.x == nil)
          task.shared.x = { 1, { y = "z" } }
          assert(task.start(read):wait() == "z" and task.shared.x == nil)
        end
        function read()
          local y = task.shared.x[2].y
          task.shared.x = nil
          return y
        end"#,
    );
}
