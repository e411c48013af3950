// SPDX-License-Identifier: MIT
//! Tasks beside a program that has VMs of its own kind, on heap packets.

mod common {
    pub mod tasks;
}

use common::tasks::heap;
use perigee_lua::mlua::{self, Lua, LuaString, Table};
use perigee_lua::task::{Beside, Failure, Seat, Tasks, has_module};
use std::sync::Arc;
use std::time::Duration;

/// A program whose functions are the fields of a table.
const PROGRAM: &str = r#"
  local program = {}
  function program.twice(n) return 2 * n end
  function program.bad() error("on purpose", 0) end
  function program.take(ring, pipe)
    local task = require "perigee.task"
    ring:receive(task.burst())
    pipe:send("taken")
    while task.running() do task.sleep(0.001) end
  end
  waits = 0
  return {
    find = function(name) return program[name] end,
    name_of = function(name) return name end,
    started = function() end,
    waited = function() waits = waits + 1 end,
  }
"#;

/// A VM with a seat in it; what runs a task.
fn furnished(seat: &mut Seat) -> mlua::Result<(Lua, mlua::Function)> {
    // SAFETY: the test's own code needs the FFI.
    let lua = unsafe { Lua::unsafe_new() };
    let program: Table = lua.load(PROGRAM).eval()?;
    let run = seat.furnish(&lua, program)?;
    Ok((lua, run))
}

struct Plain;

impl Beside for Plain {
    fn run(&self, mut seat: Seat) -> Result<Vec<u8>, String> {
        let mut run = || {
            let (lua, run) = furnished(&mut seat)?;
            let arguments = lua.create_string(seat.arguments())?;
            let result: LuaString = run.call((seat.name(), arguments))?;
            let result = result.as_bytes().to_vec();
            Ok(result)
        };
        run().map_err(|error: mlua::Error| error.to_string())
    }
}

/// Runs code in the program's own VM.
fn program(code: &str) -> Arc<Tasks> {
    let tasks = Tasks::beside(heap(), Box::new(Plain), vec![]);
    let mut seat = tasks.seat(Some(1), "the program");
    let (lua, _) = furnished(&mut seat).unwrap_or_else(|error| panic!("{error}"));
    lua.load(code).exec().unwrap_or_else(|error| panic!("{error}"));
    drop(lua);
    tasks
}

#[test]
fn functions_of_the_program_are_tasks_and_it_hears_of_their_errors() {
    let tasks = program(
        r#"
        local task = require "perigee.task"
        assert(rawget(_G, "task") == nil and rawget(_G, "TASK_NAME") == nil)
        assert(task.start("twice", 21):wait() == 42 and waits == 1)
        task.start("bad")
        task.wait()
        assert(not task.running() and waits == 2)
        -- All have ended: others may start.
        assert(task.start("twice", 1):wait() == 2 and task.running())
        assert(require "device" == require "libmoon.device" and require("libmoon.memory").createMemPool)
        "#,
    );
    assert!(tasks.take_failure().expect("a failure").starts_with("task bad: runtime error: on purpose"));
    assert_eq!((tasks.take_failure(), tasks.active()), (None, false));
    tasks.stop();
    assert_eq!((tasks.finish(Duration::from_secs(180)), tasks.give_back()), (Ok(()), Ok(())));
}

#[test]
fn a_seat_is_an_owner_like_a_task() {
    let tasks = program(
        r#"
        local task = require "perigee.task"
        local ring, pipe = task.ring(8), task.pipe()
        task.start("take", ring, pipe)
        assert(pipe:receive() == "taken")
        local ok, why = pcall(ring.receive, ring, task.burst())
        assert(not ok and why:find "is used by task take", why)
        "#,
    );
    // What the program leaves running ends when it is asked to.
    assert!(tasks.active());
    tasks.stop();
    assert_eq!((tasks.finish(Duration::from_secs(180)), tasks.active()), (Ok(()), false));
    assert_eq!(tasks.give_back(), Ok(()));
}

#[test]
fn failures_that_nobody_asked_for_are_told_at_the_end() {
    let tasks = program("require('perigee.task').start('bad')");
    let ended = tasks.finish(Duration::from_secs(180));
    assert!(matches!(&ended, Err(Failure::Task(why)) if why.contains("task bad: ")), "{ended:?}");
}

#[test]
fn modules_are_known_by_their_names() {
    for name in ["perigee.task", "perigee.packet", "libmoon.device", "device", "proto.arp"] {
        assert!(has_module(name), "{name}");
    }
    for name in ["host", "modifier", "perigee", "perigee.nothing", "core.packet", ""] {
        assert!(!has_module(name), "{name}");
    }
}
