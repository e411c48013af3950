// SPDX-License-Identifier: MIT
//! Scripts over a worker with heap ports: the default fast path, the examples, reload, and scripts that fail.

mod common;

use common::*;
use perigee_lua::Script;
use perigee_packet::Ipv4;
use perigee_packet::wire::checksum;
use std::path::{Path, PathBuf};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lua/examples")
}

/// The frames a port has sent, as far as they are there.
fn sent(bed: &Bed, port: usize) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| bed.transmit[port].collect()).collect()
}

#[test]
fn the_default_fast_path_forwards() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        for host in 0..200 {
            assert!(bed.receive[0].inject(&udp(host, 7, 64)));
        }
        wait("200 packets received", || bed.counters.received.get() == 200);
        let mut frames = vec![];
        wait("200 packets sent", || {
            frames.extend(sent(&bed, 1));
            frames.len() == 200
        });
        for (host, frame) in frames.iter().enumerate() {
            assert_eq!(frame[..6], NEIGHBOR.octets());
            assert_eq!(frame[6..12], MACS[1].octets());
            let ip = Ipv4::new(&frame[14..]).unwrap();
            assert_eq!((ip.ttl(), usize::from(ip.destination().octets()[3])), (63, host), "in order");
            assert_eq!(checksum::checksum(&frame[14..34]), 0);
        }
        bed.receive[0].inject(&udp(1, 7, 1));
        wait("the expired packet is punted", || bed.reason("ttl", "expired") == 1);
        assert_eq!(bed.punts.0.lock().unwrap()[0], udp(1, 7, 1), "as it came");
    });
}

#[test]
fn the_default_fast_path_is_compiled() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        for _ in 0..100 {
            for host in 0..200 {
                wait("room", || bed.receive[0].inject(&udp(host, 7, 64)));
            }
            wait("sent", || sent(&bed, 1).is_empty() && bed.receive[0].clone().collect().is_none());
        }
        wait("a trace is compiled", || scripts.counters()[0].traces.get() > 0);
    });
    assert_eq!(scripts.counters()[0].blacklisted.get(), 0);
}

#[test]
fn a_module_in_plain_lua_drops_under_its_own_reason() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::read(&examples().join("blocklist.lua")).unwrap()).unwrap();
    bed.run(&scripts, || {
        for port in [9, 10, 1900, 53, 11211] {
            bed.receive[0].inject(&udp(1, port, 64));
        }
        wait("3 of 5 dropped", || bed.reason("blocklist", "port_listed") == 3);
        let mut frames = vec![];
        wait("2 of 5 sent", || {
            frames.extend(sent(&bed, 1));
            frames.len() == 2
        });
        assert_eq!(frames.iter().map(|f| u16::from_be_bytes([f[36], f[37]])).collect::<Vec<_>>(), [10, 53]);
    });
}

#[test]
fn a_module_in_c_marks_and_drops() {
    let folder = tempfile::tempdir().unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let status = std::process::Command::new(compiler)
        .args(["-O3", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(include)
        .arg("-o")
        .arg(folder.path().join("mark.so"))
        .arg(examples().join("mark.c"))
        .status()
        .expect("a C compiler is there: LuaJIT was built with it");
    assert!(status.success());
    std::fs::copy(examples().join("mark.lua"), folder.path().join("mark.lua")).unwrap();
    let bed = Bed::new();
    let scripts = bed.scripts(Script::read(&folder.path().join("mark.lua")).unwrap()).unwrap();
    bed.run(&scripts, || {
        let mut from_nobody = udp(1, 53, 64);
        from_nobody[34..36].copy_from_slice(&[0, 0]);
        bed.receive[0].inject(&udp(1, 53, 64));
        bed.receive[0].inject(&from_nobody);
        wait("one dropped", || bed.reason("mark", "source_port_0") == 1);
        let mut frames = vec![];
        wait("one sent", || {
            frames.extend(sent(&bed, 1));
            frames.len() == 1
        });
        assert_eq!(frames[0][15] >> 2, 46, "expedited forwarding");
        assert_eq!(checksum::checksum(&frames[0][14..34]), 0);
    });
}

#[test]
fn mirror_copies_a_share_and_the_original_goes_on() {
    let bed = Bed::new();
    let mut script = Script::read(&examples().join("mirror.lua")).unwrap();
    let refused = bed.scripts(script.clone()).err().expect("no interface is called mirror").to_string();
    assert!(refused.contains("mirror.lua:6:") && refused.contains("no interface is called 'mirror'"), "{refused}");
    script.source = script.source.replace("\"mirror\"", "\"p0\"");
    let scripts = bed.scripts(script).unwrap();
    bed.run(&scripts, || {
        for host in 0..100 {
            bed.receive[0].inject(&udp(host, 7, 64));
        }
        let (mut originals, mut copies) = (vec![], vec![]);
        wait("100 originals and 10 copies", || {
            originals.extend(sent(&bed, 1));
            copies.extend(sent(&bed, 0));
            (originals.len(), copies.len()) == (100, 10)
        });
        assert!(copies.iter().all(|copy| originals.contains(copy)));
    });
}

#[test]
fn reload_switches_while_packets_flow_and_loses_none() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        let mut received = 0;
        for round in 0..20 {
            for host in 0..100 {
                wait("room", || bed.receive[0].inject(&udp(host, 7, 64)));
            }
            if round % 2 == 1 {
                assert_eq!(scripts.replace(Script::builtin()), Ok(2 + round / 2));
            }
            received += sent(&bed, 1).len();
        }
        wait("all 2000 packets", || {
            received += sent(&bed, 1).len();
            received == 2000
        });
        assert_eq!(scripts.status().generation, 11);
    });
}

#[test]
fn a_script_that_does_not_load_is_refused_with_file_and_line() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    let refuse = |source: &str| scripts.replace(script(source)).expect_err("refused").to_string();
    assert!(refuse("local x = = 1").starts_with("test.lua:1: unexpected symbol near '='"));
    assert!(refuse("\n\nerror 'no'").starts_with("test.lua:3: no"));
    assert!(
        refuse("\nlocal m = require 'perigee.nothing'").starts_with("test.lua:2: module 'perigee.nothing' not found")
    );
    assert_eq!(
        refuse("return 7"),
        "test.lua: returned number, expected a function of the worker: `return function(worker) ... end`"
    );
    let why = refuse("\nwhile true do end");
    assert!(why.starts_with("test.lua:2: still loading after"), "{why}");
    assert!(refuse("return function() end)").starts_with("test.lua:1:"));
    assert_eq!(scripts.status().generation, 1, "nothing has changed");
}

/// Throws at every burst, with packets in its batch.
const THROWS: &str = "return function(worker)
  local burst = worker:batch()
  while worker:running() do
    if worker:receive(1, burst) > 0 then error('thrown on purpose') end
    worker:housekeeping()
  end
end";

#[test]
fn a_throw_loses_its_batch_and_after_three_the_last_good_script_returns() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        scripts.replace(script(THROWS)).unwrap();
        for throw in 1..=3 {
            bed.receive[0].inject(&udp(1, 7, 64));
            wait("a throw", || scripts.status().throws == throw);
        }
        wait("the last good script", || scripts.status().generation == 3);
        let status = scripts.status();
        assert_eq!(status.name, "built-in");
        assert_eq!(status.reverted.unwrap(), "test.lua threw 3 times in 10 s: test.lua:4: thrown on purpose");
        assert_eq!((status.last_error, scripts.thrown()), (None, vec![0]), "this one has not failed");
        assert_eq!(bed.reason("host", "script_error"), 3);
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("forwards again", || sent(&bed, 1).len() == 1);
    });
}

#[test]
fn a_first_script_that_throws_gives_way_to_the_built_in_one() {
    let bed = Bed::new();
    let scripts = bed.scripts(script("return function() error('at once') end")).unwrap();
    bed.run(&scripts, || {
        wait("the built-in script", || scripts.status().name == "built-in");
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("forwards", || sent(&bed, 1).len() == 1);
    });
    assert_eq!(scripts.status().throws, 3);
}

#[test]
fn what_a_script_leaves_in_its_batch_is_freed_and_counted() {
    let bed = Bed::new();
    let lazy = "return function(worker)
      local burst = worker:batch()
      while worker:running() do worker:receive(1, burst) worker:housekeeping() end
    end";
    let scripts = bed.scripts(script(lazy)).unwrap();
    bed.run(&scripts, || {
        for _ in 0..50 {
            bed.receive[0].inject(&udp(1, 7, 64));
        }
        wait("unclaimed", || bed.counters.unclaimed.get() == 50);
    });
    assert_eq!(bed.reason("host", "unclaimed"), 50);
}

/// It waited for the next burst, of whatever queue, for ever.
#[test]
fn what_is_gathered_does_not_wait_for_the_next_burst() {
    let bed = Bed::new();
    let source = "local m = require 'perigee.modules'
    local LATE = m.reason('test', 'late')
    return function(worker)
      local burst, slow, mask = worker:batch(), worker:gather(8, 1000), worker:mask()
      while worker:next(burst) do
        if burst.count > 0 then
          mask:assign(burst.live)
          slow:add(burst, mask)
        end
        local ready = slow:ready()
        if ready then m.drop(ready, ready.live, LATE) end
      end
    end";
    let scripts = bed.scripts(script(source)).unwrap();
    bed.run(&scripts, || {
        for n in 1..4 {
            bed.receive[n % 2].inject(&udp(1, 7, 64));
            wait("it leaves", || bed.reason("test", "late") == n as u64);
        }
    });
    assert_eq!(scripts.status().throws, 0, "{:?}", scripts.status().last_error);
}

/// A script that asks for the next burst gets those of all queues, has its garbage collected, ends when it is to, and
/// is told what is wrong.
#[test]
fn the_next_burst_is_any_queues() {
    let bed = Bed::new();
    let source = "local m = require 'perigee.modules'
    local FIRST, SECOND = m.reason('test', 'first'), m.reason('test', 'second')
    return function(worker)
      local burst = worker:batch()
      assert(worker.queues == 2)
      local kept
      while worker:next(burst) do
        assert(burst.count > 0)
        kept = { kept }
        m.drop(burst, burst.live, burst.port[0] == 0 and FIRST or SECOND)
      end
      assert(not worker:running())
    end";
    let scripts = bed.scripts(script(source)).unwrap();
    bed.run(&scripts, || {
        let mut injected = 0;
        for round in 0..100 {
            for (queue, frames) in [(0, 3), (1, 2)] {
                // At times one queue only has packets, at times the other.
                if round % 3 != queue {
                    (0..frames).for_each(|_| assert!(bed.receive[queue].inject(&udp(1, 7, 64))));
                    injected += frames;
                }
            }
            wait("received", || bed.counters.received.get() == injected);
        }
        wait("all", || (bed.reason("test", "first"), bed.reason("test", "second")) == (66 * 3, 67 * 2));
        // (Rounds 0, 3, ..., 99 leave out the first queue: 34 of them; 33 leave out the second.)
        let rounds = bed.counters.rounds.get();
        wait("rounds without packets", || bed.counters.rounds.get() > rounds + 1000);
        wait("garbage collected", || scripts.counters()[0].heap_kb.get() > 0);
    });
    assert_eq!(scripts.status().throws, 0, "{:?}", scripts.status().last_error);
    assert_throws("return function(worker) worker:next(nil) end", "test.lua:1: perigee_worker_next: batch is NULL");
}

#[test]
fn wrong_arguments_are_errors_in_lua_not_crashes() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).unwrap();
    for (call, expected) in [
        ("m.ttl(nil, mask)", "test.lua:4: ttl: batch is NULL"),
        ("m.ttl(burst, nil)", "test.lua:4: ttl: mask is NULL"),
        ("m.classify(burst, mask, mask)", "test.lua:4: classify: the two masks are the same"),
        ("m.move(burst, mask, burst)", "test.lua:4: perigee_move: from and to are the same batch"),
        ("m.push(burst, 3, 4)", "test.lua:4: perigee_push: the slot holds no packet"),
        ("m.push(burst, 300, 4)", "test.lua:4: perigee_push: slots count from 0 to 255"),
    ] {
        let source = format!(
            "local m = require 'perigee.modules'\nreturn function(worker)\nlocal burst, mask = worker:batch(), worker:mask()\n{call} end"
        );
        let scripts_before = scripts.status().throws;
        let bed = Bed::new();
        let failing = bed.scripts(script(&source)).unwrap();
        bed.run(&failing, || wait("a throw", || failing.status().throws > 0));
        assert_eq!(failing.status().last_error.as_deref(), Some(expected), "{call}");
        assert_eq!(scripts_before, 0);
    }
}

/// The FFI checks no bounds: these wrote beside masks, read through null pointers and followed pointers of packets that
/// had left.
#[test]
fn what_is_no_slot_and_no_object_is_an_error_in_lua_not_a_crash() {
    for (call, expected) in [
        ("mask:set(256)", "test.lua:5: found slot 256, expected 0 to 255"),
        ("mask:clear(-1)", "test.lua:5: found slot -1, expected 0 to 255"),
        ("mask:has(0 / 0)", "expected 0 to 255"),
        ("mask:has(255.5)", "test.lua:5: found slot 255.5, expected 0 to 255"),
        ("mask:set('x')", "attempt to compare"),
        ("mask:assign(nil)", "attempt to index"),
        ("worker.mask(nil):set(1)", "the host made nothing"),
        ("worker.batch(nil)", "the host made nothing"),
        ("assert(packet.ipv4(burst, 3) == nil, 'a header') error('none')", "test.lua:5: none"),
        ("packet.ipv4(burst, 1e9)", "found slot 1000000000, expected 0 to 255"),
        ("packet.udp(nil, 3)", "attempt to index"),
    ] {
        let source = format!(
            "local m = require 'perigee.modules'\nlocal packet = require 'perigee.packet'\nreturn function(worker)\n\
             local burst, mask = worker:batch(), worker:mask()\n{call} error('no error') end"
        );
        assert_throws(&source, expected);
    }
}

/// Packets were gone, and no counter had them.
#[test]
fn a_reason_that_does_not_exist_is_an_error() {
    for (call, expected) in [
        ("m.drop(burst, mask, 9999)", "test.lua:4: perigee_drop: found 9999, which is no reason; expected one to drop"),
        ("m.drop(burst, mask, 511)", "found 511, which is no reason"),
        ("m.drop(burst, mask, 700)", "found 700, which is no reason"),
        (
            "m.drop(burst, mask, m.reason('mine', 'late', true))",
            "which is a reason of the other kind; expected one to drop",
        ),
        (
            "m.punt(burst, mask, m.reason('mine', 'late'))",
            "expected one to punt packets under, such as m.reason(MODULE, NAME, true)",
        ),
        ("m.drop(burst, mask, m.reason('mine', 'late')) error('fine')", "test.lua:4: fine"),
    ] {
        let source = format!(
            "local m = require 'perigee.modules'\nreturn function(worker)\n\
             local burst, mask = worker:batch(), worker:mask()\n{call} error('no error') end"
        );
        assert_throws(&source, expected);
    }
}

/// What a script counted, nobody could read.
#[test]
fn a_script_has_counters_and_gauges_of_its_own() {
    let bed = Bed::new();
    let source = "local m = require 'perigee.modules'
        local seen, level = m.counter('mine', 'seen'), m.gauge('mine', 'level')
        assert(not pcall(m.gauge, 'mine', 'seen'), 'a counter is no gauge')
        assert(not pcall(seen.add, seen, -1), 'it only grows')
        return function(worker)
          local burst = worker:batch()
          while worker:next(burst) do
            seen:add(burst.count)
            if burst.count > 0 then level:set(7) end
            m.drop(burst, burst.live, m.reason('mine', 'all'))
          end
        end";
    let scripts = bed.scripts(script(source)).unwrap();
    bed.run(&scripts, || {
        for port in 0..3 {
            bed.receive[0].inject(&udp(1, port, 64));
        }
        let value = |number| bed.counters.value(number).map_or(0, |value| value.get());
        wait("3 seen", || value(0) == 3);
        wait("the level", || value(1) == 7);
    });
    let named: Vec<_> = bed.custom.values().into_iter().map(|(module, name, _)| format!("{module}.{name}")).collect();
    assert_eq!(named, ["mine.seen", "mine.level"]);
}

/// A module that rewrote a header sent broken packets, and nothing helped.
#[test]
fn a_module_in_plain_lua_rewrites_headers_and_their_checksums() {
    let bed = Bed::new();
    let source = include_str!("../../../lua/fastpath.lua");
    let rewriting = source.replacen(
        "m.apply(burst, ip4, ip6)",
        "m.apply(burst, ip4, ip6)\n    for slot = 0, burst.count - 1 do\n      local ip = packet.ipv4(burst, slot)\n      \
         if ip and ip4:has(slot) then ip.tos = 0x28; packet.udp(burst, slot).destination = packet.htons(4242) end\n    end\n    \
         burst:checksums(ip4)",
        1,
    );
    assert_ne!(rewriting, source);
    let source = format!("local packet = require 'perigee.packet'\n{rewriting}");
    let scripts = bed.scripts(script(&source)).unwrap();
    bed.run(&scripts, || {
        bed.receive[0].inject(&udp(1, 53, 64));
        let mut frames = vec![];
        wait("one sent", || {
            frames.extend(sent(&bed, 1));
            frames.len() == 1
        });
        let ip = Ipv4::new(&frames[0][14..]).unwrap();
        assert_eq!((ip.tos(), checksum::checksum(&frames[0][14..34])), (0x28, 0));
        let udp = perigee_packet::Udp::new(ip.payload()).unwrap();
        assert_eq!(udp.destination_port(), 4242);
        assert!(udp.verify_checksum_v4(ip.source(), ip.destination()));
    });
}

/// A module that narrowed `live` itself lost the packets that it had taken out of it: they were nobody's.
#[test]
fn a_module_does_not_narrow_which_packets_are_live() {
    for (call, expected) in [
        ("m.ttl(burst, burst.live)", "test.lua:4: ttl: the mask is the batch's own `live`"),
        ("m.classify(burst, mask, burst.live)", "test.lua:4: classify: the mask is the batch's own `live`"),
        ("mask:assign(burst.live) m.drop(burst, burst.live, m.reason('a', 'b')) error('read')", "test.lua:4: read"),
    ] {
        let source = format!(
            "local m = require 'perigee.modules'\nreturn function(worker)\n\
             local burst, mask = worker:batch(), worker:mask()\n{call} error('no error') end"
        );
        assert_throws(&source, expected);
    }
}

/// They were mlua's: with frames of Rust over which the way out of a script jumped, and never compiled. What is more,
/// an error that they caught while LuaJIT recorded a trace led into machine code with the recording still open.
#[test]
fn protected_calls_are_luajits_own() {
    assert_throws("return function() error(tostring(pcall)) end", "builtin");
    assert_throws("return function() error(tostring(xpcall)) end", "builtin");
}

/// Panics unless a script throws an error with these words.
fn assert_throws(source: &str, expected: &str) {
    let bed = Bed::new();
    let failing = bed.scripts(script(source)).unwrap();
    bed.run(&failing, || wait("a throw", || failing.status().throws > 0));
    let error = failing.status().last_error.unwrap();
    assert!(error.contains(expected), "{source}: {error}");
}

#[test]
fn code_that_never_compiles_is_counted_as_blacklisted() {
    let bed = Bed::new();
    // A closure per round cannot be compiled, and makes the loop around it blacklisted.
    let closures = "return function(worker)
      local f
      while worker:running() do
        for i = 1, 100 do f = function() return i end end
        worker:housekeeping()
      end
      return f
    end";
    let scripts = bed.scripts(script(closures)).unwrap();
    bed.run(&scripts, || {
        wait("trace aborts", || scripts.counters()[0].trace_aborts.get() > 0);
        wait("blacklisted code", || scripts.counters()[0].blacklisted.get() > 0);
    });
}

#[test]
fn gather_waits_for_a_burst_of_packets_that_dropped_out() {
    let bed = Bed::new();
    let source = "local m = require 'perigee.modules'
    local LATE = m.reason('test', 'gathered')
    return function(worker)
      local burst, ip4, ip6 = worker:batch(), worker:mask(), worker:mask()
      local slow = worker:gather(8, 1e9)
      while worker:running() do
        if worker:receive(1, burst) > 0 then
          m.classify(burst, ip4, ip6)
          slow:add(burst, ip4)
        end
        local batch = slow:ready()
        if batch then
          ip4:assign(batch.live)
          m.drop(batch, ip4, LATE)
        end
        worker:housekeeping()
      end
    end";
    let scripts = bed.scripts(script(source)).unwrap();
    bed.run(&scripts, || {
        for n in 1..=8 {
            assert_eq!(bed.reason("test", "gathered"), 0);
            bed.receive[0].inject(&udp(1, 7, 64));
            wait("received", || bed.counters.received.get() == n);
        }
        wait("8 at once", || bed.reason("test", "gathered") == 8);
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("received", || bed.counters.received.get() == 9);
    });
    assert_eq!(bed.reason("host", "unclaimed"), 1, "what was still gathered when the script ended");
}

#[test]
fn copies_without_a_buffer_are_counted() {
    let bed = Bed::with_buffers(10);
    let source = "local m = require 'perigee.modules'
    return function(worker)
      local burst, copies, all = worker:batch(), worker:batch(), worker:mask()
      while worker:running() do
        if worker:receive(1, burst) > 0 then
          all:assign(burst.live)
          m.copy(burst, all, copies)
        end
        worker:housekeeping()
      end
    end";
    for host in 0..8 {
        assert!(bed.receive[0].inject(&udp(host, 7, 64)));
    }
    let scripts = bed.scripts(script(source)).unwrap();
    bed.run(&scripts, || wait("received", || bed.reason("host", "no_buffer") > 0));
    assert_eq!(bed.reason("host", "no_buffer"), 6, "2 of 8 buffers were left");
}

/// `worker:gather` and `m.move` must not hand out two references to one batch.
#[test]
fn a_gathered_batch_cannot_be_gathered_into_itself() {
    let bed = Bed::new();
    let source = "local m = require 'perigee.modules'
    return function(worker)
      local burst, ip4, ip6 = worker:batch(), worker:mask(), worker:mask()
      local slow = worker:gather(1, 0)
      while worker:running() do
        if worker:receive(1, burst) > 0 then
          m.classify(burst, ip4, ip6)
          slow:add(burst, ip4)
          local batch = slow:ready()
          ip4:assign(batch.live)
          slow:add(batch, ip4)
        end
        worker:housekeeping()
      end
    end";
    let scripts = bed.scripts(script(source)).unwrap();
    bed.run(&scripts, || {
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("a throw", || scripts.status().throws > 0);
    });
    let error = scripts.status().last_error.unwrap();
    assert!(error.contains("perigee_gather_add: the batch is the gathered one"), "{error}");
}

/// It ended the router's process, without a line in the log.
#[test]
fn os_exit_is_an_error_as_any_other() {
    for call in [
        "os.exit(3)",
        "os.exit(0, true)",
        "os.exit(false)",
        "do return os.exit(3) end",
        "require('os').exit(3)",
        "coroutine.wrap(function() os.exit(3) end)()",
        "debug.sethook(function() os.exit(3) end, '', 1) for n = 1, 1e9 do end",
        "setmetatable({}, { __index = function() os.exit(3) end }).x = nil; local y = setmetatable({}, { __index = os.exit }).y",
        "table.sort({ 3, 2, 1 }, function() os.exit(3) end)",
    ] {
        assert_throws(&format!("return function(worker) {call} error('no error') end"), "os.exit was called");
    }
    // At load it is refused, and nothing changes.
    let bed = Bed::new();
    let Err(error) = bed.scripts(script("\nos.exit(4)")) else { panic!("it loads") };
    assert!(error.to_string().starts_with("test.lua:2: os.exit was called"), "{error}");
    let scripts = bed.scripts(Script::builtin()).unwrap();
    bed.run(&scripts, || {
        assert!(scripts.replace(script("os.exit(4)")).is_err());
        assert_eq!((scripts.status().name.as_str(), scripts.status().generation), ("built-in", 1));
        scripts.replace(script("return function() os.exit(3) end")).unwrap();
        wait("the last good script", || scripts.status().generation == 3);
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("forwards again", || sent(&bed, 1).len() == 1);
    });
    // A script that catches it goes on.
    let caught = "return function(worker)
      assert(not pcall(os.exit, 3))
      while worker:running() do worker:housekeeping() end
    end";
    let scripts = bed.scripts(script(caught)).unwrap();
    bed.run(&scripts, || wait("rounds", || bed.counters.rounds.get() > 3));
    assert_eq!(scripts.status().throws, 0, "{:?}", scripts.status().last_error);
}

/// Other ends of a Lua program: finalizers that throw, a stack that overflows, standard files that are closed.
#[test]
fn what_ends_a_lua_program_does_not_end_the_process() {
    for (call, expected) in [
        (
            "local p = newproxy(true) getmetatable(p).__gc = function() error('at the end') end p = nil collectgarbage() collectgarbage()",
            "",
        ),
        ("local function f() return 1 + f() end f()", "stack overflow"),
        ("assert(io.stdout:close())", "cannot close standard file"),
        ("('x'):rep(1e10)", ""),
        ("string.rep('(', 1e5):find(string.rep('(', 1e5))", ""),
        ("debug.sethook(function() error('from a hook') end, '', 1) for n = 1, 1e9 do end", "from a hook"),
        ("jit.attach(function() error('from the compiler') end, 'trace') for n = 1, 1e4 do end", "no error"),
    ] {
        assert_throws(&format!("return function(worker) {call} error('no error') end"), expected);
    }
}

/// The log said of it that it was no text but a table.
#[test]
fn an_error_that_makes_its_own_text_is_shown_by_it() {
    let made = |text: &str| {
        format!("return function() error(setmetatable({{}}, {{ __tostring = function() {text} end }})) end")
    };
    assert_throws(&made("return 'out of luck'"), "out of luck");
    // What fails to make one is shown as before.
    assert_throws(&made("error('again')"), "an error that is no text but a table");
    assert_throws(&made("return {}"), "an error that is no text but a table");
    let bed = Bed::new();
    let refused = bed.scripts(script("error(setmetatable({}, { __tostring = function() return 'no luck' end }))"));
    assert_eq!(refused.err().map(|error| error.to_string()).as_deref(), Some("no luck"));
}

/// `perigee show scripts` showed the throws and the last error of scripts that had long been replaced.
#[test]
fn what_earlier_scripts_threw_is_not_said_of_the_one_that_runs() {
    let bed = Bed::new();
    let scripts = bed.scripts(script(THROWS)).unwrap();
    bed.run(&scripts, || {
        bed.receive[0].inject(&udp(1, 7, 64));
        wait("a throw", || scripts.thrown() == [1]);
        assert_eq!(scripts.status().last_error.as_deref(), Some("test.lua:4: thrown on purpose"));
        let generation = scripts.replace(Script::builtin()).unwrap();
        wait("the next script", || scripts.late(generation).is_empty());
        let status = scripts.status();
        assert_eq!((status.last_error, scripts.thrown(), status.throws), (None, vec![0], 1));
    });
}
