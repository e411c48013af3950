// SPDX-License-Identifier: MIT
//! Messages between threads: any number of senders and receivers, in order, bounded. For tasks in Lua, whose values
//! travel as bytes.
//!
//! A receiver that polls costs senders nothing; one that has waited for long may sleep, and is woken.

use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, PoisonError};
use std::collections::VecDeque;
use std::time::Duration;

/// A message.
pub type Message = Box<[u8]>;

/// A bounded queue of messages.
pub struct Pipe {
    messages: Mutex<VecDeque<Message>>,
    capacity: usize,
    /// Messages in it: what receivers look at before they lock.
    waiting: AtomicUsize,
    /// Receivers that sleep, or are about to.
    sleepers: AtomicUsize,
    bell: Condvar,
}

impl Pipe {
    /// An empty pipe for `capacity` messages, at least one.
    pub fn new(capacity: usize) -> Pipe {
        Pipe {
            messages: Mutex::new(VecDeque::new()),
            capacity: capacity.max(1),
            waiting: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            bell: Condvar::new(),
        }
    }

    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a message in; gives it back if the pipe is full.
    pub fn send(&self, message: Message) -> Result<(), Message> {
        let mut messages = self.messages();
        if messages.len() >= self.capacity {
            return Err(message);
        }
        messages.push_back(message);
        self.waiting.store(messages.len(), Ordering::Release);
        // Whoever sleeps has said so while it held the lock.
        let sleepers = self.sleepers.load(Ordering::Relaxed);
        drop(messages);
        if sleepers > 0 {
            self.bell.notify_one();
        }
        Ok(())
    }

    /// The next message, if there is one.
    #[inline]
    pub fn receive(&self) -> Option<Message> {
        if self.is_empty() {
            return None;
        }
        let mut messages = self.messages();
        self.take(&mut messages)
    }

    fn take(&self, messages: &mut VecDeque<Message>) -> Option<Message> {
        let message = messages.pop_front();
        self.waiting.store(messages.len(), Ordering::Release);
        message
    }

    /// The next message; sleeps until there is one, `longest` at most.
    pub fn wait(&self, longest: Duration) -> Option<Message> {
        let mut messages = self.messages();
        if messages.is_empty() {
            self.sleepers.fetch_add(1, Ordering::Relaxed);
            messages = self.bell.wait_timeout(messages, longest).unwrap_or_else(PoisonError::into_inner).0;
            self.sleepers.fetch_sub(1, Ordering::Relaxed);
        }
        self.take(&mut messages)
    }

    /// Messages in it now.
    pub fn len(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Is none in it?
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn text(n: u32) -> Message {
        Box::new(n.to_le_bytes())
    }

    #[test]
    fn a_full_pipe_gives_the_message_back_and_order_is_kept() {
        let pipe = Pipe::new(2);
        assert_eq!((pipe.receive(), pipe.wait(Duration::ZERO), pipe.len()), (None, None, 0));
        assert_eq!([pipe.send(text(1)), pipe.send(text(2)), pipe.send(text(3))], [Ok(()), Ok(()), Err(text(3))]);
        assert_eq!((pipe.len(), pipe.receive(), pipe.wait(Duration::MAX)), (2, Some(text(1)), Some(text(2))));
        assert!(pipe.is_empty());
    }

    /// Two senders, a receiver that polls and one that sleeps: every message comes out once, each sender's in order.
    #[test]
    fn every_message_comes_out_once() {
        const EACH: u32 = 20_000;
        let pipe = Arc::new(Pipe::new(64));
        let senders = [0, 1].map(|sender| {
            let pipe = pipe.clone();
            std::thread::spawn(move || {
                for n in 0..EACH {
                    let mut message = text(n * 2 + sender);
                    while let Err(back) = pipe.send(message) {
                        message = back;
                        std::thread::yield_now();
                    }
                }
            })
        });
        let left = Arc::new(std::sync::atomic::AtomicU32::new(2 * EACH));
        let receivers = [false, true].map(|sleeps| {
            let (pipe, left) = (pipe.clone(), left.clone());
            std::thread::spawn(move || {
                let mut got = Vec::new();
                while left.load(Ordering::Relaxed) > 0 {
                    let message = if sleeps { pipe.wait(Duration::from_millis(1)) } else { pipe.receive() };
                    let Some(message) = message else { continue };
                    left.fetch_sub(1, Ordering::Relaxed);
                    got.push(u32::from_le_bytes(message.as_ref().try_into().unwrap()));
                }
                got
            })
        });
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        let got = receivers.map(|receiver| receiver.join().unwrap());
        for one in &got {
            for sender in [0, 1] {
                assert!(one.iter().filter(|n| *n % 2 == sender).is_sorted(), "a sender's messages are out of order");
            }
        }
        let mut all = got.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..2 * EACH));
    }
}
