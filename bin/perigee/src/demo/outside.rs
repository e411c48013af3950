// SPDX-License-Identifier: MIT
//! The process that the user started: runs the inside, and says how it ended.

use super::DemoArgs;
use crate::isolated::{End, Isolated};
use crate::launch::plane;
use anyhow::{Result, bail};
use perigee_lab::Isolation;
use perigee_lab::tools::{self, Tool};
use std::ffi::OsString;
use std::io::{IsTerminal, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The programs that the demo runs.
const NEEDED: [Tool; 3] = [tools::PING, tools::TRACEROUTE, tools::IPERF3];

/// How long the processes inside may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

pub fn run(args: &DemoArgs) -> Result<ExitCode> {
    if args.xdp
        && let Some(why) = plane::unavailable()
    {
        bail!("{why}; the demo without --xdp needs none of it");
    }
    let bgp: &[Tool] = if args.bgp { &[tools::BIRD, tools::BIRDC] } else { &[] };
    let isolated = Isolated {
        name: "demo",
        command: "demo",
        who: "the demo",
        tools: &[&NEEDED, bgp].concat(),
        tun: true,
        patience: PATIENCE,
    };
    Ok(match isolated.run(|isolation, folder| arguments(args, isolation, folder))? {
        End { signal: Some(signal), .. } => {
            stopped();
            // With --keep, this is the only way to end it.
            if args.keep { ExitCode::SUCCESS } else { ExitCode::from(128 + signal.as_raw_value() as u8) }
        }
        // The inside has already reported a failure.
        end => ExitCode::from(end.exit_code()),
    })
}

/// Reports the end, if the terminal is still there.
fn stopped() {
    let mut stderr = std::io::stderr();
    // The terminal has written ^C into the spinner's line.
    let clear = if stderr.is_terminal() { "\r\x1b[K" } else { "\n" };
    let _ = writeln!(stderr, "{clear}perigee: demo stopped; nothing is left behind");
}

/// Those of the inside.
fn arguments(args: &DemoArgs, isolation: Isolation, folder: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["demo", "--isolation", &isolation.to_string()].map(OsString::from).to_vec();
    words.extend([OsString::from("--inside"), folder.into()]);
    let flags = [(args.keep, "--keep"), (args.json, "--json"), (args.bgp, "--bgp"), (args.xdp, "--xdp")];
    words.extend(flags.into_iter().filter(|(given, _)| *given).map(|(_, flag)| flag.into()));
    words.extend(args.fib.iter().map(|names| format!("--fib={names}").into()));
    words
}
