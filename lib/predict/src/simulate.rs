// SPDX-License-Identifier: MIT
//! The simulation: a program of the ns-3 module (`ns3/softrouter`), given a scenario in JSON, which answers in JSON.
//!
//! It is a process of its own: what it prints is bounded, and so is its time; whatever it does wrong becomes an error
//! that says what came instead of an answer. Scenario and answer go through pipes; the program ends by itself when the
//! process that started it does.

use crate::figures::{Figures, Method, Methods, Percentiles};
use crate::profile::Profile;
use crate::traffic::Arrivals;
use serde::{Deserialize, Serialize};
use std::env;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// The program's name.
pub const PROGRAM: &str = "softrouter-predict";
/// Environment variable with its path.
pub const VARIABLE: &str = "PERIGEE_NS3";
/// How it gets onto a machine.
pub const INSTALL: &str =
    "install ns-3 and build the module: `apt install libns3-dev nlohmann-json3-dev cmake`, then `./x ns3`";
/// The most it may print, in bytes.
const MAX_OUTPUT: u64 = 1 << 20;
/// Simulated seconds that the program takes, before and while it measures.
const MAX_SECONDS: f64 = 1000.0;
/// The time between two looks at a running program.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// How much is shown of what it printed.
const EXCERPT_CHARS: usize = 300;

/// Why there is no answer from the simulation.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// There is no program.
    #[error("{file}: found no simulator ({source}), expected {PROGRAM}; {INSTALL}", file = file.display())]
    Absent {
        /// Where it should have been.
        file: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A process could not be started or waited for.
    #[error("the simulation's {what}: {source}")]
    Io {
        /// What was attempted.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The program failed.
    #[error("{program}: {status}{said}", program = program.display())]
    Failed {
        program: PathBuf,
        /// How it ended.
        status: String,
        /// What it printed, after a colon; empty if it printed nothing.
        said: String,
    },
    /// It took too long.
    #[error("{program}: found no answer within {seconds} s; simulate fewer packets (--packets) or wait longer (--timeout)", program = program.display())]
    Late {
        program: PathBuf,
        /// The time it had.
        seconds: u64,
    },
    /// It printed something other than an answer.
    #[error("{program}: found {found}, expected an answer in JSON as ns3/softrouter gives it; build it again: `./x ns3`", program = program.display())]
    Answer {
        program: PathBuf,
        /// What it printed.
        found: String,
    },
}

/// A program that simulates.
#[derive(Clone, Debug)]
pub struct Simulator {
    program: PathBuf,
    timeout: Duration,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The router; its ports and link are what is simulated.
    pub profile: Profile,
    pub cores: u32,
    /// How many directions have a flow: 1 or 2.
    pub directions: u32,
    /// Gbit/s on the wire, all directions together.
    pub rate_gbps: f64,
    /// The offered rate in packets per second.
    pub rate_pps: f64,
    /// Frame sizes in bytes with their weights.
    pub sizes: Vec<(u32, f64)>,
    pub flows: u32,
    /// How packets arrive.
    pub arrivals: Arrivals,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Packets to offer before counting begins.
    pub warm_up: u64,
    /// Packets to offer and count.
    pub packets: u64,
    /// Enough of them for the queues to behave as they do in the long run.
    pub settled: bool,
}

#[derive(Serialize)]
struct Size {
    bytes: u32,
    weight: f64,
}

impl Scenario {
    /// The scenario as the program reads it.
    fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Written {
            profile: serde_json::Value,
            cores: u32,
            ports: u32,
            link_gbps: f64,
            directions: u32,
            rate_gbps: f64,
            sizes: Vec<Size>,
            flows: u32,
            arrivals: Arrivals,
            seed: u64,
            warm_up_s: f64,
            duration_s: f64,
        }
        let mut profile = self.profile.clone();
        // A fit's report may be long, and says nothing to a simulation.
        profile.fit = None;
        let written = Written {
            profile: serde_json::from_str(&profile.to_json()).expect("a profile writes JSON"),
            cores: self.cores,
            ports: profile.router.ports,
            link_gbps: profile.router.link_gbps,
            directions: self.directions,
            rate_gbps: self.rate_gbps,
            sizes: self.sizes.iter().map(|&(bytes, weight)| Size { bytes, weight }).collect(),
            flows: self.flows,
            arrivals: self.arrivals,
            seed: self.seed,
            // The program accepts no more, and a router this slow has had packets enough.
            warm_up_s: (self.warm_up as f64 / self.rate_pps).min(MAX_SECONDS),
            duration_s: (self.packets as f64 / self.rate_pps).min(MAX_SECONDS),
        };
        serde_json::to_string_pretty(&written).expect("all keys are strings")
    }
}

/// The program's answer, which may have keys that are not used here.
#[derive(Clone, Debug, Deserialize)]
struct Answer {
    ns3: String,
    events: u64,
    packets: u64,
    offered_pps: f64,
    measured_s: f64,
    /// Share of the packets that reached the router and were dropped there.
    loss: f64,
    sojourn_ns: Sojourn,
    batch_mean: Option<f64>,
    utilisation: Vec<f64>,
}

/// None: no packet passed.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Sojourn {
    mean: Option<f64>,
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    #[serde(rename = "p99.9")]
    p999: Option<f64>,
}

impl Answer {
    /// The answer to a scenario with this number of cores; else what is wrong with it.
    fn parse(text: &str, cores: u32) -> Result<Self, String> {
        let answer: Self = serde_json::from_str(text).map_err(|error| format!("{:?} ({error})", excerpt(text)))?;
        let times = answer.sojourn_ns;
        let numbers = [
            ("offered_pps", Some(answer.offered_pps), f64::INFINITY),
            ("measured_s", Some(answer.measured_s), f64::INFINITY),
            ("loss", Some(answer.loss), 1.0),
            ("batch_mean", answer.batch_mean, f64::INFINITY),
            ("sojourn_ns.mean", times.mean, f64::INFINITY),
            ("sojourn_ns.p50", times.p50, f64::INFINITY),
            ("sojourn_ns.p90", times.p90, f64::INFINITY),
            ("sojourn_ns.p99", times.p99, f64::INFINITY),
            ("sojourn_ns.p99.9", times.p999, f64::INFINITY),
        ];
        let utilisation = answer.utilisation.iter().map(|share| ("utilisation", Some(*share), 1.0 + 1e-6));
        for (name, value, most) in numbers.into_iter().chain(utilisation) {
            if value.is_some_and(|value| !(value.is_finite() && (0.0..=most).contains(&value))) {
                return Err(format!("{name} {}", value.unwrap_or_default()));
            }
        }
        if answer.utilisation.len() != cores as usize {
            return Err(format!("utilisation of {} cores instead of {cores}", answer.utilisation.len()));
        }
        if answer.packets == 0 || answer.offered_pps * answer.measured_s == 0.0 {
            return Err("a simulation without packets".to_owned());
        }
        Ok(answer)
    }

    fn figures(self, settled: bool) -> Figures {
        let loss = self.loss;
        let times = self.sojourn_ns;
        let counted = (self.offered_pps * self.measured_s).round() as u64;
        let method = Method::Simulated { ns3: self.ns3, events: self.events, packets: self.packets, counted, settled };
        let percentiles = || Some(Percentiles { p50: times.p50?, p90: times.p90?, p99: times.p99?, p999: times.p999? });
        Figures {
            offered_pps: self.offered_pps,
            accepted_pps: Some(self.offered_pps * (1.0 - loss)),
            loss: Some(loss),
            loss_at_least: None,
            mean_ns: times.mean,
            sojourn_ns: percentiles(),
            utilisation: Some(self.utilisation.into_iter().map(|share| share.min(1.0)).collect()),
            batch: self.batch_mean.filter(|batch| *batch > 0.0),
            methods: Methods::all(method),
        }
    }
}

impl Simulator {
    /// The program: `named` on the command line, else what [`VARIABLE`] says, else `ns3/softrouter-predict` beside
    /// `beside` (this executable) or one folder above, else on PATH. None: it is not installed.
    ///
    /// # Errors
    /// A program that was named and is not there.
    pub fn find(
        named: Option<&Path>,
        beside: Option<&Path>,
        timeout: Duration,
    ) -> Result<Option<Self>, SimulationError> {
        let by_variable = env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        if let Some(program) = named.map(Path::to_owned).or(by_variable) {
            return match program.metadata() {
                Ok(_) => Ok(Some(Self { program, timeout })),
                Err(source) => Err(SimulationError::Absent { file: program, source }),
            };
        }
        let built =
            beside.and_then(Path::parent).into_iter().flat_map(|folder| [Some(folder), folder.parent()]).flatten();
        let built = built.map(|folder| folder.join("ns3").join(PROGRAM));
        let path = env::var_os("PATH").unwrap_or_default();
        let installed = env::split_paths(&path).map(|folder| folder.join(PROGRAM)).collect::<Vec<_>>();
        let program = built.chain(installed).find(|file| file.is_file());
        Ok(program.map(|program| Self { program, timeout }))
    }

    /// The program's path.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Simulates a scenario.
    ///
    /// # Errors
    /// A program that cannot be started, fails, takes too long, or answers something else.
    pub fn run(&self, scenario: &Scenario) -> Result<Figures, SimulationError> {
        let text = self.output(scenario.to_json())?;
        let wrong = |found| SimulationError::Answer { program: self.program.clone(), found };
        Ok(Answer::parse(&text, scenario.cores).map_err(wrong)?.figures(scenario.settled))
    }

    /// What the program prints for a scenario, which it gets through a pipe.
    fn output(&self, scenario: String) -> Result<String, SimulationError> {
        let mut command = Command::new(&self.program);
        command.arg("--scenario=-").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(|source| SimulationError::Absent { file: self.program.clone(), source })?;
        let mut running = Running(child);
        writer(running.0.stdin.take(), scenario);
        let said = reader(running.0.stdout.take());
        let complained = reader(running.0.stderr.take());
        let end = Instant::now() + self.timeout;
        let late = || SimulationError::Late { program: self.program.clone(), seconds: self.timeout.as_secs() };
        let status = loop {
            match running.0.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() >= end => return Err(late()),
                Ok(None) => thread::sleep(POLL_INTERVAL),
                Err(source) => return Err(SimulationError::Io { what: "end", source }),
            }
        };
        // A process that it started may still hold the pipes, and must not hold us up.
        let patience = POLL_INTERVAL.max(end.saturating_duration_since(Instant::now()));
        let said = said.recv_timeout(patience).map_err(|_| late())?;
        let wrong = |found| SimulationError::Answer { program: self.program.clone(), found };
        if said.len() as u64 > MAX_OUTPUT {
            return Err(wrong(format!("more than {} KiB", MAX_OUTPUT >> 10)));
        }
        if !status.success() {
            let complaint = complained.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
            let complaint = excerpt(&String::from_utf8_lossy(&complaint));
            let said = if complaint.is_empty() { complaint } else { format!(": {complaint}") };
            return Err(SimulationError::Failed { program: self.program.clone(), status: status.to_string(), said });
        }
        String::from_utf8(said).map_err(|error| wrong(format!("bytes that are no text ({error})")))
    }
}

/// A process that does not outlive its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended by itself, or nobody needs it any more: either way an error here changes nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes into a pipe and closes it, on a thread: a program that does not read would hold us up.
fn writer(pipe: Option<impl Write + Send + 'static>, text: String) {
    thread::spawn(move || {
        if let Some(mut pipe) = pipe {
            // If the program ended before it had read everything, its exit status or its answer tells what was wrong.
            let _ = pipe.write_all(text.as_bytes());
        }
    });
}

/// Reads a pipe to its end or to its limit, on a thread: the program would wait for ever if nobody read.
fn reader(pipe: Option<impl Read + Send + 'static>) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            // What came before an error is still of use.
            let _ = pipe.by_ref().take(MAX_OUTPUT + 1).read_to_end(&mut bytes);
        }
        // If the program was too late, nobody is waiting any more.
        let _ = sender.send(bytes);
    });
    receiver
}

/// The beginning of a text, on one line.
fn excerpt(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests;
