// SPDX-License-Identifier: MIT
//! A twin as the slow path's thread uses it: frames in and out, with counters.

use super::losses::Losses;
use perigee_api::answers::TwinEntry;
use perigee_helper::TwinStatus;
use perigee_helper::twin::Twin;
use perigee_netlink::{LinkLosses, LinkStatistics};
use std::os::fd::{AsFd, BorrowedFd};

/// A port's twin.
pub(crate) struct PortTwin {
    twin: Twin,
    entry: TwinEntry,
    losses: Losses,
    complained: bool,
}

impl PortTwin {
    pub fn new((twin, status): (Twin, TwinStatus)) -> PortTwin {
        let TwinStatus { name, namespace, index } = status;
        let entry = TwinEntry { name, namespace, index, to_linux: 0, from_linux: 0, dropped: 0, missed: 0 };
        PortTwin { twin, entry, losses: Losses::made(index, LinkLosses::default()), complained: false }
    }

    pub fn into_inner(self) -> Twin {
        self.twin
    }

    /// A port's new twin, which continues the counters of the one before.
    pub fn replacing(made: (Twin, TwinStatus), before: Option<PortTwin>) -> PortTwin {
        let mut twin = PortTwin::new(made);
        if let Some(PortTwin { entry, losses, .. }) = before {
            let TwinEntry { to_linux, from_linux, dropped, missed, .. } = entry;
            twin.entry = TwinEntry { to_linux, from_linux, dropped, missed, ..twin.entry };
            twin.losses = Losses::made(twin.entry.index, losses.sum());
        }
        twin
    }

    /// Gives a frame to Linux; if there is no room for it, it is dropped and counted, as by a device.
    pub fn write(&mut self, frame: &[u8]) {
        match self.twin.write(frame) {
            Ok(true) => self.entry.to_linux += 1,
            Ok(false) => self.entry.dropped += 1,
            Err(error) => {
                self.entry.dropped += 1;
                self.complain(&error);
            }
        }
    }

    /// The next frame that Linux sent.
    pub fn read(&mut self, buffer: &mut [u8]) -> Option<usize> {
        match self.twin.read(buffer) {
            Ok(length) => {
                self.complained = false;
                self.entry.from_linux += u64::from(length.is_some());
                length
            }
            Err(error) => {
                self.complain(&error);
                None
            }
        }
    }

    /// Reads how many frames its queue had no room for: for Linux the twin is an interface that sends them.
    pub fn look_at_losses(&mut self, statistics: &dyn LinkStatistics) {
        self.losses.look(self.entry.index, || statistics.losses(self.entry.index));
        self.entry.missed = self.losses.sum().transmit_dropped;
    }

    /// Logs once that the twin is down or gone: when an operator sets it down, not every packet is an error.
    fn complain(&mut self, error: &std::io::Error) {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!("the twin {} takes no packets: {error}; is it set down or deleted?", self.entry.name);
        }
    }

    /// Whether to poll it: a deleted twin would always be ready.
    pub fn usable(&self) -> bool {
        !self.complained
    }

    pub fn entry(&self) -> &TwinEntry {
        &self.entry
    }
}

impl AsFd for PortTwin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.twin.as_fd()
    }
}
