// SPDX-License-Identifier: MIT
//! Where the kernel does not say whether an interface sends what is redirected to it (before Linux 6.3): a veth interface
//! that does not is found by its counters, which stand still while the plane sends by it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

/// Packets between two looks from which on the counters are compared: fewer may be on their way.
const ENOUGH: u64 = 8;
/// The interface stands still if it has sent less than one in so many of them: an overloaded one loses many, and sends.
const STANDS: u64 = 64;
/// Looks in a row that have to show it.
const LOOKS: u32 = 2;

/// The counters of all interfaces in the network namespace that it was opened in.
pub struct DeviceCounters {
    file: File,
    text: String,
}

impl DeviceCounters {
    /// Those of this thread's namespace; it can be read from every other one.
    pub fn open() -> io::Result<DeviceCounters> {
        Ok(DeviceCounters { file: File::open("/proc/thread-self/net/dev")?, text: String::new() })
    }

    /// Packets that an interface has sent.
    pub fn sent(&mut self, interface: &str) -> Option<u64> {
        self.text.clear();
        self.file.rewind().ok()?;
        self.file.read_to_string(&mut self.text).ok()?;
        sent_in(&self.text, interface)
    }
}

/// The tenth number behind an interface's name: eight are of what it received.
fn sent_in(text: &str, interface: &str) -> Option<u64> {
    let numbers = text.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    numbers.split_ascii_whitespace().nth(9)?.parse().ok()
}

/// What the plane and the interface had sent at the last look, and how often that was next to nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    before: Option<(u64, u64)>,
    stood: u32,
}

impl Watched {
    /// Whether next to nothing of what the plane has sent since the last looks has left by the interface. What workers
    /// send by it, too, only makes that later.
    pub fn vanish(&mut self, plane: u64, interface: u64) -> bool {
        let (of_plane, of_interface) = *self.before.get_or_insert((plane, interface));
        let more = plane.saturating_sub(of_plane);
        if more < ENOUGH {
            return false;
        }
        self.before = Some((plane, interface));
        let stands = interface.saturating_sub(of_interface) <= more / STANDS;
        self.stood = if stands { self.stood + 1 } else { 0 };
        self.stood >= LOOKS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_stands_still_while_the_plane_sends_loses_packets() {
        let mut watched = Watched::default();
        for (plane, interface, vanish) in [
            (1000, 50, false),
            (1003, 50, false),
            (1009, 50, false),
            (1011, 50, false),
            (1030, 50, true),
            // An overloaded one sends some.
            (1230, 90, false),
            (1430, 130, false),
            (1500, 131, false),
            (1600, 132, true),
        ] {
            assert_eq!(watched.vanish(plane, interface), vanish, "{plane}, {interface}");
        }
    }

    #[test]
    fn counters_are_found_by_the_whole_name() {
        const TEXT: &str = "Inter-|   Receive  |  Transmit\n face |bytes\n    lo: 1 2 0 0 0 0 0 0 3 4 0 0 0 0 0 0\n\
            eth0.7:    5      6    0 0 0 0 0 0       7      8    0 0 0 0 0 0\n  eth0: 9 10 0 0 0 0 0 0 11 12 0 0 0 0 0 0\n";
        for (interface, sent) in [("lo", Some(4)), ("eth0", Some(12)), ("eth0.7", Some(8)), ("eth", None)] {
            assert_eq!(sent_in(TEXT, interface), sent, "{interface}");
        }
        assert!(DeviceCounters::open().unwrap().sent("lo").is_some());
    }
}
