// SPDX-License-Identifier: MIT
//! The route pump: rtnetlink messages, many per system call, and a bare dump. It shares no code with the router that is
//! measured, so that they do not share mistakes either.
//!
//! A request to the kernel is done when `send` returns. None of these asks for an acknowledgement, so the kernel
//! answers only those that it refuses.

use anyhow::{Context as _, Result, bail, ensure};
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netlink, recv, send, socket_with,
};
use std::net::IpAddr;
use std::os::fd::OwnedFd;

// linux/netlink.h, linux/rtnetlink.h.
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_REPLACE: u16 = 0x100;
const NLM_F_CREATE: u16 = 0x400;
const RT_TABLE_MAIN: u8 = 254;
/// The protocol number of BIRD's routes.
const RTPROT_BIRD: u8 = 12;
const RTN_UNICAST: u8 = 1;
const RTM_F_CLONED: u32 = 0x200;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// Bytes of `nlmsghdr`, and of that and `rtmsg`.
const HEADER: usize = 16;
const ROUTE_HEADER: usize = HEADER + 12;

/// Bytes per system call: the kernel takes a message of up to `net.core.wmem_max`, 208 kB.
const BATCH: usize = 96 * 1024;
/// Bytes of a read: the kernel never makes a dump's part longer than 32 kB.
const READ: usize = 64 * 1024;
/// Enough for the answers to a batch of which every request is refused.
const RECEIVE_BUFFER: usize = 32 << 20;

/// A route of Linux's main table through a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The prefix.
    pub address: IpAddr,
    pub length: u8,
    /// The neighbor on the pump's interface.
    pub gateway: IpAddr,
}

/// What is done with a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is added, or replaces the one to the same prefix.
    Announce,
    /// It is deleted.
    Withdraw,
}

/// The outcome of a number of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Changes that the kernel took.
    pub taken: u64,
    /// Changes that it refused.
    pub refused: u64,
    /// The first reason of a refusal.
    pub reason: Option<Errno>,
}

impl Done {
    /// An error if anything was refused.
    pub fn all(self) -> Result<u64> {
        match self.reason {
            None => Ok(self.taken),
            Some(reason) => bail!(
                "Linux refused {} of {} changes of routes, the first with: {reason}",
                self.refused,
                self.taken + self.refused
            ),
        }
    }
}

/// Routes through one interface.
pub struct Pump {
    socket: OwnedFd,
    interface: u32,
    batch: Vec<u8>,
    read: Vec<u8>,
}

impl Pump {
    /// A pump of routes through this interface of the present namespace.
    pub fn new(interface: &str) -> Result<Pump> {
        let socket = socket()?;
        let probe = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        let index = name_to_index(&probe, interface);
        let index = index.with_context(|| format!("there is no interface {interface} in this namespace"))?;
        Ok(Pump { socket, interface: index, batch: Vec::with_capacity(BATCH), read: vec![0; READ] })
    }

    /// Applies a change to many routes, as fast as the kernel takes them.
    pub fn pump<'a>(&mut self, change: Change, routes: impl IntoIterator<Item = &'a Route>) -> Result<Done> {
        let mut done = Done::default();
        let mut waiting = 0;
        for route in routes {
            encode(&mut self.batch, change, route, self.interface);
            waiting += 1;
            if self.batch.len() + 2 * ROUTE_HEADER + 64 > BATCH {
                self.flush(std::mem::take(&mut waiting), &mut done)?;
            }
        }
        if waiting > 0 {
            self.flush(waiting, &mut done)?;
        }
        Ok(done)
    }

    fn flush(&mut self, messages: u64, done: &mut Done) -> Result<()> {
        let sent = retry(|| send(&self.socket, &self.batch, SendFlags::empty())).context("netlink takes no routes")?;
        ensure!(sent == self.batch.len(), "netlink took {sent} of {} bytes", self.batch.len());
        self.batch.clear();
        let before = done.refused;
        loop {
            match retry(|| recv(&self.socket, &mut self.read[..], RecvFlags::DONTWAIT)) {
                Ok((length, _)) => refusals(&self.read[..length], done),
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error).context("netlink does not say what it refused"),
            }
        }
        done.taken += messages - (done.refused - before);
        Ok(())
    }
}

/// Repeats the call if a signal interrupts it.
fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

fn socket() -> Result<OwnedFd> {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None);
    let socket = socket.context("there is no netlink")?;
    bind(&socket, &netlink::SocketAddrNetlink::new(0, 0))?;
    if set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        // Without privileges outside of a user namespace, the kernel limits it to what everyone may have.
        set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    }
    Ok(socket)
}

/// Counts the `NLMSG_ERROR`s that are errors.
fn refusals(answer: &[u8], done: &mut Done) {
    for (kind, body) in messages(answer) {
        let code = body.first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        if kind == NLMSG_ERROR && code != 0 {
            done.refused += 1;
            done.reason.get_or_insert(Errno::from_raw_os_error(-code));
        }
    }
}

/// Type and body of each message; a truncated one ends them.
fn messages(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = u32::from_ne_bytes(*bytes.first_chunk()?) as usize;
        let kind = u16::from_ne_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        let body = bytes.get(HEADER..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, body))
    })
}

fn family(address: IpAddr) -> u8 {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    family.as_raw() as u8
}

/// Appends `nlmsghdr`, `rtmsg` and attributes.
/// Appends the message that asks for a change; what the kernel reports is laid out alike.
pub fn encode(to: &mut Vec<u8>, change: Change, route: &Route, interface: u32) {
    let start = to.len();
    let (kind, flags) = match change {
        Change::Announce => (RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_CREATE | NLM_F_REPLACE),
        Change::Withdraw => (RTM_DELROUTE, NLM_F_REQUEST),
    };
    to.extend([0; 4]);
    to.extend(kind.to_ne_bytes());
    to.extend(flags.to_ne_bytes());
    to.extend([0; 8]);
    to.extend([family(route.address), route.length, 0, 0, RT_TABLE_MAIN, RTPROT_BIRD, 0, RTN_UNICAST, 0, 0, 0, 0]);
    attribute(to, RTA_DST, route.address);
    attribute(to, RTA_GATEWAY, route.gateway);
    to.extend(8u16.to_ne_bytes());
    to.extend(RTA_OIF.to_ne_bytes());
    to.extend(interface.to_ne_bytes());
    let length = (to.len() - start) as u32;
    to[start..start + 4].copy_from_slice(&length.to_ne_bytes());
}

fn attribute(to: &mut Vec<u8>, kind: u16, address: IpAddr) {
    let length = if address.is_ipv4() { 8u16 } else { 20 };
    to.extend(length.to_ne_bytes());
    to.extend(kind.to_ne_bytes());
    match address {
        IpAddr::V4(address) => to.extend(address.octets()),
        IpAddr::V6(address) => to.extend(address.octets()),
    }
}

/// Reads all routes of both families, and only counts those of the main table: any reader of the table needs at least
/// this long.
pub fn dump() -> Result<u64> {
    let socket = socket()?;
    let mut buffer = vec![0; READ];
    let mut routes = 0;
    for family in [AddressFamily::INET, AddressFamily::INET6] {
        let mut request = Vec::with_capacity(ROUTE_HEADER);
        request.extend((ROUTE_HEADER as u32).to_ne_bytes());
        request.extend(RTM_GETROUTE.to_ne_bytes());
        request.extend((NLM_F_REQUEST | NLM_F_DUMP).to_ne_bytes());
        request.extend([0; 8]);
        request.extend([family.as_raw() as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        retry(|| send(&socket, &request, SendFlags::empty())).context("a dump of the routes cannot be asked for")?;
        'parts: loop {
            let (length, _) = retry(|| recv(&socket, &mut buffer[..], RecvFlags::empty()))?;
            for (kind, body) in messages(&buffer[..length]) {
                match kind {
                    RTM_NEWROUTE => routes += u64::from(is_main(body)),
                    NLMSG_DONE => break 'parts,
                    NLMSG_ERROR => bail!("Linux refuses a dump of its routes"),
                    _ => {}
                }
            }
        }
    }
    Ok(routes)
}

/// Is a route, given as `rtmsg`, in the main table, and not a copy that the kernel made for a destination?
fn is_main(route: &[u8]) -> bool {
    let flags = route.get(8..12).and_then(|bytes| bytes.first_chunk()).map_or(0, |bytes| u32::from_ne_bytes(*bytes));
    route.get(4) == Some(&RT_TABLE_MAIN) && flags & RTM_F_CLONED == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_laid_out_as_the_kernel_wants_them() {
        let route = Route { address: "192.0.2.0".parse().unwrap(), length: 24, gateway: "10.0.0.1".parse().unwrap() };
        let mut bytes = Vec::new();
        encode(&mut bytes, Change::Announce, &route, 7);
        encode(&mut bytes, Change::Withdraw, &route, 7);
        let (first, second) = bytes.split_at(52);
        assert_eq!(first[..4], 52u32.to_ne_bytes());
        assert_eq!(first[4..8], [24u16.to_ne_bytes(), 0x501u16.to_ne_bytes()].concat());
        assert_eq!(first[16..28], [2, 24, 0, 0, 254, 12, 0, 1, 0, 0, 0, 0]);
        assert_eq!(first[28..36], [8, 0, 1, 0, 192, 0, 2, 0]);
        assert_eq!(first[36..44], [8, 0, 5, 0, 10, 0, 0, 1]);
        assert_eq!(first[44..52], [8, 0, 4, 0, 7, 0, 0, 0]);
        assert_eq!(second[4..8], [25u16.to_ne_bytes(), 1u16.to_ne_bytes()].concat());
        let kinds: Vec<_> = messages(&bytes).map(|(kind, body)| (kind, body.len(), is_main(body))).collect();
        assert_eq!(kinds, [(24, 36, true), (25, 36, true)]);
    }

    #[test]
    fn truncated_answers_end_quietly_and_refusals_are_counted() {
        let mut answer = Vec::new();
        for code in [0i32, -17, -3] {
            answer.extend(36u32.to_ne_bytes());
            answer.extend(NLMSG_ERROR.to_ne_bytes());
            answer.extend([0; 10]);
            answer.extend(code.to_ne_bytes());
            answer.extend([0; 16]);
        }
        for length in 0..=answer.len() {
            let mut done = Done::default();
            refusals(&answer[..length], &mut done);
            assert_eq!(done.refused, (length / 36).saturating_sub(1) as u64);
        }
        let mut done = Done { taken: 1, ..Done::default() };
        refusals(&answer, &mut done);
        assert_eq!(done.reason, Some(Errno::EXIST));
        assert!(done.all().unwrap_err().to_string().contains("refused 2 of 3"));
    }
}
