// SPDX-License-Identifier: MIT
//! Whether the link under a port went down, however briefly: Linux reports each change, and reports are read whenever
//! somebody asks.

use perigee_helper::open_links;
use perigee_netlink::decode::{Tally, decode};
use perigee_netlink::message::Message;
use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{AddressFamily, RecvFlags, SocketType, recv, socket};
use std::os::fd::OwnedFd;

/// Larger than any report.
const BUFFER: usize = 1 << 16;

/// A link that is watched since it was opened.
pub struct LinkWatch {
    reports: OwnedFd,
    index: u32,
    up: bool,
    downs: u64,
    buffer: Vec<u8>,
}

impl LinkWatch {
    /// Watches an interface of this namespace, which is up. `None` where the system refuses it: then only its state is
    /// known.
    pub fn open(interface: &str) -> Option<LinkWatch> {
        // First, so that no report is missed.
        let reports = open_links().ok()?.monitor;
        let index = name_to_index(socket(AddressFamily::INET, SocketType::DGRAM, None).ok()?, interface).ok()?;
        Some(LinkWatch { reports, index, up: true, downs: 0, buffer: vec![0; BUFFER] })
    }

    /// How often it went down, or away, since it was opened. `is_up` says whether it is up now, should reports have
    /// been lost.
    pub fn downs(&mut self, is_up: impl Fn() -> bool) -> u64 {
        loop {
            let (mut messages, mut tally) = (Vec::new(), Tally::default());
            let lost = match recv(&self.reports, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, length)) => {
                    let datagram = self.buffer.get(..length).unwrap_or_default();
                    decode(datagram, None, &mut messages, &mut tally).error.is_some()
                }
                Err(Errno::NOBUFS) => true,
                Err(Errno::INTR) => continue,
                Err(_) => return self.downs,
            };
            if lost {
                self.is_now(is_up());
            }
            for message in messages {
                match message {
                    Message::Link(link) if link.index == self.index => self.is_now(link.up && link.carrier),
                    Message::LinkGone(index) | Message::LinkMoved(index) if index == self.index => self.is_now(false),
                    _ => {}
                }
            }
        }
    }

    fn is_now(&mut self, up: bool) {
        self.downs += u64::from(self.up && !up);
        self.up = up;
    }
}
