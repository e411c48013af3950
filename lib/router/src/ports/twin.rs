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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixDatagram;

    /// A twin, and the end that is Linux's.
    fn twin(index: u32) -> (PortTwin, UnixDatagram) {
        let (here, there) = UnixDatagram::pair().unwrap();
        there.set_nonblocking(true).unwrap();
        let status = TwinStatus { name: "a".to_owned(), namespace: None, index };
        (PortTwin::new((Twin::new(here.into()).unwrap(), status)), there)
    }

    /// Frames to Linux, from it, and dropped.
    fn counts(twin: &PortTwin) -> [u64; 3] {
        let TwinEntry { to_linux, from_linux, dropped, .. } = twin.entry();
        [*to_linux, *from_linux, *dropped]
    }

    #[test]
    fn frames_are_counted_in_both_directions() {
        let (mut twin, linux) = twin(3);
        (0..3).for_each(|_| twin.write(&[1; 60]));
        assert_eq!(linux.recv(&mut [0; 100]).unwrap(), 60);
        let mut buffer = [0; 100];
        assert_eq!((twin.read(&mut buffer), counts(&twin)), (None, [3, 0, 0]), "nothing came");
        linux.send(&[7; 50]).unwrap();
        linux.send(&[8; 40]).unwrap();
        assert_eq!((twin.read(&mut buffer), buffer[49], twin.read(&mut buffer)), (Some(50), 7, Some(40)));
        assert_eq!(counts(&twin), [3, 2, 0]);
    }

    #[test]
    fn what_a_twin_does_not_take_is_dropped_and_counted() {
        let (mut twin, linux) = twin(3);
        (0..2000).for_each(|_| twin.write(&[1; 60]));
        let [taken, _, dropped] = counts(&twin);
        assert!(taken > 0 && dropped > 0 && taken + dropped == 2000 && twin.usable(), "it is full: {taken}, {dropped}");
        // Deleted: it is not polled any more, as it would always be ready.
        drop(linux);
        (0..2).for_each(|_| twin.write(&[1; 60]));
        assert_eq!(counts(&twin), [taken, 0, dropped + 2]);
        assert!(!twin.usable());
    }

    /// Reads of a link's losses, by its number.
    struct Losses(u32);

    impl LinkStatistics for Losses {
        fn losses(&self, index: u32) -> Option<LinkLosses> {
            (index == self.0).then_some(LinkLosses { transmit_dropped: 5, ..LinkLosses::default() })
        }
    }

    #[test]
    fn a_new_twin_continues_the_counts_of_the_one_before() {
        let (mut before, linux) = twin(3);
        (0..3).for_each(|_| before.write(&[1; 60]));
        linux.send(&[7; 50]).unwrap();
        before.read(&mut [0; 100]);
        before.look_at_losses(&Losses(3));
        let ((after, _linux), (unused, _)) = (twin(8), twin(3));
        let made = |twin: PortTwin| {
            let status = TwinStatus { name: "b".to_owned(), namespace: None, index: twin.entry().index };
            (twin.into_inner(), status)
        };
        let mut after = PortTwin::replacing(made(after), Some(before));
        assert_eq!((counts(&after), after.entry().missed), ([3, 1, 0], 5));
        assert_eq!((after.entry().name.as_str(), after.entry().index), ("b", 8));
        after.write(&[1; 60]);
        after.look_at_losses(&Losses(8));
        assert_eq!((counts(&after), after.entry().missed), ([4, 1, 0], 10), "five more of its own");
        assert_eq!(counts(&PortTwin::replacing(made(unused), None)), [0; 3]);
    }
}
