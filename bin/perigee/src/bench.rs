// SPDX-License-Identifier: MIT
//! `perigee bench`: measurements of perigee, each comparable with something else on the same machine in the same minute.

mod churn;
mod fib;
mod forward;
mod instructions;
mod machine;
mod ns3;
mod peers;
mod snabb;
mod statistics;
mod traffic;
mod worker;

use anyhow::Result;
use clap::Subcommand;
use std::process::ExitCode;

/// What to measure.
#[derive(Subcommand)]
pub enum BenchCommand {
    /// Forwarding of one core, beside dpdk-testpmd's bare I/O on the same source: Lua loop, the same loop in Rust
    Forward(forward::ForwardArgs),
    /// Lookup structures side by side: rate, memory, build time, changes, wrong answers; DPDK's among them
    Fib(fib::FibArgs),
    /// A full table and many changes of it, through Linux: time, memory, lost packets, the worker's longest pause
    Churn(churn::ChurnArgs),
    /// Instructions per packet of both loops, counted by valgrind: the same on a busy machine
    Instructions(instructions::InstructionsArgs),
    /// Packets per second that the ns-3 module simulates
    Ns3(ns3::Ns3Args),
    /// Graphs of Snabb apps, on one thread and on two, beside Snabb's own figures
    Snabb(snabb::SnabbBenchArgs),
    /// The process that forwards; `forward` starts it
    #[command(hide = true)]
    ForwardWorker(worker::WorkerArgs),
}

/// Runs one.
pub fn bench(command: &BenchCommand) -> Result<ExitCode> {
    match command {
        BenchCommand::Forward(args) => forward::forward(args),
        BenchCommand::Fib(args) => fib::fib(args),
        BenchCommand::Churn(args) => churn::churn(args),
        BenchCommand::Instructions(args) => instructions::instructions(args),
        BenchCommand::Ns3(args) => ns3::ns3(args),
        BenchCommand::Snabb(args) => snabb::snabb(args),
        BenchCommand::ForwardWorker(args) => worker::serve(args),
    }
}
