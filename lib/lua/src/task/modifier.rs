// SPDX-License-Identifier: MIT
//! A script that describes traffic, changes its frames before they are sent, or both: a VM as tasks have it, and in it
//! the script's function `modify`, which is called for each batch.
//!
//! The VM is loaded where a mistake in the script can still be reported before anything is opened, and moved, with
//! everything that refers to it, to the thread that sends. Its script starts no tasks and opens no devices: it changes
//! what it is given.

use super::group::{Tasks, chunk};
use super::host::{TaskHost, network_offset};
use super::machine::Machine;
use crate::vm::{Script, ScriptError, lua_type, message};
use mlua::{Function, LightUserData, Lua, Table, Value, Variadic};
use perigee_packet::{Batch, Mask};
use std::sync::Arc;

/// Calls the script's function with a batch of Rust's.
const CALL: &str = include_str!("../../../../lua/task/modifier.lua");

/// A script in a VM of its own, loaded.
pub struct Modifier {
    // Dropped in this order: what refers to the VM, the VM, what its script may refer to.
    modify: Option<Function>,
    described: Option<Table>,
    _lua: Lua,
    host: Box<TaskHost>,
    tasks: Arc<Tasks>,
}

/// What a script consists of: the table that describes its traffic, and the function that changes frames.
type Parts = (Option<Table>, Option<Function>);

impl Modifier {
    /// Loads a script, which gets `words` as its arguments (`...`).
    ///
    /// # Errors
    /// It does not compile or throws, with file and line; it has neither a table `traffic` nor a function `modify`.
    pub fn load(machine: Arc<dyn Machine>, script: Script, words: &[String]) -> Result<Modifier, ScriptError> {
        let name = script.name.clone();
        let tasks = Tasks::new(machine, script.clone(), vec![]);
        let mut host = TaskHost::new(1, tasks.clone());
        let load = |host: &mut TaskHost| -> mlua::Result<(Lua, Parts)> {
            let (lua, _) = tasks.empty_vm(&script, host, "modify", 0)?;
            let prepare: Function = lua.load(CALL).set_name("=perigee.task.modifier").into_function()?;
            let callable: Function = prepare.call(())?;
            let words: Variadic<&str> = words.iter().map(String::as_str).collect();
            let returned = chunk(&script, &lua)?.call::<Value>(words)?;
            let (described, modify) = parts(&lua, &name, returned)?;
            let modify = modify.map(|modify| callable.call(modify)).transpose()?;
            Ok((lua, (described, modify)))
        };
        let (lua, (described, modify)) = load(&mut host).map_err(|error| ScriptError::Load(message(&error)))?;
        Ok(Modifier { modify, described, _lua: lua, host, tasks })
    }

    /// The script's description of its traffic.
    pub fn described(&self) -> Option<&Table> {
        self.described.as_ref()
    }

    /// Whether it changes frames.
    pub fn modifies(&self) -> bool {
        self.modify.is_some()
    }

    /// Lets the script change the frames of a batch, in place. `first` is the number of the first of them since the
    /// start, from 0; `now` the time in ns, `seconds` that since the start.
    ///
    /// # Errors
    /// What the script threw, with file and line. The batch holds its frames, changed in part.
    #[inline]
    pub fn modify(&mut self, batch: &mut Batch, first: u64, now: u64, seconds: f64) -> Result<(), String> {
        let Some(modify) = &self.modify else { return Ok(()) };
        self.host.set_now(now);
        batch.for_each(Mask::ALL, |packet| packet.set_l3(network_offset(packet.frame())));
        let pointer = LightUserData(std::ptr::from_mut(batch).cast());
        modify.call::<()>((pointer, first as f64, seconds)).map_err(|error| message(&error))
    }

    /// What other threads ask to end by [`Tasks::stop`]: `task.running()` turns false in the script.
    pub fn tasks(&self) -> Arc<Tasks> {
        self.tasks.clone()
    }
}

/// The parts of a script that has been run, and returned this.
fn parts(lua: &Lua, name: &str, returned: Value) -> mlua::Result<Parts> {
    let other = |what: &str, found: &Value, expected: &str| {
        mlua::Error::runtime(format!("{name}: {what} is a {}, expected {expected}", lua_type(found)))
    };
    let described = match returned {
        Value::Nil => lua.globals().raw_get("traffic")?,
        Value::Table(table) => Value::Table(table),
        found => return Err(other("what it returns", &found, "a table that describes traffic, or nothing")),
    };
    let described = match described {
        Value::Nil => None,
        Value::Table(table) => Some(table),
        found => return Err(other("traffic", &found, "a table that describes traffic")),
    };
    let modify = match lua.globals().raw_get("modify")? {
        Value::Nil => None,
        Value::Function(modify) => Some(modify),
        found => return Err(other("modify", &found, "a function of a burst, the first frame's number and a time")),
    };
    if described.is_none() && modify.is_none() {
        let what =
            "has no table `traffic` and no function `modify(burst, first, seconds)`: expected one of them, or both";
        return Err(mlua::Error::runtime(format!("{name}: {what}")));
    }
    Ok((described, modify))
}
