// SPDX-License-Identifier: MIT
//! What MoonRoute found by setting the clock: how much of a packet's time is the processor's, and how much the
//! memory's. Here the table grows instead.

use super::super::outcome::{Outcome, Picture, Table};
use super::super::published;
use super::super::simulated::simulate;
use super::super::stand::Stand;
use super::{raw, raw_table};
use anyhow::Result;
use perigee_rig::Request;

const STRUCTURE: &str = "dir24";

pub fn clock(stand: &mut Stand) -> Result<Outcome> {
    let networks: Vec<u32> =
        stand.choose(&[0, 16, 18, 20, 21], &[0, 8, 12, 16, 18, 20, 21, 22]).iter().map(|bits| 1 << bits).collect();
    let structures = stand.structures(&[STRUCTURE], &[STRUCTURE]);
    let structure = &structures[0];
    let requests: Vec<Request> = networks
        .iter()
        .map(|networks| Request { networks: *networks, structure: structure.clone(), ..stand.plain() })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&["structure", "networks", "ns", "of_the_table_ns", "noise_percent", "instructions"]),
        raw: raw_table(&["structure", "networks"]),
        published: published::clock(),
        ..Outcome::default()
    };
    let counted: &[u32] = stand.choose(&[1, 1 << 18], &[1, 1 << 16, 1 << 20]);
    let mut instructions = Vec::new();
    for networks in counted {
        match simulate(stand, *networks, structure) {
            Ok(simulated) => instructions.push((*networks, simulated.instructions)),
            Err(why) => {
                outcome.says.push(format!("Instructions are left out: {why:#}"));
                break;
            }
        }
    }
    let alone = 1e3 / found[0].mpps();
    let (mut whole, mut of_the_table) = (Vec::new(), Vec::new());
    for (request, rounds) in requests.iter().zip(&found) {
        let (networks, ns) = (request.networks, 1e3 / rounds.mpps());
        whole.push((f64::from(networks), ns));
        of_the_table.push((f64::from(networks), ns - alone));
        let count = instructions.iter().find(|(other, _)| *other == networks);
        outcome.data.row(&[
            structure,
            &networks,
            &format!("{ns:.2}"),
            &format!("{:.2}", ns - alone),
            &format!("{:.2}", rounds.noise_percent()),
            &count.map_or_else(String::new, |(_, count)| format!("{count:.1}")),
        ]);
        raw(&mut outcome.raw, &[structure, &networks], rounds);
    }
    let last = of_the_table[of_the_table.len() - 1];
    outcome.says.push(format!("A packet takes {alone:.1} ns with one network; {:.1} ns more with {}.", last.1, last.0));
    if let (Some(one), Some(many)) = (instructions.first(), instructions.last()) {
        let alike = if many.1 < 1.05 * one.1 { ": what grows with the table is the memory's" } else { "" };
        outcome.says.push(format!(
            "{:.0} instructions per packet with one network, {:.0} with {}{alike}.",
            one.1, many.1, many.0
        ));
    }
    let picture = |title: &str, y: &str, lines| Picture {
        title: title.into(),
        x: "networks in use".into(),
        y: y.into(),
        log_x: true,
        lines,
        ..Picture::default()
    };
    let times = vec![("all".to_owned(), whole), ("more than with one network".to_owned(), of_the_table)];
    outcome.pictures.push(picture("Time per packet", "ns", times));
    if !instructions.is_empty() {
        let counts = instructions.iter().map(|(networks, count)| (f64::from(*networks), *count)).collect();
        let lines = vec![("fast path, source and sink".to_owned(), counts)];
        outcome.pictures.push(picture("Instructions per packet, counted by valgrind", "instructions", lines));
    }
    Ok(outcome)
}
