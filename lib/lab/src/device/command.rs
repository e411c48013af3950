// SPDX-License-Identifier: MIT
//! Any command line as the device.

use super::Device;
use crate::{Process, Signal, tools};
use anyhow::{Context as _, Result};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A command line of the shell, run in the device's namespace. It finds d0 and d1 up, without addresses and left alone
/// by the kernel, and these variables in its environment:
///
/// | variable | is |
/// | --- | --- |
/// | `PERIGEE_LEFT`, `PERIGEE_RIGHT` | the interfaces, `d0` and `d1` |
/// | `PERIGEE_LEFT_PEER`, `PERIGEE_RIGHT_PEER` | the MAC addresses of the tester behind them |
///
/// It is taken to forward once it has run for the settle time. It runs in the foreground: it is ended by SIGTERM, with
/// all processes of its group.
#[derive(Debug, Clone)]
pub struct CommandLine {
    /// The line.
    pub line: String,
    /// How long it takes until it forwards.
    pub settle: Duration,
    /// The cores that it may use; all of them, if there are none here.
    pub cores: Vec<usize>,
}

pub(super) fn start(device: &Device, CommandLine { line, settle, cores }: &CommandLine) -> Result<Group> {
    device.leave_to_programs()?;
    let list = cores.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
    let mut command = match cores.is_empty() {
        true => device.host().place().program("sh"),
        false => {
            tools::require(&[tools::TASKSET], &tools::search_path(), "a device on cores of its own")?;
            let mut command = device.host().place().program("taskset");
            command.args(["-c", &list, "sh"]);
            command
        }
    };
    command.args(["-c", line]);
    for (name, side) in ["PERIGEE_LEFT", "PERIGEE_RIGHT"].into_iter().zip(device.sides()) {
        command.env(name, side.interface).env(format!("{name}_PEER"), &side.tester_mac);
    }
    let mut group = Group(Process::logging(command.process_group(0), &device.file(".log"))?);
    let start = Instant::now();
    while start.elapsed() < *settle {
        group.running()?;
        sleep(Duration::from_millis(10).min(*settle));
    }
    group.running()?;
    Ok(group)
}

/// A process and those it has started; all are killed when it is dropped.
pub(super) struct Group(Process);

impl Group {
    /// Starts a command as the first of its group, with its output kept.
    pub(super) fn start(command: &mut Command) -> Result<Group> {
        Process::start(command.process_group(0)).map(Group)
    }

    pub(super) fn process(&self) -> &Process {
        &self.0
    }

    pub(super) fn running(&mut self) -> Result<()> {
        self.0.running()
    }

    /// Ends it by SIGTERM; what does not end in time is killed.
    pub(super) fn stop(mut self, patience: Duration) -> Result<()> {
        self.running()?;
        self.0.signal_group(Signal::TERM)?;
        self.0.wait(patience).map(|_| ()).context("it was asked to end by SIGTERM, and was killed now")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // All may have ended.
        let _ = self.0.signal_group(Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LONGEST_WAIT;
    use std::path::Path;

    fn shell(script: &str) -> Group {
        Group::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    /// The number of the background process that a script prints.
    fn child(group: &Group) -> String {
        let look = || Ok(Some(group.process().stdout().trim().to_owned()).filter(|number| !number.is_empty()));
        crate::wait_for(LONGEST_WAIT, "the script's first line", look).unwrap()
    }

    fn is_gone(pid: &str) -> bool {
        // A child whose parent has gone may be a zombie until somebody asks for it.
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !Path::new(&format!("/proc/{pid}")).exists() || state.contains(") Z")
    }

    #[test]
    fn what_a_command_has_started_ends_with_it() {
        let drop_it: fn(Group) = drop;
        for end in [drop_it, |group| group.stop(LONGEST_WAIT).unwrap()] {
            let group = shell("sleep 1000 & echo $!; wait");
            let pid = child(&group);
            end(group);
            crate::wait_until(LONGEST_WAIT, "the end of the child", || Ok(is_gone(&pid))).unwrap();
        }
    }

    #[test]
    fn a_command_that_does_not_end_is_killed() {
        let group = shell("trap '' TERM; echo $$; while :; do sleep 0.05; done");
        let pid = child(&group);
        let error = group.stop(Duration::from_millis(200)).unwrap_err();
        assert!(format!("{error:#}").contains("was killed"), "{error:#}");
        assert!(is_gone(&pid));
    }

    #[test]
    fn a_command_that_has_ended_cannot_be_stopped() {
        let mut group = shell("echo no luck >&2; exit 3");
        crate::wait_until(LONGEST_WAIT, "its end", || Ok(group.0.ended()?.is_some())).unwrap();
        let error = group.stop(LONGEST_WAIT).unwrap_err().to_string();
        assert!(error.contains("exit status: 3; it said: no luck"), "{error}");
    }
}
