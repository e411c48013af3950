// SPDX-License-Identifier: MIT
//! Reload of configuration and script: everything changes, or nothing does. A thread reads the files, also the script,
//! as a file system or the helper, who opens what the router may not, can take long to answer.
//!
//! ```text
//!  files ► configuration ─► filters ─► tables beside the old ones ─► script loads with them ─► workers see them
//!             │ mistakes       │ refused         │ do not fit               │ mistakes        slow path, Linux follow
//!             └────────────────┴─────────────────┴──────────────────────────┴──► all as it was
//! ```

use crate::backends::{Progress, ReadScript, Refusal, ScriptSource};
use crate::forwarding::Filters;
use crate::linux::ReloadChange;
use crate::slow::{Settings, SlowThread};
use perigee_api::answers::Outcome;
use perigee_api::queries::Reload;
use perigee_api::{ApiError, Reply};
use perigee_config::{self as config, Config};
use perigee_fib::Interfaces;
use perigee_helper::{HelperError, LinkChange, TwinWanted};
use perigee_linux::{Input as FromLinux, missing_link_local};
use perigee_net::InterfaceAddress;
use perigee_slowpath::Input;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The script's generation, a sentence about each thing that did not fit, and how many links the helper was asked to
/// change.
type Reloaded = (u64, Vec<String>, usize);

/// How long workers have for a first round with a new script, in addition to its stall budget, in ns. Far more than
/// needed: the machine may be busy.
const PATIENCE: u64 = 30_000_000_000;

/// What was asked for, and what was read for it.
struct Read {
    /// Reloads are numbered as they are asked for, from 1.
    number: u64,
    config: Result<(Config, Result<ScriptSource, Refusal>), config::ConfigError>,
    reply: Reply<Outcome>,
}

/// Reloads whose files are being read.
pub(crate) struct Reads {
    /// The number of the last one that was asked for, and of the last one whose files have been read.
    asked: u64,
    taken: u64,
    sender: Sender<Read>,
    done: Receiver<Read>,
}

impl Default for Reads {
    fn default() -> Reads {
        let (sender, done) = channel();
        Reads { asked: 0, taken: 0, sender, done }
    }
}

/// A reload that is answered once every worker runs the new script, and the helper has changed Linux.
pub(crate) struct Reloading {
    generation: u64,
    message: String,
    /// Links that the helper has still to change. Its answers come within a bound, those that say that there is none
    /// as well.
    links: usize,
    /// What it has refused.
    refused: Vec<String>,
    deadline: u64,
    reply: Reply<Outcome>,
}

impl SlowThread {
    /// Reads the configuration and the script again; changes everything or nothing. The answer waits for the files and
    /// the workers.
    pub(crate) fn reload(&mut self, query: Reload, reply: Reply<Outcome>) {
        let Settings { path, machine, read, .. } = &self.parts.settings;
        let (path, machine, read) = (path.clone(), machine.clone(), read.clone());
        self.reads.asked += 1;
        let number = self.reads.asked;
        let (sender, bell) = (self.reads.sender.clone(), Arc::clone(self.parts.mailbox.bell()));
        let reader = self.parts.scripts.reader();
        let body = move || {
            let config = Config::load_by(&path, &machine, &*read).map(|config| {
                let script = script_of(query, &config, reader);
                (config, script)
            });
            // The slow path's thread may be gone.
            let _ = sender.send(Read { number, config, reply });
            bell.ring();
        };
        // Without a thread the reply is dropped, which is an answer.
        if let Err(error) = std::thread::Builder::new().name("reload".to_owned()).spawn(body) {
            tracing::warn!("not reloaded: there is no thread to read the files: {error}");
        }
    }

    /// Continues the reloads whose files have been read; returns whether there was one.
    pub(crate) fn take_reads(&mut self) -> bool {
        let mut any = false;
        while let Ok(Read { number, config, reply }) = self.reads.done.try_recv() {
            any = true;
            // A later one may have read its files sooner: what this one has read is older.
            if number < self.reads.taken {
                let why = "nothing was changed, as a later reload has read its files sooner";
                reply.send(Err(ApiError::conflict(why.to_owned())));
                continue;
            }
            self.reads.taken = number;
            self.reload_to(config, reply);
        }
        any
    }

    fn reload_to(
        &mut self,
        config: Result<(Config, Result<ScriptSource, Refusal>), config::ConfigError>,
        reply: Reply<Outcome>,
    ) {
        let config = config.map_err(|error| ApiError::invalid(error.to_string()));
        match config.and_then(|(config, script)| self.reload_all(config, script)) {
            Ok((generation, message, links)) => {
                let budget = self.parts.settings.config.router.stall_budget.as_nanos() as u64;
                let deadline = self.now() + budget + PATIENCE;
                self.reloading.push(Reloading { generation, message, links, refused: Vec::new(), deadline, reply });
                self.answer_reloads();
            }
            Err(error) => {
                tracing::warn!("not reloaded: {error}");
                reply.send(Err(error));
            }
        }
    }

    /// Answers the reloads whose script runs on all workers, or will not.
    pub(crate) fn answer_reloads(&mut self) {
        let now = self.now();
        for reloading in std::mem::take(&mut self.reloading) {
            if reloading.links > 0 {
                self.reloading.push(reloading);
                continue;
            }
            let message = &reloading.message;
            let error = match self.parts.scripts.progress(reloading.generation) {
                Progress::Running if !reloading.refused.is_empty() => {
                    Some(format!("{}; everything else is as configured", reloading.refused.join("; ")))
                }
                Progress::Running => None,
                Progress::Late(_) if now < reloading.deadline => {
                    self.reloading.push(reloading);
                    continue;
                }
                Progress::Late(workers) => {
                    let workers: Vec<String> = workers.iter().map(usize::to_string).collect();
                    Some(format!("worker {} does not run it yet: {message}", workers.join(", ")))
                }
                Progress::Replaced(why) => Some(format!("{why}; everything else is as configured")),
            };
            match error {
                None => tracing::info!("reloaded: {message}"),
                Some(ref error) => tracing::warn!("reloaded, but {error}"),
            }
            let answer = error.map_or_else(|| Ok(Outcome { message: message.clone() }), |e| Err(ApiError::conflict(e)));
            reloading.reply.send(answer);
        }
    }

    fn reload_all(
        &mut self,
        config: Config,
        script: Result<ScriptSource, Refusal>,
    ) -> Result<(u64, String, usize), ApiError> {
        let before = &self.parts.settings.config;
        let changed = before.restart_needed(&config);
        if !changed.is_empty() {
            let message = format!("nothing was changed, as a change of {} needs a restart", changed.join(", "));
            return Err(ApiError::conflict(message));
        }
        let filters = self.parts.rebuild.filters(&config);
        let filters = filters.map_err(|refusal| ApiError::invalid(refusal.to_string()))?;
        // A changed filter is no reason to rebuild a table with a million routes of Linux.
        let stays = config.router.fib == before.router.fib && config.interfaces == before.interfaces;
        let script = script.map_err(|error| ApiError::invalid(error.to_string()))?;
        let name = script.name();
        let (generation, lost, links) = match stays {
            true => self.reload_in_place(config, filters, script)?,
            false => self.reload_beside(config, filters, script)?,
        };
        let routes = self.parts.forwarding.rib().prefixes();
        let mut message = format!("script {name} (generation {generation}), {routes} prefixes");
        lost.iter().for_each(|route| message.push_str(&format!("; {route}")));
        self.parts.scripts.set_budgets(&self.parts.settings.config.router);
        Ok((generation, message, links))
    }

    /// For unchanged interfaces and lookup structures: static routes, filters and script change in place.
    fn reload_in_place(
        &mut self,
        config: Config,
        filters: Filters,
        script: ScriptSource,
    ) -> Result<Reloaded, ApiError> {
        let forwarding = &mut self.parts.forwarding;
        let change = forwarding.change_in_place(&self.parts.settings.config, &config, filters);
        let change = change.map_err(|error| ApiError::invalid(error.to_string()))?;
        let generation = match self.parts.scripts.replace(script) {
            Ok(generation) => generation,
            Err(error) => {
                forwarding.take_back(change);
                return Err(ApiError::invalid(error.to_string()));
            }
        };
        forwarding.publish_or_warn();
        let before = std::mem::replace(&mut self.parts.settings.config, config);
        self.linux.configure(&self.parts.settings.config);
        self.follow_neighbors(&before);
        let links = self.follow_addresses(&before, generation);
        Ok((generation, Vec::new(), links))
    }

    /// For other interfaces or lookup structures: new tables are built beside the old ones, then replace them.
    fn reload_beside(&mut self, config: Config, filters: Filters, script: ScriptSource) -> Result<Reloaded, ApiError> {
        let (forwarding, infos) = (&mut self.parts.forwarding, self.parts.ports.infos());
        let configs = (&self.parts.settings.config, &config);
        let replacement = forwarding.prepare(configs, &infos, filters, self.slow.neighbors().filter(|n| n.reported));
        let mut replacement = replacement.map_err(|error| ApiError::invalid(error.to_string()))?;
        // The script is loaded with the new tables, so that it finds new interfaces by name.
        let generation = match self.parts.scripts.replace(script) {
            Ok(generation) => generation,
            Err(error) => {
                forwarding.abandon(replacement);
                return Err(ApiError::invalid(error.to_string()));
            }
        };
        let lost = std::mem::take(&mut replacement.lost);
        let interfaces = forwarding.adopt(replacement);
        let before = std::mem::replace(&mut self.parts.settings.config, config);
        self.follow_interfaces(&interfaces);
        self.follow_neighbors(&before);
        let links = self.follow_addresses(&before, generation);
        self.linux.configure(&self.parts.settings.config);
        self.linux.follower.interfaces_renumbered();
        self.follow_effects();
        Ok((generation, lost, links))
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

    /// Brings the twins, and Linux's VLANs on them, to the new configuration's addresses and MTUs, whatever somebody
    /// has changed meanwhile. The helper's thread does it: this one never waits. Returns how many answers come.
    fn follow_addresses(&mut self, before: &Config, generation: u64) -> usize {
        self.make_new_vlans();
        self.delete_old_vlans(before);
        let has = |port, vlan| self.linux.follower.addresses_at(port, vlan);
        let mut asked = 0;
        for (place, mut change) in link_changes(before, &self.parts.settings.config, &has) {
            // By its number: it may have been renamed.
            if let Some((index, name)) = self.linux.follower.link_at(place.0, place.1) {
                (change.index, change.name) = (Some(index), name);
            }
            let vlan = place.1.is_some();
            if self.linux.change_link(ReloadChange { generation, vlan, change: change.clone() }) {
                asked += 1;
                // Said at once: until Linux reports it, the follower would put the old addresses back.
                self.report(FromLinux::LinkChanged(change));
            }
        }
        asked
    }

    /// The helper has changed a link for a reload, or not.
    pub(crate) fn link_changed(&mut self, wanted: ReloadChange, result: Result<(), HelperError>) {
        let ReloadChange { generation, vlan, change } = wanted;
        let refused = match result {
            // Once more: Linux may have reported the old ones meanwhile.
            Ok(()) => {
                self.report(FromLinux::LinkChanged(change));
                None
            }
            Err(error) => {
                // What Linux has is the follower's again.
                let _ = self.linux.follower.resync();
                self.follow_effects();
                // The kernel may have no VLAN interfaces, or the VLAN is new.
                if vlan {
                    tracing::info!("{error}; {} is the router's alone, and Linux does not see its change", change.name);
                }
                (!vlan).then(|| format!("the twin {} keeps its old addresses: {error}", change.name))
            }
        };
        let reloading = self.reloading.iter_mut().find(|reloading| reloading.generation == generation);
        if let Some(reloading) = reloading {
            reloading.links -= 1;
            reloading.refused.extend(refused);
        }
        self.answer_reloads();
    }
}

impl SlowThread {
    /// Makes Linux's interfaces of the configuration's VLANs that have none. A kernel without VLAN devices gets none.
    fn make_new_vlans(&mut self) {
        let config = &self.parts.settings.config;
        for interface in &config.interfaces {
            let Some(vlan) = interface.vlan else { continue };
            let (at, follower) = (usize::from(interface.port), &self.linux.follower);
            let (None, Some((_, twin))) = (follower.link_at(at, Some(vlan)), follower.link_at(at, None)) else {
                continue;
            };
            let Some(mac) = self.parts.ports.get(at).map(|port| port.info.mac) else { continue };
            let link_local = missing_link_local(&interface.addresses, mac, interface.mtu);
            let wanted = TwinWanted {
                name: interface.name.clone(),
                mac,
                mtu: interface.mtu,
                namespace: config.router.namespace.clone(),
                addresses: interface.addresses.iter().copied().chain(link_local).collect(),
                up: true,
            };
            self.linux.make_vlan(twin, vlan, wanted);
        }
    }

    /// Deletes Linux's interfaces of VLANs that the configuration names no more, whoever has made them; those of
    /// another name are somebody else's, and stay.
    fn delete_old_vlans(&mut self, before: &Config) {
        let now = &self.parts.settings.config;
        let stays = |old: &config::Interface| now.interfaces.iter().any(|i| (i.port, i.vlan) == (old.port, old.vlan));
        for old in before.interfaces.iter().filter(|old| old.vlan.is_some() && !stays(old)) {
            let link = self.linux.follower.link_at(usize::from(old.port), old.vlan);
            let Some((index, name)) = link.filter(|(_, name)| *name == old.name) else { continue };
            let namespace = now.router.namespace.clone();
            self.linux.delete_vlan(LinkChange {
                name,
                index: Some(index),
                namespace,
                delete: true,
                ..LinkChange::default()
            });
        }
    }
}

/// The script of a reload: the client's, or the file that it or the configuration names, or the built-in one.
fn script_of(query: Reload, config: &Config, read: ReadScript) -> Result<ScriptSource, Refusal> {
    match query {
        Reload { script: Some(path), text: Some(text) } => Ok(ScriptSource::Text(path, text)),
        Reload { script: Some(path), text: None } => read(&path).map(|text| ScriptSource::Text(path, text)),
        Reload { script: None, .. } => match config.router.script.clone() {
            Some(path) => match read(&path) {
                Ok(text) => Ok(ScriptSource::Text(path, text)),
                Err(error) => Err(config.unreadable_script(&error.to_string()).into()),
            },
            None => Ok(ScriptSource::BuiltIn),
        },
    }
}

/// Where an interface is: the port's index and the VLAN.
type Place = (usize, Option<u16>);

/// What changes for Linux where interfaces of ports with twins have another MTU than `before`, or lack addresses there,
/// or have some that were the configuration's. `has`: the addresses that Linux has at a place, where they are known.
fn link_changes(
    before: &Config,
    now: &Config,
    has: &dyn Fn(usize, Option<u16>) -> Option<Vec<InterfaceAddress>>,
) -> Vec<(Place, LinkChange)> {
    let change = |interface: &config::Interface| {
        let place = |other: &&config::Interface| (other.port, other.vlan) == (interface.port, interface.vlan);
        let had = before.interfaces.iter().find(place)?;
        let there = has(usize::from(interface.port), interface.vlan).unwrap_or_else(|| had.addresses.clone());
        let missing_from = |list: &[InterfaceAddress], other: &[InterfaceAddress]| -> Vec<InterfaceAddress> {
            list.iter().filter(|address| !other.contains(address)).copied().collect()
        };
        let change = LinkChange {
            name: had.name.clone(),
            namespace: now.router.namespace.clone(),
            mtu: (had.mtu != interface.mtu).then_some(interface.mtu),
            remove: missing_from(&had.addresses, &interface.addresses),
            add: missing_from(&interface.addresses, &there),
            ..LinkChange::default()
        };
        let changes = change.mtu.is_some() || !change.remove.is_empty() || !change.add.is_empty();
        changes.then_some(((usize::from(interface.port), interface.vlan), change))
    };
    let with_twin = |interface: &&config::Interface| now.ports[usize::from(interface.port)].twin;
    now.interfaces.iter().filter(with_twin).filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(twin: bool, port: &str, vlan: &str) -> Config {
        let text = format!(
            "[port.wan]\ndevice = \"net_null0\"\ntwin = {twin}\n{port}\n[port.wan.vlan.100]\n{vlan}\n[[worker]]\ncore = 0\n"
        );
        Config::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn linux_hears_of_addresses_and_mtus_of_twins_and_vlans() {
        let unknown = |_: usize, _: Option<u16>| None;
        let before = config(true, "addresses = [\"10.0.0.1/24\"]", "addresses = [\"10.1.0.1/24\", \"10.2.0.1/24\"]");
        assert_eq!(link_changes(&before, &before, &unknown), []);
        let now =
            config(true, "addresses = [\"10.0.0.1/24\"]", "addresses = [\"10.1.0.1/24\", \"10.3.0.1/24\"]\nmtu = 1400");
        let changes = link_changes(&before, &now, &unknown);
        let [((0, Some(100)), change)] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!((change.name.as_str(), change.mtu), ("wan.100", Some(1400)));
        assert_eq!(
            (change.remove[0].to_string(), change.add[0].to_string()),
            ("10.2.0.1/24".into(), "10.3.0.1/24".into())
        );
        let (had, has) = (config(false, "", ""), config(false, "addresses = [\"10.0.0.9/24\"]", ""));
        assert_eq!(link_changes(&had, &has, &unknown), [], "no twin, nothing in Linux");
    }

    /// An address that somebody had removed stayed away, and a reload said that all was well.
    #[test]
    fn what_linux_has_lost_comes_back_though_the_file_is_the_same() {
        let same = config(true, "addresses = [\"10.0.0.1/24\", \"10.0.0.2/24\"]", "");
        let has = |port: usize, vlan: Option<u16>| {
            // One of an operator's is left alone.
            let there = ["10.0.0.2/24", "10.0.0.77/24"].map(|text| text.parse().unwrap());
            (port == 0 && vlan.is_none()).then(|| there.to_vec())
        };
        let changes = link_changes(&same, &same, &has);
        let [((0, None), change)] = &changes[..] else { panic!("{changes:?}") };
        assert_eq!(
            (change.add[..].len(), change.add[0].to_string(), change.remove.len()),
            (1, "10.0.0.1/24".into(), 0)
        );
    }

    #[test]
    fn a_change_of_a_twin_is_asked_for_in_its_namespace() {
        let with = |address: &str| {
            let text = format!(
                "[router]\nnamespace = \"outside\"\n[port.wan]\ndevice = \"net_null0\"\naddresses = [\"{address}\"]\n\
                 [[worker]]\ncore = 0\n"
            );
            Config::parse("test.toml", &text).unwrap_or_else(|error| panic!("{error}"))
        };
        let (before, now) = (with("10.0.0.1/24"), with("10.0.0.2/24"));
        let changes = link_changes(&before, &now, &|_, _| None);
        let [(_, change)] = &changes[..] else { panic!("{changes:?}") };
        assert!(change.namespace.is_some() && change.namespace == now.router.namespace);
    }
}
