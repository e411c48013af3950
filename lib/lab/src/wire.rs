// SPDX-License-Identifier: MIT
//! A port's cable whose other end is ours.

use anyhow::{Context as _, Result};
use std::io::ErrorKind;
use tun_rs::{DeviceBuilder, Layer, SyncDevice};

/// The longest frame that is read whole, in bytes.
const LONGEST_FRAME: usize = 10_000;

/// A TAP interface: the router receives the frames that are sent here, and its frames are received here, byte by byte.
pub struct Wire {
    device: SyncDevice,
}

impl Wire {
    pub(crate) fn new(name: &str) -> Result<Wire> {
        let device = DeviceBuilder::new().name(name).layer(Layer::L2).enable(false).build_sync();
        let device = device.with_context(|| format!("the wire {name} cannot be made"))?;
        device.set_nonblocking(true).with_context(|| format!("the wire {name} cannot be made non-blocking"))?;
        Ok(Wire { device })
    }

    /// Puts a frame on the wire; false if there is no room now.
    ///
    /// # Errors
    /// The interface is gone or down, or takes only a part of the frame.
    pub fn try_send(&self, frame: &[u8]) -> Result<bool> {
        match self.device.send(frame) {
            Ok(length) => {
                anyhow::ensure!(length == frame.len(), "the wire took {length} of {} bytes", frame.len());
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error).with_context(|| format!("a frame of {} bytes cannot be sent", frame.len())),
        }
    }

    /// The next frame that has come already.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn next(&self) -> Result<Option<Vec<u8>>> {
        let mut buffer = vec![0; LONGEST_FRAME];
        match self.device.recv(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                Ok(Some(buffer))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error).context("the wire cannot be read"),
        }
    }
}
