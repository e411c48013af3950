// SPDX-License-Identifier: MIT
//! So many networks in use: rates, the memory of the lookup structure, and simulated misses.

use super::super::outcome::{Base, Outcome, Picture, Table};
use super::super::published;
use super::super::simulated::{self, Simulated, simulate};
use super::super::stand::Stand;
use super::{raw, raw_table};
use anyhow::Result;
use perigee_rig::Request;

/// What misses are simulated with: the structure that MoonRoute has.
const SIMULATED: &str = "dir24";

pub fn routes(stand: &mut Stand) -> Result<Outcome> {
    let networks: Vec<u32> = stand
        .choose(&[0, 8, 12, 16, 18, 20], &[0, 4, 8, 10, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22])
        .iter()
        .map(|bits| 1 << bits)
        .collect();
    let structures = stand.structures(&["auto", "dir24"], &["auto", "dir24"]);
    let requests: Vec<Request> = structures
        .iter()
        .flat_map(|structure| networks.iter().map(move |networks| (structure, *networks)))
        .map(|(structure, networks)| Request { networks, structure: structure.clone(), ..stand.plain() })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&[
            "structure",
            "networks",
            "mpps",
            "ns",
            "table_bytes",
            "noise_percent",
            "l1",
            "l2",
            "l3",
            "branches",
        ]),
        raw: raw_table(&["structure", "networks"]),
        published: vec![published::routes(), published::misses()],
        ..Outcome::default()
    };
    let (x, title) = ("networks in use", "Routes in use".to_owned());
    let mut picture = Picture { title, x: x.into(), y: "Mpps".into(), log_x: true, ..Picture::default() };
    let mut memory = Picture {
        title: "Memory of the lookup structure".into(),
        x: x.into(),
        y: "MB".into(),
        log_x: true,
        ..Picture::default()
    };
    for structure in &structures {
        let (mut points, mut bytes) = (Vec::new(), Vec::new());
        for (request, rounds) in requests.iter().zip(&found).filter(|(request, _)| request.structure == *structure) {
            let (networks, mpps) = (f64::from(request.networks), rounds.mpps());
            let size = rounds.samples.first().map_or(0, |sample| sample.table_bytes);
            points.push((networks, mpps));
            bytes.push((networks, size as f64 / 1e6));
            outcome.data.row(&[
                structure,
                &request.networks,
                &format!("{mpps:.3}"),
                &format!("{:.2}", 1e3 / mpps),
                &size,
                &format!("{:.2}", rounds.noise_percent()),
                &"",
                &"",
                &"",
                &"",
            ]);
            raw(&mut outcome.raw, &[structure, &request.networks], rounds);
        }
        let (first, last) = (points[0].1, points[points.len() - 1].1);
        outcome.says.push(format!(
            "{structure}: {first:.1} Mpps with one network, {:.2} of that with {}.",
            last / first,
            networks[networks.len() - 1]
        ));
        picture.lines.push((structure.clone(), points));
        memory.lines.push((structure.clone(), bytes));
    }
    let beside = picture.beside(&outcome.published[0], Base::First);
    outcome.pictures.extend([picture, memory]);
    // Before the misses, which may be left out: `--redraw` knows it by its number.
    outcome.pictures.push(beside);
    if let Err(why) = misses(stand, &mut outcome) {
        outcome.says.push(format!("Misses are left out: {why:#}"));
    }
    Ok(outcome)
}

/// Adds the simulated misses, if there is what simulates them.
fn misses(stand: &mut Stand, outcome: &mut Outcome) -> Result<()> {
    let networks = stand.choose(&[0, 16, 18], &[0, 8, 12, 14, 16, 17, 18, 19, 20]).iter().map(|bits| 1 << bits);
    let found: Vec<(u32, Simulated)> =
        networks.map(|networks| Ok((networks, simulate(stand, networks, SIMULATED)?))).collect::<Result<_>>()?;
    let line = |name: String, of: &dyn Fn(&Simulated) -> f64| {
        (name, found.iter().map(|(networks, simulated)| (f64::from(*networks), of(simulated))).collect::<Vec<_>>())
    };
    let first = simulated::first_level();
    let kilobytes = first.split(',').next().and_then(|bytes| bytes.parse::<u32>().ok()).unwrap_or(0) / 1024;
    outcome.pictures.push(Picture {
        title: format!("Misses of {SIMULATED}, simulated"),
        x: "networks in use".into(),
        y: "misses per packet".into(),
        log_x: true,
        lines: vec![
            line(format!("L1, {kilobytes} KB"), &|s| s.misses[0]),
            line("L2, 256 KB".into(), &|s| s.misses[1]),
            line("L3, 8 MB".into(), &|s| s.misses[2]),
            line("branches".into(), &|s| s.mispredicted),
        ],
        ..Picture::default()
    });
    for (networks, simulated) in &found {
        let [l1, l2, l3] = simulated.misses.map(|misses| format!("{misses:.3}"));
        let branches = format!("{:.3}", simulated.mispredicted);
        let what = format!("{SIMULATED} simulated");
        outcome.data.row(&[&what, networks, &"", &"", &"", &"", &l1, &l2, &l3, &branches]);
    }
    if let (Some((_, one)), Some((networks, last))) = (found.first(), found.last()) {
        outcome.says.push(format!(
            "Simulated loads that miss 8 MB: {:.2} per packet with one network, {:.2} with {networks}; 256 KB: {:.2} and {:.2}. The source's own \
             reads of what it sends are among them.",
            one.misses[2], last.misses[2], one.misses[1], last.misses[1]
        ));
    }
    Ok(())
}
