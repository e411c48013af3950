// SPDX-License-Identifier: MIT
//! What was found, as rows, JSON and a table.

use super::planes::Ports;
use super::tables::Size;
use super::{Family, Found, FoundTable, Sample, Way, XdpArgs};
use crate::statistics::Median;
use comfy_table::{Table, presets};
use serde::Serialize;
use std::collections::BTreeMap;

/// A table of routes: medians of the rounds. Rates are in Mpps.
#[derive(Debug, Serialize)]
pub struct Row {
    table: Size,
    family: Family,
    routes: usize,
    /// The in-kernel plane's, in the driver.
    mpps: f64,
    linux_mpps: f64,
    /// An XDP program with bpf_fib_lookup, as xdp-forward is.
    xdp_forward_mpps: f64,
    redirect_mpps: f64,
    /// The in-kernel plane's, behind the driver.
    generic_mpps: f64,
    /// Its rate as a multiple of Linux', and of that of the program with bpf_fib_lookup; by round.
    of_linux: Median,
    of_xdp_forward: Median,
    /// How much longer than an empty program it takes for a packet, in ns, and the least of all rounds.
    program_ns: f64,
    program_least_ns: f64,
    fib_lookup_ns: f64,
    /// Packets lost while routes changed, of how many, and changes a second.
    lost: u64,
    of_packets: u64,
    changes_per_s: f64,
    /// Packets that did not arrive while no route changed, by way; those of which all arrived are left out.
    missing: BTreeMap<&'static str, u64>,
}

/// By size, then by family.
pub fn rows(found: &Found) -> Vec<Row> {
    found.tables.iter().map(row).collect()
}

fn row(found: &FoundTable) -> Row {
    let of = |value: &dyn Fn(&[Sample]) -> Option<f64>| {
        Median::of(&found.rounds.iter().filter_map(|round| value(round)).collect::<Vec<f64>>())
    };
    let rate = |round: &[Sample], wanted: Way| {
        round.iter().find_map(|sample| match sample {
            Sample::Rate { way, mpps, .. } if *way == wanted => Some(*mpps),
            _ => None,
        })
    };
    let median = |way: Way| of(&|round| rate(round, way)).median;
    let ratio = |way: Way| of(&|round| Some(rate(round, Way::Plane)? / rate(round, way)?));
    let all = || found.rounds.iter().flatten();
    let ns = |own: bool| {
        let value = |round: &[Sample]| {
            round.iter().find_map(|sample| match sample {
                Sample::Program { ns, fib_lookup_ns } => Some(if own { *ns } else { *fib_lookup_ns }),
                _ => None,
            })
        };
        of(&value).median
    };
    let least = all().filter_map(|sample| match sample {
        Sample::Program { ns, .. } => Some(*ns),
        _ => None,
    });
    let changes = of(&|round| {
        round.iter().find_map(|sample| match sample {
            Sample::Changes { per_second, .. } => Some(*per_second),
            _ => None,
        })
    });
    let (mut lost, mut of_packets, mut missing) = (0, 0, BTreeMap::new());
    for sample in all() {
        match sample {
            Sample::Changes { lost: more, packets, .. } => (lost, of_packets) = (lost + more, of_packets + packets),
            Sample::Rate { way, missing: more, .. } if *more > 0 => *missing.entry(way.name()).or_default() += more,
            _ => {}
        }
    }
    Row {
        table: found.size,
        family: found.family,
        routes: found.routes,
        mpps: median(Way::Plane),
        linux_mpps: median(Way::Linux),
        xdp_forward_mpps: median(Way::Route),
        redirect_mpps: median(Way::Redirect),
        generic_mpps: median(Way::Generic),
        of_linux: ratio(Way::Linux),
        of_xdp_forward: ratio(Way::Route),
        program_ns: ns(true),
        program_least_ns: least.fold(f64::INFINITY, f64::min),
        fib_lookup_ns: ns(false),
        lost,
        of_packets,
        changes_per_s: changes.median,
        missing,
    }
}

/// The same for readers.
pub fn table(args: &XdpArgs, rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    let names: Vec<String> = rows
        .iter()
        .map(|row| {
            let family = if row.family == Family::Ipv4 { "IPv4" } else { "IPv6" };
            format!("{family}, {} routes", row.routes)
        })
        .collect();
    table.set_header(["Mpps".to_owned()].into_iter().chain(names));
    let mut line = |name: &str, value: &dyn Fn(&Row) -> String| {
        table.add_row([name.to_owned()].into_iter().chain(rows.iter().map(value)));
    };
    let median = |ratio: &Median| {
        let Median { median, low, high } = ratio;
        if ratio.width().is_finite() { format!("{median:.2} [{low:.2}, {high:.2}]") } else { format!("{median:.2}") }
    };
    line(Way::Linux.name(), &|row| format!("{:.3}", row.linux_mpps));
    line(Way::Generic.name(), &|row| format!("{:.3}", row.generic_mpps));
    line(Way::Route.name(), &|row| format!("{:.3}", row.xdp_forward_mpps));
    line(Way::Plane.name(), &|row| format!("{:.3}", row.mpps));
    line(Way::Redirect.name(), &|row| format!("{:.3}", row.redirect_mpps));
    line("the plane over Linux", &|row| median(&row.of_linux));
    line("the plane over bpf_fib_lookup", &|row| median(&row.of_xdp_forward));
    line("program, ns over an empty one", &|row| {
        format!("{:.0}, at least {:.0}", row.program_ns, row.program_least_ns)
    });
    line("bpf_fib_lookup's, ns", &|row| format!("{:.0}", row.fib_lookup_ns));
    line("changes a second", &|row| format!("{:.0}", row.changes_per_s));
    line("lost meanwhile", &|row| format!("{} of {}", row.lost, row.of_packets));
    let missing: String = rows
        .iter()
        .flat_map(|row| row.missing.iter().map(move |(way, count)| (row, way, count)))
        .map(|(row, way, count)| {
            format!("{way}, {:?}, {} routes: {count} packets did not arrive.\n", row.family, row.routes)
        })
        .collect();
    format!(
        "{table}\n\n{missing}Frames of 64 bytes (IPv6: 66) between two veth pairs; source, router and sink share one core. Structure for IPv4: {}.\n\
         Medians of {} rounds of {} s; ratios by round, with the interval of the sign test.\n",
        args.structure, args.rounds, args.seconds
    )
}

/// A kind of port.
#[derive(Debug, Serialize)]
struct PlaneRow {
    ports: &'static str,
    table: Size,
    routes: usize,
    mpps: Median,
    /// CPU seconds per second while no packet comes.
    idle: f64,
}

/// Routers with each kind of port, as a table or as JSON.
pub fn planes(args: &XdpArgs, found: &Found) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for table in &found.tables {
        for wanted in Ports::ALL {
            let all = || {
                table.rounds.iter().flatten().filter_map(|sample| match sample {
                    Sample::Ports { ports, mpps, idle } if *ports == wanted => Some((*mpps, *idle)),
                    _ => None,
                })
            };
            let rates: Vec<f64> = all().map(|(mpps, _)| mpps).collect();
            let idle = Median::of(&all().map(|(_, idle)| idle).collect::<Vec<_>>()).median;
            let (ports, mpps) = (wanted.line(), Median::of(&rates));
            rows.push(PlaneRow { ports, table: table.size, routes: table.routes, mpps, idle });
        }
    }
    if args.json {
        return Ok(serde_json::to_string_pretty(&rows)? + "\n");
    }
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["ports", "routes", "Mpps", "CPU s per s, idle"]);
    for row in &rows {
        let Median { median, low, high } = row.mpps;
        let interval = if row.mpps.width().is_finite() { format!(" [{low:.3}, {high:.3}]") } else { String::new() };
        table.add_row([
            row.ports.to_owned(),
            row.routes.to_string(),
            format!("{median:.3}{interval}"),
            format!("{:.3}", row.idle),
        ]);
    }
    Ok(format!(
        "{table}\n\nFrames of 64 bytes between two veth pairs, as many as the source has. The in-kernel plane shares one core with source and sink; workers\nhave another core. `idle = \"adaptive\"`. Medians of {} rounds of {} s.\n",
        args.rounds, args.seconds
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_medians_of_the_rounds_and_ratios_are_by_round() {
        let rate = |way, mpps| Sample::Rate { way, mpps, missing: 0 };
        let round = |linux: f64, plane: f64| {
            vec![
                rate(Way::Linux, linux),
                rate(Way::Plane, plane),
                Sample::Rate { way: Way::Route, mpps: 1.0, missing: 3 },
                Sample::Program { ns: 40.0, fib_lookup_ns: 700.0 },
                Sample::Changes { per_second: 3e5, lost: 1, packets: 10 },
            ]
        };
        let rounds = vec![round(1.0, 4.0), round(2.0, 5.0), round(0.5, 1.0)];
        let table = FoundTable { size: Size::Full, family: Family::Ipv4, routes: 9, rounds };
        let rows = rows(&Found { tables: vec![table] });
        let row = &rows[0];
        assert_eq!((row.mpps, row.linux_mpps, row.of_linux.median), (4.0, 1.0, 2.5));
        assert_eq!((row.lost, row.of_packets, row.program_ns), (3, 30, 40.0));
        assert_eq!(row.missing["XDP with bpf_fib_lookup"], 9);
        let json = serde_json::to_value(row).unwrap();
        for key in ["table", "family", "mpps", "linux_mpps", "xdp_forward_mpps", "program_ns", "lost", "changes_per_s"]
        {
            assert!(json.get(key).is_some(), "{key}");
        }
        assert_eq!((&json["table"], &json["family"]), (&"full".into(), &"ipv4".into()));
    }
}
