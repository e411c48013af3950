// SPDX-License-Identifier: MIT
//! What the API shows: each query's answer is read from a [`View`] of the running router, one file per subject.
//!
//! | file | `perigee show` |
//! | --- | --- |
//! | `ports.rs` | `ports` |
//! | `workers.rs` | `workers`, `modules`, `drops` |
//! | `slowpath.rs` | `slowpath` |
//! | `routes.rs` | `routes`, `nexthops`, `fib`, `neighbors` |
//! | `multicast.rs` | `multicast` |
//! | `config.rs` | `config`, `filters` |
//! | `linux.rs` | `linux` |
//! | `trace.rs` | `perigee trace`: numbers become names, a next hop the route that led to it |
//! | `snapshot.rs` | all counters of `/metrics` |
//! | `states.rs` | states by the API's names |

mod config;
mod linux;
mod multicast;
mod ports;
mod routes;
mod slowpath;
mod snapshot;
mod states;
mod trace;
mod workers;

pub(crate) use snapshot::snapshot;
pub(crate) use trace::trace_entry;

use crate::assistant::Assistants;
use crate::backends::{Rebuild, ScriptControl};
use crate::forwarding::Forwarding;
use crate::linux::LinuxSide;
use crate::ports::Ports;
use crate::slow::Lost;
use crate::workers::Workers;
use perigee_api::Answers;
use perigee_api::answers::{ScriptStatus, VersionStatus};
use perigee_api::queries::{ShowScripts, ShowVersion};
use perigee_config::Config;
use perigee_slowpath::SlowPath;

/// A running router, for reading.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub now: u64,
    pub started: u64,
    pub version: &'a VersionStatus,
    pub config: &'a Config,
    pub ports: &'a Ports,
    pub workers: &'a Workers,
    pub forwarding: &'a Forwarding,
    pub slow: &'a SlowPath,
    pub lost: Lost,
    pub assistants: &'a Assistants,
    pub linux: &'a LinuxSide,
    pub scripts: &'a dyn ScriptControl,
    pub rebuild: &'a dyn Rebuild,
}

impl Answers<ShowVersion> for View<'_> {
    fn answer(&self, _: ShowVersion) -> VersionStatus {
        VersionStatus { uptime: self.now.saturating_sub(self.started) as f64 / 1e9, ..self.version.clone() }
    }
}

impl Answers<ShowScripts> for View<'_> {
    fn answer(&self, _: ShowScripts) -> Vec<ScriptStatus> {
        self.scripts.status()
    }
}
