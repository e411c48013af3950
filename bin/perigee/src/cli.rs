// SPDX-License-Identifier: MIT
//! The command line: every subcommand with its help.

#[cfg(not(all(feature = "measure", feature = "predict")))]
use crate::missing;
#[cfg(feature = "predict")]
use crate::predict;
use crate::{audit, capture, check, demo, neighbor, output, reload, route, run, show, snabb, task, trace};
#[cfg(feature = "measure")]
use crate::{bench, r#gen};
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// A software router that you can script, measure and predict.
#[derive(Parser)]
#[command(name = "perigee", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a router from a configuration file, until SIGTERM or Ctrl-C; SIGHUP reloads
    Run(run::RunArgs),
    /// Show packets crossing a router: ping, traceroute and iperf3 between namespaces, without root, NIC or hugepages
    Demo(demo::DemoArgs),
    /// Check a configuration file and the files it names; start nothing
    Check(check::CheckArgs),
    /// Show what a running router knows and counts
    Show(show::ShowArgs),
    /// Add or delete a route of a running router
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// Forget neighbors of a running router
    #[command(subcommand)]
    Neighbor(neighbor::NeighborCommand),
    /// Compare Linux's routes, the RIB and the workers' lookup structures prefix by prefix; exit code 1 if anything
    /// differs
    Audit(audit::AuditArgs),
    /// Follow single packets: every module with its decision, the route used, the reason of a drop and its RFC section
    Trace(trace::TraceArgs),
    /// Capture the packets of a port, dropped ones, or those for the slow path: as lines or as pcapng
    Capture(capture::CaptureArgs),
    /// Load configuration and script again in a running router, all or nothing
    Reload(reload::ReloadArgs),
    /// Run a Snabb program: its apps on DPDK ports, on one or several cores
    Snabb(snabb::SnabbArgs),
    /// Run the tasks of a Lua script: functions on cores of their own that send, receive and talk to each other
    Task(task::TaskArgs),
    /// Measure a device between two ports by the RFCs' methods: perigee, Linux, any command line, or a box
    #[cfg(feature = "measure")]
    #[command(subcommand)]
    Bench(bench::BenchCommand),
    /// Generate traffic: on a port, at a rate; count, order and time what comes back
    #[cfg(feature = "measure")]
    Gen(Box<r#gen::GenArgs>),
    /// Predict how fast a router will be on other hardware, from measured points
    #[command(subcommand)]
    #[cfg(feature = "predict")]
    Predict(predict::PredictCommand),
    #[command(flatten)]
    #[cfg(not(all(feature = "measure", feature = "predict")))]
    Missing(missing::Missing),
    /// Print perigee.h, the C ABI of modules: `perigee header > perigee.h`
    Header,
    /// Print a completion script: `perigee completions bash > /etc/bash_completion.d/perigee`
    Completions { shell: clap_complete::Shell },
    /// The privileged helper process of a router; the router starts it
    #[command(hide = true)]
    Helper { reach: perigee_helper::Reach },
}

impl Cli {
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run(args) => run::run(&args),
            Command::Demo(args) => demo::demo(&args),
            Command::Check(args) => check::check(&args),
            Command::Show(args) => show::show(&args),
            Command::Route(command) => route::route(&command),
            Command::Neighbor(command) => neighbor::neighbor(&command),
            Command::Audit(args) => audit::audit(&args),
            Command::Trace(args) => trace::trace(&args),
            Command::Capture(args) => capture::capture(&args),
            Command::Reload(args) => reload::reload(&args),
            Command::Snabb(args) => snabb::snabb(&args),
            Command::Task(args) => task::task(&args),
            #[cfg(feature = "measure")]
            Command::Bench(command) => bench::bench(&command),
            #[cfg(feature = "measure")]
            Command::Gen(args) => r#gen::generate(&args),
            #[cfg(feature = "predict")]
            Command::Predict(command) => predict::predict(&command),
            #[cfg(not(all(feature = "measure", feature = "predict")))]
            Command::Missing(command) => command.run(),
            Command::Header => output::print(&perigee_lua::header()),
            Command::Completions { shell } => {
                let mut script = Vec::new();
                clap_complete::generate(shell, &mut Cli::command(), "perigee", &mut script);
                output::print(&String::from_utf8(script)?)
            }
            Command::Helper { reach } => {
                run::log_of_helper();
                perigee_helper::serve_stdin(reach, perigee_config::files_named)?;
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}
