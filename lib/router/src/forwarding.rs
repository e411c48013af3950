// SPDX-License-Identifier: MIT
//! The tables that decide where packets go, and how workers get to see them.
//!
//! ```text
//!  configuration ─┐                            ┌─ patched in place ──────────────────► lookup structures ─┐
//!  operator ──────┤                            │                                                          ├─► workers
//!  Linux ─────────┼─► routing: RIB ─► next hops┴─ commit ─► other memory? ─ publish ─► tables ────────────┘
//!  slow path ─────┘            ▲                                        └─ staging ──► scripts that are loaded
//!  (neighbors)                 └ interfaces
//! ```
//!
//! | file | contents |
//! | --- | --- |
//! | `routing.rs` | [`Routing`]: routes, interfaces, and what follows from them |
//! | `configured.rs` | the configuration's interfaces and routes, translated for the table and back |
//! | `multicast.rs` | routes of groups |
//! | `operator.rs` | routes added and deleted while the router runs |
//! | `reload.rs` | a whole new table replaces this one |
//! | `linux.rs` | the part that the follower of Linux may touch |

mod configured;
mod error;
mod filters;
mod linux;
mod multicast;
mod operator;
mod reload;
mod routing;
#[cfg(test)]
mod tests;

pub(crate) use configured::with_links;
pub use error::ForwardingError;
pub use filters::{Filters, Tally};
pub(crate) use multicast::{Asks, decide};
pub(crate) use routing::{Gateways, Links, Routing, Undo};

use crate::lookups::Lookups;
use crate::room::Room;
use perigee_config::Config;
use perigee_fib::{Fib, Interfaces, NextHopWriter, Published, Rib, Subscriber};
use perigee_modules::policer::Policer;
use perigee_modules::{Tables, Taps};
use perigee_net::{InterfaceId, MacAddr, Prefix};
use perigee_packet::PortInfo;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for next hops; each costs 8 bytes once it is used.
const NEXT_HOPS: u32 = NextHopWriter::MAX;

/// A published value that several control threads share. Workers never take this lock: they have subscribers.
type SharedTables = Arc<Mutex<Published<Tables>>>;

/// Locks, also after a panic elsewhere: the value is only ever replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Separate tables that scripts are loaded with, so that a script finds new interfaces before workers do.
#[derive(Clone)]
pub struct Staging(SharedTables);

impl Staging {
    /// A subscriber to the tables that the next script is loaded with.
    pub fn subscribe(&self) -> Subscriber<Tables> {
        lock(&self.0).subscribe()
    }
}

/// Routes, interfaces, filters and taps of a router, and their publication.
pub struct Forwarding {
    routing: Routing,
    lookups: Lookups,
    /// MAC addresses by port number.
    macs: Vec<MacAddr>,
    /// The ports' numbers, in the order of the configuration.
    numbers: Vec<u16>,
    filters: Filters,
    /// The taps, if any packets are to be looked at.
    taps: Option<Arc<Taps>>,
    /// What [`tables`](Self::tables) shows of the routes.
    shown: Fib,
    /// Whether tables must be published even if no route changes: there are other interfaces or filters.
    renewed: bool,
    /// The tables that workers have.
    published: SharedTables,
    /// The tables that scripts are loaded with.
    staging: Staging,
    /// The gateways that the slow path was asked to resolve.
    gateways: Gateways,
    /// The last reported error about routes that do not fit.
    reported: Option<ForwardingError>,
    refused_neighbors: u64,
}

impl Forwarding {
    /// Routes, interfaces and filters of the configuration, on the ports as they were opened.
    ///
    /// # Errors
    /// An interface or a route does not fit.
    pub fn new(
        config: &Config,
        ports: &[PortInfo],
        filters: Filters,
        lookups: Lookups,
    ) -> Result<Forwarding, ForwardingError> {
        let width = ports.iter().map(|port| usize::from(port.port) + 1).max().unwrap_or(0);
        let mut macs = vec![MacAddr::ZERO; width];
        ports.iter().for_each(|port| macs[usize::from(port.port)] = port.mac);
        let interfaces = configured::interfaces(config, ports)?;
        let numbers: Vec<u16> = ports.iter().map(|port| port.port).collect();
        let filters = filters.policing(config, &numbers).counting(config);
        let mut fib = lookups.make(&config.router.fib, NEXT_HOPS)?;
        fib.set_seed(seed(&macs));
        let links = Links { interfaces, ..Links::default() };
        let room = Arc::new(Mutex::new(Room::new(config.router.max_routes)));
        let routing = Routing::new(fib, config, links, Vec::new(), room)?;
        let shown = routing.fib().reader();
        let tables = || tables(&shown, &routing, &filters, &macs, None);
        let share = || Arc::new(Mutex::new(Published::new(tables())));
        let (published, staging) = (share(), Staging(share()));
        Ok(Forwarding {
            routing,
            lookups,
            macs,
            numbers,
            filters,
            taps: None,
            shown,
            renewed: false,
            published,
            staging,
            gateways: Gateways::new(),
            reported: None,
            refused_neighbors: 0,
        })
    }

    /// A worker's subscriber.
    pub fn subscribe(&self) -> Subscriber<Tables> {
        lock(&self.published).subscribe()
    }

    /// What workers are shown.
    pub(crate) fn published(&self) -> Arc<Tables> {
        lock(&self.published).current()
    }

    /// Calls this at every new version of the workers' tables: for a subscriber that sleeps.
    pub fn wake_by(&self, wake: Box<dyn Fn() + Send>) {
        lock(&self.published).wake_by(wake);
    }

    /// The tables that scripts are loaded with.
    pub fn staging(&self) -> Staging {
        self.staging.clone()
    }

    /// Routes and interfaces.
    pub(crate) fn routing(&self) -> &Routing {
        &self.routing
    }

    /// All routes.
    pub(crate) fn rib(&self) -> Rib<'_> {
        self.routing.rib()
    }

    pub(crate) fn interfaces(&self) -> &Arc<Interfaces> {
        self.routing.interfaces()
    }

    /// The version of the tables that workers have, or soon will.
    pub(crate) fn version(&self) -> u64 {
        lock(&self.published).version()
    }

    /// The lookup structures of IPv4 and IPv6: name, bytes, and, for `auto`, why this one was chosen.
    pub(crate) fn structures(&self) -> [(&'static str, usize, Option<String>); 2] {
        let fib = self.routing.fib();
        let ((v4, v6), [why4, why6]) = (fib.memory(), fib.choice_reasons());
        [(self.shown.v4.name(), v4, why4), (self.shown.v6.name(), v6, why6)]
    }

    /// Whether there are changes that workers do not see yet.
    pub(crate) fn uncommitted(&self) -> bool {
        self.renewed || self.routing.uncommitted()
    }

    /// Whether publishing costs no more than the changes in it; otherwise it may rebuild a whole table.
    pub(crate) fn publish_is_cheap(&self) -> bool {
        self.routing.fib().commit_is_cheap()
    }

    /// From now until it is [published](Self::publish) what changes is collected, and then made together, in less time
    /// than one by one. The routes are up to date all the time.
    pub fn hold(&mut self) {
        self.routing.hold();
    }

    /// Routes of this prefix will change soon: see [`FibWriter::prefetch`](perigee_fib::FibWriter::prefetch).
    pub fn prefetch(&self, prefix: Prefix) {
        self.routing.fib().prefetch(prefix);
    }

    /// Makes all changes visible to workers, publishing new tables if necessary. To be called once for all changes of a
    /// round.
    ///
    /// # Errors
    /// A route does not fit; it is tried again with the next change. Everything else is visible.
    pub fn publish(&mut self) -> Result<(), ForwardingError> {
        // A lookup structure may be waiting for the memory of old tables that nobody holds any more.
        lock(&self.published).reclaim();
        let done = self.routing.commit();
        let reader = self.routing.fib().reader();
        if std::mem::take(&mut self.renewed) || !reader.is_same(&self.shown) {
            self.shown = reader;
            let mut staging = lock(&self.staging.0);
            staging.publish(self.tables());
            staging.reclaim();
            lock(&self.published).publish(self.tables());
        }
        Ok(done?)
    }

    /// Publishes where no caller can take an error: it is logged, but only once, as the route is tried again with each
    /// change.
    pub(crate) fn publish_or_warn(&mut self) {
        if let Err(error) = self.publish() {
            self.warn_of(error);
        }
    }

    fn warn_of(&mut self, error: ForwardingError) {
        if self.reported.as_ref() != Some(&error) {
            tracing::warn!("a route is not in the forwarding table: {error}");
            self.reported = Some(error);
        }
    }

    /// Frees tables and memory that no worker can hold any more.
    pub fn reclaim(&mut self) {
        let mut published = lock(&self.published);
        published.reclaim();
        lock(&self.staging.0).reclaim();
        self.routing.reclaim(|| published.grace());
    }

    fn tables(&self) -> Tables {
        tables(&self.shown, &self.routing, &self.filters, &self.macs, self.taps.clone())
    }

    /// The configuration's filters.
    pub fn filters(&self) -> &Filters {
        &self.filters
    }

    /// What ports may give the slow path.
    pub fn policer(&self) -> Option<Arc<Policer>> {
        self.filters.policer.clone()
    }

    /// Replaces the filters; workers get them with the next tables. Returns the previous ones.
    fn set_filters(&mut self, filters: Filters) -> Filters {
        self.renewed = true;
        std::mem::replace(&mut self.filters, filters)
    }

    /// Replaces the workers' taps.
    pub(crate) fn set_taps(&mut self, taps: Option<Arc<Taps>>) {
        if taps.is_some() || self.taps.is_some() {
            self.taps = taps;
            lock(&self.published).publish(self.tables());
        }
    }

    /// A neighbor has been resolved, changed or (without a MAC address) lost. One that finds no room stays in the slow
    /// path; it is counted, and logged once.
    pub fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        if let Err(error) = self.routing.set_neighbor(interface, address, mac) {
            self.refused_neighbors += 1;
            if self.refused_neighbors == 1 {
                tracing::warn!("packets to the neighbor {address} stay in the slow path: {error}");
            }
        }
    }

    /// The ports of these numbers have no link, and all others have one: routes over them are out of use.
    pub fn set_links(&mut self, no_link: BTreeSet<u16>) {
        if let Err(error) = self.routing.set_links(no_link) {
            self.warn_of(error.into());
        }
    }

    /// Whether some prefixes have yet to choose among their routes again, as links have changed.
    pub(crate) fn links_are_followed(&self) -> bool {
        self.routing.fib().links_are_followed()
    }

    /// Lets some prefixes choose among their routes again.
    pub(crate) fn follow_links(&mut self) {
        if let Err(error) = self.routing.follow_links() {
            self.warn_of(error.into());
        }
    }

    /// How many neighbors the tables have refused.
    pub(crate) fn refused_neighbors(&self) -> u64 {
        self.refused_neighbors
    }

    /// How the gateways that routes need resolved have changed since the last call: new ones, and those that no route
    /// needs any more.
    pub(crate) fn changed_gateways(&mut self) -> (Gateways, Gateways) {
        let now = self.routing.gateways();
        let before = std::mem::replace(&mut self.gateways, now);
        (&self.gateways - &before, &before - &self.gateways)
    }
}

fn tables(fib: &Fib, routing: &Routing, filters: &Filters, macs: &[MacAddr], taps: Option<Arc<Taps>>) -> Tables {
    Tables::new(fib.clone(), routing.interfaces().clone(), filters.deny.clone(), macs)
        .with_hits(filters.tally.hits.clone())
        .with_steer(filters.steer.clone())
        .with_exceptions(routing.exceptions())
        .with_multicast(routing.multicast().for_workers())
        .with_policer(filters.policer.clone())
        .with_taps(taps)
}

/// A seed that makes this router choose among equal paths differently from other routers, and the same after reloads
/// and restarts: it is made of the MAC addresses.
fn seed(macs: &[MacAddr]) -> u32 {
    // FNV-1a (Fowler, Noll, Vo) with 32 bits; its weaknesses do not matter, as it is mixed again with each flow.
    let bytes = macs.iter().flat_map(|mac| mac.octets());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
