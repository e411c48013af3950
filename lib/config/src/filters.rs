// SPDX-License-Identifier: MIT
//! `[[filter]]`: which packets are dropped.

use perigee_net::{FiveTuple, Rule};

use super::Config;
use super::kind::{choice, required};
use super::reader::Section;
use super::section::{Context, section};
use super::tuples::read_tuple;

section! {
    /// A rule about IP packets that ports receive, in the fast path and the slow path: forwarded, for the router itself, for groups and
    /// broadcasts, with options or extension headers, fragments. The first rule that matches decides; a packet that none matches goes on. A
    /// packet that does not show its ports or its protocol (a later fragment) is dropped if a drop rule could match it. An accept rule before
    /// it that certainly matches takes precedence.
    pub(crate) struct FilterKeys(context) keys {
        /// What happens to the packets.
        action: Option<Action>, required(choice(ACTIONS)), default None => "required", live;
        /// Whose packets it is about: those that `ports` receive, those that `linux` sends by the twins, or `both`.
        from: FilteredFrom, choice(FROM), default FilteredFrom::Ports, live;
    }
}

/// `[[filter]]`: one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The packets it is about.
    pub tuple: FiveTuple,
    /// What happens to them.
    pub action: Action,
    /// Where they come from.
    pub from: FilteredFrom,
}

impl Config {
    /// The filters about packets from one side, in the file's order, each with its place in the file.
    pub fn filter_rules(&self, from: FilteredFrom) -> impl Iterator<Item = Rule> {
        let all = (0..).zip(&self.filters);
        let about = all.filter(move |(_, filter)| filter.from == from || filter.from == FilteredFrom::Both);
        about.map(|(number, filter)| Rule { tuple: filter.tuple, deny: filter.action == Action::Drop, number })
    }
}

/// Whose packets a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilteredFrom {
    /// Those that ports receive.
    Ports,
    /// Those that Linux sends by the twins.
    Linux,
    /// Both.
    Both,
}

const FROM: &[(&str, FilteredFrom)] =
    &[("ports", FilteredFrom::Ports), ("linux", FilteredFrom::Linux), ("both", FilteredFrom::Both)];

/// What a filter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Lets the packet go on.
    Accept,
    /// Drops it.
    Drop,
}

const ACTIONS: &[(&str, Action)] = &[("accept", Action::Accept), ("drop", Action::Drop)];

impl FilterKeys {
    /// The keys that describe `filter`, besides those of its tuple.
    pub fn of(filter: &Filter) -> Self {
        let Filter { tuple: _, action, from } = filter;
        Self { action: Some(*action), from: *from }
    }
}

pub(crate) fn read_filters(root: &mut Section, context: &Context) -> Vec<Filter> {
    let mut filters = Vec::new();
    for mut section in root.tables("filter") {
        let tuple = read_tuple(&mut section, context);
        let FilterKeys { action, from } = FilterKeys::read(&mut section, context);
        filters.extend(action.map(|action| Filter { tuple, action, from }));
        section.finish();
    }
    filters
}
