// SPDX-License-Identifier: MIT
//! Transmit queues of a thread of the slow path, with the few frames that leave in a burst.

use perigee_packet::{Handle, Pool, TransmitQueue};
use std::sync::Arc;

/// Frames that are gathered before they are sent.
const BURST: usize = 32;

/// A thread's transmit queues, by port number.
pub(crate) struct Outputs {
    outputs: Vec<Option<Output>>,
    /// Frames that could not be sent, by port number; the last entry counts those to ports that do not exist.
    lost: Vec<u64>,
}

struct Output {
    pool: Arc<dyn Pool>,
    queue: Box<dyn TransmitQueue>,
    waiting: Vec<Handle>,
}

impl Outputs {
    /// These queues, by port number, each with the pool for what is sent on it; a queue without a pool is left out.
    pub fn new(
        queues: impl IntoIterator<Item = Option<Box<dyn TransmitQueue>>>,
        pool: impl Fn(u16) -> Option<Arc<dyn Pool>>,
    ) -> Outputs {
        let output = |(number, queue): (u16, Option<_>)| {
            Some(Output { pool: pool(number)?, queue: queue?, waiting: Vec::with_capacity(BURST) })
        };
        let outputs: Vec<_> = (0..).zip(queues).map(output).collect();
        Outputs { lost: vec![0; outputs.len() + 1], outputs }
    }

    /// How many ports they number.
    pub fn width(&self) -> u16 {
        self.outputs.len() as u16
    }

    /// Sends a frame on a port, at the latest with the next [`Self::flush`]; one that cannot be sent is counted.
    pub fn transmit(&mut self, number: u16, frame: &[u8]) {
        let lost = &mut self.lost[usize::from(number).min(self.outputs.len())];
        let output = self.outputs.get_mut(usize::from(number)).and_then(Option::as_mut);
        let packet = output.and_then(|output| Some((output.pool.packet(frame)?, output)));
        let Some((packet, output)) = packet else {
            *lost += 1;
            return;
        };
        output.waiting.push(packet.into_handle());
        if output.waiting.len() == BURST {
            *lost += output.flush();
        }
    }

    /// Sends what waits.
    pub fn flush(&mut self) {
        for (output, lost) in self.outputs.iter_mut().zip(&mut self.lost) {
            *lost += output.as_mut().map_or(0, Output::flush);
        }
    }

    /// How many frames could not be sent, by port number; the last entry counts those to ports that do not exist.
    pub fn lost(&self) -> &[u64] {
        &self.lost
    }

    /// Lets the queues finish what they still hold.
    pub fn poll(&mut self) {
        self.outputs.iter_mut().flatten().for_each(|output| output.queue.poll());
    }

    /// Gives up the queues, and with them the buffers in them.
    pub fn close(&mut self) {
        self.flush();
        self.outputs.clear();
    }
}

impl Output {
    /// Sends what waits, and returns how much of it could not be sent.
    fn flush(&mut self) -> u64 {
        if self.waiting.is_empty() {
            return 0;
        }
        self.queue.transmit(&mut self.waiting);
        let lost = self.waiting.len() as u64;
        self.queue.discard(&mut self.waiting);
        lost
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.queue.discard(&mut self.waiting);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_packet::batch::heap::{HeapPool, HeapQueue};

    /// Two ports of which only the second has a queue, for `room` frames.
    fn outputs(pool: &'static HeapPool, room: usize) -> (Outputs, HeapQueue) {
        let queue = HeapQueue::new(pool, 1, room);
        let ours: Box<dyn TransmitQueue> = Box::new(queue.clone());
        (Outputs::new([None, Some(ours)], move |_| Some(Arc::new(pool))), queue)
    }

    #[test]
    fn frames_leave_in_bursts_in_order_and_at_the_latest_with_a_flush() {
        let pool = HeapPool::leak(100);
        let (mut outputs, queue) = outputs(pool, 100);
        for n in 0..40u8 {
            outputs.transmit(1, &[n; 60]);
        }
        assert_eq!(std::iter::from_fn(|| queue.collect()).count(), BURST);
        outputs.flush();
        let rest: Vec<u8> = std::iter::from_fn(|| queue.collect()).map(|frame| frame[0]).collect();
        assert_eq!(rest, (32..40).collect::<Vec<u8>>());
        assert_eq!((outputs.lost(), outputs.width(), pool.in_use()), (&[0, 0, 0][..], 2, 0));
    }

    #[test]
    fn what_cannot_be_sent_is_counted_and_freed() {
        let pool = HeapPool::leak(20);
        let (mut outputs, _queue) = outputs(pool, 10);
        for n in 0..25u8 {
            outputs.transmit(1, &[n; 60]);
        }
        outputs.flush();
        outputs.transmit(0, &[0; 60]);
        outputs.transmit(9, &[0; 60]);
        // 5 found no buffer and 10 no room in the queue; a port without a queue, and none.
        assert_eq!((outputs.lost(), pool.in_use()), (&[1, 15, 1][..], 10));
        outputs.transmit(1, &[0; 60]);
        outputs.close();
        assert_eq!((outputs.lost(), outputs.width()), (&[1, 16, 1][..], 0));
    }

    #[test]
    fn what_a_full_queue_does_not_take_of_a_burst_is_counted_as_what_waits_for_a_flush() {
        let pool = HeapPool::leak(100);
        let (mut outputs, _queue) = outputs(pool, 10);
        for n in 0..BURST as u8 + 8 {
            outputs.transmit(1, &[n; 60]);
        }
        assert_eq!((outputs.lost(), pool.in_use()), (&[0, BURST as u64 - 10, 0][..], 18));
        outputs.flush();
        assert_eq!((outputs.lost(), pool.in_use()), (&[0, BURST as u64 - 2, 0][..], 10));
    }
}
