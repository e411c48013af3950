// SPDX-License-Identifier: MIT
//! Sending many packets by one call (sendmmsg(2)).

use super::Socket;
use libc::{c_void, iovec, mmsghdr};
use perigee_packet::{Batch, Handle, Memory};
use std::io;
use std::ptr::NonNull;

/// Packets of one call.
const MOST: usize = 64;

/// What a call did.
#[derive(Debug)]
pub(crate) enum Sent {
    /// The kernel took the first packets, at least one: their number, and the sum of their bytes.
    Some(usize, u64),
    /// It did not take the first packet, and why.
    None(io::Error),
}

/// The arrays of a call.
pub(crate) struct Sender {
    messages: Box<[mmsghdr; MOST]>,
    // Each message points to its own of these, which never move.
    pieces: Box<[iovec; MOST]>,
    memory: &'static dyn Memory,
}

// SAFETY: the pointers lead into its own boxes, and to packets during a call only.
unsafe impl Send for Sender {}

impl Sender {
    /// For packets of one kind of memory.
    pub(crate) fn new(memory: &'static dyn Memory) -> Sender {
        let mut pieces = Box::new([iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; MOST]);
        // SAFETY: plain data, for which zeros are valid: no address, no control data.
        let mut messages = Box::new([unsafe { std::mem::zeroed::<mmsghdr>() }; MOST]);
        let first = pieces.as_mut_ptr();
        for (i, message) in messages.iter_mut().enumerate() {
            message.msg_hdr.msg_iov = first.wrapping_add(i);
            message.msg_hdr.msg_iovlen = 1;
        }
        Sender { messages, pieces, memory }
    }

    /// The memory that its packets are of.
    pub(crate) fn memory(&self) -> &'static dyn Memory {
        self.memory
    }

    /// Sends packets, of which there is at least one, from the first on; never waits. They still belong to the caller.
    pub(crate) fn send(&mut self, socket: &Socket, packets: &[Handle]) -> Sent {
        let n = packets.len().min(MOST);
        for (piece, packet) in self.pieces.iter_mut().zip(packets) {
            let (data, length) = self.memory.place(packet);
            *piece = iovec { iov_base: data.as_ptr().cast(), iov_len: length.into() };
        }
        // SAFETY: `n` messages, each with one piece: a packet's bytes, which the caller lends us and the kernel only reads.
        let sent = unsafe { libc::sendmmsg(socket.fd(), self.messages.as_mut_ptr(), n as u32, libc::MSG_DONTWAIT) };
        match usize::try_from(sent) {
            Ok(sent) if sent > 0 => {
                Sent::Some(sent, self.pieces[..sent].iter().map(|piece| piece.iov_len as u64).sum())
            }
            _ => Sent::None(io::Error::last_os_error()),
        }
    }
}

/// Lets `take` look at a batch's first packets, at most `most`, and say how many of them are done with; these are freed and counted.
pub(crate) fn send_from(batch: &mut Batch, most: usize, take: impl FnOnce(&[Handle]) -> usize) -> usize {
    let (memory, mut done) = (batch.memory(), Vec::new());
    // SAFETY: Handle is a transparent pointer, never null in a live slot. As many buffers as returned move into `done`, others
    // are only lent.
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
