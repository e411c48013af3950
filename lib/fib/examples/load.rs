// SPDX-License-Identifier: MIT
//! How long it takes to load a full table, and to insert it route by route: `cargo run --release -p perigee-fib
//! --example load [ROUTES [STRUCTURE]]`. Routes have a gateway with its interface, a gateway without, or two gateways.
//! Times are CPU time, so that other load on the machine does not distort them; "lookup alone" is the lookup
//! structure's part of a load.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use perigee_fib::{FibError, FibWriter, NextHopId, structures, synth};
use perigee_net::{InterfaceId, MacAddr, Member, Multipath, Prefix, Route, RouteSource, RouteTarget};

const LAN: InterfaceId = InterfaceId(1);

/// CPU time of this thread, in seconds.
fn now() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9
}

fn gateway(number: u32) -> IpAddr {
    Ipv4Addr::from_bits(0xc000_0200 + number % 250 + 1).into()
}

fn target(kind: &str, number: u32) -> RouteTarget {
    let interface = (kind != "recursive").then_some(LAN);
    if kind != "group" {
        return RouteTarget::Gateway { address: gateway(number), interface };
    }
    let member = |number| Member { address: Some(gateway(number)), interface, weight: 1 };
    RouteTarget::Multipath(Multipath::new(&[member(number), member(number + 1)]).expect("two gateways"))
}

fn main() -> Result<(), FibError> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let name = std::env::args().nth(2).unwrap_or_else(|| structures::DEFAULT4.name.to_owned());
    let structure = structures::IPV4.iter().find(|s| s.name == name).unwrap_or(structures::DEFAULT4);
    let prefixes = synth::ipv4(count, 1);
    let ids: Vec<_> = prefixes.iter().map(|(prefix, number)| (*prefix, NextHopId(16 + number))).collect();
    let mut lookup = (structure.new)()?;
    let start = now();
    lookup.load(&ids)?;
    println!("{} lookup alone {:6.2} s", structure.name, now() - start);
    for kind in ["gateway", "recursive", "group"] {
        let connected = Route::new(RouteSource::Connected, RouteTarget::Connected { interface: LAN });
        let network = Prefix::truncated(gateway(0), 24).expect("a network");
        let mut routes = vec![(network, connected)];
        for (prefix, number) in &prefixes {
            routes.push((Prefix::V4(*prefix), Route::new(RouteSource::Dynamic, target(kind, *number))));
        }
        for way in ["load", "insert"] {
            let mut writer = FibWriter::with(100_000, (structure.new)()?, (structures::DEFAULT6.new)()?)?;
            let routes = routes.clone();
            let start = now();
            if way == "load" {
                writer.load(routes)?;
            } else {
                routes.into_iter().try_for_each(|(prefix, route)| writer.insert(prefix, route))?;
            }
            writer.commit()?;
            let seconds = now() - start;
            println!("{kind:9} {way:6} {:>9} prefixes {seconds:6.2} s", writer.rib().prefixes());
            if way == "load" {
                let start = Instant::now();
                for n in 0..250 {
                    writer.set_neighbor(LAN, gateway(n), Some(MacAddr([2, 0, 0, 0, 0, n as u8])));
                }
                println!("{kind:9} 250 neighbors resolved in {:6.2} ms", start.elapsed().as_secs_f64() * 1e3);
                let start = Instant::now();
                let other = RouteTarget::Connected { interface: InterfaceId(2) };
                writer.insert(network, Route::new(RouteSource::Connected, other))?;
                println!("{kind:9} their network moved in     {:6.2} ms", start.elapsed().as_secs_f64() * 1e3);
            }
        }
    }
    Ok(())
}
