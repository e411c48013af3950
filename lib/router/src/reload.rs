// SPDX-License-Identifier: MIT
//! Reload of configuration and script: everything changes, or nothing does.
//!
//! ```text
//!  file ─► configuration ─► filters ─► tables beside the old ones ─► script loads with them ─► workers see them
//!             │ mistakes       │ refused         │ do not fit               │ mistakes        slow path, Linux follow
//!             └────────────────┴─────────────────┴──────────────────────────┴──► all as it was
//! ```

use crate::forwarding::Filters;
use crate::slow::SlowThread;
use perigee_api::ApiError;
use perigee_api::answers::{Outcome, ScriptStatus};
use perigee_config::{Config, Steer};
use perigee_fib::Interfaces;
use perigee_helper::LinkChange;
use perigee_slowpath::Input;
use std::path::{Path, PathBuf};

/// The scripts, as the control side sees them.
pub trait ScriptControl: Send {
    /// Replaces the script on all workers by the one at a path, or by the built-in one. Returns its generation.
    ///
    /// # Errors
    /// Why it does not load: file and line. The old one goes on.
    fn replace(&self, path: Option<&Path>) -> Result<u64, String>;
    /// One per worker.
    fn status(&self) -> Vec<ScriptView>;
}

/// A worker's script, to be shown.
pub type ScriptView = ScriptStatus;

/// Makes what a new configuration needs.
pub trait Rebuild: Send {
    /// Whether the devices of all ports that a steer is about carry it out themselves.
    fn in_hardware(&self, steer: &Steer) -> bool;
    /// The compiled filters.
    ///
    /// # Errors
    /// A sentence.
    fn filters(&self, config: &Config) -> Result<Filters, String>;
}

/// The script's generation, and what did not fit, a sentence each.
type Reloaded = (u64, Vec<String>);

impl SlowThread {
    /// Reads the configuration and the script again; changes everything or nothing.
    pub(crate) fn reload(&mut self, script: Option<&Path>) -> Result<Outcome, ApiError> {
        let settings = &self.parts.settings;
        let invalid = |error: String| ApiError::invalid(error);
        let config = Config::load_on(&settings.path, &settings.machine).map_err(|error| invalid(error.to_string()))?;
        let before = &settings.config;
        let changed = before.restart_needed(&config);
        if !changed.is_empty() {
            let message = format!("nothing was changed, as a change of {} needs a restart", changed.join(", "));
            return Err(ApiError::conflict(message));
        }
        let filters = self.parts.rebuild.filters(&config).map_err(invalid)?;
        // A million routes of Linux need not be looked up again for a filter.
        let stays = config.router.fib == before.router.fib && config.interfaces == before.interfaces;
        let path = script.map(Path::to_owned).or_else(|| config.router.script.clone());
        let (generation, lost) = match stays {
            true => self.reload_in_place(config, filters, path.as_deref())?,
            false => self.reload_beside(config, filters, path.as_deref())?,
        };
        let routes = self.parts.forwarding.rib().prefixes();
        let name = path.map_or("built-in".to_owned(), |path: PathBuf| path.display().to_string());
        let mut message = format!("script {name} (generation {generation}), {routes} prefixes");
        lost.iter().for_each(|route| message.push_str(&format!("; {route}")));
        Ok(Outcome { message })
    }

    /// The same interfaces and lookup structures: static routes, filters and script change where they are.
    fn reload_in_place(
        &mut self,
        config: Config,
        filters: Filters,
        script: Option<&Path>,
    ) -> Result<Reloaded, ApiError> {
        let forwarding = &mut self.parts.forwarding;
        let change = forwarding.change_in_place(&self.parts.settings.config, &config, filters);
        let change = change.map_err(|error| ApiError::invalid(error.to_string()))?;
        let generation = match self.parts.scripts.replace(script) {
            Ok(generation) => generation,
            Err(error) => {
                forwarding.take_back(change);
                return Err(ApiError::invalid(error));
            }
        };
        forwarding.publish_or_warn();
        let before = std::mem::replace(&mut self.parts.settings.config, config);
        self.linux.configure(&self.parts.settings.config);
        self.follow_neighbors(&before);
        Ok((generation, Vec::new()))
    }

    /// Other interfaces or lookup structures: everything is built beside what there is, and takes its place.
    fn reload_beside(&mut self, config: Config, filters: Filters, script: Option<&Path>) -> Result<Reloaded, ApiError> {
        let (forwarding, infos) = (&mut self.parts.forwarding, self.parts.ports.infos());
        let configs = (&self.parts.settings.config, &config);
        let replacement = forwarding.prepare(configs, &infos, filters, self.slow.neighbors());
        let mut replacement = replacement.map_err(|error| ApiError::invalid(error.to_string()))?;
        // The script is loaded with the new tables, so that it finds new interfaces by name.
        let generation = match self.parts.scripts.replace(script) {
            Ok(generation) => generation,
            Err(error) => {
                forwarding.abandon(replacement);
                return Err(ApiError::invalid(error));
            }
        };
        let lost = std::mem::take(&mut replacement.lost);
        let interfaces = forwarding.adopt(replacement);
        let before = std::mem::replace(&mut self.parts.settings.config, config);
        self.follow_interfaces(&interfaces);
        self.follow_neighbors(&before);
        self.follow_addresses(&before);
        self.linux.configure(&self.parts.settings.config);
        self.linux.follower.interfaces_renumbered();
        self.follow_effects();
        Ok((generation, lost))
    }

    /// Brings the slow path to other interfaces.
    fn follow_interfaces(&mut self, before: &Interfaces) {
        let now = self.parts.forwarding.interfaces().clone();
        for (id, interface) in before.iter() {
            if now.get(id).is_none_or(|same| same.name != interface.name) {
                self.tell(Input::RemoveInterface { id });
            }
        }
        self.set_interfaces();
    }

    /// Brings the slow path to the new configuration's neighbors and gateways.
    fn follow_neighbors(&mut self, before: &Config) {
        let kept = self.parts.settings.config.neighbors.clone();
        for gone in before.neighbors.iter().filter(|neighbor| !kept.contains(neighbor)) {
            self.tell(Input::UnsetNeighbor { interface: gone.interface, address: gone.address });
        }
        self.set_static_neighbors();
        self.follow_gateways();
    }

    /// Brings the twins to the new configuration's addresses.
    fn follow_addresses(&self, before: &Config) {
        let (config, Some(helper)) = (&self.parts.settings.config, &self.linux.helper) else { return };
        for (index, port) in config.ports.iter().enumerate().filter(|(_, port)| port.twin) {
            let addresses = |config: &Config| config.interfaces.get(index).map_or(vec![], |i| i.addresses.clone());
            let (now, had) = (addresses(config), addresses(before));
            let change = LinkChange {
                name: port.name.clone(),
                namespace: config.router.namespace.clone(),
                remove: had.iter().filter(|address| !now.contains(address)).copied().collect(),
                add: now.into_iter().filter(|address| !had.contains(address)).collect(),
                ..LinkChange::default()
            };
            if let Err(error) = helper.change_link(&change) {
                tracing::warn!("the twin {} keeps its old addresses: {error}", port.name);
            }
        }
    }
}
