// SPDX-License-Identifier: MIT
//! What runs a task: a script's VM, or another program that tasks run beside, with VMs of its own kind. Threads of that
//! program that are no tasks have a [`Seat`] among them: from there they start tasks, send and receive.

use super::group::Tasks;
use super::host::TaskHost;
use super::native::Start;
use crate::vm::Script;
use mlua::{Function, Lua, Table};
use std::sync::Arc;

/// Where tasks' functions are.
pub(super) enum Runner {
    Script(Script),
    Beside(Box<dyn Beside>),
}

impl Runner {
    pub fn is_beside(&self) -> bool {
        matches!(self, Runner::Beside(_))
    }
}

/// A program with VMs of its own, which tasks run beside.
pub trait Beside: Send + Sync {
    /// Runs a task in a new VM, which is gone, and the seat after it, when this returns: furnished with
    /// [`Seat::furnish`], it calls the function that returns with [`Seat::name`] and [`Seat::arguments`]. The
    /// result is what that returned.
    ///
    /// # Errors
    /// What the task threw.
    fn run(&self, seat: Seat) -> Result<Vec<u8>, String>;
}

/// A thread's place among the tasks. Lua has its address: it outlives the VM that was furnished with it.
pub struct Seat {
    host: Box<TaskHost>,
    tasks: Arc<Tasks>,
    name: String,
    arguments: Vec<u8>,
    core: usize,
}

impl Seat {
    pub(super) fn new(id: u32, name: &str, tasks: &Arc<Tasks>) -> Seat {
        let host = TaskHost::new(id, tasks.clone());
        Seat { host, tasks: tasks.clone(), name: name.to_owned(), arguments: Vec::new(), core: 0 }
    }

    pub(super) fn of(host: Box<TaskHost>, start: &Start, core: usize, tasks: &Arc<Tasks>) -> Seat {
        let arguments = match start {
            Start::Main(_) => Vec::new(),
            Start::Call { arguments, .. } => arguments.clone(),
        };
        Seat { host, tasks: tasks.clone(), name: start.name().to_owned(), arguments, core }
    }

    /// The task's number, from 1.
    pub fn id(&self) -> u32 {
        self.host.id
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its arguments, encoded.
    pub fn arguments(&self) -> &[u8] {
        &self.arguments
    }

    /// Puts into a VM all that tasks can call, once; returns the function that runs a task: `run(name, arguments)`.
    /// `beside` is the program's end, as `lua/task/host.lua` describes it.
    ///
    /// # Errors
    /// Lua's.
    pub fn furnish(&mut self, lua: &Lua, beside: Table) -> mlua::Result<Function> {
        let (tasks, name) = (self.tasks.clone(), self.name.clone());
        tasks.furnish(lua, &mut self.host, &name, self.core, "the program", Some(beside))
    }
}

/// Whether tasks have a module of this name: `perigee.NAME`, `libmoon.NAME`, or a libmoon program's `NAME`.
pub fn has_module(name: &str) -> bool {
    let found = |name: &str| super::group::SOURCES.iter().any(|(known, _)| *known == name && name.contains('.'));
    found(name) || found(&format!("libmoon.{name}")) || crate::vm::LUA_MODULES.iter().any(|(known, _)| *known == name)
}
