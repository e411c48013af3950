// SPDX-License-Identifier: MIT
//! BGP speakers of scenarios: the router's, and those that announce to it. A neighbor on `10.0.NET.0/24` has the AS
//! 65000 + NET.

use perigee_lab::bird::{Channel, Configuration, Session};
use perigee_lab::frr;

/// The ports to client and server, with link-local addresses, by which BGP for IPv6 names gateways.
pub const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64", "fe80::1:1/64"]
[port.lan]
interface = "r-server"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64", "fe80::2:1/64"]
"#;

/// The router's AS.
const ROUTER_AS: u32 = 65_001;
/// Options of every BGP session of BIRD's.
const OPTIONS: &str = "hold time 30; graceful restart on;";

/// Networks that a speaker announces: `20.N.M.0/24`, in order.
pub fn networks(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("20.{}.{}.0/24", number / 256, number % 256))
}

/// IPv6 networks that a speaker announces: `2001:db8:f000:N::/64`, in order.
pub fn networks6(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("2001:db8:f000:{number:x}::/64"))
}

/// Addresses of the router and of a neighbor, for IPv4 and IPv6.
fn addresses(net: u8) -> [(String, String); 2] {
    [(format!("10.0.{net}.1"), format!("10.0.{net}.2")), (format!("2001:db8:{net}::1"), format!("2001:db8:{net}::2"))]
}

fn neighbor_as(net: u8) -> u32 {
    65_000 + u32::from(net)
}

/// BIRD that announces networks to a router at 10.0.NET.1, from 10.0.NET.2, and the same for IPv6. It puts routes into
/// its kernel, as its host has no other way back, except the route to its own network, in which Linux would look for
/// gateways.
pub fn announcing_bird(net: u8, count: usize, count6: usize) -> String {
    let [(router, own), (router6, own6)] = addresses(net);
    let session = |name, own, router, channel| Session {
        name,
        local: (own, neighbor_as(net)),
        neighbor: (router, ROUTER_AS),
        options: OPTIONS,
        channel,
    };
    let (all_but, all_but6) = (format!("where net != 10.0.{net}.0/24"), format!("where net != 2001:db8:{net}::/64"));
    let four = Channel { family: "ipv4", import: &all_but, export: "all" };
    let six = Channel { family: "ipv6", import: &all_but6, export: "all" };
    let text = Configuration::new(&own)
        .kernel("ipv4", "where source = RTS_BGP", "")
        .kernel("ipv6", "where source = RTS_BGP", "")
        .bgp(&session("four", &own, &router, four))
        .bgp(&session("six", &own6, &router6, six))
        .networks("many", "ipv4", false, networks(count))
        .networks("many6", "ipv6", false, networks6(count6));
    text.text().to_owned()
}

/// BIRD on the router's side, with neighbors on `10.0.NET.0/24`. Routes of several neighbors are used together.
pub fn router_bird(nets: &[u8]) -> String {
    let options = "merge paths on; graceful restart on; scan time 5;";
    let mut text = Configuration::new("10.0.0.1")
        .and("protocol direct { ipv4; ipv6; }")
        .kernel("ipv4", "where source = RTS_BGP", options)
        .kernel("ipv6", "where source = RTS_BGP", options)
        .and("graceful restart wait 240;");
    for net in nets {
        for (name, family, (own, neighbor)) in ["four", "six"]
            .into_iter()
            .zip(["ipv4", "ipv6"])
            .zip(addresses(*net))
            .map(|((name, family), addresses)| (format!("{name}{net}"), family, addresses))
        {
            text = text.bgp(&Session {
                name: &name,
                local: (&own, ROUTER_AS),
                neighbor: (&neighbor, neighbor_as(*net)),
                options: OPTIONS,
                channel: Channel { family, import: "all", export: "where source = RTS_DEVICE" },
            });
        }
    }
    text.text().to_owned()
}

/// FRR on the router's side: the configuration of bgpd, with a session for each family (`ipv4`, `ipv6`).
pub fn router_frr(nets: &[u8], families: &[&'static str]) -> String {
    let session = |net: &u8, family: &'static str| {
        let [(_, four), (_, six)] = addresses(*net);
        let neighbor = if family == "ipv4" { four } else { six };
        frr::Session { neighbor, remote_as: neighbor_as(*net), family }
    };
    let sessions = families.iter().flat_map(|family| nets.iter().map(|net| session(net, family)));
    frr::bgp(ROUTER_AS, "10.0.0.1", &sessions.collect::<Vec<_>>())
}
