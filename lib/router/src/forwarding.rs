// SPDX-License-Identifier: MIT
//! What decides where packets go, and how workers come to see it.
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
//! | `operator.rs` | routes added and deleted while the router runs |
//! | `reload.rs` | a whole other table takes the place of this one |
//! | `linux.rs` | as much of it as the follower of Linux may touch |

mod configured;
mod error;
mod linux;
mod operator;
mod reload;
mod routing;

pub(crate) use configured::with_links;
pub use error::ForwardingError;
pub(crate) use routing::{Gateways, Routing, Undo};

use crate::lookups::Lookups;
use perigee_config::Config;
use perigee_fib::{Fib, Interfaces, NextHopWriter, Published, Rib, Subscriber};
use perigee_modules::rules::Filter;
use perigee_modules::{Tables, Taps};
use perigee_net::{InterfaceId, MacAddr};
use perigee_packet::PortInfo;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Room for next hops; each costs 8 bytes once it is used.
const NEXT_HOPS: u32 = NextHopWriter::MAX;

/// A published value that several control threads share. Workers never take this lock: they have subscribers.
type SharedTables = Arc<Mutex<Published<Tables>>>;

/// Locks, and goes on after a panic elsewhere: the value is replaced as a whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The configuration's filters, compiled.
#[derive(Clone, Default)]
pub struct Filters {
    /// What is dropped.
    pub deny: Option<Arc<dyn Filter>>,
    /// What goes to the slow path, where no device steers it there.
    pub steer: Option<Arc<dyn Filter>>,
}

/// Tables of their own that scripts are loaded with, so that a script finds new interfaces before workers do.
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
    filters: Filters,
    /// Where somebody looks at packets.
    taps: Option<Arc<Taps>>,
    /// What [`tables`](Self::tables) shows of the routes.
    shown: Fib,
    /// Whether tables are to be published whatever becomes of the routes: other interfaces, other filters.
    renewed: bool,
    /// The tables that workers have.
    published: SharedTables,
    /// The tables that scripts are loaded with.
    staging: Staging,
    /// The gateways that the slow path was asked to resolve.
    gateways: Gateways,
    /// What was reported last of routes that do not fit.
    reported: Option<ForwardingError>,
}

impl Forwarding {
    /// Everything the configuration says, on the ports as they were opened.
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
        let mut fib = lookups.make(&config.router.fib, NEXT_HOPS)?;
        fib.set_seed(seed(&macs));
        let routing = Routing::new(fib, config, interfaces, Vec::new())?;
        let shown = routing.fib().reader();
        let tables = || tables(&shown, &routing, &filters, &macs, None);
        let share = || Arc::new(Mutex::new(Published::new(tables())));
        let (published, staging) = (share(), Staging(share()));
        let (taps, renewed, gateways, reported) = (None, false, Gateways::new(), None);
        Ok(Forwarding { routing, lookups, macs, filters, taps, shown, renewed, published, staging, gateways, reported })
    }

    /// A worker's subscriber.
    pub fn subscribe(&self) -> Subscriber<Tables> {
        lock(&self.published).subscribe()
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

    /// The lookup structures of IPv4 and IPv6: name, bytes, and why it is this one, where it chooses itself.
    pub(crate) fn structures(&self) -> [(&'static str, usize, Option<String>); 2] {
        let fib = self.routing.fib();
        let ((v4, v6), [why4, why6]) = (fib.memory(), fib.choice_reasons());
        [(self.shown.v4.name(), v4, why4), (self.shown.v6.name(), v6, why6)]
    }

    /// Whether there are changes that workers do not see yet.
    pub(crate) fn uncommitted(&self) -> bool {
        self.renewed || self.routing.uncommitted()
    }

    /// Whether publication costs no more than the changes in it; else it may rebuild a whole table.
    pub(crate) fn publish_is_cheap(&self) -> bool {
        self.routing.fib().commit_is_cheap()
    }

    /// Makes what has changed visible to workers, and publishes new tables where that takes them. Once for all changes of a
    /// round.
    ///
    /// # Errors
    /// A route does not fit; it is tried again with the next change. Everything else is visible.
    pub(crate) fn publish(&mut self) -> Result<(), ForwardingError> {
        // Old tables that nobody holds any more may be what a lookup structure waits for.
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

    /// The same where nobody can be told of an error: it is logged, once, as the route is tried again and again.
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

    /// Gives up tables and memory that no worker can hold any more.
    pub(crate) fn reclaim(&mut self) {
        let mut published = lock(&self.published);
        published.reclaim();
        lock(&self.staging.0).reclaim();
        self.routing.reclaim(|| published.grace());
    }

    fn tables(&self) -> Tables {
        tables(&self.shown, &self.routing, &self.filters, &self.macs, self.taps.clone())
    }

    /// Other filters; workers have them with the next tables. Returns those before.
    fn set_filters(&mut self, filters: Filters) -> Filters {
        self.renewed = true;
        std::mem::replace(&mut self.filters, filters)
    }

    /// Gives workers other taps.
    pub(crate) fn set_taps(&mut self, taps: Option<Arc<Taps>>) {
        if taps.is_some() || self.taps.is_some() {
            self.taps = taps;
            lock(&self.published).publish(self.tables());
        }
    }

    /// A neighbor has been resolved, changed or (without a MAC address) lost.
    pub(crate) fn set_neighbor(&mut self, interface: InterfaceId, address: IpAddr, mac: Option<MacAddr>) {
        self.routing.set_neighbor(interface, address, mac);
    }

    /// What has changed in the gateways that routes need resolved since this was asked last: new ones, and those that nothing
    /// needs any more.
    pub(crate) fn changed_gateways(&mut self) -> (Gateways, Gateways) {
        let now = self.routing.gateways();
        let before = std::mem::replace(&mut self.gateways, now);
        (&self.gateways - &before, &before - &self.gateways)
    }
}

fn tables(fib: &Fib, routing: &Routing, filters: &Filters, macs: &[MacAddr], taps: Option<Arc<Taps>>) -> Tables {
    let fib = fib.clone();
    Tables::new(fib.v4, fib.v6, fib.next_hops, routing.interfaces().clone(), filters.deny.clone(), macs)
        .with_steer(filters.steer.clone())
        .with_taps(taps)
}

/// What sets this router's choices among equal ways apart from other routers', and stays the same over reloads and
/// restarts: its MAC addresses.
fn seed(macs: &[MacAddr]) -> u32 {
    // FNV-1a (Fowler, Noll, Vo) with 32 bits; whatever is weak in it is mixed again with each flow.
    let bytes = macs.iter().flat_map(|mac| mac.octets());
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
