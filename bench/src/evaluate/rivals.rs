// SPDX-License-Identifier: MIT
//! perigee beside others on one core: `./x bench forward` (testpmd, l3fwd, any program with DPDK), and the in-kernel
//! plane beside what Linux itself forwards, `./x bench xdp`.

use super::benches::{self, Interval, bench};
use super::outcome::{Outcome, Picture, Table};
use super::published;
use super::stand::Stand;
use anyhow::Result;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// What others leave out that perigee does.
const LEAVE_OUT: [(&str, &str); 4] = [
    ("testpmd", "nothing but I/O: no header is read"),
    ("lpm", "no checksum is checked, and no neighbor known"),
    ("fib", "no checksum is checked, and no neighbor known"),
    ("XDP redirect", "nothing but redirection: no lookup, no check"),
];

type ByBurst<T> = BTreeMap<String, T>;

/// What `forward` says, as far as it is shown.
#[derive(Deserialize)]
struct Forward {
    testpmd_io: f64,
    lua: ByBurst<f64>,
    native: ByBurst<f64>,
    details: BTreeMap<String, ByBurst<Measured>>,
    #[serde(default)]
    peers: BTreeMap<String, Peer>,
    #[serde(default)]
    left_out: BTreeMap<String, String>,
    routes: String,
    hugepages: bool,
}

#[derive(Deserialize)]
struct Measured {
    of_io: Interval,
}

#[derive(Deserialize)]
struct Peer {
    mpps: f64,
    of_io: Option<Interval>,
    /// By loop and burst: perigee's rate as a multiple of it.
    perigee: BTreeMap<String, ByBurst<Interval>>,
}

/// A table of what `xdp` says. Rates are in Mpps.
#[derive(Deserialize)]
struct Kernel {
    family: String,
    routes: usize,
    mpps: f64,
    generic_mpps: f64,
    linux_mpps: f64,
    xdp_forward_mpps: f64,
    redirect_mpps: f64,
    of_linux: Interval,
    of_xdp_forward: Interval,
    program_ns: f64,
    lost: u64,
    of_packets: u64,
}

pub fn rivals(stand: &mut Stand) -> Result<Outcome> {
    if stand.cores.len() < 2 {
        return Ok(Outcome::left_out(
            "the others need a second core for their main threads, and this process may use one core",
        ));
    }
    let mut outcome = Outcome {
        data: Table::new(&["table", "router", "mpps", "ns", "of_testpmd", "perigee_lua_over_it", "leaves_out"]),
        published: vec![published::rivals()],
        ..Outcome::default()
    };
    let (pairs, seconds) = if stand.quick { (7, 0.1) } else { (41, 0.15) };
    let mut words =
        benches::words(&format!("forward --no-ipv6 --bursts 64 --pairs {pairs} --seconds {seconds} --peers l3fwd"));
    words.extend(stand.peers.iter().flat_map(|peer| ["--peer".to_owned(), peer.clone()]));
    // l3fwd is built the first time, and rte_lpm takes minutes for a full table.
    let limit = Duration::from_secs(1800);
    add(&mut outcome, "small table", &words, limit);
    if stand.routes.is_some() {
        add(&mut outcome, "full table", &[words, stand.routes_words()].concat(), limit);
    } else {
        outcome.says.push("Without a full table (--routes FILE).".into());
    }
    let rounds = if stand.quick { 3 } else { 9 };
    let mut words = benches::words(&format!("xdp --rounds {rounds}"));
    words.extend(stand.routes_words());
    match bench(&words, limit) {
        Ok(said) => kernel(&mut outcome, said)?,
        Err(why) => outcome.says.push(format!("Linux and XDP are left out: {why:#}.")),
    }
    if outcome.data.rows.is_empty() {
        return Ok(Outcome::left_out(&outcome.says.join(" ")));
    }
    Ok(outcome)
}

/// A table's rows; one that cannot be measured is a sentence.
fn add(outcome: &mut Outcome, table: &str, words: &[String], limit: Duration) {
    let added = bench(words, limit).and_then(|said| forward(outcome, table, said));
    if let Err(why) = added {
        outcome.says.push(format!("{table}: {why:#}."));
    }
}

fn leaves_out(name: &str) -> &'static str {
    LEAVE_OUT.iter().find(|(other, _)| *other == name).map_or("", |(_, what)| what)
}

fn label(name: &str) -> String {
    if ["lpm", "fib"].contains(&name) { format!("l3fwd, {name}") } else { name.to_owned() }
}

fn forward(outcome: &mut Outcome, table: &str, value: Value) -> Result<()> {
    let said: Forward = benches::parsed(&value, "forward")?;
    let first = |rates: &ByBurst<f64>| rates.values().next().copied().unwrap_or(0.0);
    let own = |name: &str| said.details.get(name).and_then(|by| by.values().next()).map(|of| of.of_io);
    let mut rows = vec![
        ("perigee, Lua".to_owned(), first(&said.lua), own("lua"), None, ""),
        ("perigee, native".to_owned(), first(&said.native), own("native"), None, ""),
        ("testpmd".to_owned(), said.testpmd_io, None, None, leaves_out("testpmd")),
    ];
    for (name, peer) in &said.peers {
        let lua = peer.perigee.get("lua").and_then(|by| by.values().next()).copied();
        rows.push((label(name), peer.mpps, peer.of_io, lua, leaves_out(name)));
    }
    let mut picture =
        Picture { title: format!("One core, {table}"), x: "router".into(), y: "Mpps".into(), ..Picture::default() };
    for (at, (name, mpps, of_io, lua, leaves_out)) in rows.iter().enumerate() {
        let cell = |value: &Option<Interval>| value.map_or(String::new(), |value| value.to_string());
        let (rate, ns) = (format!("{mpps:.2}"), format!("{:.1}", 1e3 / mpps));
        outcome.data.row(&[&table, name, &rate, &ns, &cell(of_io), &cell(lua), leaves_out]);
        picture.lines.push((name.clone(), vec![(at as f64, *mpps)]));
        if let Some(lua) = lua {
            let but = if leaves_out.is_empty() { String::new() } else { format!(" ({leaves_out})") };
            outcome.says.push(format!("{table}: perigee in Lua forwards {lua} times what {name} does{but}."));
        }
    }
    let share = |name: &str| own(name).map_or(String::new(), |of| of.to_string());
    outcome.says.push(format!(
        "{table}, {}: of testpmd's bare I/O perigee has {} in Lua and {} in Rust{}.",
        said.routes,
        share("lua"),
        share("native"),
        if said.hugepages { "" } else { "; without hugepages, which l3fwd and testpmd are made for" }
    ));
    outcome.says.extend(said.left_out.iter().map(|(name, why)| format!("{table}: {name} is left out: {why}.")));
    outcome.pictures.push(picture.by_line());
    outcome.said.insert(format!("forward, {table}"), value);
    Ok(())
}

/// What forwards in the kernel, by who receives packets and who looks them up.
fn kernel(outcome: &mut Outcome, value: Value) -> Result<()> {
    let said: Vec<Kernel> = benches::parsed(&value, "xdp")?;
    for row in &said {
        let table = format!("{} routes of {}, veth", row.routes, row.family.replace("ip", "IP"));
        let ways = [
            ("Linux: its I/O, its table", row.linux_mpps),
            ("Linux' I/O, perigee's table", row.generic_mpps),
            ("XDP, Linux' table", row.xdp_forward_mpps),
            ("XDP, perigee's table", row.mpps),
            ("XDP redirect", row.redirect_mpps),
        ];
        let mut picture = Picture {
            title: format!("In the kernel, {table}"),
            x: "way".into(),
            y: "Mpps".into(),
            ..Picture::default()
        };
        for (at, (name, mpps)) in ways.into_iter().enumerate() {
            let (rate, ns) = (format!("{mpps:.3}"), format!("{:.0}", 1e3 / mpps));
            outcome.data.row(&[&table, &name, &rate, &ns, &"", &"", &leaves_out(name)]);
            picture.lines.push((name.to_owned(), vec![(at as f64, mpps)]));
        }
        outcome.says.push(format!(
            "{table}: the in-kernel plane forwards {} times what Linux does, and {} times what XDP with Linux' table does; its program takes {:.0} ns; \
             {} of {} packets were lost while routes changed.",
            row.of_linux, row.of_xdp_forward, row.program_ns, row.lost, row.of_packets
        ));
        outcome.pictures.push(picture.by_line());
    }
    if !said.is_empty() {
        outcome.says.push(
            "In the kernel, source, router and sink share one core and packets cross veth pairs; the others' come from memory: between the two, \
             shapes and orders of magnitude compare."
                .into(),
        );
    }
    outcome.said.insert("xdp".to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn empty() -> Outcome {
        Outcome {
            data: Table::new(&["table", "router", "mpps", "ns", "of_testpmd", "perigee_lua_over_it", "leaves_out"]),
            ..Outcome::default()
        }
    }

    /// Shortened from the bench's own output.
    fn said() -> Value {
        let interval = |median: f64| json!({"median": median, "low": median - 0.01, "high": median + 0.01});
        let details =
            |share: f64| json!({"64": {"mpps": 29.1, "ns_over_io": interval(12.5), "of_io": interval(share)}});
        let peer = |mpps: f64, ratio: f64| json!({"mpps": mpps, "of_io": interval(0.55), "perigee": {"lua": {"64": interval(ratio)}, "native": {"64": interval(ratio)}}});
        json!({"testpmd_io": 58.2, "lua": {"64": 29.1}, "native": {"64": 30.3}, "l3fwd": {"fib": 32.7, "lpm": 27.2},
            "testpmd_io_by_burst": {"64": 58.2}, "details": {"lua": details(0.5), "native": details(0.52)},
            "lua_of_native": {"64": {"median": 0.96, "low": 0.95, "high": 0.97, "resolved": true}},
            "peers": {"fib": peer(32.7, 0.89), "lpm": peer(27.2, 1.07)}, "l3fwd_best": "fib",
            "left_out": {"other": "it has ended: no such device"}, "verified": 131072, "pairs": 7, "seconds": 0.1, "core": 1,
            "hugepages": true, "real_time": true, "routes": "8 routes over 2 ports", "machine": {}})
    }

    #[test]
    fn rivals_are_rows_with_what_they_leave_out() {
        let mut outcome = empty();
        forward(&mut outcome, "small table", said()).unwrap();
        let names: Vec<&str> = outcome.data.rows.iter().map(|row| &row[1][..]).collect();
        assert_eq!(names, ["perigee, Lua", "perigee, native", "testpmd", "l3fwd, fib", "l3fwd, lpm"]);
        assert_eq!(outcome.data.rows[4][2..6], ["27.20", "36.8", "0.55 (0.54 to 0.56)", "1.07 (1.06 to 1.08)"]);
        assert!(outcome.data.rows[4][6].contains("no checksum"));
        assert_eq!(outcome.pictures[0].lines.len(), 5);
        let says = outcome.says.join(" ");
        assert!(says.contains("forwards 1.07 (1.06 to 1.08) times what l3fwd, lpm does (no checksum"), "{says}");
        assert!(says.contains("perigee has 0.50 (0.49 to 0.51) in Lua"), "{says}");
        assert!(says.contains("small table: other is left out: it has ended"), "{says}");
        assert!(!says.contains("without hugepages"), "{says}");
        assert!(outcome.said.contains_key("forward, small table"));
    }

    #[test]
    fn the_kernel_stands_by_itself() {
        let mut outcome = empty();
        let ratio = |median: f64| json!({"median": median, "low": null, "high": null});
        let value = json!([{"table": "full", "family": "ipv4", "routes": 900, "mpps": 2.0, "generic_mpps": 1.0, "linux_mpps": 0.5,
            "xdp_forward_mpps": 0.8, "redirect_mpps": 2.5, "of_linux": ratio(4.0), "of_xdp_forward": ratio(2.5), "program_ns": 40.0,
            "fib_lookup_ns": 700.0, "lost": 0, "of_packets": 1000, "changes_per_s": 3e5, "missing": {}}]);
        kernel(&mut outcome, value).unwrap();
        assert_eq!(
            outcome.data.rows[0][..4],
            ["900 routes of IPv4, veth", "Linux: its I/O, its table", "0.500", "2000"]
        );
        let says = outcome.says.join(" ");
        assert!(says.contains("forwards 4.00 times what Linux does, and 2.50 times"), "{says}");
        assert!(says.contains("orders of magnitude"), "{says}");
        assert_eq!(outcome.pictures.len(), 1);
    }

    #[test]
    fn something_else_is_an_error() {
        assert!(
            forward(&mut empty(), "small table", json!({"lua": 1})).unwrap_err().to_string().contains("bench forward")
        );
        assert!(kernel(&mut empty(), json!([{}])).is_err());
    }
}
