// SPDX-License-Identifier: MIT
//! 2 to 64 ports: what spreading costs, and what rebatching brings.

use super::super::moonroute::{raw, raw_table};
use super::super::outcome::{Outcome, Picture, Table};
use super::super::stand::Stand;
use anyhow::Result;
use perigee_rig::Request;

/// Transmit bursts, and what they are called: with 1 every packet leaves with those that were received with it, or
/// alone.
const BURSTS: [(usize, &str); 2] = [(32, "transmit bursts of 32"), (1, "transmit bursts of 1")];

pub fn ports(stand: &mut Stand) -> Result<Outcome> {
    let ports = [2, 4, 8, 16, 32, 64];
    let requests: Vec<Request> = BURSTS
        .iter()
        .flat_map(|(burst, _)| ports.iter().map(move |ports| (*burst, *ports)))
        .map(|(transmit_burst, ports)| Request { ports, transmit_burst, networks: 1 << 16, ..stand.plain() })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&["transmit", "ports", "mpps", "ns", "mean_burst_sent", "noise_percent"]),
        raw: raw_table(&["transmit", "ports"]),
        ..Outcome::default()
    };
    let picture = |title: &str, y: &str| Picture {
        title: title.into(),
        x: "ports".into(),
        y: y.into(),
        log_x: true,
        ..Picture::default()
    };
    let (mut rates, mut sent) = (picture("Ports", "Mpps"), picture("Mean burst that leaves", "packets"));
    for (burst, name) in BURSTS {
        let (mut points, mut bursts) = (Vec::new(), Vec::new());
        for (request, rounds) in requests.iter().zip(&found).filter(|(request, _)| request.transmit_burst == burst) {
            let mpps = rounds.mpps();
            let mean = rounds.best().map_or(0.0, |sample| sample.sent_batch);
            points.push((f64::from(request.ports), mpps));
            bursts.push((f64::from(request.ports), mean));
            outcome.data.row(&[
                &burst,
                &request.ports,
                &format!("{mpps:.3}"),
                &format!("{:.2}", 1e3 / mpps),
                &format!("{mean:.2}"),
                &format!("{:.2}", rounds.noise_percent()),
            ]);
            raw(&mut outcome.raw, &[&burst, &request.ports], rounds);
        }
        let (two, most) = (points[0].1, points[points.len() - 1].1);
        outcome.says.push(format!(
            "{name}: {two:.1} Mpps with 2 ports, {most:.1} with 64; {:.1} and {:.1} packets leave at once.",
            bursts[0].1,
            bursts[bursts.len() - 1].1
        ));
        rates.lines.push((name.to_owned(), points));
        sent.lines.push((name.to_owned(), bursts));
    }
    outcome.pictures.extend([rates, sent]);
    Ok(outcome)
}
