// SPDX-License-Identifier: MIT
//! What the kernel has lost on an interface that the router uses, summed over its successors if it is deleted and made
//! again.

use perigee_netlink::LinkLosses;

/// The losses of an interface, which never become fewer. What it had lost before the router used it does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Losses {
    /// The interface, once it is known, and what it had lost at the first reading.
    of: Option<(u32, LinkLosses)>,
    /// What it has lost since then, as of the last reading.
    last: LinkLosses,
    /// What its predecessors have lost.
    before: LinkLosses,
}

impl Losses {
    /// An interface that has just been made, after its predecessors.
    pub fn made(index: u32, predecessors: LinkLosses) -> Losses {
        Losses { of: Some((index, LinkLosses::default())), last: LinkLosses::default(), before: predecessors }
    }

    /// Reads what the interface with this index has lost since it was made, if that is known.
    pub fn look(&mut self, index: u32, losses: impl FnOnce() -> Option<LinkLosses>) {
        let Some(now) = losses() else { return };
        let before = self.of.filter(|(of, _)| *of == index);
        if before.is_none_or(|(_, since)| !now.covers(since + self.last)) {
            // Another interface, or counters that have begun again.
            *self = Losses { of: Some((index, now)), before: self.sum(), last: LinkLosses::default() };
        } else if let Some((_, since)) = before {
            self.last = now - since;
        }
    }

    /// All of it, as of the last reading.
    pub fn sum(&self) -> LinkLosses {
        self.before + self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(receive_dropped: u64, transmit_dropped: u64) -> Option<LinkLosses> {
        Some(LinkLosses { receive_dropped, transmit_dropped, ..LinkLosses::default() })
    }

    #[test]
    fn losses_count_from_the_first_look_on_and_survive_their_interface() {
        let mut losses = Losses::default();
        losses.look(3, || lost(100, 0));
        assert_eq!(losses.sum(), LinkLosses::default(), "what was lost before");
        losses.look(3, || lost(107, 2));
        losses.look(3, || None);
        assert_eq!(Some(losses.sum()), lost(7, 2), "an interface that is gone");
        losses.look(5, || lost(50, 50));
        losses.look(5, || lost(51, 50));
        assert_eq!(Some(losses.sum()), lost(8, 2));
        losses.look(5, || lost(3, 0));
        assert_eq!(Some(losses.sum()), lost(8, 2), "counters that begin again are no loss, and no gain");
        losses.look(5, || lost(4, 0));
        assert_eq!(Some(losses.sum()), lost(9, 2));
        let mut twin = Losses::made(7, losses.sum());
        twin.look(7, || lost(1, 1));
        assert_eq!(Some(twin.sum()), lost(10, 3), "all that an interface lost since it was made for the router");
    }
}
