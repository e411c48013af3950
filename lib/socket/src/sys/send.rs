// SPDX-License-Identifier: MIT
//! Sending many packets by one call (sendmmsg(2)).

use super::Socket;
use super::offload::{OFFLOAD, Offload};
use libc::{c_void, iovec, mmsghdr};
use perigee_packet::{Batch, Handle, Memory, SuperFrame, SuperFrames};
use std::io;
use std::ptr::NonNull;

/// Packets of one call.
const MOST: usize = 64;

/// What a call did.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The kernel took the first packets, at least one: how many, the super-frames among them, and the sum of their
    /// bytes.
    Some { packets: usize, whole: SuperFrames, bytes: u64 },
    /// It did not take the first packet, and why.
    None(io::Error),
}

/// The arrays of a call.
pub(crate) struct Sender {
    messages: Box<[mmsghdr; MOST]>,
    // Each message points to its own two of these, which never move: a header, if the socket has them, and a packet.
    pieces: Box<[[iovec; 2]; MOST]>,
    headers: Box<[[u8; OFFLOAD]; MOST]>,
    /// Segments of each message that is a super-frame; else 0.
    segments: Box<[u32; MOST]>,
    memory: &'static dyn Memory,
}

// SAFETY: the pointers lead into its own boxes, and to packets during a call only.
unsafe impl Send for Sender {}

impl Sender {
    /// For packets of one kind of memory; `offloads`: on a socket that has super-frames cut (`Socket::send_offloads`).
    pub(crate) fn new(memory: &'static dyn Memory, offloads: bool) -> Sender {
        let nothing = iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut pieces = Box::new([[nothing; 2]; MOST]);
        let mut headers = Box::new([[0; OFFLOAD]; MOST]);
        // SAFETY: plain data, for which zeros are valid: no address, no control data.
        let mut messages = Box::new([unsafe { std::mem::zeroed::<mmsghdr>() }; MOST]);
        let (first, first_header) = (pieces.as_mut_ptr(), headers.as_mut_ptr());
        for (i, message) in messages.iter_mut().enumerate() {
            let own = first.wrapping_add(i).cast::<iovec>();
            message.msg_hdr.msg_iov = if offloads { own } else { own.wrapping_add(1) };
            message.msg_hdr.msg_iovlen = if offloads { 2 } else { 1 };
        }
        for (i, [header, _]) in pieces.iter_mut().enumerate() {
            *header = iovec { iov_base: first_header.wrapping_add(i).cast(), iov_len: OFFLOAD };
        }
        Sender { messages, pieces, headers, segments: Box::new([0; MOST]), memory }
    }

    /// The memory that its packets are of.
    pub(crate) fn memory(&self) -> &'static dyn Memory {
        self.memory
    }

    /// Sends packets, of which there is at least one, from the first on; never waits. They still belong to the caller.
    pub(crate) fn send(&mut self, socket: &Socket, packets: &[Handle]) -> Sent {
        let n = packets.len().min(MOST);
        for (i, packet) in packets[..n].iter().enumerate() {
            let (data, length) = self.memory.place(packet);
            self.pieces[i][1] = iovec { iov_base: data.as_ptr().cast(), iov_len: length.into() };
            if self.memory.gso_size(packet).is_some() || self.segments[i] != 0 {
                self.describe(i, packet);
            }
        }
        // SAFETY: `n` messages, each with its pieces: a packet's bytes, which the caller lends us and the kernel only
        // reads.
        let sent = unsafe { libc::sendmmsg(socket.fd(), self.messages.as_mut_ptr(), n as u32, libc::MSG_DONTWAIT) };
        match usize::try_from(sent) {
            Ok(packets) if packets > 0 => Sent::Some {
                packets,
                whole: SuperFrames {
                    frames: self.segments[..packets].iter().map(|&segments| u64::from(segments > 0)).sum(),
                    segments: self.segments[..packets].iter().map(|&segments| u64::from(segments)).sum(),
                },
                bytes: self.pieces[..packets].iter().map(|[_, packet]| packet.iov_len as u64).sum(),
            },
            _ => Sent::None(io::Error::last_os_error()),
        }
    }

    /// Writes the header of message `i`, and into a super-frame the sum that the kernel expects. One whose headers make
    /// no sense goes as it is, and the kernel refuses it for its length.
    #[cold]
    fn describe(&mut self, i: usize, packet: &Handle) {
        (self.headers[i], self.segments[i]) = ([0; OFFLOAD], 0);
        let (data, length) = self.memory.place(packet);
        // SAFETY: the packet's bytes, lent to us by its owner, who has no reference to them.
        let frame = unsafe { std::slice::from_raw_parts_mut(data.as_ptr(), length.into()) };
        let Some(size) = self.memory.gso_size(packet) else { return };
        let Some(whole) = SuperFrame::new(frame, size) else { return };
        (self.headers[i], self.segments[i]) = (Offload::write(&whole, size), whole.len() as u32);
        let (field, sum) = (whole.transport() + whole.checksum_offset(), whole.pseudo_sum());
        frame[field..field + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Lets `take` look at a batch's first packets, at most `most`, and say how many of them are done with; these are freed
/// and counted.
pub(crate) fn send_from(batch: &mut Batch, most: usize, take: impl FnOnce(&[Handle]) -> usize) -> usize {
    let (memory, mut done) = (batch.memory(), Vec::new());
    // SAFETY: Handle is a transparent pointer, never null in a live slot. As many buffers as returned move into `done`,
    // others are only lent.
    let taken = unsafe {
        batch.send_with(most, |buffers: &mut [*mut c_void]| {
            let taken = take(std::slice::from_raw_parts(buffers.as_ptr().cast::<Handle>(), buffers.len()));
            done.extend(buffers[..taken].iter().map(|buffer| Handle::new(NonNull::new_unchecked(*buffer))));
            taken
        })
    };
    memory.free(&mut done);
    taken
}
