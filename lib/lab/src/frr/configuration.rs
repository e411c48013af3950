// SPDX-License-Identifier: MIT
//! The configuration of FRR's daemons, line by line.

use std::fmt::Write as _;

/// A BGP session.
#[derive(Debug, Clone)]
pub struct Session {
    /// Address of the other side.
    pub neighbor: String,
    /// AS number of the other side.
    pub remote_as: u32,
    /// The family of its routes: `ipv4` or `ipv6`.
    pub family: &'static str,
}

/// bgpd, with graceful restart and timers that suit a laboratory: it connects at once, and announces the networks it is
/// connected to. Routes of several neighbors are used together.
pub fn bgp(own_as: u32, router_id: &str, sessions: &[Session]) -> String {
    let mut text = format!(
        "router bgp {own_as}\n bgp router-id {router_id}\n no bgp ebgp-requires-policy\n \
         no bgp default ipv4-unicast\n bgp bestpath as-path multipath-relax\n bgp graceful-restart\n \
         bgp graceful-restart preserve-fw-state\n timers bgp 10 30\n"
    );
    for Session { neighbor, remote_as, .. } in sessions {
        // A String takes everything.
        let _ = writeln!(text, " neighbor {neighbor} remote-as {remote_as}\n neighbor {neighbor} timers connect 1");
    }
    for family in ["ipv4", "ipv6"] {
        let of_family: Vec<_> = sessions.iter().filter(|session| session.family == family).collect();
        if of_family.is_empty() {
            continue;
        }
        let _ = writeln!(text, " address-family {family} unicast\n  redistribute connected");
        for session in of_family {
            let _ = writeln!(text, "  neighbor {} activate", session.neighbor);
        }
        text += " exit-address-family\n";
    }
    text
}

/// ospfd and ospf6d in area 0. Interfaces with a cost speak; those with `None` are announced and silent.
pub fn ospf(router_id: &str, interfaces: &[(&str, Option<u32>)]) -> String {
    let mut text = String::new();
    for (name, cost) in interfaces {
        let _ = writeln!(text, "interface {name}\n ip ospf area 0\n ipv6 ospf6 area 0");
        for words in ["ip ospf", "ipv6 ospf6"] {
            let _ = match cost {
                Some(cost) => {
                    writeln!(text, " {words} hello-interval 1\n {words} dead-interval 4\n {words} cost {cost}")
                }
                None => writeln!(text, " {words} passive"),
            };
        }
    }
    let _ = writeln!(text, "router ospf\n ospf router-id {router_id}\nrouter ospf6\n ospf6 router-id {router_id}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_neighbors() {
        let session = |neighbor: &str, family| Session { neighbor: neighbor.to_owned(), remote_as: 65_002, family };
        let text = bgp(65_001, "10.0.0.1", &[session("10.0.2.2", "ipv4"), session("2001:db8:2::2", "ipv6")]);
        let (four, six) = text.split_once("address-family ipv6").unwrap();
        assert!(four.contains("  neighbor 10.0.2.2 activate") && !four.contains("2001:db8:2::2 activate"));
        assert!(six.contains("  neighbor 2001:db8:2::2 activate") && !six.contains("10.0.2.2"));
        assert!(!bgp(65_001, "10.0.0.1", &[session("10.0.2.2", "ipv4")]).contains("address-family ipv6"));
    }

    #[test]
    fn silent_interfaces_have_no_timers() {
        let text = ospf("10.0.0.1", &[("wan", None), ("one", Some(10))]);
        let (wan, one) = text.split_once("interface one").unwrap();
        assert!(wan.contains("ipv6 ospf6 passive") && !wan.contains("hello"));
        assert!(one.contains(" ip ospf cost 10") && !one.contains("passive"));
    }
}
