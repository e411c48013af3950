// SPDX-License-Identifier: MIT
//! Instructions, cache misses and mispredicted branches per packet, simulated by valgrind's cachegrind as the
//! difference of a long and a short run of the rig, in a process of its own. Without prefetching, overlap or this
//! processor's predictor: shapes, not counts.

use super::child::{self, Ask};
use super::stand::Stand;
use anyhow::{Context as _, Result, ensure};
use perigee_rig::{Loop, Request};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Geometries of the last level: 8 MB, as the machine of the published figures has, and its second level.
const LAST: [&str; 2] = ["8388608,16,64", "262144,8,64"];
/// What to say without the tool.
const MISSING: &str = "valgrind cannot be run, and it simulates caches: sudo apt-get install valgrind";

/// Events per packet.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Simulated {
    pub instructions: f64,
    /// Loads that miss the first level, 256 KB, and 8 MB.
    pub misses: [f64; 3],
    pub mispredicted: f64,
    /// Packets by which the long runs were longer.
    pub packets: u64,
}

/// Events of a process, and its packets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Events {
    instructions: u64,
    first: u64,
    last: u64,
    mispredicted: u64,
    packets: u64,
}

/// Is valgrind there?
fn is_there() -> bool {
    let version = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    version.is_ok_and(|status| status.success())
}

/// Simulates the fast path with so many networks in use in one structure; what was simulated before is kept.
///
/// # Errors
/// No valgrind, or a process fails.
pub fn simulate(stand: &mut Stand, networks: u32, structure: &str) -> Result<Simulated> {
    ensure!(is_there(), MISSING);
    let key = (networks, structure.to_owned());
    if let Some(found) = stand.simulated.get(&key) {
        return Ok(*found);
    }
    let seconds = if stand.quick { [3, 6] } else { [8, 20] };
    let cores = stand.cores.clone();
    let of = |geometry: usize, seconds: u64| {
        let request = Request {
            path: Loop::Native,
            networks,
            structure: structure.to_owned(),
            warm: Duration::from_millis(1),
            time: Duration::from_secs(seconds),
            windows: 2,
            ..Request::new(vec![cores[geometry % cores.len()]])
        };
        run(LAST[geometry], request)
    };
    let both = |geometry: usize| anyhow::Ok((of(geometry, seconds[0])?, of(geometry, seconds[1])?));
    // Beside each other: what is counted does not depend on what else runs.
    let (eight, second) = std::thread::scope(|scope| {
        let second = scope.spawn(|| both(1));
        (both(0), second.join())
    });
    let (eight, second) = (eight?, second.ok().context("a thread panicked")??);
    let found = Simulated {
        instructions: each(eight, |events| events.instructions)?,
        misses: [
            each(eight, |events| events.first)?,
            each(second, |events| events.last)?,
            each(eight, |events| events.last)?,
        ],
        mispredicted: each(eight, |events| events.mispredicted)?,
        packets: eight.1.packets - eight.0.packets,
    };
    stand.simulated.insert(key, found);
    Ok(found)
}

/// Per packet, of a short and a long run.
fn each((short, long): (Events, Events), of: fn(&Events) -> u64) -> Result<f64> {
    ensure!(
        long.packets > short.packets,
        "the long run forwarded {} packets and the short one {}; expected more in the long one",
        long.packets,
        short.packets
    );
    // Runs differ by some events that have nothing to do with packets: none at all may come out as less.
    Ok((of(&long) as f64 - of(&short) as f64).max(0.0) / (long.packets - short.packets) as f64)
}

fn run(last: &str, request: Request) -> Result<Events> {
    let folder = tempfile::Builder::new().prefix("perigee-evaluate-").tempdir()?;
    let out = folder.path().join("cachegrind.out");
    let mut command = Command::new("valgrind");
    command.args(["--tool=cachegrind", "--cache-sim=yes", "--branch-sim=yes", "--quiet", "--I1=32768,8,64"]);
    command.arg(format!("--D1={}", first_level())).arg(format!("--LL={last}"));
    command.arg(format!("--cachegrind-out-file={}", out.display()));
    let ask = Ask { requests: vec![request], ..Ask::default() };
    let answer = child::ask(folder.path(), command, &ask)?;
    let sample = answer.first().and_then(|rounds| rounds.samples.first()).context("nothing was measured")?;
    ensure!(sample.reasons.is_empty(), "packets left the fast path: {:?}", sample.reasons);
    let text = fs::read_to_string(&out).context("cachegrind has written nothing")?;
    Ok(Events { packets: sample.total, ..events(&text)? })
}

/// What cachegrind's file adds up to.
fn events(text: &str) -> Result<Events> {
    let line = |name: &str| text.lines().rev().find_map(|line| line.strip_prefix(name));
    let (names, sums) = line("events:").zip(line("summary:")).context("cachegrind's file has no summary")?;
    let sum = |name: &str| -> Result<u64> {
        let found = names.split_whitespace().zip(sums.split_whitespace()).find(|(other, _)| *other == name);
        let (_, sum) = found.with_context(|| format!("cachegrind has not counted {name}"))?;
        Ok(sum.parse()?)
    };
    Ok(Events {
        instructions: sum("Ir")?,
        first: sum("D1mr")?,
        last: sum("DLmr")?,
        mispredicted: sum("Bcm")? + sum("Bim")?,
        packets: 0,
    })
}

/// This machine's first level for data, as valgrind wants it.
pub fn first_level() -> String {
    geometry(Path::new("/sys/devices/system/cpu/cpu0/cache")).unwrap_or_else(|| "32768,8,64".to_owned())
}

/// `None`: the kernel does not say, or it is one that cachegrind cannot simulate.
fn geometry(folder: &Path) -> Option<String> {
    (0..8).find_map(|index| {
        let read = |name: &str| {
            let text = fs::read_to_string(folder.join(format!("index{index}")).join(name)).ok()?;
            Some(text.trim().to_owned())
        };
        if read("level")? != "1" || read("type")? != "Data" {
            return None;
        }
        let size: u64 = read("size")?.strip_suffix('K')?.parse::<u64>().ok()? * 1024;
        let (ways, line): (u64, u64) =
            (read("ways_of_associativity")?.parse().ok()?, read("coherency_line_size")?.parse().ok()?);
        let sets = size.checked_div(ways * line)?;
        (sets.is_power_of_two() && sets * ways * line == size).then(|| format!("{size},{ways},{line}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_found_by_their_names() {
        let text = "desc: D1 cache\nevents: Ir I1mr ILmr Dr D1mr DLmr Dw D1mw DLmw Bc Bcm Bi Bim\nfn=a\n1 2\n\
                    summary: 1000 1 2 300 40 5 60 7 8 90 10 11 12\n";
        let events = events(text).unwrap();
        assert_eq!(events, Events { instructions: 1000, first: 40, last: 5, mispredicted: 22, packets: 0 });
        assert!(super::events("events: Ir\nsummary: 7\n").unwrap_err().to_string().contains("D1mr"));
        let (short, long) = (Events { packets: 10, ..events }, Events { instructions: 4000, packets: 30, ..events });
        assert_eq!(each((short, long), |events| events.instructions).unwrap(), 150.0);
        assert_eq!(each((short, long), |events| events.first).unwrap(), 0.0);
        assert!(each((long, short), |events| events.first).is_err());
    }

    #[test]
    fn a_geometry_that_cannot_be_simulated_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let index = folder.path().join("index0");
        fs::create_dir(&index).unwrap();
        let put = |size: &str| {
            let files = [("level", "1"), ("type", "Data"), ("size", size), ("ways_of_associativity", "12")];
            for (name, text) in files.into_iter().chain([("coherency_line_size", "64")]) {
                fs::write(index.join(name), format!("{text}\n")).unwrap();
            }
            geometry(folder.path())
        };
        assert_eq!(put("48K").as_deref(), Some("49152,12,64"));
        assert_eq!(put("36K"), None, "48 sets");
        assert_eq!(geometry(&folder.path().join("none")), None);
    }
}
