// SPDX-License-Identifier: MIT
//! Another program with DPDK, which only knows how to forward all the time: it is stopped by SIGSTOP and continued for
//! its turns.

use super::meter::{self, Count, Meter};
use super::telemetry::{PortCounts, Telemetry};
use crate::machine::Priority;
use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A place in a command line, `{name}`, and what is put there.
pub type Place = (&'static str, String);

/// Fills the places of a command line in. Braces that hold something else are a mistake.
pub fn fill(command: &str, places: &[Place]) -> Result<String> {
    let (mut filled, mut rest) = (String::new(), command);
    while let Some((before, behind)) = rest.split_once('{') {
        let (name, behind) = behind
            .split_once('}')
            .with_context(|| format!("found a {{ without a }} in {command:?}, expected a place"))?;
        let Some((_, value)) = places.iter().find(|(place, _)| *place == name) else {
            let known: Vec<String> = places.iter().map(|(place, _)| format!("{{{place}}}")).collect();
            bail!("found {{{name}}} in {command:?}, expected some of {}", known.join(", "));
        };
        filled.extend([before, value]);
        rest = behind;
    }
    Ok(filled + rest)
}

/// What it takes to start one.
pub struct Start<'a> {
    pub name: &'a str,
    /// A line for the shell, its places filled in.
    pub command: &'a str,
    /// Its `--file-prefix`.
    pub prefix: &'a str,
    /// The core that it forwards on.
    pub core: usize,
    pub priority: Priority,
    /// How long it may take until it receives.
    pub patience: Duration,
}

/// A running program. It is stopped but for its turns.
pub struct Program {
    pub name: String,
    child: Child,
    meter: Meter,
}

/// How long the end of what a program said is waited for: a child of its own may keep the pipe open.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What a program has said so far.
#[derive(Default)]
struct Said {
    lines: AtomicU64,
    last: Mutex<String>,
    /// Has it been read to its end?
    ended: AtomicBool,
}

impl Said {
    /// Reads to the end, on a thread of its own, so that the program never waits for us.
    fn listen(self: &Arc<Said>, from: impl Read + Send + 'static) {
        let said = self.clone();
        std::thread::spawn(move || {
            let mut from = BufReader::new(from);
            let mut line = Vec::new();
            while from.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
                said.lines.fetch_add(1, Relaxed);
                let text = String::from_utf8_lossy(&line);
                if !text.trim().is_empty() {
                    *said.last.lock().unwrap_or_else(PoisonError::into_inner) = text.trim().to_owned();
                }
                line.clear();
            }
            said.ended.store(true, Release);
        });
    }

    /// The last line, of a program that has ended: what it said may still be on its way.
    fn last(&self) -> String {
        let deadline = Instant::now() + LAST_WORDS;
        while !self.ended.load(Acquire) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A child whose whole process group is killed when dropped, unless it is given away.
struct Group(Option<Child>);

impl Group {
    fn kill(child: &mut Child) {
        // It may have ended by itself.
        let _ = signal(child, Signal::KILL);
        let _ = child.wait();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            Group::kill(child);
        }
    }
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(child.id() as i32).context("a process has a number")?;
    Ok(kill_process_group(pid, signal)?)
}

impl Program {
    /// Starts it, waits until it receives, and stops it. `lines`: told how many lines it has printed so far.
    pub fn start(start: &Start<'_>, lines: &mut dyn FnMut(u64) -> Result<()>) -> Result<Program> {
        let folder = tempfile::Builder::new().prefix("perigee-bench-").tempdir()?;
        let mut command = Command::new("setpriv");
        // It ends with us, whatever becomes of us: it would spin for ever.
        command.args(["--pdeathsig", "KILL", "sh", "-c"]).arg(format!("exec {}", start.command));
        command.env("RUNTIME_DIRECTORY", folder.path()).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("setpriv, of util-linux, cannot be run")?;
        let (out, errors) = (Arc::new(Said::default()), Arc::new(Said::default()));
        if let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) {
            out.listen(stdout);
            errors.listen(stderr);
        }
        let mut group = Group(Some(child));
        let socket = meter::socket(folder.path(), start.prefix);
        let telemetry = loop_until_received(start, &mut group, &socket, [&out, &errors], lines)?;
        let pid = telemetry.pid;
        let thread = meter::busiest(pid, start.core, Duration::from_millis(300))?;
        let thread = thread.with_context(|| {
            format!("it has no thread that runs on core {}; give it {{core}} for its packets", start.core)
        })?;
        start.priority.give(pid)?;
        let meter = Meter::new(telemetry, &thread, Count::Received);
        let child = group.0.take().context("it is there until here")?;
        let program = Program { name: start.name.to_owned(), child, meter };
        signal(&program.child, Signal::STOP)?;
        Ok(program)
    }

    /// Lets it run for `warm`, then for `time`; returns packets and CPU time in ns of the latter.
    pub fn measure(&mut self, warm: Duration, time: Duration) -> Result<(u64, u64)> {
        let (packets, cpu_ns) = self.turn(|meter| meter.measure(warm, time))?;
        ensure!(packets > 0 && cpu_ns > 0, "it received {packets} packets in {cpu_ns} ns of CPU time; expected some");
        Ok((packets, cpu_ns))
    }

    /// What each of the first ports has transmitted, as shares of what port 0 has received, while it runs for `time`.
    pub fn shares(&mut self, ports: u16, time: Duration) -> Result<Vec<f64>> {
        let counts = |meter: &Meter| (0..ports).map(|port| meter.telemetry.port(port)).collect::<Result<Vec<_>>>();
        let (before, after) = self.turn(|meter| {
            let before = counts(meter)?;
            std::thread::sleep(time);
            Ok((before, counts(meter)?))
        })?;
        let sent = before.iter().zip(&after).map(|(before, after)| (after.transmitted - before.transmitted) as f64);
        let received = (after[0].received - before[0].received) as f64;
        Ok(sent.map(|sent| sent / received).collect())
    }

    fn turn<T>(&mut self, of: impl FnOnce(&Meter) -> Result<T>) -> Result<T> {
        if let Some(status) = self.child.try_wait()? {
            bail!("it ended with {status}");
        }
        signal(&self.child, Signal::CONT)?;
        let done = of(&self.meter);
        signal(&self.child, Signal::STOP)?;
        done
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        Group::kill(&mut self.child);
    }
}

/// Waits until it receives; says in one line why it does not.
fn loop_until_received(
    Start { patience, prefix, .. }: &Start<'_>,
    group: &mut Group,
    socket: &Path,
    [out, errors]: [&Said; 2],
    lines: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Telemetry> {
    let deadline = Instant::now() + *patience;
    let mut telemetry = None;
    loop {
        if let Some(status) = group.0.as_mut().context("it is there until here")?.try_wait()? {
            let said = Some(errors.last()).filter(|said| !said.is_empty()).unwrap_or_else(|| out.last());
            bail!("it ended with {status} before it received anything; it said: {said}");
        }
        if telemetry.is_none() {
            telemetry = Telemetry::connect(socket).ok();
        }
        // While it loads it may not answer in time.
        if let Some(PortCounts { received: 1.., .. }) = telemetry.as_ref().and_then(|telemetry| telemetry.port(0).ok())
        {
            return telemetry.context("it is there");
        }
        if Instant::now() > deadline {
            let seconds = patience.as_secs();
            ensure!(
                telemetry.is_some(),
                "it has no telemetry socket after {seconds} s; start it with --file-prefix={prefix} ({{file_prefix}}) and \
                 without --no-telemetry"
            );
            bail!("its port 0 has received nothing after {seconds} s; give it --vdev={{device}} first");
        }
        lines(out.lines.load(Relaxed))?;
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &str, patience: Duration) -> String {
        let start = Start { name: "test", command, prefix: "none", core: 0, priority: Priority::Normal, patience };
        format!("{:#}", Program::start(&start, &mut |_| Ok(())).err().unwrap())
    }

    #[test]
    fn places_are_filled_in_and_others_refused() {
        let places = [("core", "3".to_owned()), ("source", "/x y".to_owned())];
        assert_eq!(fill("run -l {core} '{source}' {core}", &places).unwrap(), "run -l 3 '/x y' 3");
        assert_eq!(
            fill("run {cores}", &places).unwrap_err().to_string(),
            "found {cores} in \"run {cores}\", expected some of {core}, {source}"
        );
        assert!(fill("run {core", &places).unwrap_err().to_string().contains("without a }"));
    }

    #[test]
    fn a_program_that_ends_is_left_out_with_its_last_words() {
        assert_eq!(
            refused("sh -c 'echo one; echo no such device >&2; exit 3'", Duration::from_secs(60)),
            "it ended with exit status: 3 before it received anything; it said: no such device"
        );
    }

    #[test]
    fn a_program_without_telemetry_is_left_out_and_ended() {
        // No other run of this test has the same.
        let seconds = format!("1000{}", std::process::id());
        let why = refused(&format!("sleep {seconds}"), Duration::from_millis(300));
        assert!(why.contains("it has no telemetry socket after 0 s; start it with --file-prefix=none"), "{why}");
        let of = |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("cmdline")).ok();
        let line = format!("sleep\0{seconds}\0");
        let left = std::fs::read_dir("/proc").unwrap().flatten().filter_map(of).any(|other| other == line);
        assert!(!left, "it is still there");
    }
}
