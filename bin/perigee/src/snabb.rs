// SPDX-License-Identifier: MIT
//! `perigee snabb`: runs Snabb programs on DPDK ports.
//!
//! ```text
//! process   what the VMs of this process share: EAL, packets, ports, links between threads
//! native    the functions that Lua finds in `core.native`
//! ports     which devices stand for the ports that programs ask for
//! tasks     tasks beside the program: the machine they run on, their VMs
//! threads   one VM per thread, and the messages between the first one and the others
//! ```

mod native;
mod ports;
mod process;
mod tasks;
mod threads;

use anyhow::{Context, Result, bail};
use clap::Args;
use perigee_dpdk as dpdk;
use perigee_lua::snabb::SnabbSources;
use ports::Ports;
use process::Process;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

#[derive(Args)]
#[command(
    after_help = "Programs: perigee snabb (without a program) lists them. For the rest, see a program's own --help.\n\
    Environment: SNABB_PORTS (as --port, apart by semicolons or line breaks), SNABB_SHM_ROOT (folder of counters), SNABB_TREE,\n\
    PERIGEE_SNABB (a folder to read the Lua sources from)."
)]
pub struct SnabbArgs {
    /// Run the selftest of a module, such as apps.basic.basic_apps; exit code 43: skipped
    #[arg(short = 't', long = "test", value_name = "MODULE", conflicts_with = "program")]
    test: Option<String>,
    /// A folder with `apps`, `lib` and `program` of a Snabb tree of your own (its `src`), searched before perigee's
    #[arg(long, value_name = "DIR", env = "SNABB_TREE")]
    tree: Option<PathBuf>,
    /// Threads to spread the apps over, one VM each; `config.app(c, name, class, arg, {worker = N})` places one
    /// explicitly. auto: as many as are worth it, by what the program's apps took when it last ran so
    #[arg(long, value_name = "N", default_value = "1", value_parser = workers)]
    workers: Workers,
    /// A port that programs may call by its number, from 0 on, and by the PCI address before it, if there is one: all
    /// drivers that ask for the card at that address get DEVICE. May be repeated. DEVICE: a PCI address, a DPDK
    /// device such as net_pcap0,rx_pcap=FILE, a Linux interface, or xdp:INTERFACE
    #[arg(long = "port", value_name = "[PCI=]DEVICE")]
    ports: Vec<String>,
    /// MB of memory for packets, of 11.5 KB each [default: half of the machine's, at most 4096]
    #[arg(long, value_name = "MB")]
    memory: Option<u32>,
    /// Packet memory in hugepages
    #[arg(long, value_name = "WHEN", value_parser = ["auto", "yes", "no"], default_value = "auto")]
    hugepages: String,
    /// The program (- and _ are the same), or a file with one, such as ./my.lua; and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_names = ["PROGRAM", "ARGS"])]
    program: Vec<String>,
}

/// `--workers`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Workers {
    Auto,
    Number(u16),
}

/// Most threads that `--workers` takes.
const MOST_WORKERS: u16 = 64;

fn workers(text: &str) -> Result<Workers, String> {
    if text == "auto" {
        return Ok(Workers::Auto);
    }
    match text.parse() {
        Ok(n) if (1..=MOST_WORKERS).contains(&n) => Ok(Workers::Number(n)),
        _ => Err(format!("expected a number from 1 to {MOST_WORKERS}, or auto")),
    }
}

/// The options of the command line and the environment.
#[derive(Debug, Clone)]
pub struct Options {
    pub sources: SnabbSources,
    pub tree: Option<PathBuf>,
    /// Threads; with `auto`, at most.
    pub workers: u16,
    /// As many threads as are worth it.
    pub auto: bool,
    pub ports: Ports,
    pub memory_mb: u32,
    pub hugepages: dpdk::Hugepages,
}

pub fn snabb(args: &SnabbArgs) -> Result<ExitCode> {
    let options = options(args)?;
    let (function, arguments) = match (&args.test, args.program.is_empty()) {
        (Some(module), _) => ("test", vec![module.clone()]),
        (None, false) => ("run", args.program.clone()),
        (None, true) if is_worker()? => ("run", vec!["worker".to_owned()]),
        (None, true) => {
            println!("Programs: {}", native::programs(&options).join(", "));
            println!(
                "Run one with `perigee snabb PROGRAM ARGS`, a file with `perigee snabb ./my.lua`; -h shows the options."
            );
            return Ok(ExitCode::SUCCESS);
        }
    };
    // Before the first thread is started.
    dpdk::set_runtime_dir(dpdk::fallback_runtime_dir().as_deref())?;
    let process = Arc::new(Process::new(options));
    process::end_on_signals(&process)?;
    let vm = threads::Vm::new(&process, 1)?;
    let result = vm.run("core.main", function, &arguments);
    // Programs end by core.main.exit, which does not return.
    let code = match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("{error}");
            1
        }
    };
    process.exit(code)
}

/// Is this a worker process of core.worker? Then it ends with the thread that started it.
fn is_worker() -> Result<bool> {
    if std::env::var_os("SNABB_PROGRAM_LUACODE").is_none() {
        return Ok(false);
    }
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // Checked after asking for the signal, as the parent may have ended before. Other processes inherit the variables,
    // too.
    let parent = rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get());
    let expected = std::env::var("SNABB_WORKER_PARENT").unwrap_or_default();
    if expected.parse() != Ok(parent) {
        bail!("SNABB_PROGRAM_LUACODE is set, and not by this process's parent: give a program, or unset it");
    }
    Ok(true)
}

fn options(args: &SnabbArgs) -> Result<Options> {
    let folder = std::env::var_os("PERIGEE_SNABB").map(PathBuf::from);
    if let Some(folder) = folder.as_ref().filter(|folder| !folder.join("core/boot.lua").is_file()) {
        bail!("PERIGEE_SNABB={}: expected a folder like perigee's snabb/, with core/boot.lua in it", folder.display());
    }
    if let Some(tree) = &args.tree
        && !["apps", "lib", "program", "core"].iter().any(|part| tree.join(part).is_dir())
    {
        bail!(
            "--tree {}: expected a folder with apps, lib or program in it, such as the src of a Snabb tree",
            tree.display()
        );
    }
    let environment = match std::env::var(ports::VARIABLE) {
        Err(std::env::VarError::NotUnicode(_)) => bail!("{}: expected UTF-8", ports::VARIABLE),
        value => value.ok(),
    };
    let tree = args.tree.as_ref().map(std::path::absolute).transpose().context("--tree")?;
    Ok(Options {
        sources: SnabbSources { folder, definitions: dpdk::snabb::definitions() },
        tree,
        workers: match args.workers {
            Workers::Number(n) => n,
            Workers::Auto => u16::try_from(dpdk::usable_cores().len()).unwrap_or(MOST_WORKERS).clamp(1, MOST_WORKERS),
        },
        auto: args.workers == Workers::Auto,
        ports: Ports::read(&args.ports, environment.as_deref())?,
        memory_mb: args.memory.unwrap_or_else(default_memory_mb),
        hugepages: match args.hugepages.as_str() {
            "yes" => dpdk::Hugepages::Yes,
            "no" => dpdk::Hugepages::No,
            _ => dpdk::Hugepages::Auto,
        },
    })
}

/// Half of the machine's memory, at most 4 GB: it is reserved, and taken only as packets are made.
fn default_memory_mb() -> u32 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let total: u64 = total.unwrap_or(1 << 20);
    (total / 2048).min(4096) as u32
}
