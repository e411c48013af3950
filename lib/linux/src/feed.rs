// SPDX-License-Identifier: MIT
//! What is known of one feed.
//!
//! ```text
//!            a dump is asked for      it begins         it ends, complete
//!  nothing ─────────────────► wanted ──────────► dump ───────────────────► complete ◄─┐
//!                                ▲                │ with holes: another follows       │ notifications
//!                                └── suspicion ◄──┴──────────────────────── following ┘
//! ```

use crate::FeedId;
use crate::dump::Seen;
use crate::translate::NextHops;
use std::collections::HashSet;

/// A feed, and what it has reported.
pub(crate) struct Feed {
    pub id: FeedId,
    /// Whether its routes count.
    pub routes: bool,
    /// Next-hop objects by its numbers.
    pub next_hops: NextHops,
    /// Ids that routes have named in the last whole dump, and since.
    pub named: HashSet<u32>,
    /// The dump that is on its way.
    pub dump: Option<Seen>,
    /// Dumps that have to be applied before one may be for an audit: one that was asked for may have begun before it was.
    pub wanted: u8,
    /// Whether a route was left out for a link that may come to be known.
    pub missed: bool,
    /// The first dump has come.
    pub complete: bool,
    /// Notifications were lost, or nothing comes any more.
    pub lost: bool,
}

impl Feed {
    pub fn new(id: FeedId, routes: bool) -> Feed {
        Feed {
            id,
            routes,
            next_hops: NextHops::new(),
            named: HashSet::new(),
            dump: None,
            wanted: 0,
            missed: false,
            complete: false,
            lost: false,
        }
    }

    /// Whether the dump on its way is only compared.
    pub fn is_audited(&self) -> bool {
        self.dump.as_ref().is_some_and(|seen| seen.audit.is_some())
    }

    /// The dump that a message belongs to, if it belongs to one.
    pub fn dump_of(&mut self, dumped: bool) -> Option<&mut Seen> {
        self.dump.as_mut().filter(|_| dumped)
    }
}
