// SPDX-License-Identifier: MIT
//! The functions of `perigee_task.h`: what tasks call for every burst.

use super::host::{TaskHost, TaskPool};
use super::shared::{SharedReceiver, SharedRing, SharedSender};
use crate::abi::{borrow, export};
use perigee_modules::Context;
use perigee_packet::batch::scatter::DropOut;
use perigee_packet::expression::Expression;
use perigee_packet::wire::checksums;
use perigee_packet::{Batch, Mask};
use perigee_worker::Pipe;
use std::ffi::{c_char, c_int};

/// What functions that return a number of packets return after a failure.
const FAILED: u32 = u32::MAX;

/// The context of a task; null for a null task.
fn context_of(task: *mut TaskHost) -> *mut Context {
    // SAFETY: null or the host's, see `borrow!`.
    unsafe { task.as_mut() }.map_or(std::ptr::null_mut(), TaskHost::context)
}

export! {
    /// 0 once the task is to end, `extra` ns later.
    fn perigee_task_running(ctx from context_of(task); task: *mut TaskHost, extra: u64) -> c_int = 0, {
        Ok(borrow!(&mut task).running(extra).into())
    }

    /// The time in ns.
    fn perigee_task_now(ctx from context_of(task); task: *mut TaskHost) -> u64 = 0, {
        Ok(borrow!(&mut task).now())
    }

    /// Sleeps, until the task is to end at the latest.
    fn perigee_task_sleep(ctx from context_of(task); task: *mut TaskHost, ns: u64) -> () = (), {
        borrow!(&mut task).sleep(ns);
        Ok(())
    }

    /// The task's context.
    fn perigee_task_context(ctx from context_of(task); task: *mut TaskHost) -> *mut Context = std::ptr::null_mut(), {
        Ok(context_of(task))
    }

    /// A new batch, which the host frees when the task ends.
    fn perigee_task_batch(ctx from context_of(task); task: *mut TaskHost) -> *mut Batch = std::ptr::null_mut(), {
        Ok(borrow!(&mut task).new_batch())
    }

    /// A new mask, which the host frees when the task ends.
    fn perigee_task_mask(ctx from context_of(task); task: *mut TaskHost) -> *mut Mask = std::ptr::null_mut(), {
        Ok(borrow!(&mut task).new_mask())
    }

    /// A new place to gather packets that drop out, which the host frees when the task ends.
    fn perigee_task_gather(ctx from context_of(task); task: *mut TaskHost, size: u32, timeout: u64)
        -> *mut DropOut = std::ptr::null_mut(), {
        Ok(borrow!(&mut task).new_gather(size as usize, timeout))
    }

    /// Fills the batch from a device's queue.
    fn perigee_task_receive(ctx from context_of(task); task: *mut TaskHost, queue: *const SharedReceiver, batch: *mut Batch,
        burst: u32, timeout: u64) -> u32 = FAILED, {
        let n = borrow!(&mut task).receive(borrow!(&queue), borrow!(&mut batch), burst as usize, timeout)?;
        Ok(n as u32)
    }

    /// Fills the batch from a ring.
    fn perigee_task_ring_receive(ctx from context_of(task); task: *mut TaskHost, ring: *const SharedRing, batch: *mut Batch,
        burst: u32, timeout: u64) -> u32 = FAILED, {
        let n = borrow!(&mut task).receive(&borrow!(&ring).receiver, borrow!(&mut batch), burst as usize, timeout)?;
        Ok(n as u32)
    }

    /// Fills the batch with new packets: the pool's prototype, as long as asked for.
    fn perigee_task_fill(ctx from context_of(task); task: *mut TaskHost, pool: *mut TaskPool, batch: *mut Batch, packets: u32,
        length: u32) -> u32 = FAILED, {
        let n = borrow!(&mut task).fill(borrow!(&mut pool), borrow!(&mut batch), packets as usize, length as usize)?;
        Ok(n as u32)
    }

    /// Sends the batch's packets on a device's queue.
    fn perigee_task_send(ctx from context_of(task); task: *mut TaskHost, queue: *const SharedSender, batch: *mut Batch,
        timeout: u64) -> u32 = FAILED, {
        Ok(borrow!(&mut task).send(borrow!(&queue), borrow!(&mut batch), timeout)? as u32)
    }

    /// Sends the batch's packets into a ring.
    fn perigee_task_ring_send(ctx from context_of(task); task: *mut TaskHost, ring: *const SharedRing, batch: *mut Batch,
        timeout: u64) -> u32 = FAILED, {
        Ok(borrow!(&mut task).ring_send(borrow!(&ring), borrow!(&mut batch), timeout) as u32)
    }

    /// Frees the packets of the mask.
    fn perigee_task_free(ctx from context_of(task); task: *mut TaskHost, batch: *mut Batch, mask: *const Mask) -> c_int = -1, {
        let _ = borrow!(&mut task);
        borrow!(&mut batch).discard(*borrow!(&mask));
        Ok(0)
    }

    /// Writes the checksums of the mask's packets: IPv4 header, UDP, TCP, ICMP.
    fn perigee_task_checksums(ctx from context_of(task); task: *mut TaskHost, batch: *mut Batch, mask: *const Mask)
        -> c_int = -1, {
        let _ = borrow!(&mut task);
        borrow!(&mut batch).for_each(*borrow!(&mask), |packet| {
            let l3 = packet.l3();
            checksums::fill(packet.frame_mut(), l3.into());
        });
        Ok(0)
    }

    /// Narrows the mask to the packets that match.
    fn perigee_task_match(ctx from context_of(task); task: *mut TaskHost, filter: *const Expression, batch: *mut Batch,
        mask: *mut Mask) -> c_int = -1, {
        let _ = borrow!(&mut task);
        let (filter, mask) = (borrow!(&filter), borrow!(&mut mask));
        *mask = borrow!(&mut batch).filter(*mask, |packet| filter.matches(packet.frame(), packet.port()));
        Ok(0)
    }

    /// Do these bytes match?
    fn perigee_task_match_bytes(ctx from context_of(task); task: *mut TaskHost, filter: *const Expression, bytes: *const u8, length: u32)
        -> c_int = -1, {
        let _ = (borrow!(&mut task), borrow!(&bytes));
        // SAFETY: not null; the caller's bytes.
        let frame = unsafe { std::slice::from_raw_parts(bytes, length as usize) };
        Ok(borrow!(&filter).matches(frame, 0).into())
    }

    /// Puts a message into a pipe.
    fn perigee_task_pipe_send(ctx from context_of(task); task: *mut TaskHost, pipe: *const Pipe, bytes: *const c_char, length: usize,
        timeout: u64) -> c_int = -1, {
        let (task, pipe) = (borrow!(&mut task), borrow!(&pipe));
        let _ = borrow!(&bytes);
        // SAFETY: not null; the caller's bytes.
        let message = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), length) };
        Ok(task.pipe_send(pipe, message, timeout).into())
    }

    /// The next message of a pipe.
    fn perigee_task_pipe_receive(ctx from context_of(task); task: *mut TaskHost, pipe: *const Pipe, timeout: u64,
        bytes: *mut *const c_char, length: *mut usize) -> c_int = -1, {
        let (task, pipe) = (borrow!(&mut task), borrow!(&pipe));
        let (bytes, length) = (borrow!(&mut bytes), borrow!(&mut length));
        let Some(message) = task.pipe_receive(pipe, timeout) else { return Ok(0) };
        (*bytes, *length) = (message.as_ptr().cast(), message.len());
        Ok(1)
    }

    /// Messages in a pipe now.
    fn perigee_task_pipe_length(ctx from context_of(task); task: *mut TaskHost, pipe: *const Pipe) -> u32 = 0, {
        let _ = borrow!(&mut task);
        Ok(borrow!(&pipe).len() as u32)
    }
}

/// Makes sure that the exported functions are in the program; returns how many there are.
pub(crate) fn link() -> usize {
    FUNCTIONS.iter().filter(|(_, address)| !std::hint::black_box(address.0).is_null()).count()
}
