// SPDX-License-Identifier: MIT
//! A measurement inside namespaces of its own: this program again, with the same arguments and `--inside FOLDER`.

use crate::machine::Interrupts;
use anyhow::{Context as _, Result, bail};
use perigee_lab::World;
use perigee_lab::isolation::{self, Isolation};
use rustix::mount::{MountFlags, mount};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long the processes inside may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// Runs the inside to its end; returns whether it succeeded.
pub fn run(isolation: Isolation, folder: &Path, path: &str, interrupts: &mut Interrupts) -> Result<bool> {
    let mut child = inside(isolation, folder, path)?;
    wait(&mut child, interrupts)
}

/// Starts this program again, inside.
fn inside(isolation: Isolation, folder: &Path, path: &str) -> Result<Child> {
    let mut command = isolation::inside(isolation, folder, path)?;
    command.args(std::env::args_os().skip(1)).arg("--inside").arg(folder);
    command.spawn().context("unshare cannot be run")
}

/// Waits for the inside; returns whether it succeeded.
fn wait(child: &mut Child, interrupts: &mut Interrupts) -> Result<bool> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if let Err(interrupted) = interrupts.check() {
            drop(child.stdin.take());
            let deadline = Instant::now() + PATIENCE;
            while child.try_wait()?.is_none() {
                if Instant::now() > deadline {
                    child.kill()?;
                    bail!("{interrupted:#}, except that the processes inside had to be killed");
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            return Err(interrupted);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The namespaces' own /run and /proc.
pub fn world(folder: &Path) -> Result<World> {
    let world = World::enter(folder)?;
    mount("proc", "/proc", "proc", MountFlags::empty(), None)
        .context("CPU time and memory of processes cannot be read")?;
    Ok(world)
}
