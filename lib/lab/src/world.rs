// SPDX-License-Identifier: MIT
//! The router's namespace, and what is made in it.

use crate::device::{Kind, Setup};
use crate::process::run;
use crate::{Bird, Device, Frr, Host, Place, Wire};
use anyhow::{Context as _, Result, anyhow, bail};
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::path::{Path, PathBuf};

/// This process's namespaces: the router's own network, in which Linux forwards nothing, and a /run of our own.
pub struct World {
    folder: PathBuf,
}

impl World {
    /// Sets up the namespaces that this process is in, which must be new ones. Configurations, logs and sockets of
    /// daemons go to `folder`.
    ///
    /// # Errors
    /// The kernel refuses something.
    pub fn enter(folder: &Path) -> Result<World> {
        // `ip netns` keeps its names in /run/netns, which belongs to root outside.
        mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None).context("a private /run cannot be mounted")?;
        fs::create_dir("/run/netns").context("/run/netns cannot be made")?;
        let world = World { folder: folder.to_owned() };
        forward_nothing()?;
        world.ip("link set lo up")?;
        Ok(world)
    }

    /// Puts a /sys of this network namespace over that of the outer one, so that it shows our interfaces.
    ///
    /// # Errors
    /// The kernel refuses: in a container, parts of /sys may be hidden, and then nobody gets a new one.
    pub fn own_sys(&self) -> Result<()> {
        mount("sysfs", "/sys", "sysfs", MountFlags::RDONLY, None).context("a /sys of our own cannot be mounted")
    }

    /// A cable from us to ourselves, both of whose ends are here; the ends' names. Its frames may have `mtu` bytes of
    /// IP.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn loopback_cable(&self, mtu: u16) -> Result<[String; 2]> {
        crate::device::loopback_cable(self, mtu)
    }

    /// Where configurations, logs and sockets are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `ip WORDS` in the router's namespace; returns its output.
    ///
    /// # Errors
    /// It failed.
    pub fn ip(&self, words: &str) -> Result<String> {
        run(&mut Place::Router.command(&format!("ip {words}"))).output()
    }

    /// A namespace without any interface but `lo`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn namespace(&self, name: &str) -> Result<Host> {
        Host::empty(self, name)
    }

    /// A host with `eth0`, whose other end is `interface` here. There may be any number of addresses (with their prefix
    /// lengths) and gateways of both families.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn host(&self, name: &str, interface: &str, addresses: &[&str], gateways: &[&str]) -> Result<Host> {
        Host::new(self, name, interface, addresses, gateways)
    }

    /// A cable whose other end is ours; `name` is the interface here.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn wire(&self, name: &str) -> Result<Wire> {
        Wire::new(name)
    }

    /// A device under test, running, between two cables.
    ///
    /// # Errors
    /// As [`Device::build`].
    pub fn device(&self, setup: Setup, kind: Kind) -> Result<Device> {
        Device::build(self, setup, kind)
    }

    /// Starts BIRD next to the router, on its twins.
    ///
    /// # Errors
    /// It does not come up.
    pub fn bird(&self, configuration: &str) -> Result<Bird> {
        Bird::start(Place::Router, &self.folder, configuration)
    }

    /// Starts daemons of FRR next to the router, such as `["zebra", "ospfd"]`, with options behind their names.
    ///
    /// # Errors
    /// One does not come up, or complains.
    pub fn frr(&self, daemons: &[&str], configuration: &str) -> Result<Frr> {
        Frr::start(Place::Router, &self.folder, daemons, configuration)
    }

    /// Writes a file into the folder; its path.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn file(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
        Ok(path)
    }

    /// Asserts that Linux forwards nothing here, so that every packet that crosses the router was forwarded by perigee.
    ///
    /// # Errors
    /// It does on some interface.
    pub fn forwards_nothing(&self) -> Result<()> {
        let mut settings = vec![PathBuf::from("/proc/sys/net/ipv4/ip_forward")];
        for family in ["ipv4", "ipv6"] {
            let folder = format!("/proc/sys/net/{family}/conf");
            let entries = fs::read_dir(&folder).with_context(|| format!("{folder} cannot be read"))?;
            settings.extend(entries.flatten().map(|entry| entry.path().join("forwarding")));
        }
        for path in settings {
            // An interface may have gone meanwhile.
            let Ok(value) = fs::read_to_string(&path) else { continue };
            if value.trim() != "0" {
                bail!("Linux itself would forward packets: {} is {}, not 0", path.display(), value.trim());
            }
        }
        Ok(())
    }
}

/// Switches off Linux's forwarding here, for future interfaces as well.
fn forward_nothing() -> Result<()> {
    for family in ["ipv4", "ipv6"] {
        for which in ["all", "default"] {
            let path = format!("/proc/sys/net/{family}/conf/{which}/forwarding");
            fs::write(&path, "0").map_err(|error| {
                anyhow!("{path} cannot be set to 0: {error}; a container must be started with --privileged")
            })?;
        }
    }
    Ok(())
}
