// SPDX-License-Identifier: MIT
//! How fast routes enter the routing table and the lookup structures one by one, as from a kernel's notifications, and
//! how much memory they take: `cargo run --release -p perigee-fib --example rib [FILE [GATEWAYS [sorted]]]`.
//!
//! FILE has one prefix per line; the default is a synthetic IPv4 table of 1,000,000. Each route goes to one of GATEWAYS
//! neighbors (100), chosen by a fixed hash of its prefix; the order is random but fixed. A commit and a reclaim follow
//! every 1,000 changes. Times are CPU time of the thread, so that other load on the machine does not distort them.

use std::net::{IpAddr, Ipv4Addr};

use perigee_fib::synth::Random;
use perigee_fib::{FibWriter, NextHopWriter, Published, synth};
use perigee_net::{InterfaceId, MacAddr, Prefix, Route, RouteKey, RouteSource, RouteTarget};

/// Changes per commit.
const BURST: usize = 1000;
const KEY: RouteKey = RouteKey::of(RouteSource::Linux).with_metric(32);

/// CPU time of this thread, in seconds.
fn now() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

/// Memory in use, and its peak, in MB.
fn memory() -> [f64; 2] {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ["VmRSS:", "VmHWM:"].map(|name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) * 1024.0 / 1e6
    })
}

fn route(prefix: Prefix, gateways: u32, turn: u32) -> Route {
    // A hash of the prefix, so that its neighbor is the same in every run.
    let bits = match prefix {
        Prefix::V4(prefix) => prefix.addr(),
        Prefix::V6(prefix) => (prefix.addr() >> 64) as u32 ^ (prefix.addr() >> 96) as u32,
    };
    let number = (bits ^ bits >> 15).wrapping_mul(0x85eb_ca6b).wrapping_add(turn) >> 4;
    let address = Ipv4Addr::from_bits(0x0a00_0001 + number % gateways).into();
    let target = RouteTarget::Gateway { address, interface: Some(InterfaceId((number % 4) as u16)) };
    Route::new(RouteSource::Linux, target).with_metric(KEY.metric)
}

/// Makes a change for each prefix, with a commit after each burst, and prints the rate.
fn run(
    what: &str,
    writer: &mut FibWriter,
    prefixes: &[Prefix],
    mut change: impl FnMut(&mut FibWriter, Prefix) -> Result<(), perigee_fib::FibError>,
) -> Result<(), perigee_fib::FibError> {
    let published = Published::new(());
    let start = now();
    for burst in prefixes.chunks(BURST) {
        burst.iter().try_for_each(|prefix| change(writer, *prefix))?;
        writer.commit()?;
        writer.reclaim(published.grace());
    }
    let (seconds, [used, most]) = (now() - start, memory());
    let (count, rate) = (prefixes.len(), prefixes.len() as f64 / seconds);
    println!("{what:9} {count:>9} routes {seconds:6.2} s {rate:>9.0}/s   {used:4.0} MB in use, at most {most:4.0}");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut prefixes: Vec<Prefix> = match arguments.next() {
        Some(file) => std::fs::read_to_string(file)?.lines().map(str::parse).collect::<Result<_, _>>()?,
        None => synth::ipv4(1_000_000, 1).into_iter().map(|(prefix, _)| prefix.into()).collect(),
    };
    let gateways = arguments.next().map_or(Ok(100), |text| text.parse())?;
    let is_sorted = arguments.next().is_some();
    prefixes.sort();
    if !is_sorted {
        let mut random = Random::new(1);
        for at in (1..prefixes.len()).rev() {
            prefixes.swap(at, random.below(at as u32 + 1) as usize);
        }
    }
    let [before, _] = memory();
    println!("{} prefixes, {gateways} neighbors, sorted: {is_sorted}; {before:.0} MB before", prefixes.len());
    let mut writer = FibWriter::new(NextHopWriter::MAX)?;
    for number in 0..gateways {
        let gateway = IpAddr::V4(Ipv4Addr::from_bits(0x0a00_0001 + number));
        (0..4).for_each(|port| {
            writer.set_neighbor(InterfaceId(port), gateway, Some(MacAddr([2, 0, 0, 0, 0, number as u8])))
        });
    }
    run("inserted", &mut writer, &prefixes, |writer, prefix| writer.insert(prefix, route(prefix, gateways, 0)))?;
    let (v4, v6) = writer.memory();
    println!("          lookup structures, readers' half: {:.0} MB and {:.0} MB", v4 as f64 / 1e6, v6 as f64 / 1e6);
    run("again", &mut writer, &prefixes, |writer, prefix| writer.insert(prefix, route(prefix, gateways, 0)))?;
    run("replaced", &mut writer, &prefixes, |writer, prefix| writer.insert(prefix, route(prefix, gateways, 99)))?;
    let found = prefixes.iter().filter(|p| writer.expected(p.addr()) == writer.reader().lookup(p.addr()).0).count();
    assert_eq!(found, prefixes.len(), "the lookup structures disagree with the routes");
    run("withdrawn", &mut writer, &prefixes, |writer, prefix| writer.remove(prefix, KEY).map(drop))?;
    run("announced", &mut writer, &prefixes, |writer, prefix| writer.insert(prefix, route(prefix, gateways, 0)))?;
    let start = now();
    let count = writer.rib().routes_of_source(RouteSource::Linux, false, None).count();
    println!("walked    {count:>9} IPv4 routes in order {:6.2} s", now() - start);
    Ok(())
}
