// SPDX-License-Identifier: MIT
//! `perigee bench`: measures a device between two ports by the RFCs' methods.
//!
//! ```text
//! compare   several devices under the same traffic, in turn
//! rfc2544   arguments; a box on two wires
//! built     devices in namespaces that we make, one after the other
//! target    what is measured: a router, Linux or a command line that we start; who gets which cores
//! between   the tester's two ports: neighbors, frames, how fast the tester is
//! session   the run: trials one after the other, each stored before the next begins
//! output    what is printed meanwhile, and at the end
//! folder    where the results are
//! ```

mod between;
mod built;
mod compare;
mod folder;
mod output;
mod rfc2544;
mod session;
mod target;

use anyhow::Result;
use clap::Subcommand;
use perigee_dpdk::{fallback_runtime_dir, set_runtime_dir};
use perigee_lab::{World, isolation};
use perigee_measure::station::Course;
use std::fmt::{Display, Formatter};
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Subcommand)]
pub enum BenchCommand {
    /// Throughput, latency, frame loss rate, back-to-back frames, recovery and reset of a device (RFC 2544, 5180, 9004,
    /// 9971)
    Rfc2544(Box<rfc2544::Rfc2544Args>),
    /// Several devices under the same traffic, in turn: what each forwards, its latency, and ratios with intervals
    Compare(Box<compare::CompareArgs>),
}

/// How long results may take after an interruption.
const PATIENCE: Duration = Duration::from_secs(20);
/// The exit code where the machine could not answer what was asked, or a device has no figure.
const UNANSWERED: u8 = 2;
/// The exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

pub fn bench(command: &BenchCommand) -> Result<ExitCode> {
    let done = match command {
        BenchCommand::Rfc2544(args) => rfc2544::rfc2544(args),
        BenchCommand::Compare(args) => compare::compare_devices(args),
    };
    match done {
        Err(error) if error.is::<Interrupted>() => {
            eprintln!("perigee: {error}");
            Ok(ExitCode::from(INTERRUPTED))
        }
        done => done,
    }
}

/// The end before there was a result.
#[derive(Debug)]
struct Interrupted;

impl Display for Interrupted {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("interrupted before the first trial")
    }
}

impl std::error::Error for Interrupted {}

/// A laboratory in which devices are built: the namespaces that this process is in.
struct Laboratory {
    world: World,
    interrupt: Interrupt,
    _input: isolation::Inside,
}

impl Laboratory {
    /// Before any thread is started. `temporary` is the folder of whatever is made.
    fn enter(temporary: &Path) -> Result<Laboratory> {
        set_runtime_dir(fallback_runtime_dir().as_deref())?;
        let interrupt = Interrupt::default();
        let stop = interrupt.clone();
        let input = isolation::on_input_end(temporary, PATIENCE, move || stop.stop())?;
        let world = World::enter(temporary)?;
        // Without it, less is known of the interfaces.
        let _ = world.own_sys();
        Ok(Laboratory { world, interrupt, _input: input })
    }
}

/// The MTU of cables for frames of up to `largest` bytes with FCS.
fn mtu(largest: u32) -> u16 {
    u16::try_from(largest.saturating_sub(18)).unwrap_or(u16::MAX).max(1500)
}

/// Asks measurements to end: the trial under way, and those to come.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<Mutex<(bool, Option<Arc<Course>>)>>);

impl Interrupt {
    pub fn stop(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 = true;
        if let Some(course) = &state.1 {
            course.stop();
        }
    }

    pub fn is_stopped(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    /// # Errors
    /// [`Interrupted`], if it was.
    fn check(&self) -> Result<()> {
        if self.is_stopped() { Err(Interrupted.into()) } else { Ok(()) }
    }

    /// Names the trial under way.
    pub fn watch(&self, course: &Arc<Course>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 = Some(course.clone());
        if state.0 {
            course.stop();
        }
    }
}
