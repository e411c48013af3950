// SPDX-License-Identifier: MIT
//! What stands behind the slow path's thread, through traits: the scripts (LuaJIT) and the compiled filters (DPDK).

use crate::forwarding::Filters;
use perigee_api::answers::ScriptStatus;
use perigee_config::{self as config, Config, Steer};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why what stands behind a trait of this crate (DPDK, LuaJIT) refused: an error of that crate's own, of which this one
/// knows only that it is an error.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// Reads a file of the configuration, if need be by way of the helper: the router may be a user who may not.
pub type ReadFile = Arc<dyn Fn(&Path, u64) -> io::Result<Vec<u8>> + Send + Sync>;

/// Reads the text of a script, on a thread that may wait for a file system or the helper.
pub type ReadScript = Box<dyn FnOnce(&Path) -> Result<String, Refusal> + Send>;

/// A script's text: nothing is read any more to load it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScriptSource {
    /// The program has it.
    BuiltIn,
    /// A file, and what the client or the router has found in it.
    Text(PathBuf, String),
}

impl ScriptSource {
    /// Its path, or "built-in".
    pub fn name(&self) -> String {
        match self {
            Self::BuiltIn => "built-in".to_owned(),
            Self::Text(path, _) => path.display().to_string(),
        }
    }
}

/// The scripts, as the control side sees them.
pub trait ScriptControl: Send {
    /// Reads a script that [`Self::replace`] is given then.
    fn reader(&self) -> ReadScript;
    /// Replaces the script on all workers. Returns its generation.
    ///
    /// # Errors
    /// It does not load; the error names file and line. The old one stays.
    fn replace(&self, script: ScriptSource) -> Result<u64, Refusal>;
    /// The state of each worker's script.
    fn status(&self) -> Vec<ScriptView>;
    /// How far workers are with the script of a generation.
    fn progress(&self, generation: u64) -> Progress;
    /// Sets what scripts may cost.
    fn set_budgets(&self, router: &config::Router);
}

/// How far workers are with a new script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Each has finished a round of its loop with it.
    Running,
    /// These workers have not, so far.
    Late(Vec<usize>),
    /// It is the current one no more; why.
    Replaced(String),
}

/// The state of a worker's script, as it is shown.
pub type ScriptView = ScriptStatus;

/// Makes what a new configuration needs.
pub trait Rebuild: Send {
    /// Whether the devices of all ports that a steer applies to carry it out themselves.
    fn in_hardware(&self, steer: &Steer) -> bool;
    /// The compiled filters.
    ///
    /// # Errors
    /// They do not compile, or there is no memory for them.
    fn filters(&self, config: &Config) -> Result<Filters, Refusal>;
}
