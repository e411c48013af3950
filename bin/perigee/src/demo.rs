// SPDX-License-Identifier: MIT
//! `perigee demo`: a client, a router and a server on one machine, and real programs that talk through the router.
//!
//! ```text
//!  outside   runs the inside and says how it ended (crate::isolated: the temporary folder, namespaces, signals)
//!     |
//!  inside    world: client - router - server    router: `perigee run`    probes: ping, traceroute, iperf3
//!            bgp: BIRD next to the router and on the server
//!            account: perigee's counters against those of client and server    report: the table
//! ```
//!
//! Everything inside is in a PID namespace of its own, whose first process is `inside`: when that ends, the kernel ends
//! all the others, and with them the network namespaces. `inside` ends when its standard input is closed, that is, with
//! `outside`.

mod account;
mod bgp;
mod bgp_report;
mod inside;
mod outside;
mod probes;
mod progress;
mod report;
mod router;
mod world;

use anyhow::Result;
use clap::Args;
use perigee_lab::Isolation;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `perigee demo`.
#[derive(Args)]
pub struct DemoArgs {
    /// BIRD next to the router learns some thousand routes by BGP: they come, half of them go, and they come again
    #[arg(long)]
    bgp: bool,
    /// In the kernel: both ports have `plane = "xdp"`, which needs root
    #[arg(long)]
    xdp: bool,
    /// Leave everything running until Ctrl-C, and print commands to try
    #[arg(long)]
    keep: bool,
    /// The router's lookup structure: NAME, or one for IPv4 and one for IPv6, as in `perigee run`
    #[arg(long, value_name = "NAME[,NAME]")]
    fib: Option<String>,
    /// The results as one JSON object
    #[arg(long)]
    json: bool,
    /// The temporary folder: this process is already inside
    #[arg(long, hide = true, value_name = "FOLDER")]
    inside: Option<PathBuf>,
    /// How this process was isolated
    #[arg(long, hide = true, default_value_t = Isolation::User)]
    isolation: Isolation,
}

pub fn demo(args: &DemoArgs) -> Result<ExitCode> {
    match &args.inside {
        Some(folder) => inside::run(args, folder),
        None => outside::run(args),
    }
}
