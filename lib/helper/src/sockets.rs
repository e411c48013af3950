// SPDX-License-Identifier: MIT
//! The sockets of netlink. They belong to the network namespace of the thread that opens them, and stay with it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

/// Multicast groups, as bits of the address to bind to.
mod group {
    pub const LINK: u32 = 1 << 0;
    pub const NEIGHBOR: u32 = 1 << 2;
    pub const IPV4_ADDRESS: u32 = 1 << 4;
    pub const IPV4_MULTICAST: u32 = 1 << 5;
    pub const IPV4_ROUTE: u32 = 1 << 6;
    pub const IPV4_RULE: u32 = 1 << 7;
    pub const IPV6_ADDRESS: u32 = 1 << 8;
    pub const IPV6_MULTICAST: u32 = 1 << 9;
    pub const IPV6_ROUTE: u32 = 1 << 10;
    pub const IPV6_RULE: u32 = 1 << 18;
    pub const IPV4_SETTINGS: u32 = 1 << 23;
    pub const IPV6_SETTINGS: u32 = 1 << 24;
    pub const NEXT_HOP: u32 = 1 << 31;
    const IPV4: u32 = IPV4_ADDRESS | IPV4_MULTICAST | IPV4_ROUTE | IPV4_RULE | IPV4_SETTINGS;
    const IPV6: u32 = IPV6_ADDRESS | IPV6_MULTICAST | IPV6_ROUTE | IPV6_RULE | IPV6_SETTINGS;
    pub const ALL: u32 = LINK | NEIGHBOR | IPV4 | IPV6 | NEXT_HOP;
}

/// The sockets that a feed of lib/netlink reads.
#[derive(Debug)]
pub struct NetlinkSockets {
    /// Notifications, in all groups that a router listens to. See [`open_monitor`].
    pub monitor: OwnedFd,
    /// For dumps. See [`open_plain`].
    pub dumps: OwnedFd,
}

/// A socket that receives every notification, with room for `buffer` bytes of unread ones (including the kernel's own
/// bookkeeping: about 700 bytes for a route). Without CAP_NET_ADMIN in the initial user namespace, the kernel limits it
/// to `net.core.rmem_max`.
///
/// # Errors
/// The system refuses it.
pub fn open_monitor(buffer: usize) -> io::Result<OwnedFd> {
    let socket = open(group::ALL)?;
    // The kernel's numbers are signed, and it doubles them.
    let buffer = buffer.clamp(1, i32::MAX as usize / 2);
    if sockopt::set_socket_recv_buffer_size_force(&socket, buffer).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, buffer)?;
    }
    Ok(socket)
}

/// The sockets that follow the links of this thread's namespace, and nothing else.
///
/// # Errors
/// The system refuses them.
pub fn open_links() -> io::Result<NetlinkSockets> {
    Ok(NetlinkSockets { monitor: open(group::LINK)?, dumps: open(0)? })
}

/// A socket that only receives answers to its own requests.
///
/// # Errors
/// The system refuses it.
pub fn open_plain() -> io::Result<OwnedFd> {
    open(0)
}

/// A socket for the kernel's diagnosis of this thread's namespace's sockets (sock_diag(7)).
///
/// # Errors
/// The system refuses it.
pub fn open_diagnosis() -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(netlink::SOCK_DIAG))?;
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    Ok(socket)
}

fn open(groups: u32) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    // Protocol 0 is NETLINK_ROUTE.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}
