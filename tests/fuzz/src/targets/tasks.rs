// SPDX-License-Identifier: MIT
//! Programs of `perigee task`, perigee's own and libmoon's: calls in any order, with any values that Lua has, and tasks
//! that throw. A call may fail, which is an error in Lua with a message; the process does not crash, all tasks end soon
//! after they are asked to, and every packet is back.

use crate::task_bed::{Program, program};
use perigee_lua::task::Failure;
use perigee_packet::Pool;
use std::fmt::Write;
use std::time::Duration;

/// What the program may take, in ns: who waits for longer is asked to end.
const TIME: u64 = 20_000_000;
/// What it may take to end, on a busy machine.
const GRACE: Duration = Duration::from_secs(50);

/// Runs one input: calls that `tasks.lua` reads.
pub fn run(bytes: &[u8]) {
    let Program { pool, tasks } = program(include_str!("tasks.lua"));
    let words = bytes.iter().fold(String::new(), |mut words, byte| {
        let _ = write!(words, "{byte:02x}"); // to a string
        words
    });
    tasks.limit(TIME);
    match tasks.run(&[words], GRACE) {
        Ok(()) => {}
        // A task that was started with a value that it cannot do anything with.
        Err(Failure::Task(why)) if !why.starts_with("task main") => assert!(!why.trim().is_empty()),
        Err(error) => panic!("{error}"),
    }
    assert_eq!(pool.in_use(), 0, "packets are left");
}
