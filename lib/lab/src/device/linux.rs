// SPDX-License-Identifier: MIT
//! The kernel as the device.

use super::{Device, Running};
use anyhow::Result;

/// Settings of `/proc/sys/net`. A new namespace may have those of the first one.
const SETTINGS: [(&str, &str); 9] = [
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    // The tester sends from any address to any other.
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/d0/rp_filter", "0"),
    ("ipv4/conf/d1/rp_filter", "0"),
    ("ipv4/conf/d0/arp_ignore", "0"),
    ("ipv4/conf/d1/arp_ignore", "0"),
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv6/icmp/ratelimit", "0"),
];

/// Gives both interfaces their addresses, and lets the kernel forward.
pub(super) fn start(device: &Device) -> Result<Running> {
    for (name, value) in SETTINGS {
        device.set(name, value)?;
    }
    for side in device.sides() {
        let interface = side.interface;
        device.ip(&format!("link set {interface} up"))?;
        let [v4, v6] = side.addresses();
        device.ip(&format!("addr replace {v4} dev {interface}"))?;
        device.ip(&format!("addr replace {v6} dev {interface} nodad"))?;
        if device.setup.static_neighbors {
            for address in [side.tester_v4.to_string(), side.tester_v6.to_string()] {
                let mac = &side.tester_mac;
                device.ip(&format!("neigh replace {address} lladdr {mac} dev {interface} nud permanent"))?;
            }
        }
    }
    Ok(Running::Kernel)
}

/// Takes both interfaces down; what the kernel has learned is forgotten, and so are routes.
pub(super) fn stop(device: &Device) -> Result<()> {
    for side in device.sides() {
        device.ip(&format!("link set {} down", side.interface))?;
        device.ip(&format!("addr flush dev {}", side.interface))?;
    }
    Ok(())
}
