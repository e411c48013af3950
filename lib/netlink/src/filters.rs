// SPDX-License-Identifier: MIT
//! Asks the kernel what it does to packets that it forwards: which chains of nftables look at them, and whether there are
//! policies of IPsec. Who forwards past the kernel's stack forwards past them. The commands of iptables make such chains,
//! too, unless they are the legacy ones.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{NETFILTER, SocketAddrNetlink, XFRM};
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with,
};

use crate::wire::{AF_INET, AF_INET6, AF_UNSPEC, Attributes, Messages, dump_request, kind, u32_at};

/// NFNL_SUBSYS_NFTABLES, NFT_MSG_NEWCHAIN and NFT_MSG_GETCHAIN (linux/netfilter/nfnetlink.h, nf_tables.h).
const NEW_CHAIN: u16 = 10 << 8 | 3;
const GET_CHAIN: u16 = 10 << 8 | 4;
/// Bytes of `struct nfgenmsg`: family, version, resource.
const FIXED: usize = 4;
/// NFPROTO_INET: IPv4 and IPv6. NFPROTO_NETDEV: what a device receives or sends.
const INET: u8 = 1;
const NETDEV: u8 = 5;
/// NF_INET_PRE_ROUTING, NF_INET_FORWARD, NF_INET_POST_ROUTING, NF_INET_INGRESS.
const FORWARDED: [u32; 4] = [0, 2, 4, 5];
/// XFRM_MSG_NEWPOLICY and XFRM_MSG_GETPOLICY, the length of what names a policy, and the place of its direction in what
/// describes one (linux/xfrm.h).
const NEW_POLICY: u16 = 0x13;
const GET_POLICY: u16 = 0x15;
const POLICY_ID: usize = 64;
const DIRECTION: usize = 160;
/// XFRM_POLICY_FWD, behind those of packets in and out: others belong to single sockets.
const LAST_DIRECTION: u8 = 2;
/// NF_ACCEPT.
const ACCEPT: u32 = 1;
const BUFFER: usize = 1 << 16;
/// How long the kernel may take for a part of its answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Chains that look at forwarded packets, of this thread's network namespace, such as `inet filter forward`. Those without
/// rules that let everything pass are left out. None where the kernel has no nftables.
///
/// # Errors
/// The kernel does not answer, or only who has CAP_NET_ADMIN.
pub fn forward_chains() -> io::Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    dump(NETFILTER, &dump_request(GET_CHAIN, AF_UNSPEC, FIXED, 1), |kind, body| {
        found.extend((kind == NEW_CHAIN).then(|| forward_chain(body)).flatten());
    })?;
    Ok(found)
}

/// How many policies of IPsec there are in this thread's network namespace, but for those of single sockets.
///
/// # Errors
/// The kernel does not answer, or only who has CAP_NET_ADMIN.
pub fn ipsec_policies() -> io::Result<usize> {
    let mut found = 0;
    dump(XFRM, &dump_request(GET_POLICY, AF_UNSPEC, POLICY_ID, 1), |kind, body| {
        let is_socket = body.get(DIRECTION).is_some_and(|direction| *direction > LAST_DIRECTION);
        found += usize::from(kind == NEW_POLICY && !is_socket);
    })?;
    Ok(found)
}

/// Asks for everything of a kind.
fn dump(protocol: Protocol, request: &[u8], mut found: impl FnMut(u16, &[u8])) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = match socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(protocol)) {
        // A kernel without it.
        Err(rustix::io::Errno::PROTONOSUPPORT) => return Ok(()),
        socket => socket?,
    };
    bind(&socket, &SocketAddrNetlink::new(0, 0))?;
    send(&socket, request, SendFlags::empty())?;
    let mut buffer = vec![0; BUFFER];
    loop {
        wait(&socket)?;
        let (length, _) = recv(&socket, buffer.as_mut_slice(), RecvFlags::empty())?;
        for message in Messages(&buffer[..length]) {
            let message = message.map_err(|_| io::ErrorKind::InvalidData)?;
            match message.kind {
                kind::DONE => return Ok(()),
                kind::ERROR => return refused(message.body),
                kind => found(kind, message.body),
            }
        }
    }
}

/// An error of the kernel's. Without nftables it knows no such request.
fn refused(body: &[u8]) -> io::Result<()> {
    match u32_at(body, 0).map_or(0, |code| code.cast_signed().wrapping_neg()) {
        0 => Ok(()),
        code => match io::Error::from_raw_os_error(code) {
            error if error.kind() == io::ErrorKind::InvalidInput || error.kind() == io::ErrorKind::Unsupported => {
                Ok(())
            }
            error => Err(error),
        },
    }
}

fn wait(socket: &OwnedFd) -> io::Result<()> {
    let timeout = Timespec { tv_sec: PATIENCE.as_secs() as _, tv_nsec: 0 };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

/// A number in network byte order; 0 if there is none.
fn be(bytes: Option<&[u8]>) -> u32 {
    bytes.and_then(|bytes| Some(u32::from_be_bytes(bytes.get(..4)?.try_into().ok()?))).unwrap_or(0)
}

/// A chain's family, table and name, if it looks at forwarded packets and does something to them.
fn forward_chain(body: &[u8]) -> Option<String> {
    const TABLE: u16 = 1;
    const NAME: u16 = 3;
    const HOOK: u16 = 4;
    const POLICY: u16 = 5;
    const USE: u16 = 6;
    const HOOK_NUMBER: u16 = 1;
    let family = match *body.first()? {
        INET => "inet",
        AF_INET => "ip",
        AF_INET6 => "ip6",
        NETDEV => "netdev",
        _ => return None,
    };
    let find = |all: &[u8], wanted: u16| {
        Attributes(all).filter_map(Result::ok).find(|(kind, _)| *kind == wanted).map(|(_, value)| value.to_vec())
    };
    let attributes = body.get(FIXED..)?;
    let text =
        |kind| find(attributes, kind).map(|text| String::from_utf8_lossy(&text).trim_end_matches('\0').to_owned());
    // A chain that others jump to has no hook.
    let hook = be(find(&find(attributes, HOOK)?, HOOK_NUMBER).as_deref());
    let policy = find(attributes, POLICY).map_or(ACCEPT, |policy| be(Some(&policy)));
    let rules = be(find(attributes, USE).as_deref());
    let does_nothing = policy == ACCEPT && rules == 0;
    let is_forwarded = family == "netdev" || FORWARDED.contains(&hook);
    (is_forwarded && !does_nothing).then(|| Some(format!("{family} {} {}", text(TABLE)?, text(NAME)?)))?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((4 + value.len()) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn chain(family: u8, hook: Option<u32>, policy: u32, rules: u32) -> Vec<u8> {
        let mut body = vec![family, 0, 0, 0];
        body.extend(attribute(1, b"filter\0"));
        body.extend(attribute(3, b"forward\0"));
        let hook = hook.map(|hook| attribute(0x8000 | 4, &attribute(1, &hook.to_be_bytes())));
        body.extend(hook.into_iter().flatten());
        body.extend(attribute(5, &policy.to_be_bytes()));
        body.extend(attribute(6, &rules.to_be_bytes()));
        body
    }

    #[test]
    fn chains_that_do_something_to_forwarded_packets_are_found() {
        for (body, expected) in [
            (chain(INET, Some(2), 0, 0), Some("inet filter forward")),
            (chain(AF_INET, Some(4), 1, 3), Some("ip filter forward")),
            (chain(AF_INET6, Some(0), 1, 1), Some("ip6 filter forward")),
            (chain(INET, Some(2), 1, 0), None), // It lets everything pass.
            (chain(INET, Some(1), 0, 5), None), // It is about what the machine receives.
            (chain(INET, None, 0, 5), None),    // Others jump to it.
            (chain(INET, Some(5), 1, 1), Some("inet filter forward")),
            (chain(NETDEV, Some(1), 1, 1), Some("netdev filter forward")),
            (chain(7, Some(2), 0, 5), None), // It is a bridge's.
            (vec![], None),
        ] {
            assert_eq!(forward_chain(&body).as_deref(), expected, "{body:?}");
        }
        let whole = chain(INET, Some(2), 0, 0);
        (0..whole.len()).for_each(|end| drop(forward_chain(&whole[..end])));
    }

    #[test]
    fn a_kernel_without_nftables_has_none() {
        let code = |code: i32| refused(&(-code).to_ne_bytes());
        assert!(code(0).is_ok() && code(22).is_ok() && code(95).is_ok());
        assert_eq!(code(1).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
