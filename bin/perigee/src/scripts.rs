// SPDX-License-Identifier: MIT
//! The Lua scripts, as the router's control side sees them.

use anyhow::{Result, anyhow};
use perigee_api::answers::ScriptState;
use perigee_config as config;
use perigee_helper::Helper;
use perigee_lua::{Budgets, OverBudget, Script, Scripts};
use perigee_router::{Progress, ReadFile, ReadScript, Refusal, ScriptControl, ScriptSource, ScriptView};
use std::io::{self, ErrorKind};
use std::sync::{Arc, Weak};
use std::time::{Duration, UNIX_EPOCH};

/// The script that a configuration names, or the built-in one.
pub fn read(config: &config::Config) -> Result<Script> {
    let path = config.router.script.as_deref();
    let script = path.map_or_else(|| Ok(Script::builtin()), Script::read);
    script.map_err(|error| anyhow!(config.unreadable_script(&error.to_string())))
}

/// Reads files as the router may; what it may not read is opened by the helper, if it belongs to the configuration.
/// Threads that read have no part in the router's end, so none of them keeps the helper from restoring interfaces then.
pub fn reader(helper: Option<&Arc<Helper>>) -> ReadFile {
    let helper = helper.map_or_else(Weak::new, Arc::downgrade);
    Arc::new(move |path, longest| match (perigee_file::read(path, longest), helper.upgrade()) {
        (Err(error), Some(helper)) if error.kind() == ErrorKind::PermissionDenied => {
            perigee_file::read_opened(helper.open_file(path).map_err(io::Error::other)?, longest)
        }
        (result, _) => result,
    })
}

/// What the configuration lets scripts cost.
pub fn budgets(router: &config::Router) -> Budgets {
    let ns = |time: Option<Duration>| time.map_or(0, |time| time.as_nanos() as u64);
    Budgets {
        stall: router.stall_budget,
        round_ns: ns(router.round_budget),
        collection_ns: ns(router.gc_budget),
        over: match router.over_budget {
            config::OverBudget::Count => OverBudget::Count,
            config::OverBudget::Warn => OverBudget::Warn,
            config::OverBudget::RollBack => OverBudget::RollBack,
        },
    }
}

/// [`Scripts`] behind the router's trait.
pub struct LuaScripts {
    pub scripts: Scripts,
    pub read: ReadFile,
    /// Whether there are ports whose packets no script sees.
    pub beside_plane: bool,
}

/// Says that packets which the in-kernel plane finishes do not pass a script that does something else.
pub fn say_beside_plane(script: &Script) {
    if script.source != Script::builtin().source {
        tracing::warn!(
            "the script {} does not see packets that the in-kernel plane finishes: a port with `plane = \"worker\"` gives it all of \
             them (docs/planes.md)",
            script.name
        );
    }
}

impl ScriptControl for LuaScripts {
    fn reader(&self) -> ReadScript {
        let read = self.read.clone();
        Box::new(move |path| Ok(Script::read_by(path, |path, longest| read(path, longest))?.source))
    }

    fn replace(&self, script: ScriptSource) -> Result<u64, Refusal> {
        let script = match script {
            ScriptSource::BuiltIn => Script::builtin(),
            ScriptSource::Text(path, text) => Script::read_by(&path, |_, _| Ok(text.into_bytes()))?,
        };
        let generation = self.scripts.replace(script.clone())?;
        if self.beside_plane {
            say_beside_plane(&script);
        }
        Ok(generation)
    }

    fn progress(&self, generation: u64) -> Progress {
        let status = self.scripts.status();
        if status.generation != generation {
            let why = status.reverted.unwrap_or_else(|| "another reload came in between".to_owned());
            return Progress::Replaced(format!("{why}; the script {} runs", status.name));
        }
        let late = self.scripts.late(generation);
        if late.is_empty() { Progress::Running } else { Progress::Late(late) }
    }

    fn set_budgets(&self, router: &config::Router) {
        self.scripts.set_budgets(budgets(router));
    }

    fn status(&self) -> Vec<ScriptView> {
        let status = self.scripts.status();
        let loaded_at = status.since.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        let thrown = self.scripts.thrown();
        let view = |(worker, counters): (usize, &std::sync::Arc<perigee_lua::ScriptCounters>)| ScriptView {
            worker: worker as u16,
            path: status.name.clone(),
            generation: status.generation,
            loaded_at,
            state: if status.reverted.is_some() { ScriptState::RolledBack } else { ScriptState::Running },
            error: status.reverted.clone().or_else(|| status.last_error.clone()),
            throws: thrown.get(worker).copied().unwrap_or(0),
            traces: counters.traces.get(),
            trace_aborts: counters.trace_aborts.get(),
            blacklisted: counters.blacklisted.get(),
            gc_kb: counters.heap_kb.get() as f64,
            stalls: counters.stalls.get(),
            collections: counters.collections.get(),
            collection_seconds: counters.collection_time.get() as f64 / 1e9,
            longest_collection: counters.longest_collection.get() as f64 / 1e9,
            over_budget: counters.over_budget.get(),
        };
        self.scripts.counters().iter().enumerate().map(view).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// A thread that still read a file when the router ended had the helper, which then restored nothing before the
    /// process was gone.
    #[test]
    fn what_reads_files_does_not_keep_the_helper() {
        let helper = Arc::new(Helper::start_with(&mut Command::new("true")).unwrap());
        let read = reader(Some(&helper));
        let file = std::env::current_exe().unwrap();
        assert!(!read(&file, perigee_file::LONGEST).unwrap().is_empty());
        let helper = Arc::into_inner(helper).expect("nothing else has it");
        drop(helper);
        assert_eq!(read(std::path::Path::new("/nowhere/file"), 1).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
