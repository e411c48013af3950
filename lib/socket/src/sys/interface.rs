// SPDX-License-Identifier: MIT
//! What the kernel says about an interface (netdevice(7)), in the network namespace of the socket that asks.

use super::{Socket, check};
use libc::{c_char, c_int, c_ulong, ifreq};
use perigee_net::MacAddr;
use std::io;

/// `struct ethtool_cmd` as far as it is read (linux/ethtool.h).
#[repr(C)]
struct Settings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed: u16,
    duplex: u8,
    others: [u8; 13],
    speed_high: u16,
    rest: [u8; 14],
}

/// `struct ethtool_channels`.
#[repr(C)]
#[derive(Default)]
struct Channels {
    command: u32,
    most: [u32; 4],
    receive: u32,
    transmit: u32,
    others: u32,
    combined: u32,
}

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// `struct ethtool_drvinfo` as far as it is read.
#[repr(C)]
struct Driver {
    command: u32,
    name: [u8; 32],
    rest: [u8; 160],
}

const ETHTOOL_GSET: u32 = 1;
const ETHTOOL_GDRVINFO: u32 = 3;
const ETHTOOL_GLINK: u32 = 10;
const ETHTOOL_GFLAGS: u32 = 0x25;
const ETHTOOL_SFLAGS: u32 = 0x26;
const ETHTOOL_GCHANNELS: u32 = 0x3c;
/// The flag for taking VLAN tags out of received frames.
const ETH_FLAG_RXVLAN: u32 = 1 << 8;

/// An empty question about `name`.
fn question(name: &str) -> io::Result<ifreq> {
    // SAFETY: plain data, for which zeros are valid.
    let mut question: ifreq = unsafe { std::mem::zeroed() };
    if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains('\0') {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    question.ifr_name.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = byte as c_char);
    Ok(question)
}

/// Asks.
///
/// # Safety
/// `request` must be one that reads and writes no more than an `ifreq`, or what its pointer leads to.
unsafe fn ask(socket: &Socket, request: c_ulong, question: &mut ifreq) -> io::Result<()> {
    // SAFETY: the caller's contract.
    check(unsafe { libc::ioctl(socket.fd(), request as _, std::ptr::from_mut(question)) }).map(drop)
}

/// Asks the driver (ethtool).
///
/// # Safety
/// `structure` must be the one of the command that it begins with, and at least as large as the kernel's.
unsafe fn ask_driver<T>(socket: &Socket, name: &str, structure: &mut T) -> io::Result<()> {
    let mut asked = question(name)?;
    asked.ifr_ifru.ifru_data = std::ptr::from_mut(structure).cast();
    // SAFETY: reads the name, reads and writes the structure, by the caller's contract.
    unsafe { ask(socket, libc::SIOCETHTOOL as c_ulong, &mut asked) }
}

/// Its index; it changes when an interface is deleted and made again.
pub(crate) fn index(socket: &Socket, name: &str) -> io::Result<i32> {
    let mut answer = question(name)?;
    // SAFETY: reads the name, writes the index.
    unsafe {
        ask(socket, libc::SIOCGIFINDEX as c_ulong, &mut answer)?;
        Ok(answer.ifr_ifru.ifru_ifindex)
    }
}

/// Its MTU in bytes.
pub(crate) fn mtu(socket: &Socket, name: &str) -> io::Result<i32> {
    let mut answer = question(name)?;
    // SAFETY: reads the name, writes the MTU.
    unsafe {
        ask(socket, libc::SIOCGIFMTU as c_ulong, &mut answer)?;
        Ok(answer.ifr_ifru.ifru_mtu)
    }
}

/// Sets its MTU.
pub(crate) fn set_mtu(socket: &Socket, name: &str, mtu: u16) -> io::Result<()> {
    let mut wanted = question(name)?;
    wanted.ifr_ifru.ifru_mtu = c_int::from(mtu);
    // SAFETY: reads name and MTU.
    unsafe { ask(socket, libc::SIOCSIFMTU as c_ulong, &mut wanted) }
}

/// Its MAC address; `None` where it is no Ethernet interface.
pub(crate) fn mac(socket: &Socket, name: &str) -> io::Result<Option<MacAddr>> {
    let mut answer = question(name)?;
    // SAFETY: reads the name, writes the address.
    let address = unsafe {
        ask(socket, libc::SIOCGIFHWADDR as c_ulong, &mut answer)?;
        answer.ifr_ifru.ifru_hwaddr
    };
    let octets: [u8; 6] = std::array::from_fn(|i| address.sa_data[i] as u8);
    Ok((address.sa_family == libc::ARPHRD_ETHER).then_some(MacAddr(octets)))
}

/// Whether it is up, and whether it has a carrier.
pub(crate) fn flags(socket: &Socket, name: &str) -> io::Result<(bool, bool)> {
    let mut answer = question(name)?;
    // SAFETY: reads the name, writes the flags.
    let flags = unsafe {
        ask(socket, libc::SIOCGIFFLAGS as c_ulong, &mut answer)?;
        c_int::from(answer.ifr_ifru.ifru_flags)
    };
    Ok((flags & libc::IFF_UP != 0, flags & libc::IFF_RUNNING != 0))
}

/// Whether it has a carrier now, if its driver says so. The kernel changes IFF_RUNNING up to a second later, as it
/// limits the rate of such events.
pub(crate) fn carrier(socket: &Socket, name: &str) -> Option<bool> {
    let mut value = Value { command: ETHTOOL_GLINK, data: 0 };
    // SAFETY: the structure of that command.
    unsafe { ask_driver(socket, name, &mut value) }.ok()?;
    Some(value.data != 0)
}

/// Its speed in Mbit/s and whether it is full duplex, where its driver knows.
pub(crate) fn speed(socket: &Socket, name: &str) -> Option<(u32, bool)> {
    // SAFETY: plain data, for which zeros are valid.
    let mut settings: Settings = unsafe { std::mem::zeroed() };
    settings.command = ETHTOOL_GSET;
    // SAFETY: writes a `struct ethtool_cmd`, which `settings` is as large as.
    unsafe { ask_driver(socket, name, &mut settings) }.ok()?;
    let speed = u32::from(settings.speed_high) << 16 | u32::from(settings.speed);
    // 0 and all ones mean that it is not known.
    (speed != 0 && speed != 0xffff && speed != u32::MAX).then_some((speed, settings.duplex == 1))
}

/// How many receive queues and transmit queues it has, where its driver knows.
pub(crate) fn queues(socket: &Socket, name: &str) -> Option<(u32, u32)> {
    let mut channels = Channels { command: ETHTOOL_GCHANNELS, ..Channels::default() };
    // SAFETY: the structure of that command.
    unsafe { ask_driver(socket, name, &mut channels) }.ok()?;
    let Channels { receive, transmit, combined, .. } = channels;
    Some((receive.checked_add(combined)?, transmit.checked_add(combined)?))
}

/// The name of its driver.
pub(crate) fn driver(socket: &Socket, name: &str) -> Option<String> {
    let mut driver = Driver { command: ETHTOOL_GDRVINFO, name: [0; 32], rest: [0; 160] };
    // SAFETY: the structure of that command.
    unsafe { ask_driver(socket, name, &mut driver) }.ok()?;
    let end = driver.name.iter().position(|&byte| byte == 0)?;
    String::from_utf8(driver.name[..end].to_vec()).ok()
}

/// Makes it leave VLAN tags in the frames that it receives, or take them out. Returns whether that is a change.
pub(crate) fn leave_tags(socket: &Socket, name: &str, leave: bool) -> io::Result<bool> {
    let mut flags = Value { command: ETHTOOL_GFLAGS, data: 0 };
    // SAFETY: the structure of that command.
    unsafe { ask_driver(socket, name, &mut flags) }?;
    if (flags.data & ETH_FLAG_RXVLAN == 0) == leave {
        return Ok(false);
    }
    let mut wanted = Value { command: ETHTOOL_SFLAGS, data: flags.data ^ ETH_FLAG_RXVLAN };
    // SAFETY: the structure of that command.
    unsafe { ask_driver(socket, name, &mut wanted) }?;
    Ok(true)
}
