// SPDX-License-Identifier: MIT
//! A running `perigee run`.

use crate::process::{Ended, Process, kill, run};
use crate::{LONGEST_WAIT, Place, wait_until};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The program under test: `$PERIGEE`, or the one that cargo built beside this program.
///
/// # Errors
/// There is none.
pub fn program() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os("PERIGEE") {
        return Ok(path.into());
    }
    let me = std::env::current_exe().context("the program's own path is not known")?;
    // Programs are in target/PROFILE, tests in target/PROFILE/deps.
    let beside: Vec<_> = me.ancestors().skip(1).take(2).map(|folder| folder.join("perigee")).collect();
    let found = beside.iter().find(|path| path.is_file());
    found.cloned().with_context(|| {
        let places: Vec<_> = beside.iter().map(|path| path.display().to_string()).collect();
        format!("found no {}; `cargo build -p perigee` makes it, and $PERIGEE names another", places.join(" or "))
    })
}

/// How to start a router.
#[derive(Debug, Clone)]
pub struct Launch {
    /// `perigee`: see [`program`].
    pub program: PathBuf,
    /// Where it runs; its twins are there as well.
    pub place: Place,
    /// Its configuration file.
    pub configuration: PathBuf,
    /// More words of `perigee run`.
    pub arguments: Vec<String>,
    /// The socket that the configuration names.
    pub socket: PathBuf,
    /// Where it logs; otherwise to a file without a name.
    pub log: Option<PathBuf>,
    /// How long it may take to start and to stop.
    pub patience: Duration,
}

/// A running router. Dropped while it runs, it is killed.
pub struct Router {
    process: Process,
    /// Its number: another one than that of `process` where we have a terminal, which the process in front of the
    /// router keeps.
    pid: u32,
    launch: Launch,
}

impl Router {
    /// Starts it, and waits until it says that it runs.
    ///
    /// # Errors
    /// It does not.
    #[track_caller]
    pub fn start(launch: Launch) -> Result<Router> {
        let mut command = launch.place.program(&launch.program);
        command.arg("run").args(&launch.arguments).arg(&launch.configuration);
        // Its log is read here, so it must look as usual.
        command.env("NO_COLOR", "1").env_remove("PERIGEE_LOG");
        let process = match &launch.log {
            Some(log) => Process::logging(&mut command, log)?,
            None => Process::start(&mut command)?,
        };
        let mut router = Router { pid: process.pid(), process, launch };
        let waited = wait_until(router.launch.patience, "the router to run", || {
            if let Some(status) = router.process.ended()? {
                bail!("`{}` ended with {status}:\n{}", router.process.command(), router.log());
            }
            Ok(router.log().contains("running;"))
        });
        waited.with_context(|| format!("the log so far:\n{}", router.log()))?;
        router.pid = behind(router.pid).unwrap_or(router.pid);
        Ok(router)
    }

    /// Its API's socket.
    pub fn socket(&self) -> &Path {
        &self.launch.socket
    }

    /// Its process's number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        self.process.stderr()
    }

    /// Checks that it is running.
    ///
    /// # Errors
    /// It has ended; the error has its last line.
    pub fn running(&mut self) -> Result<()> {
        self.process.running()
    }

    /// Does something with it; if that fails because the router has ended, the error says so.
    ///
    /// # Errors
    /// As `work`.
    pub fn or_why<T>(&mut self, work: impl FnOnce(&Router) -> Result<T>) -> Result<T> {
        work(self).or_else(|error| self.running().and(Err(error)))
    }

    /// Runs `perigee WORDS` for this router.
    pub fn ask(&self, words: &str) -> Ended {
        let mut command = Command::new(&self.launch.program);
        run(command.args(words.split(' ')).arg("--socket").arg(self.socket()).env("NO_COLOR", "1"))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid, signal).with_context(|| format!("{signal:?} to `{}`", self.process.command()))
    }

    /// Ends it by SIGTERM; returns its log. It must exit cleanly, with every packet buffer returned, and leave no
    /// socket behind.
    ///
    /// # Errors
    /// It does not.
    #[track_caller]
    pub fn stop(self) -> Result<String> {
        self.stop_by(Signal::TERM)
    }

    /// [`Self::stop`] by another signal.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn stop_by(mut self, signal: Signal) -> Result<String> {
        self.running()?;
        self.signal(signal)?;
        let status = self.process.wait(self.launch.patience);
        let status = status.with_context(|| format!("the log so far:\n{}", self.log()))?;
        let log = self.log();
        ensure!(status.success(), "the router ended with {status}:\n{log}");
        ensure!(log.contains("every packet buffer is back"), "the router misses packet buffers:\n{log}");
        ensure!(!log.contains("panicked"), "the router has panicked:\n{log}");
        ensure!(!log.contains("was killed"), "the helper takes it for killed:\n{log}");
        ensure!(!self.socket().exists(), "the router has left its socket {}", self.socket().display());
        Ok(log)
    }

    /// Waits until it ends by itself, and returns its log.
    ///
    /// # Errors
    /// It does not end in time, or as if it had been asked to.
    #[track_caller]
    pub fn fails(mut self) -> Result<String> {
        let status = self.process.wait(self.launch.patience);
        let status = status.with_context(|| format!("the log so far:\n{}", self.log()))?;
        let log = self.log();
        ensure!(status.code() == Some(1), "the router ended with {status}:\n{log}");
        Ok(log)
    }

    /// Kills it by SIGKILL.
    ///
    /// # Errors
    /// It has ended already.
    #[track_caller]
    pub fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.process.wait(LONGEST_WAIT).map(drop)
    }

    /// Waits until it ends, which it should not.
    ///
    /// # Errors
    /// It has ended.
    pub fn wait(&mut self) -> Result<()> {
        while self.process.ended()?.is_none() {
            std::thread::sleep(Duration::from_millis(100));
        }
        self.running()
    }
}

/// The router that a process stands in front of, at the terminal.
fn behind(front: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{front}/task/{front}/children")).ok()?;
    let own = format!("--behind={front}");
    let is_it = |child: &u32| {
        let line = std::fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.split('\0').any(|word| word == own)
    };
    children.split_whitespace().filter_map(|child| child.parse().ok()).find(is_it)
}
