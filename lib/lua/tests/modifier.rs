// SPDX-License-Identifier: MIT
//! Scripts that describe traffic and change frames, on packets of the heap.

#[path = "common/tasks.rs"]
mod machine;

use perigee_lua::Script;
use perigee_lua::task::Modifier;
use perigee_packet::batch::heap::HeapPool;
use perigee_packet::wire::checksum::sum;
use perigee_packet::{Batch, Mask, Pool};
use std::time::Duration;

fn load(source: &str, words: &[&str]) -> Result<Modifier, String> {
    let script = Script { name: "test.lua".to_owned(), source: source.to_owned(), folder: None };
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    Modifier::load(machine::heap(), script, &words).map_err(|error| error.to_string())
}

/// A UDP datagram over IPv4 behind so many VLAN tags, without its checksums.
fn frame(tags: usize) -> Vec<u8> {
    let mut frame = vec![2; 12];
    for tag in [[0x88, 0xa8, 0, 9], [0x81, 0, 0, 7]].iter().skip(2 - tags) {
        frame.extend(tag);
    }
    frame.extend([8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0, 198, 18, 0, 2, 198, 19, 0, 2]);
    frame.extend([0xc0, 0x20, 0, 7, 0, 26, 0, 0]);
    frame.extend([0xab; 18]);
    frame
}

/// A batch of frames, and the pool that they are from.
fn batch(frames: usize, tags: usize) -> (&'static HeapPool, Box<Batch>) {
    let pool = HeapPool::leak(1000);
    let mut batch = Batch::new(pool);
    for _ in 0..frames {
        batch.push(pool.packet(&frame(tags)).unwrap(), 0).unwrap();
    }
    (pool, batch)
}

/// Whether a checksum is right: with it, a sum is 0xffff.
fn is_right(mut sum: u32) -> bool {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

#[test]
fn a_script_describes_its_traffic_in_a_global_table_or_one_that_it_returns() {
    for (source, words) in [
        ("traffic = { sizes = tonumber((...)) }", &["128"][..]),
        ("local size = ...  return { sizes = tonumber(size) }", &["128"]),
        ("traffic = { sizes = 64 }  return { sizes = 128 }", &[]),
    ] {
        let script = load(source, words).unwrap();
        assert_eq!(script.described().unwrap().get::<u32>("sizes").unwrap(), 128, "{source}");
        assert!(!script.modifies());
    }
    let script = load("function modify() end", &[]).unwrap();
    assert!(script.modifies() && script.described().is_none());
}

#[test]
fn what_is_no_script_of_a_generator_is_refused() {
    for (source, expected) in [
        ("", "test.lua: has no table `traffic` and no function `modify(burst, first, seconds)`"),
        ("traffic = 5", "test.lua: traffic is a number, expected a table"),
        ("return 'imix'", "test.lua: what it returns is a string, expected a table"),
        ("traffic = {} modify = {}", "test.lua: modify is a table, expected a function"),
        ("\ntraffic = { sizes = }", "test.lua:2: unexpected symbol near '}'"),
        ("local t\n\nt.x = 1", "test.lua:3: attempt to index local 't' (a nil value)"),
        ("traffic = {}\ntask.device 'net_null0'", "test.lua:2: task.device is for scripts of `perigee task`"),
    ] {
        let Err(error) = load(source, &[]) else { panic!("{source} is accepted") };
        assert!(error.starts_with(expected), "{source}: found {error:?}, expected {expected:?} at its start");
    }
}

#[test]
fn frames_are_changed_in_place_whatever_tags_they_have() {
    let source = r#"
        local packet = require "perigee.packet"
        function modify(burst, first, seconds)
          for slot = 0, burst.count - 1 do
            packet.ipv4(burst, slot).ttl = (first + slot) % 200
            packet.udp(burst, slot).source = packet.htons(seconds * 1000)
            burst.data[slot][burst.length[slot] - 1] = slot
          end
          burst:checksums()
        end"#;
    let mut script = load(source, &[]).unwrap();
    for tags in 0..3 {
        let (_, mut batch) = batch(70, tags);
        script.modify(&mut batch, 150, 1, 2.5).unwrap();
        let l3 = 14 + 4 * tags;
        for slot in 0..70 {
            let frame = batch.frame(slot).unwrap();
            let (ip, udp) = (&frame[l3..l3 + 20], &frame[l3 + 20..]);
            assert_eq!(u32::from(ip[8]), (150 + u32::from(slot)) % 200, "{tags} tags");
            assert_eq!((&udp[..2], udp[25]), (&2500u16.to_be_bytes()[..], slot), "{tags} tags");
            assert_eq!(udp[8..25], [0xab; 17]);
            assert!(is_right(sum(ip)), "{tags} tags: {ip:x?}");
            assert!(is_right(sum(&ip[12..]) + 17 + 26 + sum(udp)), "{tags} tags: {udp:x?}");
        }
    }
}

#[test]
fn what_it_throws_has_its_line_and_leaves_the_frames() {
    let source = "function modify(burst, first)\n if first > 0 then\n error('enough') end\n end";
    let mut script = load(source, &[]).unwrap();
    let (pool, mut batch) = batch(9, 0);
    script.modify(&mut batch, 0, 1, 0.0).unwrap();
    assert_eq!(script.modify(&mut batch, 9, 2, 0.1), Err("test.lua:3: enough".to_owned()));
    assert_eq!(batch.live().count(), 9);
    let mut script = load("function modify(burst)\n require('ffi')\n task.start(modify) end", &[]).unwrap();
    let error = script.modify(&mut batch, 0, 1, 0.0).unwrap_err();
    assert!(error.starts_with("test.lua:3: task.start is for scripts of `perigee task`"), "{error}");
    // It ended the generator without its figures.
    let mut script = load("function modify(burst)\n os.exit(3) end", &[]).unwrap();
    let error = script.modify(&mut batch, 0, 1, 0.0).unwrap_err();
    assert!(error.starts_with("test.lua:2: os.exit was called"), "{error}");
    let Err(error) = load("os.exit(4)", &[]) else { panic!("it loads") };
    assert!(error.contains("test.lua:1: os.exit was called"), "{error}");
    drop((script, batch));
    assert_eq!(pool.in_use(), 0);
}

#[test]
fn frames_that_it_frees_are_gone() {
    let source = r#"
        local odd = task.mask()
        function modify(burst)
          odd:zero()
          for slot = 1, burst.count - 1, 2 do odd:set(slot) end
          burst:free(odd)
        end"#;
    let mut script = load(source, &[]).unwrap();
    let (pool, mut batch) = batch(10, 0);
    script.modify(&mut batch, 0, 1, 0.0).unwrap();
    assert_eq!((batch.live().count(), pool.in_use()), (5, 5));
    assert!((batch.live() - Mask::first(10)).is_empty() && batch.live().contains(8) && !batch.live().contains(9));
}

#[test]
fn packets_that_it_keeps_are_freed_with_it() {
    let source = r#"
        local kept = task.burst()
        function modify(burst) task.modules.move(burst, burst.live, kept) end"#;
    let script = Script { name: "test.lua".to_owned(), source: source.to_owned(), folder: None };
    let heap = machine::heap();
    let own = heap.pool(0, 0, None).unwrap();
    let mut script = Modifier::load(heap.clone(), script, &[]).unwrap();
    let mut batch = Batch::new(heap.memory());
    assert_eq!(own.fill(&mut batch, &[60; 12]), 12);
    script.modify(&mut batch, 0, 1, 0.0).unwrap();
    assert_eq!((batch.live().count(), own.in_use()), (0, 12));
    drop(script);
    assert_eq!(own.in_use(), 0);
}

/// It is loaded on one thread and used on another; a loop that looks at `task.running()` ends when it is asked to.
#[test]
fn a_loop_that_asks_whether_it_is_to_go_on_ends() {
    let mut script = load("function modify() while task.running() do end end", &[]).unwrap();
    let tasks = script.tasks();
    std::thread::scope(|scope| {
        let modifying = scope.spawn(move || {
            let (_, mut batch) = batch(1, 0);
            script.modify(&mut batch, 0, 1, 0.0)
        });
        // sleep: so that it loops; it ends at once if it has not begun
        std::thread::sleep(Duration::from_millis(20));
        assert!(!modifying.is_finished());
        tasks.stop();
        assert_eq!(modifying.join().unwrap(), Ok(()));
    });
}
