// SPDX-License-Identifier: MIT
//! Twins in a VRF of Linux's: its routes are in a table of their own, which the router follows if it is configured to.
//! Where the kernel has no VRFs: `./x test --kernel 6.1 linux_vrf`.

use crate::linux_routes::with_a_second_hop;
use crate::{PORTS, Pair};
use perigee_tests::{World, run, wait_until};
use std::process::Command;

perigee_tests::scenarios![twins_in_a_vrf_follow_its_table,];

fn twins_in_a_vrf_follow_its_table(world: &World) {
    let made = run(Command::new("ip").args("link add red type vrf table 100".split(' ')));
    if made.code != Some(0) {
        return world.unable("this kernel has no VRFs");
    }
    world.ip("link set red up");
    let (Pair { client, .. }, _far) = with_a_second_hop(world);
    let router = world.router("", &format!("{PORTS}\n[linux]\ntables = [100]\n"));
    for twin in ["wan", "lan"] {
        world.ip(&format!("link set {twin} master red"));
    }
    world.ip("route add 10.9.0.0/24 via 10.0.2.2 vrf red");
    world.ip("-6 route add 2001:db8:9::/64 via 2001:db8:2::2 vrf red");
    for (network, address) in [("10.9.0.0/24", "10.9.0.2"), ("2001:db8:9::/64", "2001:db8:9::2")] {
        router.leads(network, "lan");
        client.reaches(address);
        client.ping(20, address);
        // Linux's own packets leave by the VRF.
        let ping =
            || run(Command::new("ping").args(["-n", "-c", "1", "-W", "1", "-I", "red", address])).code == Some(0);
        wait_until(&format!("Linux to reach {address} in the VRF"), ping);
    }
    router.alone();
    router.audited();
    world.ip("route del 10.9.0.0/24 vrf red");
    router.loses("10.9.0.0/24");
    router.stop();
}
