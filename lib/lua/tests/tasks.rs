// SPDX-License-Identifier: MIT
//! Tasks on a machine of heap packets: what they share, how they fail, and that nothing is left behind.

#[path = "common/tasks.rs"]
mod machine;

use machine::{Program, fails, program, run, runs};
use perigee_lua::task::Failure;
use perigee_packet::Pool;
use std::time::{Duration, Instant};

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

/// A slot beyond 255, and one whose packet was sent, crashed the process.
#[test]
fn a_slot_without_a_packet_has_no_frame() {
    runs(
        r#"
        function main()
          local d, b = task.device(0), task.burst()
          assert(task.pool { prototype = "abc" }:fill(b, 2, 60) and b:frame(1):sub(1, 4) == "abc\0")
          for _, slot in ipairs { 2, 255, 256, -1, 2 ^ 53, 0 / 0 } do
            local ok, why = pcall(b.frame, b, slot)
            assert(not ok and why:find("slot", 1, true), why)
          end
          d:tx():send(b)
          local ok, why = pcall(b.frame, b, 0)
          assert(not ok and why:find("slot 0 of the burst has no packet", 1, true), why)
        end"#,
    );
}

#[test]
fn headers_are_found_behind_two_vlan_tags() {
    runs(
        r#"
        local frame, packet = require "perigee.frame", require "perigee.packet"
        function main()
          local d, b = task.device(0), task.burst()
          local one = frame.udp { source_mac = d.mac, destination_mac = d.mac, vlan = 7, length = 64 }
          local p = task.pool { prototype = one:sub(1, 12) .. "\x88\xa8\0\9" .. one:sub(13) }
          assert(p:fill(b, 1, 68) and b.l3[0] == 22 and packet.ipv4(b, 0).protocol == 17)
          assert(d:tx():send(b) == 1 and d:rx():receive(b, 1) == 1 and b.l3[0] == 22)
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
    let source = |end: &str, meanwhile: &str| {
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
          {meanwhile}
        end"#
        )
    };
    let meanwhile = "while task.running() do task.sleep(0.01) end";
    fails(&source("", meanwhile), "receive queue 0 of loop0 is used by task other");
    runs(&source("t:wait()", ""));
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
          for _, name in ipairs { "receive", "read", "sleep", "send" } do
            while not task.shared[name] do task.modules.now() end
          end
          -- What the test looks for: all of them are about to wait.
          local own, b = task.pool(), task.burst()
          own:fill(b, 50, 60)
          while task.running() do task.modules.now() end
          assert(task.running(300))
        end
        function receive(q) task.shared.receive = true assert(q:receive(task.burst(), 1e9) == 0) end
        function read(p) task.shared.read = true assert(p:receive() == nil) end
        function sleep() task.shared.sleep = true task.sleep(1e9) end
        function send(r)
          local p, b = task.pool(), task.burst()
          p:fill(b, 9, 60)
          task.shared.send = true
          assert(r:send(b) == 4 and b.live:empty())
        end"#;
    let Program { pool, tasks } = program(source);
    let stop = tasks.clone();
    let interrupt = std::thread::spawn(move || {
        let start = Instant::now();
        while pool.in_use() < 59 && start.elapsed() < Duration::from_secs(180) {
            std::thread::yield_now();
        }
        let all = pool.in_use();
        // sleep: time to begin to wait; whoever has not is interrupted as well
        std::thread::sleep(Duration::from_millis(100));
        stop.stop();
        all
    });
    tasks.run(&[], Duration::from_secs(180)).unwrap();
    assert_eq!(interrupt.join().unwrap(), 59, "not all tasks came to wait");
    assert_eq!(pool.in_use(), 0);
    runs("function main() task.limit(0.01) while task.running() do end end");
    runs("function main() task.stop() assert(not task.running()) end");
}

#[test]
fn a_task_that_never_looks_is_named() {
    let source =
        "function main() task.start(stuck) task.wait() end\nfunction stuck() task.stop() while true do end end";
    let Program { tasks, .. } = program(source);
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
    // 100 packets at 10,000 a second, of which a queue may catch up with 1 ms: at least 8.9 ms. A busy machine takes
    // longer.
    runs(
        r#"
        function main()
          local d, p, b, start = task.device(0), task.pool(), task.burst(), nil
          for rate, least in pairs { [10000] = 0.0088, ["10kpps"] = 0.0088, ["4.8Mbit/s"] = 0.0088 } do
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

#[test]
fn rules_choose_between_queues_that_share_one() {
    runs(
        r#"
        local frame = require "perigee.frame"
        function main()
          local d = task.device(0, { rx = 3, tx = 2, share = true })
          d:steer(2, "udp dst port 53")
          d:steer(3, "arp")
          local b = task.burst()
          local function send(bytes, n, queue)
            local p = task.pool { prototype = bytes }
            assert(p:fill(b, n, 60) and d:tx(queue):send(b) == n)
          end
          send(frame.udp { destination_port = 53 }, 5, 1)
          send(frame.udp { destination_port = 54 }, 7, 2)
          send(frame.arp(1, { sender_mac = d.mac, sender = "10.0.0.1", target = "10.0.0.2" }), 3, 2)
          -- Whoever asks first polls for all.
          assert(d:rx(3):receive(b, 1) == 3 and b:frame(0):sub(13, 14) == "\8\6")
          assert(d:rx(2):receive(b, 0, 2) == 2 and d:rx(2):receive(b) == 3 and d:rx(2):receive(b) == 0)
          assert(d:rx(1):receive(b) == 7)
          -- A rule that is given again changes its queue.
          d:steer(1, "arp")
          send(frame.arp(1, { sender_mac = d.mac, sender = "10.0.0.1", target = "10.0.0.2" }), 2, 1)
          assert(d:rx(3):receive(b) == 0 and d:rx(1):receive(b) == 2)
        end"#,
    );
    fails("function main() task.device(0):steer(1, 'arp') end", "loop0 has receive queues of its own");
    fails("function main() task.device(0, { share = true }):steer(1, 'arp and') end", "test.lua:1: ");
}

#[test]
fn what_waits_for_a_queue_is_limited_and_counted() {
    runs(
        r#"
        function main()
          local d, p, b = task.device(0, { rx = 2, share = true }), task.pool(), task.burst()
          d:steer(2, "arp")
          for i = 1, 30 do
            assert(p:fill(b, 50, 60) and d:tx():send(b) == 50)
            assert(d:rx(2):receive(b) == 0)
          end
          -- The device of this test says that it has received 7.
          local missed = d:stats().rx_missed
          assert(missed == 1500 - 1024 and d:stats().rx_packets == 0, missed)
          local n = 0
          repeat
            local got = d:rx(1):receive(b)
            n = n + got
          until got == 0
          assert(n == 1024, n)
        end"#,
    );
}

#[test]
fn any_task_may_set_a_rate() {
    runs(
        r#"
        function main()
          local d = task.device(0)
          local t = task.start(send, d:tx())
          d:tx():rate(10000)
          task.shared.go = true
          assert(t:wait() >= 0.0098)
          d:tx():rate(nil)
        end
        function send(queue)
          while not task.shared.go do task.sleep(0.001) end
          local p, b = task.pool(), task.burst()
          p:fill(b, 100, 60)
          local start = task.now()
          queue:send(b)
          return task.now() - start
        end"#,
    );
}

#[test]
fn a_filter_matches_bytes() {
    runs(
        r#"
        function main()
          local bytes = require("perigee.frame").udp { destination_port = 53 }
          assert(task.filter("udp port 53"):matches(bytes, #bytes) and not task.filter("arp"):matches(bytes, #bytes))
          assert(not task.filter("udp"):matches(bytes, 20), "a frame that is too short")
        end"#,
    );
}
