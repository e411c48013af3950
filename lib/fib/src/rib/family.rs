// SPDX-License-Identifier: MIT
//! Everything the control thread keeps for one address family, and how a change of a route runs through it.
//!
//! ```text
//! FamilyTables::insert, remove
//!   track, untrack   which gateways routes name without an interface
//!   table            the route enters or leaves the routing table
//!   settle           what follows from that:
//!     settle_prefix    nearly always: this prefix alone may get another next hop
//!     follow           a gateway is affected: plan, acquire every next hop, then store
//!   lookup           what workers read: a store per prefix, or collected until commit
//! ```
//!
//! A change takes effect completely or not at all: whatever may fail comes before the first store, or is undone.

use std::collections::BTreeSet;

use crate::lookup::{LookupError, LookupWriter};
use crate::next_hop::NextHopId;
use crate::next_hop::writer::{NextHopError, NextHopWriter};
use crate::rib::entries::{Entry, Store, Table};
use crate::rib::links::Sweep;
use crate::rib::loaded::Loaded;
use crate::rib::recursion::{Family, Gateways, Settled, Spec, recursive};
use perigee_net::{Prefix, PrefixOf, Route, RouteKey};

/// One family's routes, the gateways that they name without an interface, and the lookup structure that follows from
/// both.
pub(crate) struct FamilyTables<A: Family> {
    pub table: Table<A>,
    pub gateways: Gateways<A>,
    pub lookup: Box<dyn LookupWriter<A>>,
    /// How many routes there are.
    pub routes: usize,
    held: Held<A>,
    /// The prefixes whose routes have yet to be chosen again, as links have changed.
    pub sweep: Option<Sweep<A>>,
}

/// Changes of next hops that the lookup structure has yet to get.
struct Held<A> {
    /// Whether changes are collected, until the next commit.
    on: bool,
    /// Those that are, in order.
    changes: Vec<(PrefixOf<A>, Option<NextHopId>)>,
    /// Prefixes that it had no room for, and that are not in it: when others leave, a few are tried again.
    refused: BTreeSet<PrefixOf<A>>,
    /// The first error since the last commit that nobody has been told.
    untold: Option<LookupError>,
}

/// So many refused prefixes are tried again in a commit that removes prefixes: each may have a whole table rebuilt in
/// vain.
const AGAIN: usize = 4;

/// So many collected changes keep their memory.
const LARGE: usize = 1 << 14;

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

/// What a change is about to do; it holds a use of every next hop in it.
struct Plan<A> {
    /// Prefixes whose route or next hop changes.
    choices: Vec<Choice<A>>,
    /// Recursive next hops with their new targets, if any.
    targets: Vec<(NextHopId, Option<NextHopId>)>,
}

struct Choice<A> {
    prefix: PrefixOf<A>,
    before: Option<NextHopId>,
    now: Option<(usize, NextHopId)>,
}

impl<A: Family> FamilyTables<A>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    /// No routes yet; `lookup` is empty.
    pub fn new(lookup: Box<dyn LookupWriter<A>>) -> Self {
        let held = Held { on: false, changes: Vec::new(), refused: BTreeSet::new(), untold: None };
        Self { table: Table::default(), gateways: Gateways::new(false), lookup, routes: 0, held, sweep: None }
    }

    /// From now until the next [`commit`](Self::commit) the lookup structure gets changes together.
    pub fn hold(&mut self) {
        self.held.on = true;
    }

    /// Whether readers do not see some change yet. A prefix that was refused is not waited for.
    pub fn uncommitted(&self) -> bool {
        !self.held.changes.is_empty() || self.lookup.uncommitted()
    }

    /// Whether the lookup structure had no room for what a held change wanted of a prefix.
    pub fn is_refused(&self, prefix: PrefixOf<A>) -> bool {
        self.held.refused.contains(&prefix)
    }

    /// Makes all changes visible. After an error all others are; what was refused is tried again when other prefixes
    /// leave.
    pub fn commit(&mut self) -> Result<(), LookupError> {
        self.held.on = false;
        let held = self.let_go();
        let commit = self.lookup.commit();
        // Unless it has found room meanwhile.
        let still = |error: &LookupError| match error {
            LookupError::Full { prefix, .. } => {
                self.held.refused.iter().any(|refused| Prefix::from(*refused) == *prefix)
            }
            _ => !self.held.refused.is_empty() || !self.held.changes.is_empty(),
        };
        let untold = self.held.untold.take().filter(still);
        untold.map_or(Ok(()), Err).and(held).and(commit)
    }

    /// Gives the lookup structure what is held back.
    fn let_go(&mut self) -> Result<(), LookupError> {
        let Held { changes, refused, .. } = &mut self.held;
        if changes.is_empty() {
            return Ok(());
        }
        for (prefix, _) in &*changes {
            refused.remove(prefix);
        }
        if changes.iter().any(|(_, id)| id.is_none()) {
            // There may be room now. What the routes want may have changed since.
            for prefix in (0..AGAIN).map_while(|_| refused.pop_first()) {
                changes.push((prefix, self.table.get(prefix).and_then(Entry::next_hop)));
            }
        }
        // Stable, so that the last change of a prefix stays behind the others; that one counts.
        changes.sort_by_key(|(prefix, _)| *prefix);
        changes.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                *kept = *later;
            }
            same
        });
        // New next hops before prefixes leave: where several take the place of a shorter one, no address is without a
        // route in between.
        changes.sort_by_key(|(_, id)| id.is_none());
        let sets = changes.partition_point(|(_, id)| id.is_some());
        let (mut result, mut again) = (Ok(()), Vec::new());
        for mut rest in [&changes[..sets], &changes[sets..]] {
            while let Err((done, error)) = self.lookup.change_all(rest) {
                let change @ (prefix, id) = rest[done];
                // What has no room leaves: its old next hop may be given to others, and must not be found any more. A
                // removal needs no room.
                if id.is_some() && error.is_for_want_of_room() && absent(self.lookup.remove(prefix)).is_ok() {
                    refused.insert(prefix);
                } else {
                    again.push(change);
                }
                result = result.and(Err(error));
                rest = &rest[done + 1..];
            }
        }
        changes.clear();
        changes.extend(again);
        changes.shrink_to(LARGE);
        result
    }

    /// Adds a route, replacing the one with the same key; returns whether that changes anything.
    pub fn insert(
        &mut self,
        next_hops: &mut NextHopWriter,
        prefix: PrefixOf<A>,
        route: Route,
    ) -> Result<bool, Refusal> {
        if recursive::<A>(&route).next().is_none() && !self.gateways.are_inside(prefix) {
            return self.insert_plain(next_hops, prefix, route);
        }
        if self.table.get(prefix).is_some_and(|entry| self.table.store.has(entry, &route)) {
            return Ok(false);
        }
        let key = route.key();
        let fresh = self.track(next_hops, prefix, &route)?;
        let replaced = self.table.insert(prefix, route);
        let result = self.settle(next_hops, prefix, &fresh);
        self.routes += usize::from(result.is_ok() && replaced.is_none());
        let gone = match (&result, replaced) {
            (Ok(()), replaced) => replaced,
            (Err(_), Some(before)) => self.table.insert(prefix, before),
            (Err(_), None) => self.table.remove(prefix, key),
        };
        self.table.clean_up(prefix);
        self.untrack(next_hops, prefix, gone);
        result.map(|()| true)
    }

    /// As [`insert`](Self::insert) for the usual route: no gateway that is reached over other routes has to do with it.
    /// The prefix is looked for once.
    fn insert_plain(
        &mut self,
        next_hops: &mut NextHopWriter,
        prefix: PrefixOf<A>,
        route: Route,
    ) -> Result<bool, Refusal> {
        let Self { table: Table { tree, store }, gateways, lookup, routes, held, .. } = self;
        let entry = tree.get_or_insert(prefix, Entry::EMPTY);
        if store.has(entry, &route) {
            return Ok(false);
        }
        let key = route.key();
        let replaced = store.insert(entry, route);
        if let Err(refusal) = settle_entry(next_hops, gateways, &mut **lookup, held, store, prefix, entry) {
            match replaced {
                Some(before) => drop(store.insert(entry, before)),
                None => drop(store.remove(entry, key)),
            }
            self.table.clean_up(prefix);
            return Err(refusal);
        }
        *routes += usize::from(replaced.is_none());
        self.untrack(next_hops, prefix, replaced);
        Ok(true)
    }

    /// As [`remove`](Self::remove) where no gateway has to do with it.
    fn remove_plain(
        &mut self,
        next_hops: &mut NextHopWriter,
        prefix: PrefixOf<A>,
        key: RouteKey,
    ) -> Result<Option<Route>, Refusal> {
        let Self { table: Table { tree, store }, gateways, lookup, held, .. } = self;
        let Some(mut place) = tree.occupied(prefix) else { return Ok(None) };
        let entry = place.get_mut();
        let chosen = store.chosen(entry);
        let Some(route) = store.remove(entry, key) else { return Ok(None) };
        if let Err(refusal) = settle_entry(next_hops, gateways, &mut **lookup, held, store, prefix, entry) {
            store.insert(entry, route);
            store.set_chosen(entry, chosen);
            return Err(refusal);
        }
        if !place.get().has_routes() {
            place.remove();
        }
        self.routes -= 1;
        self.untrack(next_hops, prefix, Some(route.clone()));
        Ok(Some(route))
    }

    /// Removes a route and returns it; `None` if there is none with this key.
    pub fn remove(
        &mut self,
        next_hops: &mut NextHopWriter,
        prefix: PrefixOf<A>,
        key: RouteKey,
    ) -> Result<Option<Route>, Refusal> {
        if !self.gateways.are_inside(prefix) {
            return self.remove_plain(next_hops, prefix, key);
        }
        let chosen = self.table.get(prefix).and_then(|entry| self.table.chosen(entry));
        let Some(route) = self.table.remove(prefix, key) else { return Ok(None) };
        if let Err(refusal) = self.settle(next_hops, prefix, &[]) {
            self.table.insert(prefix, route);
            self.table.set_chosen(prefix, chosen);
            return Err(refusal);
        }
        self.table.clean_up(prefix);
        self.routes -= 1;
        self.untrack(next_hops, prefix, Some(route.clone()));
        Ok(Some(route))
    }

    /// Records the gateways of a route to be inserted; returns those that no route has named before.
    fn track(&mut self, next_hops: &mut NextHopWriter, prefix: PrefixOf<A>, route: &Route) -> Result<Vec<A>, Refusal> {
        let mut fresh = Vec::new();
        for gateway in recursive(route) {
            if self.gateways.id(gateway).is_none() {
                match next_hops.recursive(gateway.ip()) {
                    Ok(id) => self.gateways.track(gateway, id),
                    Err(error) => {
                        self.untrack(next_hops, prefix, Some(route.clone()));
                        return Err(error.into());
                    }
                }
                fresh.push(gateway);
            }
            self.gateways.add_user(gateway, prefix);
        }
        Ok(fresh)
    }

    /// Forgets the gateways of a route that is gone, unless another route to `prefix` has them.
    fn untrack(&mut self, next_hops: &mut NextHopWriter, prefix: PrefixOf<A>, route: Option<Route>) {
        for gateway in route.iter().flat_map(recursive::<A>) {
            if self.table.routes(prefix).iter().flat_map(recursive).any(|other: A| other == gateway) {
                continue;
            }
            if let Some(id) = self.gateways.remove_user(gateway, prefix) {
                let target = next_hops.set_target(id, None);
                next_hops.release_at_commit(target.into_iter().chain([id]));
            }
        }
    }

    /// The routes to `prefix` have changed: makes the gateways, the next hops and the lookup structure follow.
    fn settle(&mut self, next_hops: &mut NextHopWriter, prefix: PrefixOf<A>, fresh: &[A]) -> Result<(), Refusal> {
        let mut first = self.gateways.carried_by(&self.table, prefix);
        first.extend(fresh);
        first.sort_unstable();
        first.dedup();
        if first.is_empty() {
            return self.settle_prefix(next_hops, prefix);
        }
        // What follows is stored at once. What has no room stays behind, and is no reason to refuse this; the commit
        // says so.
        if let Err(error) = self.let_go() {
            self.held.untold.get_or_insert(error);
        }
        let settled = self.gateways.settle(&self.table, &first);
        let result = self.follow(next_hops, prefix, &settled);
        if result.is_err() {
            self.gateways.restore(settled);
        }
        result
    }

    /// The usual case: no gateway is affected, and at most this one prefix gets another next hop.
    pub(super) fn settle_prefix(&mut self, next_hops: &mut NextHopWriter, prefix: PrefixOf<A>) -> Result<(), Refusal> {
        let Self { table: Table { tree, store }, gateways, lookup, held, .. } = self;
        match tree.get_mut(prefix) {
            Some(entry) => settle_entry(next_hops, gateways, &mut **lookup, held, store, prefix, entry),
            None => Ok(()),
        }
    }

    fn follow(
        &mut self,
        next_hops: &mut NextHopWriter,
        prefix: PrefixOf<A>,
        settled: &Settled<A>,
    ) -> Result<(), Refusal> {
        let affected = self.affected_prefixes(prefix, settled);
        let mut plan = Plan { choices: Vec::new(), targets: Vec::new() };
        if let Err(error) = self.plan(next_hops, &mut plan, affected, settled) {
            give_back(next_hops, plan);
            return Err(error.into());
        }
        let before = set_targets(next_hops, &plan.targets);
        // A gateway's new way is stored before any packet is sent to it, the loss of one after the last.
        let reached: Vec<NextHopId> = plan.targets.iter().filter(|(_, to)| to.is_some()).map(|(id, _)| *id).collect();
        next_hops.refresh(&reached);
        if let Err(error) = self.change_lookup(next_hops, &plan.choices) {
            // In reverse, so that next hops never lead to one another in between.
            let undo: Vec<_> = plan.targets.iter().map(|(id, _)| *id).zip(before).rev().collect();
            set_targets(next_hops, &undo);
            let ids: Vec<NextHopId> = undo.iter().map(|(id, _)| *id).collect();
            next_hops.refresh(&ids);
            give_back(next_hops, plan);
            return Err(error.into());
        }
        let lost: Vec<NextHopId> = plan.targets.iter().filter(|(_, to)| to.is_none()).map(|(id, _)| *id).collect();
        next_hops.refresh(&lost);
        next_hops.release_at_commit(before.into_iter().flatten());
        for Choice { prefix, before, now } in plan.choices {
            next_hops.release_at_commit(before);
            self.table.set_chosen(prefix, now);
        }
        Ok(())
    }

    /// The prefixes whose choice of a route must be made again after `prefix` and these gateways have changed.
    fn affected_prefixes(&self, prefix: PrefixOf<A>, settled: &Settled<A>) -> BTreeSet<PrefixOf<A>> {
        let mut affected = BTreeSet::from([prefix]);
        for (gateway, before) in &settled.0 {
            let Some(now) = self.gateways.state(*gateway) else { continue };
            affected.extend(before.carrier);
            affected.extend(now.carrier);
            if before.way.is_some() != now.way.is_some() {
                affected.extend(self.gateways.users(*gateway));
            }
        }
        affected
    }

    /// Works out the new targets and choices, and acquires their next hops.
    fn plan(
        &self,
        next_hops: &mut NextHopWriter,
        plan: &mut Plan<A>,
        affected: BTreeSet<PrefixOf<A>>,
        settled: &Settled<A>,
    ) -> Result<(), NextHopError> {
        for (gateway, before) in &settled.0 {
            let (Some(now), Some(id)) = (self.gateways.state(*gateway), self.gateways.id(*gateway)) else { continue };
            let (before, now) = (before.way.as_ref().map(|way| &way.next), now.way.as_ref().map(|way| &way.next));
            if before != now {
                let target = now.map(|spec| acquire(next_hops, &self.gateways, spec)).transpose()?;
                plan.targets.push((id, target));
            }
        }
        for prefix in affected {
            let entry = self.table.get(prefix);
            let before = entry.and_then(|entry| self.table.chosen(entry));
            let chosen = entry.and_then(|entry| self.gateways.choose(prefix, self.table.routes_of(entry)));
            let now = match chosen {
                Some((at, way)) => Some((at, acquire(next_hops, &self.gateways, &way.next)?)),
                None => None,
            };
            if before == now {
                // Nothing has changed: the use just acquired is one too many.
                now.iter().for_each(|(_, id)| next_hops.release(*id));
            } else {
                plan.choices.push(Choice { prefix, before: before.map(|(_, id)| id), now });
            }
        }
        Ok(())
    }

    /// Stores new next hops before it removes prefixes, as only the former takes room.
    fn change_lookup(&mut self, next_hops: &mut NextHopWriter, choices: &[Choice<A>]) -> Result<(), LookupError> {
        let different = choices.iter().filter(|choice| choice.before != choice.now.map(|(_, id)| id));
        let (mut order, removes): (Vec<_>, Vec<_>) = different.partition(|choice| choice.now.is_some());
        order.extend(removes);
        let mut done = 0;
        let result = order.iter().try_for_each(|choice| {
            match choice.now {
                Some((_, id)) => drop(self.lookup.insert(choice.prefix, id)?),
                None => absent(self.lookup.remove(choice.prefix))?,
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
                // What fitted a moment ago should fit again. If it does not, the prefix keeps its new next hop, which
                // must then keep its meaning.
                if let (Err(_), Some((_, id))) = (undone, choice.now) {
                    next_hops.retain(id);
                }
            }
        }
        result
    }

    /// Writes what the routes say about `prefix` and the prefixes inside it to the lookup structure, whatever that is
    /// believed to hold; returns how many prefixes were written. Of many, the whole table is loaded.
    pub fn repair(&mut self, prefix: PrefixOf<A>) -> Result<usize, LookupError> {
        // What was refused is no reason not to repair the rest.
        let _ = self.let_go();
        let Self { table, lookup, held: Held { refused, .. }, .. } = self;
        if table.covered_by(prefix).nth(LOAD_ABOVE).is_some() {
            let mut all = table.list();
            all.retain(|(prefix, _)| !refused.contains(prefix));
            lookup.load(&all)?;
            return Ok(all.len());
        }
        let mut written = 0;
        if table.get(prefix).is_none() {
            erase(table, &mut **lookup, prefix)?;
        }
        for (prefix, entry) in table.covered_by(prefix) {
            match entry.next_hop() {
                Some(id) => match lookup.insert(prefix, id) {
                    Ok(_) => drop(refused.take(&prefix)),
                    Err(_) if refused.contains(&prefix) => continue,
                    Err(error) => return Err(error),
                },
                None => erase(table, &mut **lookup, prefix)?,
            }
            written += 1;
        }
        Ok(written)
    }

    /// Puts a loaded table in place of the routes, which are returned.
    pub fn replace(&mut self, mut loaded: Loaded<A>) -> Loaded<A> {
        std::mem::swap(&mut self.table, &mut loaded.table);
        std::mem::swap(&mut self.gateways, &mut loaded.gateways);
        std::mem::swap(&mut self.routes, &mut loaded.routes);
        self.held.changes.clear();
        self.held.refused.clear();
        // It was made with the links as they are.
        self.sweep = None;
        loaded
    }
}

/// Chooses among the routes of an entry again, where no gateway is affected: at most this prefix gets another next hop.
fn settle_entry<A: Family>(
    next_hops: &mut NextHopWriter,
    gateways: &Gateways<A>,
    lookup: &mut dyn LookupWriter<A>,
    held: &mut Held<A>,
    store: &mut Store,
    prefix: PrefixOf<A>,
    entry: &mut Entry,
) -> Result<(), Refusal>
where
    PrefixOf<A>: prefix_trie::Prefix,
{
    let before = store.chosen(entry);
    let now = match gateways.choose(prefix, store.routes_of(entry)) {
        Some((at, way)) => Some((at, acquire(next_hops, gateways, &way.next)?)),
        None => None,
    };
    let (had, has) = (before.map(|(_, id)| id), now.map(|(_, id)| id));
    if before == now {
        // Nothing has changed: the use just acquired is one too many.
        has.into_iter().for_each(|id| next_hops.release(id));
        return Ok(());
    }
    let changed = match has {
        _ if had == has => Ok(()),
        _ if held.on => {
            held.changes.push((prefix, has));
            Ok(())
        }
        Some(id) => lookup.insert(prefix, id).map(drop),
        None => absent(lookup.remove(prefix)),
    };
    if let Err(error) = changed {
        has.into_iter().for_each(|id| next_hops.release(id));
        return Err(error.into());
    }
    if had != has && !held.on {
        held.refused.remove(&prefix);
    }
    next_hops.release_at_commit(had);
    store.set_chosen(entry, now);
    Ok(())
}

/// A removal of a prefix that was refused before, and so is not there, is none.
fn absent(removed: Result<NextHopId, LookupError>) -> Result<(), LookupError> {
    match removed {
        Ok(_) | Err(LookupError::Missing { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// A repair of more prefixes than this loads the whole table: that is faster then, and removes whatever is in the
/// lookup structure by mistake.
const LOAD_ABOVE: usize = 10_000;

/// Makes sure that the lookup structure does not hold a prefix, and that readers see so.
fn erase<A: Family>(
    table: &Table<A>,
    lookup: &mut dyn LookupWriter<A>,
    prefix: PrefixOf<A>,
) -> Result<(), LookupError> {
    // Inserted first, so that everything readers see of it is written even if the structure does not believe to hold
    // it; and with the next hop that they see without it.
    lookup.insert(prefix, table.next_hop_around(prefix, false).unwrap_or(NextHopId::NO_ROUTE))?;
    lookup.remove(prefix).map(drop)
}

fn give_back<A>(next_hops: &mut NextHopWriter, plan: Plan<A>) {
    let choices = plan.choices.iter().filter_map(|choice| choice.now.map(|(_, id)| id));
    choices.chain(plan.targets.iter().filter_map(|(_, to)| *to)).for_each(|id| next_hops.release(id));
}

/// Returns the old targets, whose uses become the caller's.
pub(super) fn set_targets(
    next_hops: &mut NextHopWriter,
    targets: &[(NextHopId, Option<NextHopId>)],
) -> Vec<Option<NextHopId>> {
    targets.iter().map(|(id, to)| next_hops.set_target(*id, *to)).collect()
}

/// Takes one more use of the next hop that `spec` describes.
pub(super) fn acquire<A: Family>(
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
