// SPDX-License-Identifier: MIT
//! The pipe under the model checker: `cargo test -p perigee-worker --features loom --test loom_pipe`
#![cfg(feature = "loom")]

use loom::sync::Arc;
use loom::thread;
use perigee_worker::Pipe;
use std::time::Duration;

fn message(n: u8) -> Box<[u8]> {
    Box::new([n])
}

/// The model's clock stands still: a receiver that sleeps for ever is found as a deadlock.
#[test]
fn a_sleeping_receiver_is_woken() {
    loom::model(|| {
        let pipe = Arc::new(Pipe::new(2));
        let sender = {
            let pipe = pipe.clone();
            thread::spawn(move || assert!(pipe.send(message(1)).is_ok()))
        };
        let mut got = None;
        while got.is_none() {
            got = pipe.wait(Duration::from_secs(1));
        }
        sender.join().unwrap();
        assert_eq!((got, pipe.len()), (Some(message(1)), 0));
    });
}

#[test]
fn two_senders_and_two_receivers_lose_nothing() {
    loom::model(|| {
        let pipe = Arc::new(Pipe::new(2));
        let threads: Vec<_> = [1, 2]
            .into_iter()
            .map(|n| {
                let pipe = pipe.clone();
                thread::spawn(move || {
                    assert!(pipe.send(message(n)).is_ok());
                    pipe.receive().map_or(0, |message| message[0])
                })
            })
            .collect();
        let sum: u8 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        let left: u8 = std::iter::from_fn(|| pipe.receive()).map(|message| message[0]).sum();
        assert_eq!((sum + left, pipe.len()), (3, 0));
    });
}
