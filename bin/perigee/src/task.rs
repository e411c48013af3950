// SPDX-License-Identifier: MIT
//! `perigee task`: runs a Lua script whose functions are tasks, on DPDK ports.

pub mod machine;

use anyhow::{Context, Result, bail};
use clap::Args;
use machine::DpdkMachine;
use perigee_dpdk as dpdk;
use perigee_lua::Script;
use perigee_lua::task::{Failure, Tasks};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How long tasks may take to end after they were asked to.
const GRACE: Duration = Duration::from_secs(30);

#[derive(Args)]
#[command(
    override_usage = "perigee task [OPTIONS] SCRIPT [ARGUMENTS]...",
    after_help = "docs/tasks.md describes what a script can do; examples/tasks has a dozen. Programs of libmoon run, too."
)]
pub struct TaskArgs {
    #[command(flatten)]
    pub machine: MachineArgs,
    /// A device that the script may call by its number, from 0 on; may be repeated. DEVICE: a Linux interface,
    /// xdp:INTERFACE, a PCI address, or a DPDK device such as net_pcap0,rx_pcap=FILE
    #[arg(long = "port", value_name = "DEVICE")]
    ports: Vec<String>,
    /// The script, a file with a function main(...), and the arguments of main, as strings
    // One list: what follows the script, --help too, is the script's.
    #[arg(value_name = "SCRIPT", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<String>,
}

/// What measuring commands take of the machine.
#[derive(Args, Clone)]
pub struct MachineArgs {
    /// The cores to use, such as 2,4-7; the first is the main task's [default: all that this process may use]
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub cores: Option<Cores>,
    /// MB of memory for packets
    #[arg(long, value_name = "MB", default_value_t = 512, value_parser = clap::value_parser!(u32).range(32..=1 << 20))]
    pub memory: u32,
    /// Packet memory in hugepages
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub hugepages: WhenHuge,
}

/// When packet memory is to be in hugepages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum WhenHuge {
    /// If enough are free
    #[default]
    Auto,
    Yes,
    No,
}

impl From<WhenHuge> for dpdk::Hugepages {
    fn from(when: WhenHuge) -> dpdk::Hugepages {
        match when {
            WhenHuge::Auto => dpdk::Hugepages::Auto,
            WhenHuge::Yes => dpdk::Hugepages::Yes,
            WhenHuge::No => dpdk::Hugepages::No,
        }
    }
}

/// Numbers of cores, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores(pub Vec<usize>);

/// Reads a list of cores.
pub fn cores(text: &str) -> Result<Cores, String> {
    let usable = dpdk::usable_cores();
    let mut list = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (Ok(first), Ok(last)) = (first.trim().parse::<usize>(), last.trim().parse::<usize>()) else {
            return Err(format!("found {part:?}, expected numbers of cores such as 2,4-7"));
        };
        for core in first..=last.min(first + usable.last().map_or(0, |last| *last) + 1) {
            if !usable.contains(&core) {
                return Err(format!("this process may not use core {core}: it may use {usable:?}"));
            }
            if list.contains(&core) {
                return Err(format!("core {core} is there twice"));
            }
            list.push(core);
        }
    }
    if list.is_empty() {
        Err(format!("found {text:?}, expected numbers of cores such as 2,4-7"))
    } else {
        Ok(Cores(list))
    }
}

pub fn task(args: &TaskArgs) -> Result<ExitCode> {
    let (script, arguments) = args.words.split_first().context("a script is required")?;
    if script.starts_with('-') {
        bail!("there is no option {script}: see perigee task --help");
    }
    let script = Script::read(Path::new(script))?;
    // Before the first thread is started.
    dpdk::set_runtime_dir(dpdk::fallback_runtime_dir().as_deref())?;
    let machine = Arc::new(DpdkMachine::new(&args.machine));
    let tasks = Tasks::new(machine, script, args.ports.clone());
    let interrupted = tasks.clone();
    crate::signals::on_signals(move || interrupted.stop(), GRACE)?;
    match tasks.run(arguments, GRACE) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(failure @ Failure::Stuck { .. }) => {
            eprintln!("perigee: {failure}");
            // Nothing can be taken from a thread that still uses it.
            std::process::exit(1)
        }
        Err(failure) => bail!(failure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_or_refused() {
        let first = dpdk::usable_cores()[0];
        assert_eq!(cores(&first.to_string()), Ok(Cores(vec![first])));
        assert_eq!(cores(&format!("{first}-{first}")), Ok(Cores(vec![first])));
        for (text, part) in [
            ("", "found \"\""),
            ("a", "found \"a\""),
            ("1-", "found \"1-\""),
            ("99999", "may not use core 99999"),
            ("0-99999999999", "may not use"),
        ] {
            let error = cores(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(cores(&format!("{first},{first}")).unwrap_err().contains("twice"));
    }
}
