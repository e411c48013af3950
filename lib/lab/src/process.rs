// SPDX-License-Identifier: MIT
//! Processes that end with the handle they are held by, whatever becomes of the one who holds it.

use crate::{LONGEST_WAIT, open, patient, wait_for};
use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{sleep, spawn};
use std::time::Duration;

static STARTED: Mutex<BTreeSet<u32>> = Mutex::new(BTreeSet::new());

fn started() -> MutexGuard<'static, BTreeSet<u32>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends this process, and those it started, with exit code 101 if it takes longer than this, times `$PERIGEE_PATIENCE`;
/// it then says which of its waits is open.
///
/// # Errors
/// As [`patient`].
pub fn end_after(longest: Duration) -> Result<()> {
    let longest = patient(longest)?;
    spawn(move || {
        sleep(longest);
        eprintln!("still running after {} s: ended, with all processes that were started", longest.as_secs());
        eprint!("{}", open::report());
        for pid in started().iter() {
            let _ = kill(*pid, Signal::KILL); // it may have ended meanwhile
        }
        std::process::exit(101);
    });
    Ok(())
}

/// Sends a signal.
pub(crate) fn kill(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).context("a process without a number")?;
    Ok(kill_process(pid, signal)?)
}

/// What a command that has ended printed, and how it ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Its command line.
    pub command: String,
    /// 0 is success; `None`: by a signal, or it was never started.
    pub code: Option<i32>,
    /// Standard output, then standard error.
    pub text: String,
    /// Standard output alone.
    pub out: String,
}

impl Ended {
    /// Its standard output.
    ///
    /// # Errors
    /// It failed; the error is its own message, in one line.
    pub fn output(self) -> Result<String> {
        if self.code == Some(0) {
            return Ok(self.out);
        }
        bail!("`{}` failed: {}", self.command, self.complaint())
    }

    /// Its own message about its failure, in one line.
    pub fn complaint(&self) -> String {
        let errors = self.text.strip_prefix(&self.out).unwrap_or(&self.text);
        let lines: Vec<_> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        match (lines.is_empty(), self.code) {
            (false, _) => lines.join("; "),
            (true, Some(code)) => format!("exit status: {code}"),
            (true, None) => "it was ended by a signal".to_owned(),
        }
    }
}

/// The command's words, as in a shell.
pub(crate) fn words(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a command to its end; one that takes longer than [`LONGEST_WAIT`] is killed. That one, and one that could not
/// be started, counts as failed, with the reason as its output.
#[track_caller]
pub fn run(command: &mut Command) -> Ended {
    match Process::start(command) {
        Ok(process) => process.end(),
        Err(error) => Ended { command: words(command), code: None, text: format!("{error:#}"), out: String::new() },
    }
}

/// A process in the background; killed when dropped.
pub struct Process {
    child: Child,
    command: String,
    out: Option<File>,
    err: File,
}

impl Process {
    /// Starts a command without standard input. Its output is kept in unnamed files.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> Result<Process> {
        let file = || tempfile::tempfile().context("a temporary file for what a program prints");
        let (out, err) = (file()?, file()?);
        command.stdout(out.try_clone()?);
        Process::spawn(command, Some(out), err)
    }

    /// Like [`Self::start`], but all output is written to a named file.
    ///
    /// # Errors
    /// The file cannot be made, or the command not be started.
    pub fn logging(command: &mut Command, log: &Path) -> Result<Process> {
        let open = || File::options().create(true).write(true).truncate(true).read(true).open(log);
        let log = open().with_context(|| format!("{} cannot be written", log.display()))?;
        command.stdout(log.try_clone()?);
        Process::spawn(command, None, log)
    }

    fn spawn(command: &mut Command, out: Option<File>, err: File) -> Result<Process> {
        command.stdin(Stdio::null()).stderr(err.try_clone()?);
        let words = words(command);
        let child = command.spawn().with_context(|| format!("`{words}` cannot be run"))?;
        started().insert(child.id());
        Ok(Process { child, command: words, out, err })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its command line.
    pub fn command(&self) -> &str {
        &self.command
    }

    /// Sends a signal.
    ///
    /// # Errors
    /// It has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(self.pid(), signal).with_context(|| format!("{signal:?} to `{}`", self.command))
    }

    /// Sends a signal to all processes of the group whose first it is.
    ///
    /// # Errors
    /// They have ended, or it is the first of none.
    pub fn signal_group(&self, signal: Signal) -> Result<()> {
        let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw).context("a process without a number")?;
        kill_process_group(group, signal).with_context(|| format!("{signal:?} to the group of `{}`", self.command))
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// The kernel does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait().with_context(|| format!("whether `{}` has ended", self.command))?;
        if status.is_some() {
            started().remove(&self.pid());
        }
        Ok(status)
    }

    /// Checks that it is running.
    ///
    /// # Errors
    /// It has ended; the error has its last line.
    pub fn running(&mut self) -> Result<()> {
        if let Some(status) = self.ended()? {
            bail!("`{}` ended with {status}; {}", self.command, self.last_words());
        }
        Ok(())
    }

    /// Kills it by SIGKILL.
    ///
    /// # Errors
    /// It has ended already.
    #[track_caller]
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.wait(LONGEST_WAIT).map(|_| ())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It does not come in that time.
    #[track_caller]
    pub fn wait(&mut self, longest: Duration) -> Result<ExitStatus> {
        // Most programs need some milliseconds only.
        for _ in 0..20 {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            sleep(Duration::from_millis(1));
        }
        let what = format!("the end of `{}`", self.command);
        wait_for(longest, &what, || self.ended())
    }

    /// Its standard output so far; nothing if all goes to a log.
    pub fn stdout(&self) -> String {
        self.out.as_ref().map_or_else(String::new, text)
    }

    /// Its standard error, or its log, so far.
    pub fn stderr(&self) -> String {
        text(&self.err)
    }

    /// All its output so far.
    pub fn said(&self) -> String {
        self.stdout() + &self.stderr()
    }

    /// The last line of its output.
    pub fn last_words(&self) -> String {
        let said = self.stderr();
        said.trim().lines().last().map_or("it said nothing".to_owned(), |line| format!("it said: {}", line.trim()))
    }

    /// Waits for its end; if that does not come within [`LONGEST_WAIT`], it is killed, and counts as failed.
    #[track_caller]
    pub fn end(mut self) -> Ended {
        let ended = self.wait(LONGEST_WAIT);
        let out = self.stdout();
        let mut text = format!("{out}{}", self.stderr());
        let code = ended.map(|status| status.code()).unwrap_or_else(|error| {
            text += &format!("{error:#}\n");
            None
        });
        Ended { command: self.command.clone(), code, text, out }
    }
}

/// What is in a file, without moving the position that the writer shares with us.
fn text(file: &File) -> String {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    let mut there = 0;
    while there < bytes.len() {
        match file.read_at(&mut bytes[there..], there as u64) {
            Ok(0) | Err(_) => break,
            Ok(count) => there += count,
        }
    }
    String::from_utf8_lossy(&bytes[..there]).into_owned()
}

impl Drop for Process {
    fn drop(&mut self) {
        if !matches!(self.ended(), Ok(Some(_))) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            started().remove(&self.pid());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Place;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn failures_are_told_in_the_programs_words() {
        let failure = |words: &str| run(&mut Place::Router.command(words)).output().unwrap_err().to_string();
        assert!(failure("ls /does-not-exist").starts_with("`ls /does-not-exist` failed: ls: "));
        assert_eq!(failure("false"), "`false` failed: exit status: 1");
        assert!(failure("no-such-program x").contains("`no-such-program x` cannot be run"));
        assert_eq!(run(&mut sh("kill -9 $$")).complaint(), "it was ended by a signal");
    }

    #[test]
    fn both_outputs_are_read_whole() {
        let ended = run(&mut sh("seq 100000; echo over >&2"));
        assert_eq!(ended.out.lines().count(), 100_000);
        assert!(ended.text.ends_with("100000\nover\n"));
        assert_eq!(ended.complaint(), "over");
    }

    #[test]
    fn a_process_does_not_outlive_its_handle() {
        let process = Process::start(&mut sh("exec sleep 1000")).unwrap();
        let folder = format!("/proc/{}", process.pid());
        assert!(Path::new(&folder).exists() && started().contains(&process.pid()));
        let pid = process.pid();
        drop(process);
        assert!(!Path::new(&folder).exists() && !started().contains(&pid));
    }

    #[test]
    fn a_process_that_has_ended_is_not_running() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let mut process = Process::logging(&mut sh("echo one; echo two >&2; exit 3"), &log).unwrap();
        process.wait(LONGEST_WAIT).unwrap();
        let error = process.running().unwrap_err().to_string();
        assert!(error.contains("ended with exit status: 3; it said: two"), "{error}");
        assert_eq!(process.said(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(log).unwrap(), "one\ntwo\n");
    }
}
