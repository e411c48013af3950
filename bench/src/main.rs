// SPDX-License-Identifier: MIT
//! `./x bench`: measurements of perigee, each comparable with something else on the same machine in the same minute.
//!
//! ```text
//! forward, instructions    worker: the forwarding loop in a process of its own    traffic: packets, and how they must leave
//! fib                      lookup structures; --in-router in the worker           table: routes, an oracle, destinations
//! churn                    `perigee run` in namespaces (perigee-lab), a pump of route changes
//! changes                  route changes through the router's tables alone, layer by layer
//! attack                   `perigee run` in namespaces under floods of garbage: what the others notice
//! gen                      the generator beside testpmd's, searches for a known limit, tasks in `perigee task`
//! slowpath                 `perigee run` under a flood of punted packets; assistants alone on one core and two
//! soak                     `perigee run` under traffic for long, with everything around it in motion; what is lost, memory, gaps
//! scaling                  workers, and lookups alone, on several threads beside one
//! power                    `perigee run` under parts of its load: CPU time and delays by idle policy
//! multicast                copies for groups, by the fast path and by an assistant
//! snabb                    graphs of apps; in namespaces, programs by perigee and by Snabb in turn
//! xdp                      the in-kernel plane beside the kernel's own forwarding and XDP programs, between veth pairs
//! ns3                      a program that measures itself
//! evaluate                 published figures, most of them by a worker between source and sink in memory (perigee-rig)
//! ```
#![forbid(unsafe_code)]

mod attack;
mod changes;
mod churn;
mod evaluate;
mod fib;
mod forward;
mod generate;
mod instructions;
mod isolated;
mod machine;
mod multicast;
mod ns3;
mod peers;
mod power;
mod scaling;
mod slowpath;
mod snabb;
mod soak;
mod statistics;
mod table;
mod traffic;
mod worker;
mod xdp;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Measurements of perigee.
#[derive(Parser)]
#[command(name = "perigee-bench", bin_name = "./x bench", about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to measure.
#[derive(Subcommand)]
enum Command {
    /// Forwarding of one core, compared with dpdk-testpmd's bare I/O on the same source: Lua loop, the same loop in
    /// Rust
    Forward(forward::ForwardArgs),
    /// Lookup structures side by side: rate, memory, build time, changes, wrong answers; DPDK's among them
    Fib(fib::FibArgs),
    /// A full table and many changes of it, through Linux: time, memory, lost packets, the worker's longest pause
    Churn(churn::ChurnArgs),
    /// Changes of routes through the tables alone, layer by layer: per second, one at a time and in runs
    Changes(changes::ChangesArgs),
    /// The generator and tasks: frames per second beside dpdk-testpmd's, gaps at constant rates, searches, pipes and
    /// rings
    #[command(name = "gen")]
    Generate(generate::GenerateArgs),
    /// Instructions per packet of both loops, counted by valgrind: the same on a busy machine
    Instructions(instructions::InstructionsArgs),
    /// The in-kernel plane on one core between veth pairs, beside Linux's own routing and other XDP programs
    Xdp(xdp::XdpArgs),
    /// What replication of packets to groups costs in the fast path and in the slow path
    Multicast(multicast::MulticastArgs),
    /// Packets per second that the ns-3 module simulates
    Ns3(ns3::Ns3Args),
    /// Packets that the slow path judges, what a flood of them costs the others, and several threads of it
    #[command(name = "slowpath")]
    SlowPath(slowpath::SlowPathArgs),
    /// Floods of garbage: what the others notice, and what is left a minute later
    Attack(attack::AttackArgs),
    /// The published evaluations that perigee descends from, repeated here
    Evaluate(evaluate::EvaluateArgs),
    /// A rig in a process of its own; `evaluate` starts it
    #[command(name = evaluate::CHILD, hide = true)]
    EvaluateRig(evaluate::RigArgs),
    /// A router under traffic for long, while everything around it changes, flaps and dies
    Soak(soak::SoakArgs),
    /// CPU time of a worker and delays of packets by idle policy, at 0 to 100 % load
    Power(power::PowerArgs),
    /// Several workers, and lookups on several threads, beside one
    Scaling(scaling::ScalingArgs),
    /// Graphs of Snabb apps, on one thread and on two, and programs in turn with Snabb itself
    Snabb(snabb::SnabbBenchArgs),
    /// The process that forwards; `forward` starts it
    #[command(hide = true)]
    ForwardWorker(worker::WorkerArgs),
}

fn main() -> ExitCode {
    let done = match &Cli::parse().command {
        Command::Forward(args) => forward::forward(args),
        Command::Fib(args) => fib::fib(args),
        Command::Churn(args) => churn::churn(args),
        Command::Changes(args) => changes::changes(args),
        Command::Generate(args) => generate::generate(args),
        Command::Instructions(args) => instructions::instructions(args),
        Command::Xdp(args) => xdp::xdp(args),
        Command::Multicast(args) => multicast::run(args),
        Command::Ns3(args) => ns3::ns3(args),
        Command::SlowPath(args) => slowpath::slow_path(args),
        Command::Attack(args) => attack::attack(args),
        Command::Evaluate(args) => evaluate::evaluate(args),
        Command::EvaluateRig(args) => evaluate::serve_rig(args),
        Command::Soak(args) => soak::soak(args),
        Command::Power(args) => power::power(args),
        Command::Scaling(args) => scaling::scaling(args),
        Command::Snabb(args) => snabb::snabb(args),
        Command::ForwardWorker(args) => worker::serve(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("perigee-bench: {error:#}");
        ExitCode::FAILURE
    })
}
