// SPDX-License-Identifier: MIT
//! Asks the kernel how many frames it has lost on an interface, in either direction (RTM_GETSTATS, linux/if_link.h).
//!
//! The kernel answers within the system call that asks, so this needs no thread. It may wait for the kernel's lock of
//! all links (RTNL) as long as another program holds it: some milliseconds where links are made and deleted.

use std::cell::Cell;
use std::ops::{Add, Sub};
use std::os::fd::OwnedFd;

use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::wire::{Attributes, HEADER, Messages, flag, kind, u32_at};

/// Bytes of `struct if_stats_msg`: family, padding, index, mask.
const FIXED: usize = 12;
/// The attribute `struct rtnl_link_stats64`, and the bit of the mask that asks for it.
const LINK_64: u16 = 1;
/// Larger than any answer: the structure has about 200 bytes.
const BUFFER: usize = 4096;
/// How many answers to earlier requests are skipped before it gives up.
const STRAY: usize = 8;

/// Frames that the kernel has lost on an interface, since the interface was made or between two readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkLosses {
    /// Received, and dropped because there was no room or no receiver (`rx_dropped`).
    pub receive_dropped: u64,
    /// Not received because the device had no room (`rx_missed_errors`).
    pub receive_missed: u64,
    /// Damaged when they arrived (`rx_errors`).
    pub receive_errors: u64,
    /// To be sent, and dropped because the interface or its peer had no room (`tx_dropped`).
    pub transmit_dropped: u64,
    /// To be sent, but sending failed (`tx_errors`).
    pub transmit_errors: u64,
}

impl LinkLosses {
    /// Whether no number is smaller than the other's.
    pub fn covers(self, other: LinkLosses) -> bool {
        self.zip(other, u64::min) == other
    }

    /// Combines two, number by number.
    fn zip(self, other: LinkLosses, f: fn(u64, u64) -> u64) -> LinkLosses {
        LinkLosses {
            receive_dropped: f(self.receive_dropped, other.receive_dropped),
            receive_missed: f(self.receive_missed, other.receive_missed),
            receive_errors: f(self.receive_errors, other.receive_errors),
            transmit_dropped: f(self.transmit_dropped, other.transmit_dropped),
            transmit_errors: f(self.transmit_errors, other.transmit_errors),
        }
    }
}

impl Add for LinkLosses {
    type Output = LinkLosses;

    fn add(self, other: LinkLosses) -> LinkLosses {
        self.zip(other, u64::wrapping_add)
    }
}

impl Sub for LinkLosses {
    type Output = LinkLosses;

    /// The losses since the reading `before`; a counter that has started again from zero yields 0.
    fn sub(self, before: LinkLosses) -> LinkLosses {
        self.zip(before, u64::saturating_sub)
    }
}

/// Where losses are looked up: the kernel ([`KernelStatistics`]), or a test.
pub trait LinkStatistics: Send {
    /// The losses of the interface with this index; `None` if there is no such interface, or no answer.
    fn losses(&self, index: u32) -> Option<LinkLosses>;
}

/// Asks the kernel about interfaces in the network namespace of a socket.
#[derive(Debug)]
pub struct KernelStatistics {
    socket: OwnedFd,
    sequence: Cell<u32>,
}

impl KernelStatistics {
    /// Uses a socket that nobody else reads ([`perigee_helper::open_plain`]).
    pub fn new(socket: OwnedFd) -> KernelStatistics {
        KernelStatistics { socket, sequence: Cell::new(0) }
    }
}

impl LinkStatistics for KernelStatistics {
    fn losses(&self, index: u32) -> Option<LinkLosses> {
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        send(&self.socket, &request(index, sequence), SendFlags::empty()).ok()?;
        let mut buffer = [0; BUFFER];
        for _ in 0..STRAY {
            let (_, length) = recv(&self.socket, &mut buffer, RecvFlags::TRUNC).ok()?;
            if let Some(answer) = answer(buffer.get(..length)?, sequence) {
                return answer;
            }
        }
        None
    }
}

fn request(index: u32, sequence: u32) -> Vec<u8> {
    let mut request = vec![0; HEADER + FIXED];
    request[0..4].copy_from_slice(&((HEADER + FIXED) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&kind::GET_STATISTICS.to_ne_bytes());
    request[6..8].copy_from_slice(&flag::REQUEST.to_ne_bytes());
    request[8..12].copy_from_slice(&sequence.to_ne_bytes());
    request[HEADER + 4..HEADER + 8].copy_from_slice(&index.to_ne_bytes());
    request[HEADER + 8..].copy_from_slice(&(1u32 << (LINK_64 - 1)).to_ne_bytes());
    request
}

/// The answer to the request of this number, if the datagram holds it: what was lost, or `None` where the kernel
/// refused.
fn answer(datagram: &[u8], sequence: u32) -> Option<Option<LinkLosses>> {
    let message = Messages(datagram).flatten().find(|message| message.sequence == sequence)?;
    if message.kind != kind::NEW_STATISTICS {
        return Some(None);
    }
    let attributes = Attributes(message.body.get(FIXED..).unwrap_or_default());
    let counters = attributes.flatten().find(|(kind, _)| *kind == LINK_64);
    Some(counters.and_then(|(_, counters)| losses(counters)))
}

/// Reads `struct rtnl_link_stats64`, whose attribute need not be aligned to eight bytes.
fn losses(counters: &[u8]) -> Option<LinkLosses> {
    let counter = |number: usize| {
        let (low, high) = (u32_at(counters, number * 8)?, u32_at(counters, number * 8 + 4)?);
        let halves = if cfg!(target_endian = "little") { (low, high) } else { (high, low) };
        Some(u64::from(halves.1) << 32 | u64::from(halves.0))
    };
    Some(LinkLosses {
        receive_dropped: counter(6)?,
        receive_missed: counter(15)?,
        receive_errors: counter(4)?,
        transmit_dropped: counter(7)?,
        transmit_errors: counter(5)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer of the kernel's: a message of this kind with counters 1, 2, 3, ...
    fn reply(kind: u16, sequence: u32, counters: u64) -> Vec<u8> {
        let mut body = vec![0; FIXED];
        body.extend(((4 + counters * 8) as u16).to_ne_bytes());
        body.extend(LINK_64.to_ne_bytes());
        (1..=counters).for_each(|n| body.extend((n << 32 | n).to_ne_bytes()));
        let mut message = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend(kind.to_ne_bytes());
        message.extend([0; 2]);
        message.extend(sequence.to_ne_bytes());
        message.extend([0; 4]);
        message.extend(body);
        message
    }

    #[test]
    fn answers_are_read_and_others_left_out() {
        let n = |n: u64| n << 32 | n;
        let expected = LinkLosses {
            receive_dropped: n(7),
            receive_missed: n(16),
            receive_errors: n(5),
            transmit_dropped: n(8),
            transmit_errors: n(6),
        };
        assert_eq!(answer(&reply(kind::NEW_STATISTICS, 7, 25), 7), Some(Some(expected)));
        assert_eq!(answer(&reply(kind::NEW_STATISTICS, 6, 25), 7), None, "an earlier request's");
        assert_eq!(answer(&reply(kind::ERROR, 7, 25), 7), Some(None), "refused");
        assert_eq!(answer(&reply(kind::NEW_STATISTICS, 7, 15), 7), Some(None), "a structure that is cut off");
        for length in 0..reply(kind::NEW_STATISTICS, 7, 25).len() {
            let whole = reply(kind::NEW_STATISTICS, 7, 25);
            assert!(answer(&whole[..length], 7).flatten().is_none(), "{length} bytes");
        }
    }

    #[test]
    fn the_kernel_answers_about_the_loopback_and_refuses_what_is_not_there() {
        let kernel = KernelStatistics::new(perigee_helper::open_plain().unwrap());
        // Index 1 is the loopback's in every namespace.
        assert!(kernel.losses(1).is_some());
        assert_eq!(kernel.losses(u32::MAX >> 1), None);
        assert!(kernel.losses(1).is_some(), "an answer was left behind");
    }
}
