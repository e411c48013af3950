// SPDX-License-Identifier: MIT
//! Links that go down and come up: what follows for routes.
//!
//! ```text
//! FibWriter::set_down
//!   NextHopWriter::set_down   next hops of these links, groups: at once, whatever the number of prefixes
//!   FamilyTables::set_down    gateways without an interface find another way: at once
//!                             routes that are concerned are marked, once for all their prefixes
//! FibWriter::follow_links     prefixes with marked routes choose again: in turns, as there may be a million
//! ```
//!
//! Until its turn comes a prefix leads where it did. If that link is down, its packets come to the slow path as
//! unreachable, which sends them by the routes as they are ([`FamilyTables::decide`]) and has the prefix take its turn
//! at once: traffic moves before prefixes that nobody asks for. If a better link is back, packets take the way that
//! they took while it was down.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use crate::next_hop::NextHopId;
use crate::next_hop::writer::{Leaf, NextHopError, NextHopWriter};
use crate::rib::family::{FamilyTables, Refusal, acquire, set_targets};
use crate::rib::recursion::{Family, Settled, Spec, leads_over, recursive};
use perigee_net::{InterfaceId, PrefixOf, Route};

/// How far a walk through all prefixes is.
pub(crate) struct Sweep<A> {
    /// The last prefix that was looked at.
    after: Option<PrefixOf<A>>,
    /// The last one to be looked at; the last of all if there is none.
    until: Option<PrefixOf<A>>,
    /// Whether the walk begins again behind the last prefix of all, and up to which prefix it then goes: links have
    /// changed when it was there.
    again: Option<PrefixOf<A>>,
}

impl<A: Family> FamilyTables<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    /// These links are down now; those in `changed` were up before, or are up again. To be called when the next hops
    /// have changed. Begins a [`sweep`](Self::sweep).
    ///
    /// # Errors
    /// There is no room for the next hop of a gateway's new way: it is unreachable. Everything else is done.
    pub fn set_down(
        &mut self,
        next_hops: &mut NextHopWriter,
        down: Arc<BTreeSet<InterfaceId>>,
        changed: &BTreeSet<InterfaceId>,
    ) -> Result<(), NextHopError> {
        self.hold();
        self.gateways.set_down(down);
        let first = self.gateways.concerned(&self.table, changed);
        let settled = self.gateways.settle(&self.table, &first);
        let mut result = self.take_other_ways(next_hops, &settled);
        let (mut turned, mut carriers) = (HashSet::new(), BTreeSet::new());
        for (gateway, before) in &settled.0 {
            let Some(now) = self.gateways.state(*gateway) else { continue };
            if before.way.is_some() != now.way.is_some() {
                turned.insert(*gateway);
            }
            carriers.extend(before.carrier);
            carriers.extend(now.carrier);
        }
        let concerned =
            |route: &Route| leads_over(route, changed) || recursive(route).any(|gateway| turned.contains(&gateway));
        self.table.store.mark(concerned);
        // What these carry may lead back to them now, or not any more.
        for prefix in carriers {
            result = result.and(self.choose_again(next_hops, prefix));
        }
        self.sweep = match self.sweep.take() {
            Some(Sweep { after: Some(at), .. }) => Some(Sweep { after: Some(at), until: None, again: Some(at) }),
            _ => Some(Sweep { after: None, until: None, again: None }),
        };
        result
    }

    /// Gives gateways their new ways, or none.
    fn take_other_ways(&mut self, next_hops: &mut NextHopWriter, settled: &Settled<A>) -> Result<(), NextHopError> {
        let (mut targets, mut result) = (Vec::new(), Ok(()));
        for (gateway, before) in &settled.0 {
            let (Some(now), Some(id)) = (self.gateways.state(*gateway), self.gateways.id(*gateway)) else { continue };
            let (before, now) = (before.way.as_ref().map(|way| &way.next), now.way.as_ref().map(|way| &way.next));
            if before == now {
                continue;
            }
            let target = match now.map(|spec| acquire(next_hops, &self.gateways, spec)).transpose() {
                Ok(target) => target,
                Err(error) => {
                    result = Err(error);
                    None
                }
            };
            targets.push((id, target));
        }
        let before = set_targets(next_hops, &targets);
        let ids: Vec<NextHopId> = targets.iter().map(|(id, _)| *id).collect();
        next_hops.refresh(&ids);
        next_hops.release_at_commit(before.into_iter().flatten());
        result
    }

    fn choose_again(&mut self, next_hops: &mut NextHopWriter, prefix: PrefixOf<A>) -> Result<(), NextHopError> {
        match self.settle_prefix(next_hops, prefix) {
            Err(Refusal::NextHop(error)) => Err(error),
            // Changes of the lookup structure are held: what has no room is an error of the commit.
            Ok(()) | Err(Refusal::Lookup(_)) => Ok(()),
        }
    }

    /// Lets the prefixes around an address have their turn now, if they have yet to choose among their routes again.
    ///
    /// # Errors
    /// As of [`sweep`](Self::sweep).
    pub fn sweep_around(&mut self, next_hops: &mut NextHopWriter, address: A) -> Result<(), NextHopError> {
        if self.sweep.is_none() {
            return Ok(());
        }
        self.hold();
        let around = self.table.tree.covering(PrefixOf::host(address));
        let marked = around.filter(|(_, entry)| self.table.store.is_marked(entry)).map(|(prefix, _)| prefix);
        let marked: Vec<PrefixOf<A>> = marked.collect();
        marked.into_iter().try_for_each(|prefix| self.choose_again(next_hops, prefix))
    }

    /// Where packets of a flow to `address` should go, by the routes as they are, whatever the lookup structure still
    /// says. Of a group the flow has one of the members that can be used, not always the one that it will have.
    pub fn decide(&self, next_hops: &NextHopWriter, address: A, flow: u32) -> Leaf {
        let around = self.table.tree.covering(PrefixOf::host(address));
        let choose = |(prefix, entry)| self.gateways.choose(prefix, self.table.routes_of(entry));
        let leaf = |next: &Spec<A>| match next {
            Spec::Fixed(id) => Leaf::Fixed(*id),
            Spec::Via(via) => next_hops.leaf_of(*via),
            Spec::Recursive(gateway) => {
                next_hops.leaf(self.gateways.id(*gateway).unwrap_or(NextHopId::UNREACHABLE), flow)
            }
            Spec::Group(_) => Leaf::Fixed(NextHopId::UNREACHABLE),
        };
        let Some((_, way)) = { around }.find_map(choose) else { return Leaf::Fixed(NextHopId::NO_ROUTE) };
        let Spec::Group(members) = way.next else { return leaf(&way.next) };
        let usable = members.iter().map(|(member, _)| leaf(member)).filter(|leaf| matches!(leaf, Leaf::Via(_)));
        let usable: Vec<Leaf> = usable.collect();
        let chosen = usable.get(flow as usize % usable.len().max(1));
        chosen.copied().unwrap_or(Leaf::Fixed(NextHopId::UNREACHABLE))
    }

    /// Looks at this many more prefixes, and lets those that are concerned choose among their routes again; returns
    /// whether there are any left.
    ///
    /// # Errors
    /// There is no room for the next hops of other routes: such a prefix stays as it was. Everything else is done.
    pub fn sweep(&mut self, next_hops: &mut NextHopWriter, most: usize) -> Result<bool, NextHopError> {
        let Some(Sweep { after, until, again }) = self.sweep.take() else { return Ok(false) };
        self.hold();
        let (mut last, mut marked, mut looked) = (after, Vec::new(), 0);
        let in_time = |prefix: &PrefixOf<A>| until.is_none_or(|until| *prefix <= until);
        let following = self.table.tree.iter_after(after).take_while(|(prefix, _)| in_time(prefix));
        for (prefix, entry) in following.take(most) {
            (last, looked) = (Some(prefix), looked + 1);
            if self.table.store.is_marked(entry) {
                marked.push(prefix);
            }
        }
        let mut result = Ok(());
        for prefix in marked {
            result = result.and(self.choose_again(next_hops, prefix));
        }
        self.sweep = match again {
            _ if looked == most => Some(Sweep { after: last, until, again }),
            Some(at) => Some(Sweep { after: None, until: Some(at), again: None }),
            None => {
                self.table.store.unmark();
                None
            }
        };
        result.map(|()| self.sweep.is_some())
    }
}
