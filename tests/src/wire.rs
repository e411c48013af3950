// SPDX-License-Identifier: MIT
//! A port's cable with the test at its other end.

use crate::wait_for;
use std::io::ErrorKind;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// A TAP interface: what is sent here the router receives, what the router sends is received here, byte by byte.
pub struct Wire {
    device: SyncDevice,
}

impl Wire {
    pub(crate) fn new(name: &str) -> Wire {
        let device = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).build_sync();
        let device = device.unwrap_or_else(|error| panic!("the wire {name}: {error}"));
        device.set_nonblocking(true).expect("a wire that does not block");
        Wire { device }
    }

    /// Puts a frame on the wire.
    pub fn send(&self, frame: &[u8]) {
        let sent = || match self.device.send(frame) {
            Ok(length) => Some(length),
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("a frame of {} bytes: {error}", frame.len()),
        };
        assert_eq!(wait_for("room on the wire", sent), frame.len());
    }

    /// The next frame that has come already.
    pub fn next(&self) -> Option<Vec<u8>> {
        let mut buffer = vec![0; 10_000];
        match self.device.recv(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                Some(buffer)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => None,
            Err(error) => panic!("the wire: {error}"),
        }
    }

    /// Waits for a frame that fits; others are passed over.
    ///
    /// # Panics
    /// It does not come.
    pub fn expect(&self, what: &str, fits: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        wait_for(what, || std::iter::from_fn(|| self.next()).find(|frame| fits(frame)))
    }

    /// Everything that has come already.
    pub fn drain(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.next()).collect()
    }
}
