// SPDX-License-Identifier: MIT
//! Three namespaces in a row: client, router (where we are), server.

use anyhow::Result;
use perigee_lab::{self as lab, World};
use std::path::Path;

/// The plan of a host on one side of the router.
pub struct Side {
    /// Its namespace.
    pub name: &'static str,
    /// The router's end of the wire.
    pub wire: &'static str,
    /// The port, and the twin, of the router there.
    pub port: &'static str,
    pub v4: &'static str,
    pub v6: &'static str,
    pub router_v4: &'static str,
    pub router_v6: &'static str,
}

pub const CLIENT: Side = Side {
    name: "client",
    wire: "to-client",
    port: "left",
    v4: "10.0.1.2",
    v6: "2001:db8:1::2",
    router_v4: "10.0.1.1",
    router_v6: "2001:db8:1::1",
};

pub const SERVER: Side = Side {
    name: "server",
    wire: "to-server",
    port: "right",
    v4: "10.0.2.2",
    v6: "2001:db8:2::2",
    router_v4: "10.0.2.1",
    router_v6: "2001:db8:2::1",
};

/// The finished network.
pub struct Network {
    pub world: World,
    pub client: lab::Host,
    pub server: lab::Host,
}

impl Network {
    /// Builds it; logs, sockets and configurations go to `folder`. For the in-kernel plane the hosts finish checksums and
    /// tags themselves, and take what it redirects to them.
    pub fn build(folder: &Path, in_kernel: bool) -> Result<Network> {
        let world = World::enter(folder)?;
        let host = |side: &Side| {
            let addresses = [format!("{}/24", side.v4), format!("{}/64", side.v6)];
            let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
            world.host(side.name, side.wire, &addresses, &[side.router_v4, side.router_v6])
        };
        let (client, server) = (host(&CLIENT)?, host(&SERVER)?);
        for host in [&client, &server].into_iter().filter(|_| in_kernel) {
            host.run("ethtool -K eth0 gro on tx off txvlan off").output()?;
        }
        world.forwards_nothing()?;
        Ok(Network { world, client, server })
    }
}
