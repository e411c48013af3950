// SPDX-License-Identifier: MIT
//! System calls on packet sockets (packet(7)) and AF_XDP sockets; with `sys/` the only files of this crate with
//! `unsafe` in them.
#![allow(unsafe_code)]

mod attach;
pub(crate) mod interface;
#[deny(unsafe_code)]
mod offload;
mod ring;
mod rings;
mod send;
pub(crate) mod xsk;

pub use attach::{attach, pin, pinned, put_socket, replace, sockets_of, takes_redirected};
pub(crate) use ring::{Arrival, Frame, Ring};
pub(crate) use send::{Sender, Sent, send_from};

use libc::{c_int, c_uint, c_void};
use perigee_net::MacAddr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// What the kernel should let through to an interface's packet sockets, beyond what it receives for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Membership {
    /// Frames to any address.
    Promiscuous,
    /// Frames to any group.
    AllGroups,
    /// Frames to another address.
    Address(MacAddr),
}

/// Bytes of frames that may wait in a socket: some hundred super-frames. The kernel limits it to net.core.rmem_max and
/// wmem_max.
const QUEUE_BYTES: c_int = 8 << 20;

/// PACKET_FANOUT_FLAG_IGNORE_OUTGOING of linux/if_packet.h.
const FANOUT_IGNORE_OUTGOING: c_uint = 0x4000;

/// A packet socket. It receives nothing until it is bound with [`Socket::listen`].
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Sets a socket's option; `T` is a plain structure of the kernel's.
fn set_option<T: Copy>(socket: c_int, level: c_int, name: c_int, value: &T) -> io::Result<()> {
    let (pointer, size) = (std::ptr::from_ref(value).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `size` bytes are there to be read.
    check(unsafe { libc::setsockopt(socket, level, name, pointer, size) }).map(drop)
}

/// Reads a socket's option into a plain structure of the kernel's, numbers only; returns how many bytes the kernel has
/// written.
fn get_option<T: Copy>(socket: c_int, level: c_int, name: c_int, to: &mut T) -> io::Result<usize> {
    let (pointer, mut size) = (std::ptr::from_mut(to).cast::<c_void>(), size_of::<T>() as libc::socklen_t);
    // SAFETY: `size` bytes are there to be written.
    check(unsafe { libc::getsockopt(socket, level, name, pointer, &raw mut size) })?;
    Ok(size as usize)
}

impl Socket {
    /// Opens one. Protocol 0: with another it would receive frames of all interfaces before it is bound.
    pub(crate) fn open() -> io::Result<Socket> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; a descriptor that is returned is ours alone.
        unsafe { Ok(Socket(OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?))) }
    }

    /// A descriptor that stands for one: for [`crate::rehearsal`].
    pub(crate) fn of(descriptor: OwnedFd) -> Socket {
        Socket(descriptor)
    }

    fn fd(&self) -> c_int {
        self.0.as_raw_fd()
    }

    /// Sets an option; `T` is a plain structure of the kernel's.
    fn set<T: Copy>(&self, level: c_int, name: c_int, value: &T) -> io::Result<()> {
        set_option(self.fd(), level, name, value)
    }

    /// Does not receive what this machine sends.
    pub(crate) fn ignore_outgoing(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
    }

    /// Receives every frame of an interface from now on. Of a socket that was bound before, the ring stays.
    pub(crate) fn listen(&self, index: i32) -> io::Result<()> {
        self.bind(index, (libc::ETH_P_ALL as u16).to_be())
    }

    /// Sends to an interface from now on, and receives nothing.
    pub(crate) fn send_to(&self, index: i32) -> io::Result<()> {
        self.bind(index, 0)
    }

    /// Receives nothing of an interface from now on. Protocol 0 would leave it as it was, and nothing is of this one.
    pub(crate) fn ignore(&self, index: i32) -> io::Result<()> {
        self.bind(index, u16::MAX)
    }

    fn bind(&self, index: i32, protocol: u16) -> io::Result<()> {
        // SAFETY: plain data, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index;
        let size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: an address of the size given.
        check(unsafe { libc::bind(self.fd(), (&raw const address).cast(), size) }).map(drop)
    }

    /// The interface that it is bound to; `None` once that is gone, even if there is a new one of its name.
    pub(crate) fn bound(&self) -> Option<i32> {
        // SAFETY: plain data, for which zeros are valid.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        let mut size = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        // SAFETY: an address of the size given, to be written.
        let result = unsafe { libc::getsockname(self.fd(), (&raw mut address).cast(), &raw mut size) };
        (result == 0 && address.sll_ifindex > 0).then_some(address.sll_ifindex)
    }

    /// Lets as many long frames wait as the kernel allows this user. That it allows fewer is no error.
    fn enlarge_receive_queue(&self) {
        let _ = self.set(libc::SOL_SOCKET, libc::SO_RCVBUF, &QUEUE_BYTES);
    }

    /// Lets as many frames be on their way as the kernel allows this user.
    pub(crate) fn enlarge_send_queue(&self) {
        let _ = self.set(libc::SOL_SOCKET, libc::SO_SNDBUF, &QUEUE_BYTES);
    }

    /// Sends frames with an offload header ahead of each.
    pub(crate) fn send_offloads(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1i32)
    }

    /// Takes the next long frame out of the socket's queue, its first bytes into `first` and the others into `rest`.
    /// Returns their number; what there is no room for is lost.
    pub(crate) fn take_queued(&self, first: &mut [u8], rest: &mut [u8]) -> io::Result<usize> {
        let mut header = [0u8; offload::OFFLOAD];
        let piece = |bytes: &mut [u8]| libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        let pieces = [piece(&mut header), piece(first), piece(rest)];
        // SAFETY: three pieces, each as long as it says, lent for this call.
        let n = unsafe { libc::readv(self.fd(), pieces.as_ptr(), pieces.len() as c_int) };
        let n = usize::try_from(n).map_err(|_| io::Error::last_os_error())?;
        Ok(n.saturating_sub(header.len()))
    }

    /// Drops all frames from now on.
    pub(crate) fn mute(&self) -> io::Result<()> {
        // SAFETY: makes a number of two.
        let mut nothing = [unsafe { libc::BPF_STMT((libc::BPF_RET | libc::BPF_K) as u16, 0) }];
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &libc::sock_fprog { len: 1, filter: nothing.as_mut_ptr() })
    }

    /// No longer drops all frames.
    pub(crate) fn unmute(&self) -> io::Result<()> {
        self.set(libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0i32)
    }

    /// Joins the group of sockets that share an interface's frames by flow, or founds one; returns its number. No flags
    /// that change frames or their order: with DEFRAG the kernel would reassemble fragments, with ROLLOVER it would
    /// spread a flow.
    pub(crate) fn share(&self, group: Option<u16>) -> io::Result<u16> {
        let kind = libc::PACKET_FANOUT_HASH | if group.is_none() { libc::PACKET_FANOUT_FLAG_UNIQUEID } else { 0 };
        let wanted = |flags: c_uint| u32::from(group.unwrap_or(0)) | (kind | flags) << 16;
        // Of a group's sockets the kernel does not ask each whether it ignores what is sent (`ignore_outgoing`); Linux
        // before 5.17 cannot be told for the group.
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &wanted(FANOUT_IGNORE_OUTGOING))
            .or_else(|_| self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &wanted(0)))?;
        let mut got: c_uint = 0;
        get_option(self.fd(), libc::SOL_PACKET, libc::PACKET_FANOUT, &mut got)?;
        Ok(got as u16)
    }

    /// Frames that its ring had no room for, since it was last asked.
    pub(crate) fn drops(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let read = get_option(self.fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, &mut statistics);
        if read.is_ok() { u64::from(statistics.tp_drops) } else { 0 }
    }

    /// Asks for frames that the interface would not receive, or no longer. It ends with the socket.
    pub(crate) fn member(&self, index: i32, of: Membership, join: bool) -> io::Result<()> {
        let (kind, address) = match of {
            Membership::Promiscuous => (libc::PACKET_MR_PROMISC, None),
            Membership::AllGroups => (libc::PACKET_MR_ALLMULTI, None),
            Membership::Address(mac) => (libc::PACKET_MR_UNICAST, Some(mac.octets())),
        };
        let mut wanted = libc::packet_mreq { mr_ifindex: index, mr_type: kind as u16, mr_alen: 0, mr_address: [0; 8] };
        if let Some(octets) = address {
            wanted.mr_alen = 6;
            wanted.mr_address[..6].copy_from_slice(&octets);
        }
        let name = if join { libc::PACKET_ADD_MEMBERSHIP } else { libc::PACKET_DROP_MEMBERSHIP };
        self.set(libc::SOL_PACKET, name, &wanted)
    }
}
