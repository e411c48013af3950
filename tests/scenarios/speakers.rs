// SPDX-License-Identifier: MIT
//! Configurations of BGP speakers: the router's, and those that announce to it.

use std::fmt::Write as _;

/// The ports to client and server, with link-local addresses, by which BGP for IPv6 names gateways.
pub const PORTS: &str = r#"
[port.wan]
interface = "r-client"
addresses = ["10.0.1.1/24", "2001:db8:1::1/64", "fe80::1:1/64"]
[port.lan]
interface = "r-server"
addresses = ["10.0.2.1/24", "2001:db8:2::1/64", "fe80::2:1/64"]
"#;

/// Timers that suit a test: connect at once, and again soon.
const TIMERS: &str = "connect delay time 1; connect retry time 2; error wait time 1, 2; hold time 30;";

/// Networks that a speaker announces: `20.N.M.0/24`, in order.
pub fn networks(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("20.{}.{}.0/24", number / 256, number % 256))
}

/// The same for IPv6: `2001:db8:f000:N::/64`.
pub fn networks6(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("2001:db8:f000:{number:x}::/64"))
}

/// BIRD that announces networks to a router at 10.0.NET.1, from 10.0.NET.2, and the same for IPv6. It takes routes into its
/// kernel, as its host has no other way back; not that to its own network, by which Linux would look for gateways.
pub fn announcing_bird(net: u8, count: usize, count6: usize) -> String {
    let mut text = format!(
        "log stderr all;\nrouter id 10.0.{net}.2;\nprotocol device {{ }}\n\
         protocol kernel {{ ipv4 {{ export where source = RTS_BGP; }}; }}\n\
         protocol kernel {{ ipv6 {{ export where source = RTS_BGP; }}; }}\n\
         protocol bgp four {{ local 10.0.{net}.2 as 6500{net}; neighbor 10.0.{net}.1 as 65001; {TIMERS} \
         graceful restart on; ipv4 {{ import where net != 10.0.{net}.0/24; export all; }}; }}\n\
         protocol bgp six {{ local 2001:db8:{net}::2 as 6500{net}; neighbor 2001:db8:{net}::1 as 65001; {TIMERS} \
         graceful restart on; ipv6 {{ import where net != 2001:db8:{net}::/64; export all; }}; }}\n"
    );
    for (name, family, routes) in
        [("many", "ipv4", networks(count).collect::<Vec<_>>()), ("many6", "ipv6", networks6(count6).collect())]
    {
        let _ = writeln!(text, "protocol static {name} {{ {family};");
        for network in routes {
            let _ = writeln!(text, "  route {network} blackhole;");
        }
        text += "}\n";
    }
    text
}

/// BIRD on the router's side, with neighbors on `10.0.NET.0/24`. Routes of several neighbors are used together.
pub fn router_bird(nets: &[u8]) -> String {
    let kernel = |family: &str| {
        format!(
            "protocol kernel {{ {family} {{ export where source = RTS_BGP; }}; merge paths on; graceful restart on; \
             scan time 5; }}\n"
        )
    };
    let mut text = format!(
        "log stderr all;\nrouter id 10.0.0.1;\nprotocol device {{ }}\nprotocol direct {{ ipv4; ipv6; }}\n{}{}\
         graceful restart wait 20;\n",
        kernel("ipv4"),
        kernel("ipv6")
    );
    for net in nets {
        let _ = write!(
            text,
            "protocol bgp four{net} {{ local 10.0.{net}.1 as 65001; neighbor 10.0.{net}.2 as 6500{net}; {TIMERS} \
             graceful restart on; ipv4 {{ import all; export where source = RTS_DEVICE; }}; }}\n\
             protocol bgp six{net} {{ local 2001:db8:{net}::1 as 65001; neighbor 2001:db8:{net}::2 as 6500{net}; {TIMERS} \
             graceful restart on; ipv6 {{ import all; export where source = RTS_DEVICE; }}; }}\n"
        );
    }
    text
}

/// What a session carries.
#[derive(Clone, Copy)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub const BOTH: [Family; 2] = [Family::V4, Family::V6];
}

/// FRR on the router's side: the configuration of bgpd, with a session for each family.
pub fn router_frr(nets: &[u8], families: &[Family]) -> String {
    let mut text = "router bgp 65001\n bgp router-id 10.0.0.1\n no bgp ebgp-requires-policy\n \
         no bgp default ipv4-unicast\n bgp bestpath as-path multipath-relax\n bgp graceful-restart\n \
         bgp graceful-restart preserve-fw-state\n timers bgp 10 30\n"
        .to_owned();
    for family in families {
        let (name, neighbors): (_, Vec<_>) = match family {
            Family::V4 => ("ipv4", nets.iter().map(|net| (format!("10.0.{net}.2"), net)).collect()),
            Family::V6 => ("ipv6", nets.iter().map(|net| (format!("2001:db8:{net}::2"), net)).collect()),
        };
        for (address, net) in &neighbors {
            let _ = writeln!(text, " neighbor {address} remote-as 6500{net}\n neighbor {address} timers connect 1");
        }
        let _ = writeln!(text, " address-family {name} unicast\n  redistribute connected");
        for (address, _) in &neighbors {
            let _ = writeln!(text, "  neighbor {address} activate");
        }
        text += " exit-address-family\n";
    }
    text
}
