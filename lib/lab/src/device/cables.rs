// SPDX-License-Identifier: MIT
//! The two cables: names, addresses, MAC addresses, and how they are made.

use super::{Device, Kind};
use crate::{Place, World, run};
use anyhow::{Context as _, Result};
use std::net::{Ipv4Addr, Ipv6Addr};

/// The highest number of a device.
pub(super) const MOST: u8 = 6;

/// Checksums left for a device to fill would arrive unfilled, and merged frames would not be those that were sent.
const OFF: &str = "tx off gro off gso off tso off";
/// What the tester's end needs so that the in-kernel plane can send to it: the queue that comes with GRO, which merges nothing
/// of what a tester sends; and VLAN tags in the frames.
pub(super) const FOR_PLANE: &str = "gro on txvlan off";

/// One side of the device: its interface, the cable, and the tester at the other end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Side {
    /// The device's interface in its namespace: `d0`.
    pub interface: &'static str,
    /// The tester's interface: `t0`.
    pub port: String,
    /// The device's MAC address.
    pub mac: String,
    /// The tester's MAC address.
    pub tester_mac: String,
    /// The device's address, in a network of 16 bits.
    pub v4: Ipv4Addr,
    /// The device's address, in a network of 64 bits.
    pub v6: Ipv6Addr,
    /// The tester's address.
    pub tester_v4: Ipv4Addr,
    /// The tester's address.
    pub tester_v6: Ipv6Addr,
}

impl Side {
    /// The device's addresses, with the lengths of their networks' prefixes.
    pub fn addresses(&self) -> [String; 2] {
        [format!("{}/16", self.v4), format!("{}/64", self.v6)]
    }
}

/// Both sides of a device.
pub(super) fn sides(number: u8) -> [Side; 2] {
    [0, 1].map(|index| {
        // The upper half of the addresses for benchmarks is the right side's: 198.18.0.0/15 and 2001:2::/48.
        let v4 = |host| Ipv4Addr::new(198, 18 + index, 0, host);
        let v6 = |host| Ipv6Addr::new(0x2001, 2, 0, 0x8000 * u16::from(index), 0, 0, 0, host);
        let mac = |host: u8| format!("02:00:c6:{:02x}:{number:02x}:{host:02x}", 18 + index);
        Side {
            interface: ["d0", "d1"][usize::from(index)],
            port: format!("t{}", number * 2 + index),
            mac: mac(1),
            tester_mac: mac(2),
            v4: v4(1),
            v6: v6(1),
            tester_v4: v4(2),
            tester_v6: v6(2),
        }
    })
}

/// Makes both veth pairs, with the tester's ends up.
pub(super) fn connect(world: &World, device: &Device) -> Result<()> {
    let (setup, host) = (&device.setup, &device.host);
    for (index, side) in (0..).zip(&device.sides) {
        let Side { interface, port, mac, tester_mac, .. } = side;
        let mtu = setup.mtu;
        // DPDK numbers groups of AF_PACKET sockets, one for each interface, by the process XOR the interface, and two
        // that meet in a group share their frames: so the numbers are too far apart for processes that follow
        // each other.
        let (near, far) = (interface_number(setup.number * 2 + index), interface_number(index));
        world
            .ip(&format!(
                "link add {port} index {near} address {tester_mac} mtu {mtu} type veth \
                 peer name {interface} index {far} address {mac} mtu {mtu} netns {}",
                host.name()
            ))
            .context("two namespaces cannot be connected; `sudo modprobe veth` loads the driver")?;
        run(&mut Place::Router.command(&format!("ethtool -K {port} {OFF}"))).output()?;
        host.run(&format!("ethtool -K {interface} {OFF}")).output()?;
        if matches!(&device.kind, Kind::Perigee(options) if options.in_kernel) {
            run(&mut Place::Router.command(&format!("ethtool -K {port} {FOR_PLANE}"))).output()?;
        }
        world.ip(&format!("link set {port} addrgenmode none"))?;
        world.ip(&format!("link set {port} up"))?;
    }
    Ok(())
}

/// A cable from the tester to itself, up.
pub(crate) fn loopback_cable(world: &World, mtu: u16) -> Result<[String; 2]> {
    let ends = ["f0", "f1"];
    // Behind those of all devices; the last is the highest of 16 bits.
    let [near, far] = [2, 3].map(|behind| interface_number(MOST * 2 + behind) - 1);
    world.ip(&format!("link add f0 index {near} mtu {mtu} type veth peer name f1 index {far} mtu {mtu}"))?;
    for end in ends {
        run(&mut Place::Router.command(&format!("ethtool -K {end} {OFF}"))).output()?;
        world.ip(&format!("link set {end} addrgenmode none"))?;
        world.ip(&format!("link set {end} up"))?;
    }
    Ok(ends.map(str::to_owned))
}

/// Of 16 bits, as DPDK takes no more.
fn interface_number(index: u8) -> u32 {
    (u32::from(index) + 1) << 12
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn addresses_are_those_for_benchmarks() {
        let [left, right] = sides(0);
        assert_eq!(left.addresses(), ["198.18.0.1/16", "2001:2::1/64"]);
        assert_eq!(right.addresses(), ["198.19.0.1/16", "2001:2:0:8000::1/64"]);
        assert_eq!(
            (left.tester_v4.to_string(), right.tester_v6.to_string()),
            ("198.18.0.2".into(), "2001:2:0:8000::2".into())
        );
        assert_eq!((left.port.as_str(), right.port.as_str()), ("t0", "t1"));
    }

    #[test]
    fn devices_of_one_world_share_nothing_of_the_testers() {
        let all: Vec<Side> = (0..=MOST).flat_map(sides).collect();
        let ports: BTreeSet<&str> = all.iter().map(|side| side.port.as_str()).collect();
        let macs: BTreeSet<&str> = all.iter().flat_map(|side| [side.mac.as_str(), &side.tester_mac]).collect();
        assert_eq!((ports.len(), macs.len()), (all.len(), 2 * all.len()));
        assert!(interface_number(MOST * 2 + 1) <= u32::from(u16::MAX));
    }
}
