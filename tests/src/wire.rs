// SPDX-License-Identifier: MIT
//! A port's cable with the test at its other end.

use crate::{Good, wait_for, wait_until};

/// A TAP interface: the router receives the frames that are sent here, and its frames are received here, byte by byte.
pub struct Wire(pub(crate) perigee_lab::Wire);

impl Wire {
    /// Puts a frame on the wire.
    #[track_caller]
    pub fn send(&self, frame: &[u8]) {
        wait_until("room on the wire", || self.0.try_send(frame).good());
    }

    /// The next frame that has come already.
    pub fn next(&self) -> Option<Vec<u8>> {
        self.0.next().good()
    }

    /// Waits for a frame that `fits`; others are ignored.
    ///
    /// # Panics
    /// None comes.
    #[track_caller]
    pub fn expect(&self, what: &str, fits: impl Fn(&[u8]) -> bool) -> Vec<u8> {
        wait_for(what, || std::iter::from_fn(|| self.next()).find(|frame| fits(frame)))
    }

    /// Everything that has come already.
    pub fn drain(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| self.next()).collect()
    }
}
