// SPDX-License-Identifier: MIT
//! Published values, as pictures of their own. MoonRoute's numbers are those of the raw results that its
//! authors published with it.

use super::outcome::Picture;
use perigee_predict::service::wire_bits;

fn line(name: &str, points: &[(f64, f64)]) -> (String, Vec<(f64, f64)>) {
    (name.to_owned(), points.to_vec())
}

fn picture(title: &str, x: &str, y: &str, log_x: bool, lines: Vec<(String, Vec<(f64, f64)>)>) -> Picture {
    Picture { title: title.into(), x: x.into(), y: y.into(), log_x, lines, ..Picture::default() }
}

fn at(xs: &[f64], ys: &[f64]) -> Vec<(f64, f64)> {
    xs.iter().copied().zip(ys.iter().copied()).collect()
}

pub fn sizes() -> Picture {
    let few = [(64.0, 6.12), (384.0, 6.10), (416.0, 5.73), (448.0, 5.34), (480.0, 4.99), (512.0, 4.69), (544.0, 4.43)];
    let sizes: Vec<f64> = (0..12).map(|n| 64.0 + 32.0 * f64::from(n)).collect();
    let many = at(&sizes, &[5.29, 5.39, 5.32, 5.35, 5.36, 5.37, 5.38, 5.43, 5.44, 5.48, 5.48, 5.50]);
    picture(
        "Published: one core at 1.2 GHz",
        "bytes",
        "Mpps",
        false,
        vec![line("few destinations", &few), line("2^24", &many)],
    )
}

pub fn workers() -> Picture {
    let cores: Vec<f64> = (1..=7).map(f64::from).collect();
    let lines = vec![
        line("2.0 GHz, 1 destination", &at(&cores, &[10.74, 20.96, 29.72, 29.76, 29.76, 29.76, 29.49])),
        line("2.0 GHz, 2^24", &at(&cores, &[8.59, 17.32, 25.83, 29.75, 29.75, 29.75, 29.55])),
        line("1.2 GHz, 1 destination", &at(&cores, &[6.44, 12.59, 18.82, 25.06, 29.73, 29.76, 29.69])),
        line("1.2 GHz, 2^24", &at(&cores, &[5.38, 10.87, 16.30, 21.71, 26.94, 29.75, 29.75])),
    ];
    picture("Published: links are full at 29.76 Mpps", "cores", "Mpps", false, lines)
}

pub fn routes() -> Picture {
    let networks: Vec<f64> = (16..=24).map(|bits| 2_f64.powi(bits)).collect();
    let lines = vec![
        line("2.2 GHz", &at(&networks, &[9.94, 9.94, 9.93, 9.96, 9.89, 9.62, 8.86, 8.60, 8.53])),
        line("3.2 GHz", &at(&networks, &[14.37, 14.30, 14.16, 14.38, 14.20, 13.56, 12.18, 11.70, 11.53])),
        line("2 cores x 1.6 GHz", &at(&networks, &[14.65, 14.60, 14.51, 14.54, 14.47, 14.35, 13.31, 12.93, 12.82])),
    ];
    picture("Published: 8 MB of L3", "networks in use", "Mpps", true, lines)
}

/// Receive bursts of the published figures.
const BURSTS: [f64; 11] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

pub fn batches() -> Picture {
    let lines = vec![
        line("transmit 2", &at(&BURSTS, &[2.36, 3.76, 3.49, 4.90, 7.60, 8.17, 8.34, 8.51, 8.27, 7.95, 7.70])),
        line("transmit 8", &at(&BURSTS, &[2.29, 3.93, 3.72, 5.52, 8.77, 9.69, 10.18, 10.50, 10.08, 9.68, 9.30])),
        line("transmit 32", &at(&BURSTS, &[2.44, 3.98, 3.80, 5.68, 9.32, 10.17, 10.60, 10.89, 10.55, 9.94, 9.63])),
        line("transmit 128", &at(&BURSTS, &[2.39, 4.12, 3.71, 5.70, 9.35, 10.23, 10.78, 10.94, 10.63, 10.29, 10.06])),
        line("transmit 512", &at(&BURSTS, &[2.38, 3.91, 3.63, 5.35, 8.48, 9.10, 9.49, 9.57, 10.14, 10.07, 9.75])),
    ];
    picture("Published: one core at 3.0 GHz, 2^24 destinations", "receive burst", "Mpps", true, lines)
}

pub fn latency() -> Picture {
    let lines = vec![
        line("transmit 8", &at(&BURSTS, &[10.8, 10.2, 10.9, 10.9, 11.0, 12.6, 15.1, 18.8, 23.9, 36.4, 49.0])),
        line("transmit 128", &at(&BURSTS, &[45.4, 33.5, 35.8, 29.8, 24.9, 24.9, 26.2, 77.5, 31.9, 45.0, 69.5])),
    ];
    picture("Published: median at 90 % load, with devices and wires", "receive burst", "us", true, lines)
}

pub fn modules() -> Picture {
    let shares = [("distribute, send", 35.0), ("lookup", 24.0), ("receive", 17.0), ("other", 16.0), ("apply", 9.0)];
    let lines = shares.iter().enumerate().map(|(at, (name, share))| line(name, &[(at as f64, *share)])).collect();
    picture("Published: by LuaJIT's profiler", "part", "%", false, lines).by_line()
}

pub fn breakdown() -> Picture {
    let steps = [
        ("receive, send", 69.6),
        ("Ethernet input", 118.0),
        ("IP checks", 36.0),
        ("lookup", 49.0),
        ("output, ARP", 137.0),
    ];
    let lines = steps.iter().enumerate().map(|(at, (name, ns))| line(name, &[(at as f64, *ns)])).collect();
    picture("Published: mSwitch and DXR, FreeBSD", "step, in a packet's order", "ns", false, lines).by_line()
}

/// Table 2: one core at 3.2 GHz.
pub fn rivals() -> Picture {
    let destinations = [1.0, 1_048_576.0, 16_777_216.0];
    let lines = vec![
        line("MoonRoute", &at(&destinations, &[14.6, 14.2, 11.6])),
        line("FastClick", &at(&destinations[..2], &[10.4, 10.4])),
        line("Click", &at(&destinations[..2], &[4.32, 4.18])),
        line("Linux 3.7", &at(&destinations[..1], &[1.5])),
    ];
    picture("Published: one core at 3.2 GHz", "destinations", "Mpps", true, lines)
}

/// Rates with X520 cards are those of a full link where it says so; the last one follows from the ratio in print.
pub fn snabb_thesis() -> Picture {
    let lines = vec![
        line("libmoon, E5-2620 v3, 40 Gbit/s card", &[(1.0, 17.34)]),
        line("libmoon, E5-2630 v4, 40 Gbit/s card", &[(1.0, 18.65)]),
        line("libmoon, 1950X, a full link", &[(1.0, 14.88), (10.0, 14.88)]),
        line("Snabb, 1950X", &[(10.0, 10.6)]),
    ];
    picture("Published: one core, with cards", "apps", "Mpps", true, lines)
}

/// bench/RESULTS.md, bench snabb of 2026-11-25: in turn on one core of an Intel Xeon (6/167/1), medians of 9 turns.
pub fn snabb_recorded() -> Picture {
    let apps = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
    let lines = vec![
        line("perigee", &at(&apps, &[142.86, 118.83, 79.44, 51.22, 29.01, 12.66, 6.41])),
        line("Snabb", &at(&apps, &[91.16, 72.26, 44.79, 26.73, 13.47, 4.82, 1.29])),
    ];
    picture("Recorded on another machine, a Xeon (6/167/1): in turn", "apps", "Mpps", true, lines)
}

/// Equation 5 with the published parameters, in Gbit/s on the wire, cut where links of this rate are full.
fn equation_5(cores: u32, size: f64, link: f64) -> f64 {
    let k = f64::from(cores);
    let links = if cores == 1 { link } else { 2.0 * link };
    ((0.011392 * k + 0.002709) * size + 0.227037 * k + 0.063321).min(links)
}

/// That in packets, by as many cores as the prediction has.
pub fn by_cores(sizes: &[u32], link: f64) -> Picture {
    let lines = sizes.iter().map(|size| {
        let mpps = |cores| equation_5(cores, f64::from(*size), link) * 1e3 / wire_bits(*size);
        let points: Vec<(f64, f64)> = (1..=8).map(|cores| (f64::from(cores), mpps(cores))).collect();
        line(&format!("{size} bytes"), &points)
    });
    picture("Published: Eq. 5 in packets, cut at the links", "cores", "Mpps", false, lines.collect())
}

/// That by frame size.
pub fn eight_cores(sizes: &[f64], link: f64) -> Picture {
    let lines = (1..=8).map(|cores| {
        let points: Vec<(f64, f64)> = sizes.iter().map(|size| (*size, equation_5(cores, *size, link))).collect();
        line(&format!("{cores} cores"), &points)
    });
    picture("Published: Eq. 5, cut at the links", "frame size, bytes", "Gbit/s on the wire", false, lines.collect())
}

/// Routes' misses and mispredictions are of the same runs.
pub fn misses() -> Picture {
    let networks: Vec<f64> = (16..=24).map(|bits| 2_f64.powi(bits)).collect();
    let lines = vec![
        line("L1, 32 KB", &at(&networks, &[3.42, 3.13, 3.66, 3.38, 3.18, 3.58, 3.68, 3.54, 3.39])),
        line("L2, 256 KB", &at(&networks, &[0.44, 0.60, 0.70, 0.75, 0.77, 0.79, 0.91, 0.98, 1.01])),
        line("L3, 8 MB", &at(&networks, &[0.022, 0.022, 0.022, 0.022, 0.023, 0.057, 0.45, 0.77, 0.92])),
        line("branches", &at(&networks, &[0.13, 0.13, 0.14, 0.14, 0.14, 0.13, 0.13, 0.14, 0.14])),
    ];
    picture("Published: counted by the processor", "networks in use", "misses per packet", true, lines)
}

/// Two pictures, as they have two units.
pub fn clock() -> Vec<Picture> {
    let networks = [1.0, 2_f64.powi(20), 2_f64.powi(21), 2_f64.powi(24)];
    let cycles = line("scales with the clock", &at(&networks, &[206.0, 214.0, 208.0, 221.0]));
    let memory = line("does not scale", &at(&networks, &[4.0, 4.0, 10.0, 18.0]));
    vec![
        picture(
            "Published: cycles, fitted over 1.6 to 3.2 GHz",
            "networks in use",
            "cycles per packet",
            true,
            vec![cycles],
        ),
        picture("Published: memory, of the same fit", "networks in use", "ns per packet", true, vec![memory]),
    ]
}

pub fn io_lookup() -> Picture {
    let lines = vec![line("radix tree", &[(0.0, 699.3), (1.0, 512.8)]), line("DXR", &[(0.0, 602.4), (1.0, 411.5)])];
    let categories = ["default", "mSwitch"].map(String::from).to_vec();
    Picture { categories, ..picture("Published: FreeBSD, 3.2 GHz", "I/O", "ns per packet", false, lines) }
}
