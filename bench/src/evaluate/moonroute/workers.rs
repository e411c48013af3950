// SPDX-License-Identifier: MIT
//! Several workers: measured on this machine's cores, predicted beyond them.

use super::super::outcome::{Base, Outcome, Picture, Table};
use super::super::published;
use super::super::stand::Stand;
use super::{MANY, raw, raw_table, with_published};
use anyhow::Result;
use perigee_predict::campaign::ladder;
use perigee_predict::profile::{Model, Punted};
use perigee_rig::Request;

/// Most workers that are predicted.
const MOST: u32 = 8;

pub fn workers(stand: &mut Stand) -> Result<Outcome> {
    let cores = stand.cores.clone();
    let networks = [1, 1 << 16, MANY];
    let requests: Vec<Request> = networks
        .into_iter()
        .flat_map(|networks| ladder(cores.len() as u32).into_iter().map(move |workers| (networks, workers as usize)))
        .map(|(networks, workers)| Request {
            networks,
            flows: workers as u32,
            cores: cores[..workers].to_vec(),
            ..stand.plain()
        })
        .collect();
    let found = stand.rounds(&requests)?;
    let mut outcome = Outcome {
        data: Table::new(&["networks", "workers", "mpps", "of_one", "noise_percent", "how"]),
        raw: raw_table(&["networks", "workers"]),
        published: vec![published::workers()],
        ..Outcome::default()
    };
    let mut picture = Picture { title: "Workers".into(), x: "workers".into(), y: "Mpps".into(), ..Picture::default() };
    let mut predicted = Vec::new();
    for networks in networks {
        let name = format!("{networks} network{}", if networks == 1 { "" } else { "s" });
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (request, rounds) in requests.iter().zip(&found).filter(|(request, _)| request.networks == networks) {
            let (workers, mpps) = (request.cores.len(), rounds.mpps());
            points.push((workers as f64, mpps));
            let of_one = mpps / points[0].1;
            outcome.data.row(&[
                &networks,
                &workers,
                &format!("{mpps:.3}"),
                &format!("{of_one:.3}"),
                &format!("{:.2}", rounds.noise_percent()),
                &"measured",
            ]);
            raw(&mut outcome.raw, &[&networks, &workers], rounds);
            if workers == cores.len() && workers > 1 {
                outcome.says.push(format!("{name}: {workers} workers forward {of_one:.2} times what one does."));
            }
        }
        let line = predict(&points);
        for (workers, mpps) in line.iter().filter(|(workers, _)| *workers > cores.len() as f64) {
            outcome.data.row(&[
                &networks,
                workers,
                &format!("{mpps:.3}"),
                &format!("{:.3}", mpps / points[0].1),
                &"",
                &"predicted",
            ]);
        }
        if cores.len() < MOST as usize {
            predicted.push((format!("predicted, {name}"), line));
        }
        picture.lines.push((name, points));
    }
    outcome.says.push(match cores.len() {
        1 => "This process may use one core: more workers than one are predicted as if none was in another's way.".to_owned(),
        n if n >= MOST as usize => format!("{} workers are measured.", list(&ladder(n as u32))),
        n => format!("Up to {n} workers are measured; more are a prediction, by what a packet costs for each further worker (the model \"contention\" of perigee predict)."),
    });
    picture.predicted = predicted.len();
    picture.lines.extend(predicted);
    outcome.pictures = with_published(picture, &outcome.published[0], Base::First);
    Ok(outcome)
}

/// "1, 2, 4 and 8"
fn list(numbers: &[u32]) -> String {
    let words: Vec<String> = numbers.iter().map(u32::to_string).collect();
    match words.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => words.concat(),
    }
}

/// Rates of 1 to [`MOST`] workers by the model of linear contention, through measured points (workers, Mpps), the first
/// of one worker.
fn predict(measured: &[(f64, f64)]) -> Vec<(f64, f64)> {
    // Of one worker, in ns.
    let time = |(workers, mpps): &(f64, f64)| 1e3 * workers / mpps;
    let alone = measured.first().map_or(f64::INFINITY, time);
    let further = || measured.iter().map(|point| (point.0 - 1.0, time(point) - alone));
    let squares: f64 = further().map(|(more, _)| more * more).sum();
    let slope = if squares > 0.0 { further().map(|(more, ns)| more * ns).sum::<f64>() / squares } else { 0.0 };
    // Workers do not help each other: less than nothing is noise.
    let model = Model::Contention { c0_ns: alone, c_byte_ns: 0.0, d_ns: slope.max(0.0), u_ns: 0.0 };
    let rate = |workers: u32| {
        let ns = model.service(workers, false, 0.0, Punted::default()).packet_ns(64);
        (f64::from(workers), 1e3 * f64::from(workers) / ns)
    };
    (1..=MOST).map(rate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_workers_are_words() {
        assert_eq!((list(&ladder(8)), list(&[1])), ("1, 2, 4 and 8".to_owned(), "1".to_owned()));
    }

    #[test]
    fn further_workers_cost_what_the_measured_ones_did() {
        // 50 ns alone, 2 ns more for each further worker.
        let measured: Vec<(f64, f64)> = [1.0, 2.0, 3.0].map(|k| (k, 1e3 * k / (50.0 + 2.0 * (k - 1.0)))).to_vec();
        let found = predict(&measured);
        assert!((found[7].1 - 8e3 / 64.0).abs() < 1e-9, "{found:?}");
        for linear in [&measured[..1], &[(1.0, 20.0), (2.0, 41.0)]] {
            let found = predict(linear);
            assert!((found[7].1 - 8.0 * found[0].1).abs() < 1e-9 && found.len() == 8, "{found:?}");
        }
    }
}
