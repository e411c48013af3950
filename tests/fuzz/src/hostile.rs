// SPDX-License-Identifier: MIT
//! Hostile scripts and C modules against a worker that forwards.
//!
//! ```text
//!  run ──script, by its path──► child: a worker between two heap ports, loader, watchdog
//!   ▲                             loads it, lets it run, takes the built-in one back, sends packets
//!   └── "forwards" ───────────────┘   or: it has ended, and its last line says why
//! ```
//!
//! After each script the child forwards packets again; or the process has ended, by force or by the script's crash,
//! with a line that says so. Now and then the child is asked to end, and has to do so in order.

mod program;

use crate::input::Input;
use crate::lua_bed::{Bed, udp};
use perigee_lua::{Script, Scripts};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How long anything may take on a machine that is busy. The bounds that are promised are far below.
const LONGEST: Duration = Duration::from_secs(120);
/// How many scripts of a child's life are followed by its end, on average.
const LIFE: u32 = 20;

/// What became of scripts.
#[derive(Debug, Default)]
pub struct Outcome {
    /// How often each way was taken.
    pub ways: BTreeMap<&'static str, u64>,
    /// Children that ended in order when they were asked to.
    pub orderly: u64,
    /// The longest time to the next packet that was forwarded, and to an end.
    pub longest: (Duration, Duration),
}

/// Runs scripts that follow from a seed; `child` makes the command that runs [`child`].
///
/// # Panics
/// A script stops the worker, or ends the process without a line that says why; it is printed.
pub fn run(scripts: u64, seed: u64, folder: &Path, child: &dyn Fn() -> Command, mut progress: impl FnMut()) -> Outcome {
    build(folder);
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut outcome, mut running) = (Outcome::default(), None);
    for number in 0..scripts {
        let mut bytes = [0; 64];
        random.fill(&mut bytes);
        let text = program::script(&mut Input::new(&bytes), &folder.display().to_string());
        let path = folder.join("script.lua");
        std::fs::write(&path, &text).expect("a folder to write to");
        let mut one = running.take().unwrap_or_else(|| Running::start(child(), folder));
        let begin = Instant::now();
        let (way, lives) = one.tries(&path, &text).unwrap_or_else(|why| {
            panic!("seed {seed}, script {number}: {why}\n--- the script\n{text}\n--- the log\n{}", one.log())
        });
        let longest = if lives { &mut outcome.longest.0 } else { &mut outcome.longest.1 };
        *longest = begin.elapsed().max(*longest);
        *outcome.ways.entry(way).or_default() += 1;
        if lives && random.random_ratio(1, LIFE) {
            one.ends().unwrap_or_else(|why| panic!("seed {seed}, after script {number}: {why}\n{text}\n{}", one.log()));
            outcome.orderly += 1;
        } else if lives {
            running = Some(one);
        }
        progress();
    }
    outcome
}

/// Builds the C modules.
fn build(folder: &Path) {
    let source = folder.join("module.c");
    std::fs::write(&source, include_str!("hostile/module.c")).expect("a folder to write to");
    let kinds = [
        ("plain", "-DPLAIN"),
        ("endless", "-DCONSTRUCTOR=0"),
        ("long", "-DCONSTRUCTOR=2500"),
        ("short", "-DCONSTRUCTOR=50"),
        ("unloaded", "-DDESTRUCTOR=0"),
    ];
    for (name, define) in kinds {
        let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        command.args(["-O1", "-w", "-shared", "-fPIC", "-pthread", define, "-o"]);
        let built = command.arg(folder.join(format!("{name}.so"))).arg(&source).status();
        assert!(built.expect("a C compiler is there: LuaJIT was built with it").success());
    }
}

/// A child, and what it says.
struct Running {
    child: Child,
    scripts: Option<ChildStdin>,
    answers: Receiver<String>,
    log: PathBuf,
}

impl Running {
    fn start(mut command: Command, folder: &Path) -> Running {
        let log = folder.join("log");
        let to = File::create(&log).expect("a folder to write to");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(to);
        let mut child = command.spawn().expect("this very program");
        let (scripts, output) = (child.stdin.take(), child.stdout.take().expect("it is a pipe"));
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            BufReader::new(output).lines().map_while(Result::ok).try_for_each(|l| sender.send(l))
        });
        Running { child, scripts, answers, log }
    }

    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// Tries a script; says what became of it, and whether the child lives.
    fn tries(&mut self, path: &Path, text: &str) -> Result<(&'static str, bool), String> {
        let asked = self.scripts.as_mut().map(|scripts| writeln!(scripts, "{}", path.display()));
        drop(asked);
        loop {
            match self.answers.recv_timeout(LONGEST) {
                // A script may print.
                Ok(line) => match WAYS.iter().find(|way| line == format!("{MARK}{way}")) {
                    Some(way) => return Ok((way, true)),
                    None if line.starts_with(MARK) => return Err(line),
                    None => {}
                },
                Err(RecvTimeoutError::Timeout) => {
                    return Err("no packet is forwarded, and the process does not end".to_owned());
                }
                Err(RecvTimeoutError::Disconnected) => return self.ended(text).map(|way| (way, false)),
            }
        }
    }

    fn wait(&mut self) -> Result<ExitStatus, String> {
        let begin = Instant::now();
        while begin.elapsed() < LONGEST {
            if let Some(status) = self.child.try_wait().map_err(|error| error.to_string())? {
                return Ok(status);
            }
            // sleep: between two looks
            std::thread::sleep(Duration::from_millis(1));
        }
        Err("it does not end".to_owned())
    }

    /// The line that says why it has ended. A thread that has blocked the signal of a crash is killed by the kernel,
    /// without a handler: a router's helper says that.
    fn ended(&mut self, text: &str) -> Result<&'static str, String> {
        let status = self.wait()?;
        let by_crash = status.signal().is_some_and(|signal| CRASHES.contains(&signal));
        if by_crash && text.contains("takes_no_signal") {
            return Ok("killed");
        }
        let log = self.log();
        let said =
            ENDS.iter().find(|(words, _)| log.lines().any(|line| line.starts_with("ERROR ") && line.contains(words)));
        said.map(|(_, way)| *way).ok_or_else(|| format!("it ended ({status}) without a line that says why"))
    }

    /// Asks it to end in order.
    fn ends(&mut self) -> Result<(), String> {
        drop(self.scripts.take());
        let status = self.wait()?;
        if status.success() { Ok(()) } else { Err(format!("it did not end in order: {status}")) }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// SIGILL, SIGBUS and SIGSEGV (signal.h).
const CRASHES: [i32; 3] = [4, 7, 11];
/// What a child's own lines begin with.
const MARK: &str = "hostile: ";
/// What it says of scripts.
const WAYS: [&str; 3] = ["refused", "taken back", "ran"];
/// What the last line of a process that has ended says, in the order of what is looked for first.
const ENDS: [(&str, &str); 3] =
    [("it ends by force", "by force"), ("the router crashes", "crashed"), ("exit was called", "by exit")];

/// The child: tries the scripts whose paths it reads, until there are no more.
///
/// # Panics
/// The built-in script does not run any more.
pub fn child() {
    let bed = Bed::new();
    let scripts = bed.scripts(Script::builtin()).expect("a good script");
    let (worker, runner) = (bed.worker(), scripts.clone());
    let thread = std::thread::spawn(move || runner.run(worker));
    for path in std::io::stdin().lines().map_while(Result::ok) {
        let way = try_one(&bed, &scripts, Path::new(&path));
        println!("{MARK}{way}");
        let _ = std::io::stdout().flush();
    }
    bed.stop.request();
    thread.join().expect("the worker's thread has not panicked");
    perigee_lua::end_within(Duration::from_secs(1), 0);
}

fn try_one(bed: &Bed, scripts: &Scripts, path: &Path) -> &'static str {
    let path = path.to_owned();
    let way = match scripts.replace_by(move || Script::read(&path)) {
        Err(_) => "refused",
        Ok(generation) => {
            let begin = Instant::now();
            while scripts.status().generation == generation && begin.elapsed() < Duration::from_millis(100) {
                bed.receive[0].inject(&udp(1, 7, 64));
                // sleep: lets it run
                std::thread::sleep(Duration::from_millis(5));
            }
            if scripts.status().generation == generation { "ran" } else { "taken back" }
        }
    };
    if let Err(error) = scripts.replace(Script::builtin()) {
        println!("{MARK}the built-in script is refused: {error}");
    }
    let sent = || std::iter::from_fn(|| bed.transmit[1].collect()).count() > 0;
    let _old = sent();
    // Its loop may have left some; so one that comes after it has ended.
    while scripts.status().name != "built-in" || !scripts.late(scripts.status().generation).is_empty() {
        std::thread::yield_now();
    }
    let _old = sent();
    bed.receive[0].inject(&udp(1, 7, 64));
    while !sent() {
        std::thread::yield_now();
    }
    way
}
