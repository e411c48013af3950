// SPDX-License-Identifier: MIT
//! What a helper knows of the router. It changes by messages that its standby gets, too, so that either can restore
//! everything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::underlay::Undo;
use perigee_net::Namespace;

/// A change of the state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Change {
    /// An interface is about to be prepared.
    Preparing(Undo),
    /// The one of this number could not be, or was restored, or is gone: there is nothing to restore.
    NotPrepared(u32),
    /// The router has to do with this namespace.
    Entered(Namespace),
    /// The router has an interface or a twin of this name.
    Named(Option<Namespace>, String),
    /// A twin, or a VLAN on one: its name and number. One of the same name, which was made before, is gone.
    Link(Option<Namespace>, String, u32),
    /// An interface of this name is a port that stays Linux's.
    Followed(String),
    /// The VLAN or twin of this number was deleted.
    Deleted(Option<Namespace>, u32),
    /// Interfaces were taken over that a router that was killed has left prepared, as this file said.
    Inherited(PathBuf),
    /// When the router is killed, its interfaces stay prepared, and this file says how to restore them.
    Kept(PathBuf),
    /// A file or an empty folder is to be removed at the end, if it is still this one: device and inode.
    Remove(PathBuf, Option<(u64, u64)>),
    /// The router's configuration.
    Configuration(PathBuf),
    /// The router's process.
    Router(u32),
    /// A sign of life.
    Lives,
    /// The router has started.
    Started,
    /// Everything was restored: there is nothing left to do.
    Restored,
}

/// The state.
#[derive(Debug, Default)]
pub(super) struct State {
    /// How to restore the interfaces that were prepared.
    pub undo: Vec<Undo>,
    /// What to remove at the end.
    pub remove: Vec<(PathBuf, Option<(u64, u64)>)>,
    /// Where it was written how to restore interfaces that a router that was killed has left prepared.
    pub inherited: Option<PathBuf>,
    /// Where it is written how to restore interfaces that stay prepared when the router is killed.
    pub kept: Option<PathBuf>,
    /// The router's configuration.
    pub configuration: Option<PathBuf>,
    /// The router's process.
    pub router: Option<u32>,
    namespaces: BTreeSet<Namespace>,
    names: BTreeSet<(Option<Namespace>, String)>,
    /// Interfaces that are ports and stay Linux's.
    pub followed: BTreeSet<String>,
    links: BTreeMap<(Option<Namespace>, String), u32>,
    /// Whether the router has started: it knows all interfaces and files by then.
    pub started: bool,
    /// Whether there is nothing left to do.
    pub restored: bool,
}

impl State {
    pub fn apply(&mut self, change: Change) {
        match change {
            Change::Preparing(undo) => match self.undo.iter_mut().find(|older| older.index() == undo.index()) {
                Some(older) => *older = undo,
                None => self.undo.push(undo),
            },
            Change::NotPrepared(link) => self.undo.retain(|undo| undo.index() != link),
            Change::Entered(namespace) => drop(self.namespaces.insert(namespace)),
            Change::Named(namespace, name) => drop(self.names.insert((namespace, name))),
            Change::Link(namespace, name, link) => drop(self.links.insert((namespace, name), link)),
            Change::Followed(name) => drop(self.followed.insert(name)),
            Change::Deleted(namespace, link) => {
                self.links.retain(|(place, _), number| *place != namespace || *number != link);
            }
            Change::Inherited(file) => self.inherited = Some(file),
            Change::Kept(file) => self.kept = Some(file),
            Change::Remove(path, identity) => self.remove.push((path, identity)),
            Change::Configuration(path) => self.configuration = Some(path),
            Change::Router(process) => self.router = Some(process),
            Change::Lives => {}
            Change::Started => self.started = true,
            Change::Restored => self.restored = true,
        }
    }

    /// The changes that lead to this state.
    pub fn changes(&self) -> Vec<Change> {
        let entered = self.namespaces.iter().cloned().map(Change::Entered);
        let named = self.names.iter().cloned().map(|(namespace, name)| Change::Named(namespace, name));
        let link = |((namespace, name), link): (&(_, String), &u32)| {
            Change::Link(Clone::clone(namespace), name.clone(), *link)
        };
        let links = self.links.iter().map(link);
        let files = self.remove.iter().cloned().map(|(path, identity)| Change::Remove(path, identity));
        let router = self.router.map(Change::Router);
        let undo = self.undo.iter().cloned().map(Change::Preparing);
        let configuration = self.configuration.clone().map(Change::Configuration);
        let started = self.started.then_some(Change::Started);
        let followed = self.followed.iter().cloned().map(Change::Followed);
        let kept = self.kept.clone().map(Change::Kept);
        let inherited = self.inherited.clone().map(Change::Inherited);
        let all = router
            .into_iter()
            .chain(kept)
            .chain(inherited)
            .chain(entered)
            .chain(followed)
            .chain(named)
            .chain(links)
            .chain(files)
            .chain(undo);
        all.chain(configuration).chain(started).collect()
    }

    /// What is known of an interface that was prepared before: it is restored to what it was then.
    pub fn undo_of(&self, undo: &Undo) -> Option<&Undo> {
        self.undo.iter().find(|older| older.index() == undo.index())
    }

    /// The twins, and VLANs on them, of each namespace: names and numbers.
    pub fn links(&self) -> BTreeMap<Option<Namespace>, Vec<(String, u32)>> {
        let mut all: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for ((namespace, name), link) in &self.links {
            all.entry(namespace.clone()).or_default().push((name.clone(), *link));
        }
        all
    }

    /// Whether the router may have something done in this namespace: once it has started, only where it had something
    /// done before.
    pub fn may_enter(&self, namespace: &Namespace) -> bool {
        !self.started || self.namespaces.contains(namespace)
    }

    /// Whether the router may name this interface: once it has started it names no new ones, whoever has taken it over.
    pub fn may_name(&self, namespace: Option<&Namespace>, name: &str) -> bool {
        !self.started || self.names.contains(&(namespace.cloned(), name.to_owned()))
    }

    /// Whether it is the name of a VLAN on one of the router's twins: the configuration may gain some.
    pub fn may_name_vlan(&self, namespace: Option<&Namespace>, name: &str, vlan: u16) -> bool {
        let twin = name.strip_suffix(&format!(".{vlan}"));
        twin.is_some_and(|twin| self.links.contains_key(&(namespace.cloned(), twin.to_owned())))
    }

    /// The numbers of twins and VLANs in a namespace, which are all that the router may change; `None`: it has not
    /// started yet.
    pub fn changeable(&self, namespace: Option<&Namespace>) -> Option<BTreeSet<u32>> {
        let of_namespace = self.links.iter().filter(|((place, _), _)| place.as_ref() == namespace);
        self.started.then(|| of_namespace.map(|(_, link)| *link).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_the_changes_is_a_copy_of_the_state() {
        let mut state = State::default();
        assert!(state.may_name(None, "wan") && state.changeable(None).is_none());
        let blue = Some(Namespace::Name("blue".into()));
        for change in [
            Change::Entered(blue.clone().unwrap()),
            Change::Named(None, "wan".into()),
            Change::Named(blue.clone(), "lan".into()),
            Change::Link(blue.clone(), "lan".into(), 6),
            Change::Link(blue.clone(), "lan".into(), 7),
            Change::Link(blue.clone(), "lan.8".into(), 8),
            Change::Link(None, "lan.8".into(), 8),
            Change::Deleted(blue.clone(), 8),
            Change::Remove("/run/a".into(), Some((1, 2))),
            Change::Remove("/run".into(), None),
            Change::Configuration("/etc/router.toml".into()),
            Change::Router(7),
            Change::Followed("eth0".into()),
            Change::Inherited("/run/r.kept".into()),
            Change::Kept("/run/r.kept".into()),
            Change::Lives,
            Change::Started,
        ] {
            state.apply(change);
        }
        let mut copy = State::default();
        for change in state.changes() {
            let text = serde_json::to_string(&change).unwrap();
            copy.apply(serde_json::from_str(&text).unwrap());
        }
        assert_eq!(format!("{state:?}"), format!("{copy:?}"));
        assert!(copy.may_name(None, "wan") && !copy.may_name(None, "lan") && copy.may_name(blue.as_ref(), "lan"));
        assert!(copy.may_enter(blue.as_ref().unwrap()) && !copy.may_enter(&Namespace::Name("red".into())));
        assert!(copy.may_name_vlan(blue.as_ref(), "lan.100", 100) && !copy.may_name_vlan(blue.as_ref(), "lan.100", 10));
        assert!(!copy.may_name_vlan(None, "lan.100", 100) && !copy.may_name_vlan(blue.as_ref(), "eth0.100", 100));
        assert_eq!(copy.changeable(blue.as_ref()), Some([7].into()), "the one before is gone");
        assert_eq!(copy.changeable(None), Some([8].into()), "one of that number was deleted elsewhere");
    }
}
