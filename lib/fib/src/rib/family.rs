// SPDX-License-Identifier: MIT
//! One address family of the forwarding table: a change of its routes, and everything that follows from it, or nothing.

use std::collections::BTreeSet;

use crate::lookup::{LookupError, LookupWriter};
use crate::next_hop::NextHopId;
use crate::next_hop::writer::{NextHopError, NextHopWriter};
use crate::rib::entries::Table;
use crate::rib::recursion::{Family, Gateways, Settled, Spec, recursive};
use perigee_net::{PrefixOf, Route, RouteKey};

/// Everything of a family that a change touches.
pub(crate) struct Change<'f, A: Family> {
    pub table: &'f mut Table<A>,
    pub gateways: &'f mut Gateways<A>,
    pub lookup: &'f mut dyn LookupWriter<A>,
    pub next_hops: &'f mut NextHopWriter,
    /// Next hops that lost a use: readers of the old table may find them until it is committed.
    pub released: &'f mut Vec<NextHopId>,
}

/// Why a change was refused.
pub(crate) enum Refusal {
    Lookup(LookupError),
    NextHop(NextHopError),
}

impl From<LookupError> for Refusal {
    fn from(error: LookupError) -> Self {
        Self::Lookup(error)
    }
}

impl From<NextHopError> for Refusal {
    fn from(error: NextHopError) -> Self {
        Self::NextHop(error)
    }
}

/// What a change is going to do; every next hop in it has been given a use.
struct Plan<A> {
    /// Prefixes with another choice than before.
    choices: Vec<Choice<A>>,
    /// Recursive next hops with other targets, those without one last.
    targets: Vec<(NextHopId, Option<NextHopId>)>,
}

struct Choice<A> {
    prefix: PrefixOf<A>,
    before: Option<NextHopId>,
    now: Option<(usize, NextHopId)>,
}

impl<A: Family> Change<'_, A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    /// Adds a route, in place of the one with the same key.
    pub fn insert(&mut self, prefix: PrefixOf<A>, route: Route) -> Result<(), Refusal> {
        let key = route.key();
        let fresh = self.track(prefix, &route)?;
        let replaced = self.table.insert(prefix, route);
        let result = self.settle(prefix, &fresh);
        let gone = match (&result, replaced) {
            (Ok(()), replaced) => replaced,
            (Err(_), Some(before)) => self.table.insert(prefix, before),
            (Err(_), None) => self.table.remove(prefix, key),
        };
        self.table.clean_up(prefix);
        self.untrack(prefix, gone);
        result
    }

    /// Removes a route and returns it; `None` if there is none with this key.
    pub fn remove(&mut self, prefix: PrefixOf<A>, key: RouteKey) -> Result<Option<Route>, Refusal> {
        let chosen = self.table.get(prefix).and_then(|entry| self.table.chosen(entry));
        let Some(route) = self.table.remove(prefix, key) else { return Ok(None) };
        if let Err(refusal) = self.settle(prefix, &[]) {
            self.table.insert(prefix, route);
            self.table.set_chosen(prefix, chosen);
            return Err(refusal);
        }
        self.table.clean_up(prefix);
        self.untrack(prefix, Some(route.clone()));
        Ok(Some(route))
    }

    /// Notes the gateways of a route to be inserted; returns those that nobody had before.
    fn track(&mut self, prefix: PrefixOf<A>, route: &Route) -> Result<Vec<A>, Refusal> {
        let mut fresh = Vec::new();
        for gateway in recursive(route) {
            if self.gateways.id(gateway).is_none() {
                match self.next_hops.recursive(gateway.ip()) {
                    Ok(id) => self.gateways.track(gateway, id),
                    Err(error) => {
                        self.untrack(prefix, Some(route.clone()));
                        return Err(error.into());
                    }
                }
                fresh.push(gateway);
            }
            self.gateways.add_user(gateway, prefix);
        }
        Ok(fresh)
    }

    /// Forgets the gateways of a route that is gone, where no other route to `prefix` has them.
    fn untrack(&mut self, prefix: PrefixOf<A>, route: Option<Route>) {
        for gateway in route.iter().flat_map(recursive::<A>) {
            if self.table.routes(prefix).iter().flat_map(recursive).any(|other: A| other == gateway) {
                continue;
            }
            if let Some(id) = self.gateways.remove_user(gateway, prefix) {
                self.released.extend(self.next_hops.set_target(id, None));
                self.released.push(id);
            }
        }
    }

    /// The routes to `prefix` have changed: finds out what follows, and does it.
    fn settle(&mut self, prefix: PrefixOf<A>, fresh: &[A]) -> Result<(), Refusal> {
        let mut first = self.gateways.under(self.table, prefix);
        first.extend(fresh);
        first.sort_unstable();
        first.dedup();
        if first.is_empty() {
            return self.settle_one(prefix);
        }
        let settled = self.gateways.settle(self.table, &first);
        let result = self.follow(prefix, &settled);
        if result.is_err() {
            self.gateways.restore(settled);
        }
        result
    }

    /// The same where no gateway is concerned, as for nearly every route: one prefix may have another next hop, no more.
    fn settle_one(&mut self, prefix: PrefixOf<A>) -> Result<(), Refusal> {
        let Some(entry) = self.table.get(prefix) else { return Ok(()) };
        let before = self.table.chosen(entry);
        let now = match self.gateways.choose(prefix, self.table.of(entry)) {
            Some((at, way)) => Some((at, acquire(self.next_hops, self.gateways, &way.next)?)),
            None => None,
        };
        let (had, has) = (before.map(|(_, id)| id), now.map(|(_, id)| id));
        if before == now {
            // As it was: the use is one too many.
            has.into_iter().for_each(|id| self.next_hops.release(id));
            return Ok(());
        }
        let changed = match has {
            _ if had == has => Ok(()),
            Some(id) => self.lookup.insert(prefix, id).map(drop),
            None => self.lookup.remove(prefix).map(drop),
        };
        if let Err(error) = changed {
            has.into_iter().for_each(|id| self.next_hops.release(id));
            return Err(error.into());
        }
        self.released.extend(had);
        self.table.set_chosen(prefix, now);
        Ok(())
    }

    fn follow(&mut self, prefix: PrefixOf<A>, settled: &Settled<A>) -> Result<(), Refusal> {
        let mut again = BTreeSet::from([prefix]);
        for (gateway, before) in &settled.0 {
            let Some(now) = self.gateways.state(*gateway) else { continue };
            again.extend(before.carrier);
            again.extend(now.carrier);
            if before.way.is_some() != now.way.is_some() {
                again.extend(self.gateways.users(*gateway));
            }
        }
        let mut plan = Plan { choices: Vec::new(), targets: Vec::new() };
        if let Err(error) = self.plan(&mut plan, again, settled) {
            self.give_back(plan);
            return Err(error.into());
        }
        let before = self.set_targets(&plan.targets);
        // What is reached in another way says so before anybody is sent there, and what is lost after nobody is.
        let reached: Vec<NextHopId> = plan.targets.iter().filter(|(_, to)| to.is_some()).map(|(id, _)| *id).collect();
        self.next_hops.refresh(&reached);
        if let Err(error) = self.change_lookup(&plan.choices) {
            // In the order that keeps next hops from leading to each other meanwhile.
            let undo: Vec<_> = plan.targets.iter().map(|(id, _)| *id).zip(before).rev().collect();
            self.set_targets(&undo);
            let ids: Vec<NextHopId> = undo.iter().map(|(id, _)| *id).collect();
            self.next_hops.refresh(&ids);
            self.give_back(plan);
            return Err(error.into());
        }
        let lost: Vec<NextHopId> = plan.targets.iter().filter(|(_, to)| to.is_none()).map(|(id, _)| *id).collect();
        self.next_hops.refresh(&lost);
        self.released.extend(before.into_iter().flatten());
        for Choice { prefix, before, now } in plan.choices {
            self.released.extend(before);
            self.table.set_chosen(prefix, now);
        }
        Ok(())
    }

    /// Gives every next hop a use that is going to be needed.
    fn plan(
        &mut self,
        plan: &mut Plan<A>,
        again: BTreeSet<PrefixOf<A>>,
        settled: &Settled<A>,
    ) -> Result<(), NextHopError> {
        for (gateway, before) in &settled.0 {
            let (Some(now), Some(id)) = (self.gateways.state(*gateway), self.gateways.id(*gateway)) else { continue };
            let (before, now) = (before.way.as_ref().map(|way| &way.next), now.way.as_ref().map(|way| &way.next));
            if before != now {
                let target = now.map(|spec| acquire(self.next_hops, self.gateways, spec)).transpose()?;
                plan.targets.push((id, target));
            }
        }
        for prefix in again {
            let entry = self.table.get(prefix);
            let before = entry.and_then(|entry| self.table.chosen(entry));
            let chosen = entry.and_then(|entry| self.gateways.choose(prefix, self.table.of(entry)));
            let now = match chosen {
                Some((at, way)) => Some((at, acquire(self.next_hops, self.gateways, &way.next)?)),
                None => None,
            };
            if before == now {
                // As it was: the use is one too many.
                now.iter().for_each(|(_, id)| self.next_hops.release(*id));
            } else {
                plan.choices.push(Choice { prefix, before: before.map(|(_, id)| id), now });
            }
        }
        Ok(())
    }

    fn give_back(&mut self, plan: Plan<A>) {
        let choices = plan.choices.iter().filter_map(|choice| choice.now.map(|(_, id)| id));
        choices.chain(plan.targets.iter().filter_map(|(_, to)| *to)).for_each(|id| self.next_hops.release(id));
    }

    fn set_targets(&mut self, targets: &[(NextHopId, Option<NextHopId>)]) -> Vec<Option<NextHopId>> {
        targets.iter().map(|(id, to)| self.next_hops.set_target(*id, *to)).collect()
    }

    /// Stores what is new before what is gone, as only the former needs room.
    fn change_lookup(&mut self, choices: &[Choice<A>]) -> Result<(), LookupError> {
        let different = choices.iter().filter(|choice| choice.before != choice.now.map(|(_, id)| id));
        let (mut order, removes): (Vec<_>, Vec<_>) = different.partition(|choice| choice.now.is_some());
        order.extend(removes);
        let mut done = 0;
        let result = order.iter().try_for_each(|choice| {
            match choice.now {
                Some((_, id)) => drop(self.lookup.insert(choice.prefix, id)?),
                None => drop(self.lookup.remove(choice.prefix)?),
            }
            done += 1;
            Ok(())
        });
        if result.is_err() {
            for choice in order[..done].iter().rev() {
                let undone = match choice.before {
                    Some(id) => self.lookup.insert(choice.prefix, id).map(drop),
                    None => self.lookup.remove(choice.prefix).map(drop),
                };
                // What fitted a moment ago fits; should it not, the prefix keeps its new next hop, and that its meaning.
                if let (Err(_), Some((_, id))) = (undone, choice.now) {
                    self.next_hops.retain(id);
                }
            }
        }
        result
    }
}

/// One more use of the next hop that is meant.
fn acquire<A: Family>(
    next_hops: &mut NextHopWriter,
    gateways: &Gateways<A>,
    spec: &Spec<A>,
) -> Result<NextHopId, NextHopError>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    match spec {
        Spec::Fixed(id) => Ok(*id),
        Spec::Via(via) => next_hops.acquire(*via),
        Spec::Recursive(gateway) => {
            let id = gateways.id(*gateway).unwrap_or(NextHopId::UNREACHABLE);
            next_hops.retain(id);
            Ok(id)
        }
        Spec::Group(members) => {
            let mut ids = Vec::with_capacity(members.len());
            let group = members
                .iter()
                .try_for_each(|(member, weight)| {
                    ids.push((acquire(next_hops, gateways, member)?, *weight));
                    Ok(())
                })
                .and_then(|()| next_hops.acquire_group(&ids));
            ids.into_iter().for_each(|(id, _)| next_hops.release(id));
            group
        }
    }
}

/// A whole table with its next hops, not in use yet.
pub(crate) struct Loaded<A: Family> {
    pub table: Table<A>,
    pub gateways: Gateways<A>,
    /// What the lookup structure should hold.
    pub list: Vec<(PrefixOf<A>, NextHopId)>,
}

impl<A: Family> Loaded<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    pub fn new(via_default: bool) -> Self {
        Self { table: Table::default(), gateways: Gateways::new(via_default), list: Vec::new() }
    }

    /// Adds a route; nothing follows from it before [`settle`](Self::settle).
    pub fn insert(
        &mut self,
        next_hops: &mut NextHopWriter,
        prefix: PrefixOf<A>,
        route: Route,
    ) -> Result<(), NextHopError> {
        for gateway in recursive(&route) {
            if self.gateways.id(gateway).is_none() {
                self.gateways.track(gateway, next_hops.recursive(gateway.ip())?);
            }
            self.gateways.add_user(gateway, prefix);
        }
        if let Some(replaced) = self.table.insert(prefix, route) {
            for gateway in recursive::<A>(&replaced) {
                let others = self.table.routes(prefix).iter().flat_map(recursive).any(|other: A| other == gateway);
                if let Some(id) = (!others).then(|| self.gateways.remove_user(gateway, prefix)).flatten() {
                    next_hops.release(id);
                }
            }
        }
        Ok(())
    }

    /// Finds all ways, and the next hop of every prefix.
    pub fn settle(&mut self, next_hops: &mut NextHopWriter) -> Result<(), NextHopError> {
        let all: Vec<A> = self.gateways.iter().map(|(gateway, _)| gateway).collect();
        let settled = self.gateways.settle(&self.table, &all);
        let mut ids = Vec::with_capacity(settled.0.len());
        for (gateway, _) in &settled.0 {
            let (state, id) = (self.gateways.state(*gateway), self.gateways.id(*gateway));
            let (Some(way), Some(id)) = (state.and_then(|state| state.way.as_ref()), id) else { continue };
            let target = acquire(next_hops, &self.gateways, &way.next)?;
            next_hops.set_target(id, Some(target));
            ids.push(id);
        }
        next_hops.refresh(&ids);
        let (gateways, list) = (&self.gateways, &mut self.list);
        list.reserve(self.table.tree.len());
        self.table.choose_all(|prefix, routes| {
            let Some((at, way)) = gateways.choose(prefix, routes) else { return Ok(None) };
            let id = acquire(next_hops, gateways, &way.next)?;
            list.push((prefix, id));
            Ok(Some((at, id)))
        })
    }

    /// Puts this table in place of another, which is left in its own.
    pub fn swap(mut self, table: &mut Table<A>, gateways: &mut Gateways<A>) -> Self {
        std::mem::swap(&mut self.table, table);
        std::mem::swap(&mut self.gateways, gateways);
        self
    }

    /// The next hops' uses that this table has, which is not to be used any more.
    pub fn uses(&self, next_hops: &mut NextHopWriter) -> Vec<NextHopId> {
        let mut ids: Vec<NextHopId> = self.table.tree.iter().filter_map(|(_, entry)| entry.next_hop()).collect();
        for (_, id) in self.gateways.iter() {
            ids.extend(next_hops.set_target(id, None));
            ids.push(id);
        }
        ids
    }
}
