// SPDX-License-Identifier: MIT
//! Processes that end with the test, whatever becomes of it.

use crate::wait_for;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::{File, read_to_string};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

/// No scenario needs so long; one that hangs ends here, and everything it started with it.
const LONGEST_SCENARIO: Duration = Duration::from_secs(240);

static STARTED: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn started() -> MutexGuard<'static, BTreeSet<i32>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process, and those it started, if it takes too long.
pub(crate) fn watch_the_time() {
    spawn(|| {
        sleep(LONGEST_SCENARIO);
        eprintln!("the scenario hangs: ended after {} s", LONGEST_SCENARIO.as_secs());
        for pid in started().iter() {
            let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL); // it may have ended meanwhile
        }
        std::process::exit(101);
    });
}

/// What a command that has ended printed, and how it ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its command line.
    pub command: String,
    /// 0 is good; `None`: by a signal.
    pub code: Option<i32>,
    /// Standard output, then standard error.
    pub text: String,
    /// Standard output alone.
    pub out: String,
}

impl Ended {
    /// The same, if it went well.
    ///
    /// # Panics
    /// It did not.
    #[track_caller]
    pub fn good(self) -> Ended {
        assert_eq!(self.code, Some(0), "{}:\n{}", self.command, self.text);
        self
    }

    /// The same, if it failed with the text in what it said.
    ///
    /// # Panics
    /// It did not fail, or says something else.
    #[track_caller]
    pub fn refused(self, text: &str) -> Ended {
        assert_eq!(self.code, Some(1), "{} was to fail:\n{}", self.command, self.text);
        assert!(self.text.contains(text), "{} did not say {text:?}, but:\n{}", self.command, self.text);
        self
    }

    /// The same, if it was a ping whose every echo was answered once, in order. While replies are late, ping sends more than it
    /// was told to.
    ///
    /// # Panics
    /// It was not.
    #[track_caller]
    pub fn every_reply(self, count: usize) -> Ended {
        let replies = self.out.lines().filter(|line| line.contains(" bytes from "));
        let number = |line: &str| line.split_once("icmp_seq=")?.1.split(' ').next()?.parse::<usize>().ok();
        let numbers: Vec<_> = replies.filter_map(number).collect();
        let complete = numbers.len() >= count && numbers.iter().copied().eq(1..=numbers.len());
        assert!(complete && self.code == Some(0), "{}: {numbers:?}\n{}", self.command, self.text);
        assert!(!self.text.contains("DUP!"), "answered twice:\n{}", self.text);
        self
    }
}

fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end.
///
/// # Panics
/// It cannot be started, or hangs.
pub fn run(command: &mut Command) -> Ended {
    static NUMBER: Mutex<u32> = Mutex::new(0);
    let number = {
        let mut number = NUMBER.lock().unwrap_or_else(PoisonError::into_inner);
        *number += 1;
        *number
    };
    Process::start(&format!("command-{number}"), command).end()
}

/// A process in the background; killed when dropped.
pub struct Process {
    child: Child,
    command: String,
    out: PathBuf,
    err: PathBuf,
}

impl Process {
    /// Starts a command. Its output goes to files in /run of the scenario's own.
    pub(crate) fn start(name: &str, command: &mut Command) -> Process {
        let file = |kind: &str| Path::new("/run").join(format!("{name}.{kind}"));
        let (out, err) = (file("out"), file("err"));
        let open = |path: &Path| File::create(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        command.stdin(Stdio::null()).stdout(open(&out)).stderr(open(&err));
        let words = words(command);
        let child = command.spawn().unwrap_or_else(|error| panic!("{words}: {error}"));
        started().insert(child.id() as i32);
        Process { child, command: words, out, err }
    }

    /// Its number.
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).unwrap_or_else(|error| panic!("{}: {signal}: {error}", self.command));
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let status = self.child.try_wait().expect("a child can be waited for");
        if status.is_some() {
            started().remove(&(self.child.id() as i32));
        }
        status
    }

    /// Ends it without giving it a chance.
    pub fn kill(&mut self) {
        self.signal(Signal::SIGKILL);
        wait_for(&format!("the end of {}", self.command), || self.ended());
    }

    /// What it has said on standard output and standard error so far.
    pub fn said(&self) -> String {
        read_to_string(&self.out).unwrap_or_default() + &self.stderr()
    }

    /// What it has said on standard error so far.
    pub fn stderr(&self) -> String {
        read_to_string(&self.err).unwrap_or_default()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// It does not come.
    pub fn end(mut self) -> Ended {
        let what = format!("the end of {}", self.command);
        let status = wait_for(&what, || self.ended());
        let out = read_to_string(&self.out).unwrap_or_default();
        let text = format!("{out}{}", self.stderr());
        Ended { command: self.command.clone(), code: status.code(), text, out }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
            started().remove(&(self.child.id() as i32));
        }
    }
}
