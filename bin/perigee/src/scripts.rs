// SPDX-License-Identifier: MIT
//! The Lua scripts, as the router's control side sees them.

use perigee_api::answers::ScriptState;
use perigee_lua::{Script, Scripts};
use perigee_router::{Refusal, ScriptControl, ScriptView};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The script at a path, or the built-in one.
pub fn read(path: Option<&Path>) -> Result<Script, perigee_lua::ScriptError> {
    path.map_or_else(|| Ok(Script::builtin()), Script::read)
}

/// [`Scripts`] behind the router's trait.
pub struct LuaScripts(pub Scripts);

impl ScriptControl for LuaScripts {
    fn replace(&self, path: Option<&Path>) -> Result<u64, Refusal> {
        Ok(self.0.replace(read(path)?)?)
    }

    fn status(&self) -> Vec<ScriptView> {
        let status = self.0.status();
        let loaded_at = status.since.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let view = |(worker, counters): (usize, &std::sync::Arc<perigee_lua::ScriptCounters>)| ScriptView {
            worker: worker as u16,
            path: status.name.clone(),
            generation: status.generation,
            loaded_at,
            state: if status.reverted.is_some() { ScriptState::RolledBack } else { ScriptState::Running },
            error: status.reverted.clone().or_else(|| status.last_error.clone()),
            throws: counters.throws.get(),
            traces: counters.traces.get(),
            trace_aborts: counters.trace_aborts.get(),
            blacklisted: counters.blacklisted.get(),
            gc_kb: counters.heap_kb.get() as f64,
        };
        self.0.counters().iter().enumerate().map(view).collect()
    }
}
