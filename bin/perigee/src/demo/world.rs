// SPDX-License-Identifier: MIT
//! Three namespaces in a row: client, router (where we are), server.

use super::tools::{on, run};
use anyhow::{Context, Result, anyhow, bail};
use std::path::PathBuf;

/// A host at one side of the router.
pub struct Host {
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

pub const CLIENT: Host = Host {
    name: "client",
    wire: "to-client",
    port: "left",
    v4: "10.0.1.2",
    v6: "2001:db8:1::2",
    router_v4: "10.0.1.1",
    router_v6: "2001:db8:1::1",
};

pub const SERVER: Host = Host {
    name: "server",
    wire: "to-server",
    port: "right",
    v4: "10.0.2.2",
    v6: "2001:db8:2::2",
    router_v4: "10.0.2.1",
    router_v6: "2001:db8:2::1",
};

pub const HOSTS: [Host; 2] = [CLIENT, SERVER];

/// Builds it all.
pub fn build() -> Result<()> {
    // `ip netns` keeps its names in /run/netns, which belongs to root outside.
    run("mount -t tmpfs tmpfs /run")?;
    std::fs::create_dir("/run/netns").context("/run/netns cannot be made")?;
    forward_nothing()?;
    run("ip link set lo up")?;
    for host in &HOSTS {
        connect(host)?;
    }
    assert_nothing_is_forwarded()
}

/// A host, its wire and its addresses.
fn connect(host: &Host) -> Result<()> {
    let Host { name, wire, v4, v6, router_v4, router_v6, .. } = host;
    run(&format!("ip netns add {name}"))?;
    run(&format!("ip link add {wire} type veth peer name eth0 netns {name}"))
        .context("two namespaces cannot be connected; `sudo modprobe veth` loads the driver")?;
    // No address of Linux's own on the router's end: all that arrives at the host is then perigee's.
    run(&format!("ip link set {wire} addrgenmode none"))?;
    run(&format!("ip -n {name} link set lo up"))?;
    run(&format!("ip -n {name} addr add {v4}/24 dev eth0"))?;
    run(&format!("ip -n {name} addr add {v6}/64 dev eth0 nodad"))?;
    // Otherwise packets would come with checksums that a device should fill in, and veth is none.
    run(&on(name, "ethtool -K eth0 tx off"))?;
    run(&format!("ip -n {name} link set eth0 up"))?;
    run(&format!("ip link set {wire} up"))?;
    run(&format!("ip -n {name} route add default via {router_v4}"))?;
    run(&format!("ip -n {name} -6 route add default via {router_v6}"))?;
    Ok(())
}

/// Switches Linux's forwarding off here, for interfaces to come as well.
fn forward_nothing() -> Result<()> {
    for family in ["ipv4", "ipv6"] {
        for which in ["all", "default"] {
            let path = format!("/proc/sys/net/{family}/conf/{which}/forwarding");
            std::fs::write(&path, "0").map_err(|error| {
                anyhow!("{path} cannot be set to 0: {error}; a container must be started with --privileged")
            })?;
        }
    }
    assert_nothing_is_forwarded()
}

/// Linux's forwarding is off on every interface here.
pub fn assert_nothing_is_forwarded() -> Result<()> {
    let mut settings = vec![PathBuf::from("/proc/sys/net/ipv4/ip_forward")];
    for family in ["ipv4", "ipv6"] {
        let folder = format!("/proc/sys/net/{family}/conf");
        let entries = std::fs::read_dir(&folder).with_context(|| format!("{folder} cannot be read"))?;
        settings.extend(entries.flatten().map(|entry| entry.path().join("forwarding")));
    }
    for path in settings {
        let value = std::fs::read_to_string(&path).with_context(|| format!("{} cannot be read", path.display()))?;
        if value.trim() != "0" {
            bail!("Linux itself would forward packets: {} is {}, not 0", path.display(), value.trim());
        }
    }
    Ok(())
}
