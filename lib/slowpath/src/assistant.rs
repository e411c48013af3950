// SPDX-License-Identifier: MIT
//! A second pair of hands: judges punted packets on a thread of its own, by the workers' tables.
//!
//! The owner of the tables is a [`SlowPath`] on another thread. An assistant has its rules, its limits and a copy of
//! its interfaces, but no neighbors, no fragments and no twins. It answers, forwards and drops what it can by these;
//! what it cannot, it leaves to the owner before it has counted or sent anything, or, once an answer is made, gives the
//! owner the answer to send.
//!
//! | packet | what becomes of it |
//! | --- | --- |
//! | an ICMP error is due, an echo request, options, a fragment or something too big in transit, copies for a group | done here |
//! | its next hop is not resolved, or it leaves by where it came in (a redirect may be due), or has a source route | the owner's |
//! | ARP, neighbor discovery, for Linux, to a group without a route, a fragment for this router | the owner's |
//! | an answer whose next hop is not resolved | [`Output::Own`] |

use std::sync::Arc;

use perigee_net::InterfaceId;

use crate::machine::{SlowPath, Turn};
use crate::{Config, Counters, InterfaceTable, Limits, Output, Routes, Time};

/// Judges packets beside the [`SlowPath`] that owns the tables. After every [`Self::handle`], drain
/// [`Self::poll_output`].
#[derive(Debug)]
pub struct Assistant(SlowPath);

impl Assistant {
    /// An assistant of a slow path with this configuration and these limits; it has no interfaces yet.
    pub fn new(config: Config, limits: Arc<Limits>) -> Assistant {
        Assistant(SlowPath::with(config, limits, true))
    }

    /// Takes over the owner's interfaces.
    pub fn set_interfaces(&mut self, table: &InterfaceTable) {
        self.0.interfaces.clone_from(&table.0);
    }

    /// Judges a punted frame, as [`Input::Punted`](crate::Input::Punted). False: it is the owner's to judge, and
    /// nothing came of it here. `routes` answers as workers would, by
    /// [`RouteDecision::Station`](crate::RouteDecision::Station).
    #[must_use]
    pub fn handle(&mut self, now: Time, interface: InterfaceId, frame: &[u8], routes: &dyn Routes) -> bool {
        self.0.left = false;
        self.0.punted(Turn { now, routes }, interface, frame);
        // The owner counts it, when it gets it.
        self.0.counters.punted -= u64::from(self.0.left);
        !self.0.left
    }

    /// The oldest output not yet taken: a frame to send, or a packet for the owner.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.0.poll_output()
    }

    /// What was counted since the start.
    pub fn counters(&self) -> &Counters {
        self.0.counters()
    }
}
