// SPDX-License-Identifier: MIT
//! What neighbors on a connected network cost: `cargo run --release -p perigee-fib --example neighbors [host-routes]`.
//!
//! 65,000 addresses of a /16 and of a /64 become known, are looked up in bursts of 64 in a random order that is fixed,
//! and are lost again; a commit and a reclaim follow every 64 changes. With `host-routes` each is a host route in place
//! of a neighbor (4,000 for IPv6), which is what they were before the table of neighbors.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use perigee_fib::{Fib, FibWriter, Grace, NextHopId};
use perigee_net::{InterfaceId, MacAddr, Prefix, Route, RouteKey, RouteSource, RouteTarget};

const LAN: InterfaceId = InterfaceId(3);
const BURST: usize = 64;
const KEY: RouteKey = RouteKey::of(RouteSource::Static);

fn address(is_v6: bool, n: u32) -> IpAddr {
    // Spread over the /64, as hosts choose their addresses.
    let mixed = u128::from(n.wrapping_mul(0x9e37_79b1)) << 32 | u128::from(n);
    match is_v6 {
        false => Ipv4Addr::from_bits(0x0a01_0000 + n).into(),
        true => Ipv6Addr::from_bits(0x2001_0db8_0001_0000 << 64 | mixed).into(),
    }
}

/// Makes an address known, or unknown; returns whether that was refused.
fn change(writer: &mut FibWriter, address: IpAddr, known: bool, host_routes: bool) -> bool {
    writer.set_neighbor(LAN, address, known.then_some(MacAddr([2, 0, 0, 0, 0, 1])));
    let target = RouteTarget::Gateway { address, interface: Some(LAN) };
    match (host_routes, known) {
        (false, _) => writer.set_on_link(LAN, address, known).is_err(),
        (true, true) => writer.insert(Prefix::host(address), Route::new(RouteSource::Static, target)).is_err(),
        (true, false) => writer.remove(Prefix::host(address), KEY).is_err(),
    }
}

fn change_all(writer: &mut FibWriter, addresses: &[IpAddr], known: bool, host_routes: bool) -> (f64, usize) {
    let (start, mut refused) = (Instant::now(), 0);
    for burst in addresses.chunks(BURST) {
        refused += burst.iter().filter(|address| change(writer, **address, known, host_routes)).count();
        writer.commit().expect("patched in place");
        writer.reclaim(Grace { epoch: 1, passed: 1 });
    }
    (start.elapsed().as_secs_f64(), refused)
}

/// Looks addresses up as workers do; returns ns for each, the best of 20 rounds.
fn look_up(fib: &Fib, order: &[IpAddr]) -> f64 {
    let bits = |address: &IpAddr| match address {
        IpAddr::V4(v4) => (v4.to_bits(), 0),
        IpAddr::V6(v6) => (0, v6.to_bits()),
    };
    let (v4, v6): (Vec<u32>, Vec<u128>) = order.iter().map(bits).unzip();
    let (links, mut ids) = ([LAN.0; BURST], [0; BURST]);
    let mut best = f64::MAX;
    for _ in 0..20 {
        let start = Instant::now();
        for (v4, v6) in v4.chunks_exact(BURST).zip(v6.chunks_exact(BURST)) {
            let is_v6 = v6[0] != 0;
            if is_v6 {
                fib.v6.lookup_batch(v6, &mut ids)
            } else {
                fib.v4.lookup_batch(v4, &mut ids)
            };
            if fib.next_hops.get(NextHopId(ids[0])).on_link().is_some() {
                match is_v6 {
                    true => fib.neighbors.lookup_batch(&links, v6, &mut ids),
                    false => fib.neighbors.lookup_batch(&links, v4, &mut ids),
                }
            }
            let words: u64 = ids.iter().map(|id| fib.next_hops.get(NextHopId(*id)).word() >> 48).sum();
            assert_eq!(black_box(words), BURST as u64 * u64::from(LAN.0), "all are found");
        }
        best = best.min(start.elapsed().as_nanos() as f64 / (order.len() / BURST * BURST) as f64);
    }
    best
}

fn main() {
    let host_routes = std::env::args().nth(1).is_some_and(|word| word == "host-routes");
    for (is_v6, net) in [(false, "10.1.0.0/16"), (true, "2001:db8:1::/64")] {
        let count = if is_v6 && host_routes { 4000 } else { 65_000 };
        let mut writer = FibWriter::new(1 << 20).expect("memory");
        let connected = Route::new(RouteSource::Connected, RouteTarget::Connected { interface: LAN });
        writer.insert(net.parse().expect(net), connected).expect("room");
        writer.commit().expect("patched in place");
        let memory = |writer: &FibWriter| if is_v6 { writer.memory().1 } else { writer.memory().0 };
        let before = memory(&writer);
        let addresses: Vec<IpAddr> = (1..=count).map(|n| address(is_v6, n)).collect();
        let (added, refused) = change_all(&mut writer, &addresses, true, host_routes);
        let bytes = memory(&writer) - before;
        let order: Vec<IpAddr> = (0..count).map(|n| address(is_v6, 1 + n.wrapping_mul(40_503) % count)).collect();
        let lookup = if refused == 0 { look_up(&writer.reader(), &order) } else { f64::NAN };
        let (removed, stay) = change_all(&mut writer, &addresses, false, host_routes);
        println!(
            "{net}: {count} in {added:.3} s, {refused} refused, {bytes} bytes of the lookup structure, {lookup:.1} ns a lookup, \
             out again in {removed:.3} s, {stay} stay"
        );
    }
}
