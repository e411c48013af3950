// SPDX-License-Identifier: MIT
//! A whole configuration, checked and resolved: names have become indices, defaults are filled in.

use std::path::PathBuf;

use perigee_net::{MulticastRoute, Prefix, Route};

use super::eal::Eal;
use super::filters::Filter;
use super::interfaces::Interface;
use super::linux::Linux;
use super::mistake::{Mistake, Places};
use super::neighbors::Neighbor;
use super::policer::Policer;
use super::ports::Port;
use super::router::Router;
use super::steers::Steer;
use super::workers::Worker;

/// A whole configuration. Every index in it is valid; every address was checked against the interfaces.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `[router]`.
    pub router: Router,
    /// `[eal]`.
    pub eal: Eal,
    /// `[linux]`.
    pub linux: Linux,
    /// `[policer]`.
    pub policer: Policer,
    /// One per worker, at least one.
    pub workers: Vec<Worker>,
    /// `[port.NAME]` in the order of the file.
    pub ports: Vec<Port>,
    /// The ports' own interfaces (the first `ports.len()` of them, in the same order), then the VLANs'.
    pub interfaces: Vec<Interface>,
    /// `[[route]]`: to a gateway, to several or to nowhere.
    pub routes: Vec<(Prefix, Route)>,
    /// The routes of `routes_file`; filled by [`Config::load`].
    pub file_routes: Vec<(Prefix, Route)>,
    /// `routes_file`, if there is one.
    pub routes_file: Option<PathBuf>,
    /// `[[neighbor]]`.
    pub neighbors: Vec<Neighbor>,
    /// `[[multicast]]`: routes of groups.
    pub multicast: Vec<MulticastRoute>,
    /// `[[filter]]`: the first that matches decides, no match accepts.
    pub filters: Vec<Filter>,
    /// `[[steer]]`.
    pub steers: Vec<Steer>,
    /// Warnings: what is allowed but looks like an oversight.
    pub warnings: Vec<Mistake>,
    /// Where the file names others.
    pub(crate) places: Places,
}

impl Config {
    /// Every route, those of the file last.
    pub fn all_routes(&self) -> impl Iterator<Item = &(Prefix, Route)> {
        self.routes.iter().chain(&self.file_routes)
    }

    /// The mistake of naming a script that cannot be read: `why`, which begins with its name.
    pub fn unreadable_script(&self, why: &str) -> String {
        let message = format!("cannot read the script {why}");
        match self.places.script.clone() {
            Some(place) => place.says(message).to_string(),
            None => message,
        }
    }
}
