// SPDX-License-Identifier: MIT
//! The in-kernel plane with a table, as a router has it: the control thread's end, and the thread that shows the plane
//! what is published.

use super::Family;
use super::tables::{GATEWAYS, Table, gateway, gateway_mac};
use crate::traffic::tables_on;
use anyhow::{Context as _, Result, ensure};
use perigee_fib::{Arena, FibWriter, Published};
use perigee_lab::wait_for;
use perigee_modules::{Counters, Tables};
use perigee_net::{InterfaceId, Prefix, Route, RouteSource, RouteTarget};
use perigee_router::{KernelPlane, PlaneShare, PlaneThread, Refusal};
use perigee_socket::attach;
use perigee_worker::Stop;
use perigee_xdp::{LoadedPlane, PlanePort, PlaneView, Up, grace};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes for tables: the default of `plane_memory`.
const ARENA: usize = 256 << 20;
/// Room for next hops: as in a router with the plane.
const NEXT_HOPS: u32 = 131_072;
/// How long the plane may take to be shown tables.
const PATIENCE: Duration = Duration::from_secs(30);
/// Routes that are changed at once.
const RUN: usize = 1024;

/// What the plane is shown.
struct Shown {
    view: Mutex<PlaneView>,
    ports: Vec<PlanePort>,
}

impl Shown {
    fn view(&self) -> std::sync::MutexGuard<'_, PlaneView> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KernelPlane for Shown {
    fn arena(&self) -> Arc<Arena> {
        self.view().arena().clone()
    }

    fn publish(&self, tables: &Tables) -> Result<(), Refusal> {
        Ok(self.view().publish(tables, &self.ports)?)
    }

    fn stand_aside(&self) {
        // The namespaces go at once.
    }

    fn has_changed(&self) -> bool {
        false
    }

    fn grace(&self) -> io::Result<()> {
        let shown = self.view().shown();
        grace()?;
        self.view().settle(shown);
        Ok(())
    }

    fn differences(&self, tables: &Tables, _: bool) -> Vec<String> {
        let found = self.view().differences(tables, &self.ports);
        found.map_or_else(|error| vec![error.to_string()], |found| found.into_iter().map(str::to_owned).collect())
    }

    fn hits(&self, _: usize) -> u64 {
        0
    }

    fn share(&self, _: u16) -> Option<PlaneShare> {
        None
    }

    fn counters(&self) -> Arc<Counters> {
        Arc::new(Counters::new(2))
    }
}

/// The plane between two interfaces, with a table.
pub struct Plane {
    loaded: LoadedPlane,
    fib: FibWriter,
    published: Published<Tables>,
    routes: Vec<(Prefix, Route)>,
    stop: Stop,
    thread: Option<JoinHandle<()>>,
}

impl Plane {
    /// Loads it, with a structure for IPv4 of this name. `links` are the interfaces that packets come and leave by.
    pub fn new(links: [u32; 2], table: &Table, structure: &str) -> Result<Plane> {
        let loaded = LoadedPlane::load(ARENA)?;
        let maps = loaded.maps()?;
        let view = PlaneView::new(&maps).context("the in-kernel plane's maps")?;
        let port = |(number, link)| PlanePort { number, link, up: Up::Socket, in_driver: true, sends: true };
        for (number, link) in (1..).zip(links) {
            loaded.set_device(number, link)?;
        }
        let mut fib = FibWriter::in_arena(view.arena(), NEXT_HOPS, structure, "range6")?;
        for number in 0..GATEWAYS {
            for family in [Family::Ipv4, Family::Ipv6] {
                fib.set_neighbor(InterfaceId(1), gateway(family, number), Some(gateway_mac(number)));
            }
        }
        let route = |(prefix, number): &(Prefix, u32)| {
            let address = gateway(table.family, *number);
            let target = RouteTarget::Gateway { address, interface: Some(InterfaceId(1)) };
            (*prefix, Route::new(RouteSource::Static, target))
        };
        let routes: Vec<_> = table.routes.iter().map(route).collect();
        for run in routes.chunks(RUN) {
            fib.hold();
            for (prefix, route) in run {
                fib.insert(*prefix, route.clone())?;
            }
            fib.commit()?;
        }
        let mut published = Published::new(tables_on(fib.reader(), &[0, 1])?);
        let subscriber = published.subscribe();
        let shown = Arc::new(Shown { view: Mutex::new(view), ports: (0..).zip(links).map(port).collect() });
        let stop = Stop::default();
        let mut follow = PlaneThread::new(shown, subscriber, stop.clone());
        let thread = std::thread::Builder::new().name("plane".to_owned()).spawn(move || follow.run())?;
        let follower = thread.thread().clone();
        published.wake_by(Box::new(move || follower.unpark()));
        let mut plane = Plane { loaded, fib, published, routes, stop, thread: Some(thread) };
        plane.publish()?;
        let version = plane.published.version();
        let acknowledged = || Ok(plane.published.acknowledged(version).then_some(()));
        wait_for(PATIENCE, "the in-kernel plane to take the table", acknowledged)?;
        Ok(plane)
    }

    fn publish(&mut self) -> Result<()> {
        self.published.publish(tables_on(self.fib.reader(), &[0, 1])?);
        Ok(())
    }

    /// Attaches it to an interface of this thread's namespace, in its driver or behind it.
    pub fn attach(&self, link: u32, in_driver: bool) -> Result<OwnedFd> {
        attach(self.loaded.program()?, link, in_driver).context("the in-kernel plane cannot be attached")
    }

    /// A descriptor of its program.
    pub fn program(&self) -> Result<OwnedFd> {
        Ok(self.loaded.program()?)
    }

    /// Withdraws routes and announces them again, run by run, as the control thread does; the default route, the last
    /// one, stays. How many changes that were.
    pub fn flap(&mut self, count: usize) -> Result<u64> {
        let others = self.routes.len() - 1;
        let (step, count) = ((others / count.min(others)).max(1), count.min(others));
        let places: Vec<usize> = (0..count).map(|n| n * step).collect();
        for run in places.chunks(RUN) {
            for announce in [false, true] {
                self.fib.hold();
                for at in run {
                    let (prefix, route) = &self.routes[*at];
                    match announce {
                        true => self.fib.insert(*prefix, route.clone())?,
                        false => drop(self.fib.remove(*prefix, route.key())?),
                    }
                }
                self.commit()?;
            }
        }
        Ok(2 * count as u64)
    }

    /// What the router does at the end of a turn.
    fn commit(&mut self) -> Result<()> {
        self.fib.commit()?;
        if !self.fib.reader().is_same(&self.published.current().fib()) {
            self.publish()?;
        }
        self.published.reclaim();
        self.fib.reclaim(self.published.grace());
        Ok(())
    }

    /// Checks that lookups give what the routes say.
    pub fn verify(&self) -> Result<()> {
        let wrong = |(prefix, _): &&(Prefix, Route)| {
            let first = prefix.addr();
            self.fib.reader().lookup(first).0 != self.fib.expected(first)
        };
        let wrong = self.routes.iter().filter(wrong).count();
        ensure!(wrong == 0, "{wrong} prefixes have another next hop than their routes say");
        Ok(())
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join(); // it has reported a panic itself
        }
    }
}
