// SPDX-License-Identifier: MIT
//! Two ways of input and output, two ways of lookup: do their savings add up?

use super::super::child::{Ask, ask_with_devices};
use super::super::moonroute::{raw, raw_table};
use super::super::outcome::{Outcome, Picture, Table};
use super::super::published;
use super::super::stand::Stand;
use anyhow::Result;
use perigee_rig::{Io, Lookups, Loop, Request, Rounds};

/// The slow ways first.
const IO: [(&str, Io); 2] = [("af_packet", Io::Devices), ("memory", Io::Memory)];
const LOOKUPS: [(&str, &str, Lookups); 2] =
    [("poptrie, one by one", "poptrie", Lookups::Single), ("DXR", "dxr20", Lookups::Burst)];

pub fn io_lookup(stand: &mut Stand) -> Result<Outcome> {
    let (routes, table) = stand.full_table();
    let requests: Vec<Request> = IO
        .iter()
        .flat_map(|(_, io)| LOOKUPS.iter().map(move |(_, structure, lookups)| (*io, *structure, *lookups)))
        .map(|(io, structure, lookups)| Request {
            path: Loop::Native,
            io,
            structure: structure.to_owned(),
            lookups,
            routes,
            networks: 1 << 20,
            ..stand.plain()
        })
        .collect();
    let (rounds, patience) = stand.thoroughness();
    let ask = Ask { requests: requests.clone(), rounds, patience, hugepages: true, routes: stand.routes.clone() };
    let mut outcome = Outcome {
        data: Table::new(&["io", "lookup", "mpps_per_cpu_second", "ns", "noise_percent"]),
        raw: raw_table(&["io", "lookup"]),
        published: vec![published::io_lookup()],
        ..Outcome::default()
    };
    // Of each way of input and output.
    let found: Vec<Option<Vec<Rounds>>> = match ask_with_devices(&ask) {
        Ok(found) => found.chunks(LOOKUPS.len()).map(|found| Some(found.to_vec())).collect(),
        Err(why) => {
            outcome.says.push(format!("af_packet is left out: {why:#}"));
            vec![None, Some(stand.rounds(&requests[LOOKUPS.len()..])?)]
        }
    };
    let mut times = Vec::new();
    for ((io, _), found) in IO.iter().zip(&found) {
        let Some(found) = found else { continue };
        for ((lookup, ..), rounds) in LOOKUPS.iter().zip(found) {
            let ns = 1e3 / rounds.mpps();
            times.push(ns);
            outcome.data.row(&[
                io,
                lookup,
                &format!("{:.3}", rounds.mpps()),
                &format!("{ns:.1}"),
                &format!("{:.2}", rounds.noise_percent()),
            ]);
            raw(&mut outcome.raw, &[io, lookup], rounds);
        }
    }
    if let [both_slow, fast_lookup, fast_io, both_fast] = times[..] {
        outcome.says.push(format!(
            "DXR saves {:.1} ns over af_packet and {:.1} in memory; memory saves {:.1} ns with poptrie and {:.1} with DXR.",
            both_slow - fast_lookup,
            fast_io - both_fast,
            both_slow - fast_io,
            fast_lookup - both_fast
        ));
        let line = |at: usize| vec![(0.0, times[at]), (1.0, times[at + 2])];
        outcome.pictures.push(Picture {
            title: "Input and output by lookup".into(),
            x: "I/O".into(),
            y: "ns per packet".into(),
            log_y: true,
            categories: IO.map(|(io, _)| io.to_owned()).to_vec(),
            lines: vec![(LOOKUPS[0].0.to_owned(), line(0)), (LOOKUPS[1].0.to_owned(), line(1))],
            ..Picture::default()
        });
    }
    outcome.says.push(format!("Destinations are drawn from the prefixes of {table}."));
    Ok(outcome)
}
