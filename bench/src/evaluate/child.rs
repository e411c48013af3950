// SPDX-License-Identifier: MIT
//! A rig in a process of its own: where valgrind looks at it, or in namespaces with veth pairs. What is asked and
//! answered are files in a folder.

use crate::isolated;
use crate::table;
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use perigee_lab::{isolation, tools};
use perigee_rig::{Cores, Manner, Request, Rig, Rounds, Sample, Settings, in_rounds};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

const ASK: &str = "ask.json";
const ANSWER: &str = "answer.json";
/// The subcommand.
pub const NAME: &str = "evaluate-rig";
/// Ends of veth pairs: by the first one packets are put on the wire to the second, the router's first port; by the
/// third they leave to the fourth, where nobody wants them.
const ENDS: [&str; 4] = ["feed", "first", "other", "nobody"];
/// Places in the rings of an end, of 2 KB each: more than the rig puts there at once.
const PLACES: u32 = 2048;

/// Arguments of the child.
#[derive(Args)]
pub struct RigArgs {
    /// The folder with what is asked
    folder: PathBuf,
    /// In namespaces of its own, with devices: DPDK's af_packet on veth pairs
    #[arg(long)]
    veth: bool,
}

/// What is asked.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Ask {
    pub requests: Vec<Request>,
    /// Rounds with references; 0: each is measured once, without any.
    pub rounds: u64,
    /// Seconds for repetitions.
    pub patience: u64,
    /// Packets in hugepages, if there are enough? Valgrind has no room for them.
    pub hugepages: bool,
    /// A file of prefixes for the rig.
    pub routes: Option<PathBuf>,
}

/// Of each request the samples, and the reference.
type Answer = Vec<(Vec<Sample>, f64)>;

/// Runs the child.
pub fn serve(args: &RigArgs) -> Result<ExitCode> {
    let text = fs::read_to_string(args.folder.join(ASK)).context("there is no question in this folder")?;
    let ask: Ask = serde_json::from_str(&text)?;
    let given = ask.routes.as_deref().map(table::read).transpose()?;
    if args.veth {
        isolation::end_with_input(&args.folder)?;
        let world = isolated::world(&args.folder)?;
        for pair in ENDS.chunks(2) {
            world.ip(&format!("link add {} type veth peer name {}", pair[0], pair[1]))?;
        }
        for end in ENDS {
            world.ip(&format!("link set {end} addrgenmode none up"))?;
        }
    }
    let mut cores = Cores::usable()?;
    cores.take(ask.requests.iter().map(|request| request.cores.len()).max().unwrap_or(1));
    let hugepages = ask.hugepages && perigee_rig::enough_hugepages(cores.list().len());
    let mut rig = Rig::new(Settings { hugepages, cores }).context("DPDK does not start")?;
    if args.veth {
        let device =
            |end: &str| format!("net_af_packet_{end},iface={end},framesz=2048,blocksz=65536,framecnt={PLACES}");
        let [feed, first, other, _] = ENDS.map(device);
        rig.open(&feed, &first, &other).context("DPDK's af_packet cannot be opened on a veth pair")?;
    }
    if let Some(list) = given {
        rig.give(list.v4);
    }
    let answer: Answer = match ask.rounds {
        0 => ask.requests.iter().map(|request| Ok((vec![rig.measure(request)?], 0.0))).collect::<Result<_>>()?,
        rounds => {
            let manner = Manner { rounds, seed: 1, patience: Duration::from_secs(ask.patience) };
            let found = in_rounds(&mut rig, &ask.requests, manner, |_, _| Ok(()))?;
            found.into_iter().map(|Rounds { samples, reference }| (samples, reference)).collect()
        }
    };
    fs::write(args.folder.join(ANSWER), serde_json::to_string(&answer)?)?;
    Ok(ExitCode::SUCCESS)
}

fn put(folder: &Path, ask: &Ask) -> Result<()> {
    Ok(fs::write(folder.join(ASK), serde_json::to_string(ask)?)?)
}

fn answer(folder: &Path, good: bool, said: &str) -> Result<Vec<Rounds>> {
    ensure!(good, "the rig's process failed: {}", said.trim());
    let text = fs::read_to_string(folder.join(ANSWER)).context("the rig's process has left no answer")?;
    let answer: Answer = serde_json::from_str(&text)?;
    Ok(answer.into_iter().map(|(samples, reference)| Rounds { samples, reference }).collect())
}

/// Asks a child that `command` starts: the program that it runs, or its own.
///
/// # Errors
/// It does not start, or fails.
pub fn ask(folder: &Path, mut command: Command, ask: &Ask) -> Result<Vec<Rounds>> {
    put(folder, ask)?;
    let program = std::env::current_exe().context("the program's own path is not known")?;
    let output = command.arg(program).arg(NAME).arg(folder).output();
    let output = output.with_context(|| format!("{} cannot be run", command.get_program().to_string_lossy()))?;
    answer(folder, output.status.success(), &String::from_utf8_lossy(&output.stderr))
}

/// Asks a child in namespaces of its own.
///
/// # Errors
/// The kernel refuses namespaces, a device cannot be made, or a measurement fails.
pub fn ask_with_devices(ask: &Ask) -> Result<Vec<Rounds>> {
    let path = tools::search_path();
    tools::require(&[tools::IP, tools::UNSHARE, tools::MOUNT], &path, "af_packet on a veth pair")?;
    let isolation = isolation::isolation(&path, "sudo ./x evaluate")?;
    let folder = tempfile::Builder::new().prefix("perigee-evaluate-").tempdir_in("/tmp")?;
    put(folder.path(), ask)?;
    let mut command = isolation::inside(isolation, folder.path(), &path)?;
    command.arg(NAME).arg("--veth").arg(folder.path());
    let log = folder.path().join("said");
    command.stderr(fs::File::create(&log)?);
    let mut child = command.spawn().context("unshare cannot be run")?;
    // The inside ends when its input does, and waiting would close it.
    let input = child.stdin.take();
    let good = child.wait()?.success();
    drop(input);
    answer(folder.path(), good, &fs::read_to_string(&log).unwrap_or_default())
}
