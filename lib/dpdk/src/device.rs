// SPDX-License-Identifier: MIT
//! Which device a port is made of, and DPDK's arguments for it.

use crate::error::{Error, Result, c_string};
use crate::ffi;

/// A device, as the configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Device {
    /// As DPDK names it: a PCI address (also to be listed in [`EalConfig::pci`](crate::EalConfig)), or a software
    /// device such as `net_pcap0,rx_pcap=FILE,infinite_rx=1`.
    Dpdk(String),
    /// A Linux interface, through an AF_PACKET socket: works with every interface, needs CAP_NET_RAW.
    Interface(String),
    /// A Linux interface, through an AF_XDP socket: faster, needs CAP_BPF and CAP_NET_ADMIN.
    Xdp(String),
}

impl Device {
    /// The device that a user names on a command line: a Linux interface, `xdp:INTERFACE`, else as DPDK names it.
    pub fn named(name: &str) -> Device {
        if let Some(interface) = name.strip_prefix("xdp:") {
            return Device::Xdp(interface.to_owned());
        }
        // Asks the kernel, as /sys may show another network namespace.
        let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None);
        if socket.is_ok_and(|socket| rustix::net::netdevice::name_to_index(&socket, name).is_ok()) {
            Device::Interface(name.to_owned())
        } else {
            Device::Dpdk(name.to_owned())
        }
    }

    /// DPDK's device arguments for `queues` pairs of queues and IP packets of `mtu` bytes.
    pub(crate) fn devargs(&self, queues: u16, mtu: u16) -> Result<String> {
        match self {
            Device::Dpdk(devargs) if devargs.is_empty() => {
                Err(Error::new("a port needs a device: a DPDK device or a Linux interface"))
            }
            Device::Dpdk(devargs) => {
                crate::capture::check_captures(devargs)?;
                Ok(devargs.clone())
            }
            Device::Interface(name) => {
                let (frame, frames) = (socket_frame(mtu), socket_frames(mtu));
                let block = frame * 32;
                Ok(format!(
                    "net_af_packet_{name},iface={name},qpairs={queues},framesz={frame},blocksz={block},framecnt={frames}"
                ))
            }
            Device::Xdp(name) => {
                let c = c_string(name)?;
                // SAFETY: a C string.
                let there_are = unsafe { ffi::perigee_interface_queues(c.as_ptr()) };
                let queues = queues.min(u16::try_from(there_are).unwrap_or(1)).max(1);
                Ok(format!("net_af_xdp_{name},iface={name},start_queue=0,queue_count={queues}"))
            }
        }
    }

    /// The MTU in bytes of the Linux interface under it, if it has one; an error if that does not exist.
    pub fn interface_mtu(&self) -> Result<Option<u16>> {
        let (Device::Interface(name) | Device::Xdp(name)) = self else { return Ok(None) };
        let bad = |c: char| c == ',' || c == '/' || c.is_whitespace() || c.is_control();
        if name.is_empty() || name.len() > 15 || name.contains(bad) {
            return Err(Error::new(format!(
                "{name:?} cannot be the name of an interface: 1 to 15 characters are expected, no comma, slash or space"
            )));
        }
        let c = c_string(name)?;
        // SAFETY: a C string.
        match unsafe { ffi::perigee_interface_mtu(c.as_ptr()) } {
            mtu if mtu >= 0 => Ok(Some(mtu.min(u16::MAX.into()) as u16)),
            error => Err(Error::new(format!(
                "interface {name}: {}; `ip link` lists the interfaces of this network namespace",
                crate::error::errno_text(error)
            ))),
        }
    }

    /// Whether the Linux interface under it, if there is one, is up and has a carrier: AF_PACKET and AF_XDP ports
    /// themselves are up as soon as they are started.
    pub fn is_running(&self) -> Option<bool> {
        let (Device::Interface(name) | Device::Xdp(name)) = self else { return None };
        let c = c_string(name).ok()?;
        // SAFETY: a C string.
        Some(unsafe { ffi::perigee_interface_running(c.as_ptr()) } == 1)
    }

    /// Whether the Linux interface under it, if there is one, takes frames to all addresses.
    pub(crate) fn is_promiscuous(&self) -> Option<bool> {
        let (Device::Interface(name) | Device::Xdp(name)) = self else { return None };
        let c = c_string(name).ok()?;
        // SAFETY: a C string.
        match unsafe { ffi::perigee_interface_promiscuous(c.as_ptr()) } {
            on @ 0.. => Some(on == 1),
            _ => None,
        }
    }

    /// Its name in messages: an interface's name, or a DPDK device without its arguments.
    pub fn name(&self) -> &str {
        match self {
            Device::Dpdk(devargs) => devargs.split(',').next().unwrap_or(devargs),
            Device::Interface(name) | Device::Xdp(name) => name,
        }
    }

    /// Whether a name that DPDK does not know was meant for an interface of Linux: it has nothing of DPDK's own names.
    pub(crate) fn looks_like_an_interface(&self) -> bool {
        let Device::Dpdk(name) = self else { return false };
        !name.is_empty() && name.len() <= 15 && !name.contains([',', '=', ':', '/', ' ']) && !name.starts_with("net_")
    }

    /// What to try if it could not be opened.
    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Device::Dpdk(_) => "check its name and arguments; a PCI device also has to be bound to a driver for DPDK",
            // DPDK numbers the group by process number XOR interface number: two processes may meet in one.
            Device::Interface(_) => {
                "an AF_PACKET socket needs CAP_NET_RAW: run as root or under `unshare -Urn`; if it is PACKET_FANOUT that could not be \
                 set, another process with a port here has the group's number by chance: start this one again"
            }
            Device::Xdp(_) => {
                "AF_XDP needs CAP_BPF, CAP_NET_ADMIN and as many queues as asked for; AF_PACKET needs less"
            }
        }
    }
}

/// Bytes of the frames of an AF_PACKET socket, per queue and direction.
const SOCKET_MEMORY: u32 = 2 << 20;

/// Bytes of a frame of an AF_PACKET socket for IP packets of `mtu` bytes: it also holds the kernel's header of about
/// 100 bytes, and 32 of them are whole pages. DPDK wants packet buffers with room for the frame, header included.
pub(crate) fn socket_frame(mtu: u16) -> u32 {
    (u32::from(mtu) + 200).next_multiple_of(128).max(2048)
}

/// Frames that an AF_PACKET socket has room for, per queue and direction. 32 are a block, so that the kernel wakes and
/// maps few of these. DPDK locks them in memory, of which users may have as little as 8 MB: so 2 MB per queue and
/// direction.
pub fn socket_frames(mtu: u16) -> u32 {
    (SOCKET_MEMORY / (socket_frame(mtu) * 32)).max(1) * 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_become_device_arguments() {
        let device = Device::Interface("veth0".into());
        assert_eq!(
            device.devargs(2, 1500).unwrap(),
            "net_af_packet_veth0,iface=veth0,qpairs=2,framesz=2048,blocksz=65536,framecnt=1024"
        );
        assert!(device.devargs(1, 9000).unwrap().contains("framesz=9216,blocksz=294912,framecnt=224"));
        assert!(Device::Dpdk(String::new()).devargs(1, 1500).is_err());
    }

    /// A mistyped interface was "failed to parse device", and whether a PCI device was bound to a driver.
    #[test]
    fn a_mistyped_interface_is_told_from_a_device() {
        let looks = |name: &str| Device::Dpdk(name.into()).looks_like_an_interface();
        assert!(looks("eth99") && looks("left") && looks("wan.100"));
        for device in ["", "0000:03:00.0", "03:00.0", "net_pcap0", "net_null7,copy=1", "eth_null0,copy=1", "class=eth"]
        {
            assert!(!looks(device), "{device}");
        }
    }

    #[test]
    fn bad_interfaces_are_refused_by_name() {
        for name in ["", "a,b", "a/b", "a b", "sixteen-letters-"] {
            let error = Device::Interface(name.into()).interface_mtu().unwrap_err().to_string();
            assert!(error.contains(&format!("{name:?}")), "{error}");
        }
        let error = Device::Interface("nothere0".into()).interface_mtu().unwrap_err().to_string();
        assert!(error.starts_with("interface nothere0: No such device"), "{error}");
    }
}
