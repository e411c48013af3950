// SPDX-License-Identifier: MIT
//! The kernel as the router.

use super::Place;
use crate::network::Side;
use anyhow::{Context as _, Result};
use std::fs;

pub(super) fn start(place: &Place) -> Result<()> {
    for (name, value) in settings(place) {
        place.host.set(&name, &value)?;
    }
    let mut batch = String::new();
    for side in place.sides {
        let interface = side.interface();
        for address in side.addresses() {
            batch += &format!("addr add {address} dev {interface}\n");
        }
    }
    for route in place.world.routes() {
        batch += &format!("route add {route}\n");
    }
    let file = place.folder.join(format!("{}.batch", place.world.name()));
    fs::write(&file, batch).with_context(|| format!("{} cannot be written", file.display()))?;
    place.host.run(&format!("ip -batch {}", file.display())).output()?;
    Ok(())
}

/// Settings of `/proc/sys/net`, in their order: a new namespace may have those of the first one, and the first of these
/// changes others.
fn settings(place: &Place) -> Vec<(String, String)> {
    let settings = place.world.settings();
    let mut list: Vec<(String, String)> = Vec::new();
    let mut set = |name: String, value: &str| list.push((name, value.to_owned()));
    set("ipv4/ip_forward".to_owned(), "1");
    set("ipv6/conf/all/forwarding".to_owned(), "1");
    // 6168 is the kernel's default: the errors that are limited.
    let (rate, mask, rate6) = if settings.limited { ("1000", "6168", "1000") } else { ("0", "0", "0") };
    set("ipv4/icmp_ratelimit".to_owned(), rate);
    set("ipv4/icmp_ratemask".to_owned(), mask);
    set("ipv6/icmp/ratelimit".to_owned(), rate6);
    set("ipv4/icmp_errors_use_inbound_ifaddr".to_owned(), "0");
    let interfaces = place.sides.iter().map(|side| side.interface());
    for interface in ["all".to_owned(), "default".to_owned()].into_iter().chain(interfaces) {
        let filters = interface == Side::Left.interface();
        let rp_filter = match settings.urpf {
            Some("strict") if filters => "1",
            Some("loose") if filters => "2",
            _ => "0",
        };
        let source_routes = if settings.source_routes { "1" } else { "0" };
        let of4 = |name: &str| format!("ipv4/conf/{interface}/{name}");
        set(of4("rp_filter"), rp_filter);
        set(of4("accept_source_route"), source_routes);
        set(of4("send_redirects"), "1");
        set(of4("accept_redirects"), "0");
        // Only stations on the link are redirected (RFC 1812 5.2.7.2).
        set(of4("shared_media"), "0");
        set(of4("bc_forwarding"), "0");
        set(format!("ipv6/conf/{interface}/accept_dad"), "1");
        set(format!("ipv6/conf/{interface}/accept_redirects"), "0");
        if settings.ages_soon && interface.starts_with("r-") {
            for family in ["ipv4", "ipv6"] {
                set(format!("{family}/neigh/{interface}/base_reachable_time_ms"), "1000");
                set(format!("{family}/neigh/{interface}/delay_first_probe_time"), "1");
            }
        }
    }
    list
}
