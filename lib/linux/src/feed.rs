// SPDX-License-Identifier: MIT
//! The state of one feed.
//!
//! ```text
//!            a dump is asked for      it begins         it ends, complete
//!  nothing ─────────────────► wanted ──────────► dump ───────────────────► complete ◄─┐
//!                                ▲                │ with holes: another follows       │ notifications
//!                                └── suspicion ◄──┴──────────────────────── following ┘
//! ```

use crate::FeedId;
use crate::dump::{Compared, Seen};
use crate::next_hops::NextHops;
use std::collections::HashSet;

/// The state of a feed.
pub(crate) struct Feed {
    pub id: FeedId,
    /// Whether its routes count.
    pub routes: bool,
    /// Next-hop objects by the feed's numbers.
    pub next_hops: NextHops,
    /// Ids of next-hop objects that routes have named in the last complete dump and since.
    pub named: HashSet<u32>,
    /// The dump in progress.
    pub dump: Option<Seen>,
    /// Dumps that have to be applied before one may serve an audit: the one in progress may have begun before the
    /// request.
    pub wanted: u8,
    /// Whether a route has named a link or a next-hop object that was not known.
    pub missed: bool,
    /// Whether the first dump has come.
    pub complete: bool,
    /// Whether notifications were lost, or the feed is broken.
    pub lost: bool,
}

impl Feed {
    pub fn new(id: FeedId, routes: bool) -> Feed {
        Feed {
            id,
            routes,
            next_hops: NextHops::default(),
            named: HashSet::new(),
            dump: None,
            wanted: 0,
            missed: false,
            complete: false,
            lost: false,
        }
    }

    /// What the dump in progress has shown, if it is only compared.
    pub fn compared(&self) -> Option<&Compared> {
        self.dump.as_ref()?.audit.as_ref()
    }

    /// Whether the dump in progress is only compared.
    pub fn is_audited(&self) -> bool {
        self.compared().is_some()
    }

    /// Whether routes have named an object, or a group that it is a member of.
    pub fn routes_lead_to(&self, object: u32) -> bool {
        self.named.contains(&object) || self.next_hops.groups_of(object).any(|group| self.named.contains(&group))
    }

    /// The dump that a message belongs to, if any.
    pub fn dump_of(&mut self, dumped: bool) -> Option<&mut Seen> {
        self.dump.as_mut().filter(|_| dumped)
    }
}
