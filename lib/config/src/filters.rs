// SPDX-License-Identifier: MIT
//! `[[filter]]`: rules of the fast path's filter.

use perigee_net::FiveTuple;

use super::kind::{choice, required};
use super::reader::Section;
use super::section::{Context, section};
use super::tuples::read_tuple;

section! {
    /// A rule of the fast path's filter. The first rule that matches decides; a packet that none matches goes on.
    pub(crate) struct FilterKeys(context) keys {
        /// What happens to the packets.
        action: Option<Action>, required(choice(ACTIONS)), default None => "required", live;
    }
}

/// `[[filter]]`: one rule of the fast path's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The packets it is about.
    pub tuple: FiveTuple,
    /// What happens to them.
    pub action: Action,
}

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
        let Filter { tuple: _, action } = filter;
        Self { action: Some(*action) }
    }
}

pub(crate) fn read_filters(root: &mut Section, context: &Context) -> Vec<Filter> {
    let mut filters = Vec::new();
    for mut section in root.tables("filter") {
        let tuple = read_tuple(&mut section, context);
        let FilterKeys { action } = FilterKeys::read(&mut section, context);
        filters.extend(action.map(|action| Filter { tuple, action }));
        section.finish();
    }
    filters
}
