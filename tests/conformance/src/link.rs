// SPDX-License-Identifier: MIT
//! A station's end of a link: a packet socket on an interface, on which nobody else speaks.

use anyhow::{Context as _, Result, bail};
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{SockaddrLike as _, bind};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with, sockopt};
use std::num::NonZeroU32;

/// The longest frame that is read whole, bytes.
const LONGEST: usize = 16_384;
/// ETH_P_ALL, as the kernel takes it: in the network's byte order.
const ALL_PROTOCOLS: NonZeroU32 = NonZeroU32::new((3_u16.to_be()) as u32).expect("it is not 0");
/// Bytes of frames that may wait; the kernel may give less.
const WAITING: usize = 4 << 20;

/// A packet socket. Frames go in and come out byte by byte. They have no VLAN tags here, which the kernel would take
/// out.
pub struct Link(OwnedFd);

impl Link {
    /// Opens it on an interface of this thread's namespace.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses.
    pub fn open(interface: &str) -> Result<Link> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket =
            socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(Protocol::from_raw(ALL_PROTOCOLS)))
                .context("a packet socket cannot be opened")?;
        let _ = sockopt::set_socket_recv_buffer_size(&socket, WAITING); // it works with less
        let link = getifaddrs()
            .context("the interfaces cannot be listed")?
            .filter(|found| found.interface_name == interface)
            .find_map(|found| found.address.filter(|address| address.as_link_addr().is_some()));
        let Some(link) = link else { bail!("found no interface {interface}") };
        // The address names no protocol, so that of the socket stays. What was there before is of all interfaces.
        bind(socket.as_raw_fd(), &link).with_context(|| format!("a packet socket cannot be bound to {interface}"))?;
        debug_assert!(link.len() > 0);
        let link = Link(socket);
        while link.next()?.is_some() {}
        Ok(link)
    }

    /// Sends a frame.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        for _ in 0..1000 {
            match rustix::io::write(&self.0, frame) {
                Ok(length) if length == frame.len() => return Ok(()),
                Ok(length) => bail!("{length} of {} bytes of a frame were sent", frame.len()),
                Err(Errno::AGAIN | Errno::NOBUFS) => std::thread::yield_now(),
                Err(error) => {
                    return Err(error).with_context(|| format!("a frame of {} bytes cannot be sent", frame.len()));
                }
            }
        }
        bail!("there was no room for a frame of {} bytes, again and again", frame.len())
    }

    /// The next frame that has come already.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn next(&self) -> Result<Option<Vec<u8>>> {
        let mut buffer = vec![0; LONGEST];
        match rustix::io::read(&self.0, &mut buffer[..]) {
            Ok(length) => {
                buffer.truncate(length);
                Ok(Some(buffer))
            }
            Err(Errno::AGAIN) => Ok(None),
            // The interface was down for a moment, as while a router takes it.
            Err(Errno::NETDOWN) => Ok(None),
            Err(error) => Err(error).context("a link cannot be read"),
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
