// SPDX-License-Identifier: MIT
//! Scenarios and their runner: each runs in a process of its own that may make namespaces and interfaces.

use crate::{Good, World, perigee};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use perigee_lab::tools::{self, Tool};
use perigee_lab::{end_after, run};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::time::Duration;

/// The variable that names the scenario to the process inside the namespaces.
const INSIDE: &str = "PERIGEE_SCENARIO";
/// The exit code of a scenario that cannot test anything here; its reason is the last line on standard output.
const UNABLE: u8 = 77;
/// No scenario takes this long; one that hangs is ended then, with everything that it started, and says what it was
/// waiting for.
const LONGEST_SCENARIO: Duration = Duration::from_secs(1200);
/// The programs that all scenarios need.
const TOOLS: [Tool; 7] =
    [tools::IP, tools::UNSHARE, tools::NSENTER, tools::PING, tools::TRACEROUTE, tools::IPERF3, tools::ETHTOOL];

/// One promise of perigee, and how to test it. [`scenarios!`](crate::scenarios) makes them.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// `scenarios::FILE`.
    pub module: &'static str,
    /// The function's name.
    pub function: &'static str,
    /// The programs that it needs besides those of all scenarios.
    pub needs: &'static [Tool],
    /// Whether it runs as root in namespaces of root's, instead of those that anyone may make: it is ignored where
    /// there is no root.
    pub root: bool,
    /// Tests it.
    ///
    /// # Panics
    /// The promise is not kept.
    pub body: fn(&World),
}

/// Lists the scenarios of a file, with the programs that not every scenario runs, and those that need root:
/// `scenarios![one, two needs BIRD FRR, three as root];`. One that is forgotten is a function that is never used, of
/// which the compiler warns.
#[macro_export]
macro_rules! scenarios {
    ($($function:ident $(as $root:ident)? $(needs $($tool:ident)+)?),+ $(,)?) => {
        pub const SCENARIOS: &[$crate::Scenario] = &[$($crate::Scenario {
            module: module_path!(),
            function: stringify!($function),
            needs: &[$($($crate::tools::$tool),+)?],
            root: {
                const ROOT: &[&str] = &[$(stringify!($root))?];
                !ROOT.is_empty()
            },
            body: $function,
        }),+];
    };
}

impl Scenario {
    /// `FILE::FUNCTION`.
    fn name(&self) -> String {
        format!("{}::{}", self.file(), self.function)
    }

    fn file(&self) -> &'static str {
        self.module.rsplit("::").next().unwrap_or(self.module)
    }

    /// In a process that is inside its namespaces.
    fn run_here(&self) -> ExitCode {
        end_after(LONGEST_SCENARIO).good();
        let world = World::new();
        (self.body)(&world);
        match world.unable.take() {
            None => ExitCode::SUCCESS,
            Some(reason) => {
                println!("{reason}");
                ExitCode::from(UNABLE)
            }
        }
    }

    /// Runs this program again for it. Where that is refused, or a program is missing, the scenario is ignored; with
    /// `CI=true` in the environment it fails. A feature that the kernel lacks is not a failure in either case, nor
    /// is that we are not root.
    fn run_inside(&self) -> Result<Completion, Failed> {
        let missing = tools::require(self.needs, &tools::search_path(), "the scenario").err();
        if let Some(reason) = missing.map(|error| error.to_string()).or_else(|| refused().map(str::to_owned)) {
            return match std::env::var("CI").as_deref() {
                Ok("true") => Err(format!("it cannot run here, and must under CI: {reason}").into()),
                _ => Ok(Completion::ignored_with(reason)),
            };
        }
        if self.root && !is_root() {
            return Ok(Completion::ignored_with("it needs root, and no namespace of users grants what it does"));
        }
        let me = std::env::current_exe().map_err(|error| format!("the path of this test is not known: {error}"))?;
        let mut command = Command::new("unshare");
        command
            .arg(if self.root { "-nm" } else { "-Urnm" })
            .arg(me)
            .env(INSIDE, self.name())
            .env("PATH", tools::search_path());
        let done = command.output().map_err(|error| format!("unshare cannot be run: {error}"))?;
        let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
        if done.status.code() == Some(UNABLE.into()) {
            return Ok(Completion::ignored_with(out.lines().last().unwrap_or_default()));
        }
        match done.status.success() {
            true => Ok(Completion::Completed),
            false => Err(format!("{}, inside its namespaces ({}):\n{out}{err}", self.name(), done.status).into()),
        }
    }
}

/// Are we root, and not of a namespace of users only?
fn is_root() -> bool {
    let users = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    users.split_whitespace().eq(["0", "0", "4294967295"])
        && run(Command::new("unshare").args(["-nm", "true"])).code == Some(0)
}

/// Why scenarios cannot run here, found out once.
fn refused() -> Option<&'static str> {
    static REFUSED: OnceLock<Option<String>> = OnceLock::new();
    let find_out = || {
        if let Err(missing) = tools::require(&TOOLS, &tools::search_path(), "every scenario") {
            return Some(missing.to_string());
        }
        let possible = run(Command::new("unshare").args(["-Urnm", "test", "-w", "/dev/net/tun"]));
        let why = possible.complaint();
        (possible.code != Some(0)).then(|| format!("`unshare -Urnm` with /dev/net/tun is refused here: {why}"))
    };
    REFUSED.get_or_init(find_out).as_deref()
}

/// Runs the scenarios that the command line selects, as cargo's own test programs do; `folder` has a file for each
/// list.
///
/// # Panics
/// A file's list is missing, or there is no `perigee` to test.
pub fn main(folder: &str, lists: &[&[Scenario]]) -> ExitCode {
    let all: Vec<Scenario> = lists.concat();
    if let Ok(name) = std::env::var(INSIDE) {
        let scenario = all.iter().find(|scenario| scenario.name() == name);
        return scenario.unwrap_or_else(|| panic!("there is no scenario {name}")).run_here();
    }
    let mut arguments = Arguments::from_args();
    // They wait more than they compute.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    arguments.test_threads.get_or_insert(3 * cores);
    every_file_is_listed(folder, &all);
    if !arguments.list {
        perigee(); // fails here with a clear message if there is none
    }
    let trial = |scenario: Scenario| Trial::ignorable_test(scenario.name(), move || scenario.run_inside());
    libtest_mimic::run(&arguments, all.into_iter().map(trial).collect()).exit_code()
}

fn every_file_is_listed(folder: &str, all: &[Scenario]) {
    // The sources are not there when the program is run elsewhere.
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let file = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let listed = file == "main" || all.iter().any(|scenario| scenario.file() == file);
        assert!(listed, "{} has scenarios, but main.rs does not name them", path.display());
    }
}
