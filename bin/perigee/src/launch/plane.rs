// SPDX-License-Identifier: MIT
//! The in-kernel plane of a router: loaded while there are privileges, then shown the tables by a thread without any.

mod pins;
mod vanished;

use anyhow::{Context as _, Result};
use perigee_config as config;
use perigee_config::{Config, Plane, Stack};
use perigee_fib::Arena;
use perigee_modules::{Counters, Tables};
use perigee_packet::{Link, Port, PortInfo, PortStats};
use perigee_router::{KernelPlane, PlaneShare, Refusal};
use perigee_socket::{Below, FrameProgram, Watch, attach, put_socket, replace, sockets_of, takes_redirected};
use perigee_xdp::layout;
use perigee_xdp::{LoadedPlane, PlaneCounters, PlanePort, PlaneView, Up, grace};
use pins::Pins;
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use vanished::{DeviceCounters, Watched};

/// How often a port is asked whether it sends redirected packets: one port each time.
const CHECK: Duration = Duration::from_secs(1);
/// How old the sum of counters may be: one answer of the API asks for many of them.
const FRESH: Duration = Duration::from_millis(5);

/// The plane, and the ports that it forwards for.
pub(super) struct XdpPlane {
    loaded: LoadedPlane,
    counted: PlaneCounters,
    up: Up,
    pins: Option<Pins>,
    state: Mutex<State>,
    sum: Mutex<Sum>,
    devices: Mutex<DeviceCounters>,
}

/// What changes while it runs. After the start no thread waits for the kernel with this lock.
struct State {
    view: PlaneView,
    ports: Vec<KnownPort>,
    /// Where the tables are that were shown last.
    tables: usize,
    /// A port has changed in a way that the tables do not show.
    changed: bool,
    /// When a port was asked last, and the place of the next one.
    checked: Instant,
    next: usize,
    /// Where a program of a router that was killed forwards on.
    inherited: Vec<Inherited>,
    /// The tables are complete: this router's program is to take its place.
    complete: bool,
    /// Ports that stay Linux's: workers get copies of what Linux gets while there is a capture or a trace.
    watches: Vec<Watch>,
    /// By family: a warning about too many rules was logged.
    said: [bool; 2],
}

/// A port that the program is attached for.
struct KnownPort {
    port: PlanePort,
    name: String,
    /// The kernel has said whether the port sends redirected packets. Until then workers send its packets.
    asked: bool,
    /// The kernel can say it.
    says: bool,
    /// The interface, if it is a veth's: its counters are watched where the kernel says nothing.
    veth: Option<String>,
    watched: Watched,
}

/// An interface where a program of a router that was killed forwards on.
struct Inherited {
    attached: OwnedFd,
    /// The port's number and name.
    number: u16,
    name: String,
    /// Its map of sockets. This router's sockets are in it until the takeover, so that answers to its requests arrive.
    sockets: Option<OwnedFd>,
}

/// A sum of all counters, and its time.
struct Sum {
    at: Option<Instant>,
    plane: Box<layout::Counters>,
    router: Arc<Counters>,
    /// The filters' numbers, in the order of the plane's list, and the counts when that list was new.
    filters: Vec<u32>,
    before: Vec<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why this process cannot have the in-kernel plane; `None` if it can.
pub(crate) fn unavailable() -> Option<&'static str> {
    static FOUND: OnceLock<Option<String>> = OnceLock::new();
    let look = || {
        if !rustix::process::geteuid().is_root() {
            return Some("only root may load the in-kernel plane".to_owned());
        }
        let loaded = LoadedPlane::load(1 << 20).err().map(|error| error.to_string());
        loaded.or_else(|| grace().err().map(|error| format!("membarrier(2) fails: {error}")))
    };
    FOUND.get_or_init(look).as_deref()
}

/// Whether a port's packets are forwarded in the kernel.
pub(super) fn asks_for_plane(port: &config::Port) -> bool {
    port.plane == Some(Plane::Xdp)
}

impl XdpPlane {
    /// Loads it, if a port asks for it.
    pub(super) fn load(config: &Config) -> Result<Option<Arc<XdpPlane>>> {
        let pins = Pins::new(config)?;
        if !config.ports.iter().any(asks_for_plane) {
            return Ok(None);
        }
        let bytes = (config.router.plane_memory as usize) << 20;
        let loaded = LoadedPlane::load(bytes).context("plane = \"xdp\"")?;
        let maps = loaded.maps()?;
        let view = PlaneView::new(&maps).context("the in-kernel plane's maps")?;
        let counted = PlaneCounters::new(&maps).context("the in-kernel plane's counters")?;
        grace().context(
            "the kernel does not say when packets are done with (membarrier(2); not if it was started with \
             nohz_full), so that tables could not be changed: use `plane = \"worker\"`",
        )?;
        let router = Arc::new(Counters::new(config.ports.len()));
        let sum = Sum { at: None, plane: counted.sum(), router, filters: Vec::new(), before: Vec::new() };
        let state = State {
            view,
            ports: Vec::new(),
            tables: 0,
            changed: false,
            checked: Instant::now(),
            next: 0,
            inherited: Vec::new(),
            watches: Vec::new(),
            complete: false,
            said: [false; 2],
        };
        let devices = DeviceCounters::open().context("/proc has no counters of interfaces")?;
        let (state, sum, devices) = (Mutex::new(state), Mutex::new(sum), Mutex::new(devices));
        let up = match config.router.stack {
            Stack::Perigee => Up::Socket,
            Stack::Linux => Up::Linux,
        };
        Ok(Some(Arc::new(XdpPlane { loaded, counted, up, pins, state, sum, devices })))
    }

    /// The paths to remove when the router ends in order, which outlive a router that is killed. From now on the caller
    /// removes them.
    pub(super) fn hand_over_pins(&self) -> Vec<PathBuf> {
        self.pins.as_ref().map(Pins::hand_over).unwrap_or_default()
    }

    /// Lets workers see what a port gives to Linux while there is a capture or a trace.
    pub(super) fn watch_by(&self, watch: Watch) {
        lock(&self.state).watches.push(watch);
    }

    /// The program for a port with this number and name.
    pub(super) fn program(self: &Arc<XdpPlane>, number: u16, name: &str) -> Arc<dyn FrameProgram> {
        Arc::new(PortProgram { plane: self.clone(), number, name: name.to_owned() })
    }

    /// A port with what the plane has done for it.
    pub(super) fn port(self: &Arc<XdpPlane>, port: Arc<dyn Port>) -> Arc<dyn Port> {
        Arc::new(PortInPlane { plane: self.clone(), number: port.info().port, port })
    }

    /// Asks the kernel whether a port sends redirected packets.
    fn check(&self, at: usize) {
        let known = |state: &State| state.ports.get(at).filter(|known| known.says).map(|known| known.port);
        let Some(port) = known(&lock(&self.state)) else { return };
        // Unlocked: the answer takes its time.
        let answer = if port.in_driver { takes_redirected(port.link) } else { Ok(Some(false)) };
        let mut state = lock(&self.state);
        let Some(known) = state.ports.get_mut(at).filter(|known| known.port.link == port.link) else { return };
        // After an error the last answer holds. Kernels before 6.3 have no answer.
        let Ok(answer) = answer else { return };
        known.says = answer.is_some();
        let sends = answer.unwrap_or(true);
        if known.asked && sends == known.port.sends {
            return;
        }
        let changed = !known.asked || sends != known.port.sends;
        (known.asked, known.port.sends) = (true, sends);
        let name = known.name.clone();
        state.changed |= changed;
        drop(state);
        let others = self.others();
        match (sends, port.in_driver) {
            (true, _) => tracing::info!("port {name}: the in-kernel plane sends by it"),
            (false, false) => tracing::info!(
                "port {name}: its driver runs no XDP program, so that {others} what ports with one receive for it"
            ),
            (false, true) => tracing::warn!(
                "port {name}: {others} what leaves by it, as its driver would drop what the in-kernel plane \
                 redirects to it; of a veth pair, the other end needs `ethtool -K PEER gro on`"
            ),
        }
    }

    /// Who sends what the plane does not.
    fn others(&self) -> &'static str {
        match self.up {
            Up::Socket => "workers send",
            Up::Linux => "Linux sends",
        }
    }

    /// Asks about all new ports, and about one of the others if it is time.
    fn check_ports(&self) {
        let due = {
            let mut state = lock(&self.state);
            let mut due: Vec<usize> =
                (0..).zip(&state.ports).filter(|(_, port)| !port.asked).map(|(at, _)| at).collect();
            if state.checked.elapsed() >= CHECK && !state.ports.is_empty() {
                state.checked = Instant::now();
                state.next = (state.next + 1) % state.ports.len();
                due.push(state.next);
            }
            due
        };
        due.into_iter().for_each(|at| {
            self.check(at);
            self.watch(at);
        });
    }

    /// Looks whether what the plane sends by a port leaves it, where the kernel does not say it.
    fn watch(&self, at: usize) {
        let known = |state: &State| {
            let known = state.ports.get(at).filter(|known| !known.says && known.port.sends)?;
            Some((known.port, known.veth.clone()?))
        };
        let Some((port, interface)) = known(&lock(&self.state)) else { return };
        let Some(left) = lock(&self.devices).sent(&interface) else { return };
        let sent = self.counted.sum().ports.get(usize::from(port.number) + 1).map_or(0, |own| own.sent);
        let mut state = lock(&self.state);
        // Meanwhile it may have become another interface.
        let Some(known) = state.ports.get_mut(at).filter(|known| known.port == port && !known.says) else { return };
        if !known.watched.vanish(sent, left) {
            return;
        }
        known.port.sends = false;
        let name = known.name.clone();
        state.changed = true;
        drop(state);
        tracing::warn!(
            "port {name}: packets that the in-kernel plane sends by it do not leave it, so {} them from now on: run \
             `ethtool -K PEER gro on` at the other end, then restart the router",
            self.others()
        );
    }

    /// The sum of all counters, at most [`FRESH`] old.
    fn sum(&self) -> MutexGuard<'_, Sum> {
        let mut sum = lock(&self.sum);
        if sum.at.is_none_or(|at| at.elapsed() > FRESH) {
            sum.plane = self.counted.sum();
            sum.plane.count_into(&sum.router);
            sum.at = Some(Instant::now());
        }
        sum
    }

    /// Forwards by these tables instead of those of a router that was killed.
    fn take_over(&self, Inherited { attached, name: port, .. }: &Inherited) {
        match self.loaded.program().and_then(|program| replace(attached, program)) {
            Ok(()) => tracing::info!("port {port}: the in-kernel plane takes over from that of the router before"),
            Err(error) => tracing::warn!(
                "port {port}: the in-kernel plane of the router before is still there ({error}): start again"
            ),
        }
    }

    /// Counts hits of these filters, given by their numbers in the configuration, from zero.
    fn count_filters(&self, filters: Vec<u32>) {
        let mut sum = lock(&self.sum);
        sum.plane = self.counted.sum();
        (sum.before, sum.filters) = (sum.plane.hits.to_vec(), filters);
    }
}

impl State {
    fn ports(&self) -> Vec<PlanePort> {
        self.ports.iter().map(|known| known.port).collect()
    }

    /// Says once that there are too many rules.
    fn say_rules(&mut self, up: Up) {
        let (who, forward) = match up {
            Up::Socket => ("workers", "forward"),
            Up::Linux => ("Linux", "forwards"),
        };
        let now = self.view.too_many_rules();
        for (family, (now, said)) in ["IPv4", "IPv6"].into_iter().zip(now.into_iter().zip(&mut self.said)) {
            if now && !*said {
                tracing::warn!(
                    "{who} {forward} all packets of {family}: of filters, steers and Linux's exceptions there are \
                     more than the {} that the in-kernel plane compares a packet with",
                    layout::RULES
                );
            }
            *said = now;
        }
    }
}

impl KernelPlane for XdpPlane {
    fn arena(&self) -> Arc<Arena> {
        lock(&self.state).view.arena().clone()
    }

    fn publish(&self, tables: &Tables) -> std::result::Result<(), Refusal> {
        let mut state = lock(&self.state);
        let ports = state.ports();
        let published = state.view.publish(tables, &ports);
        state.tables = std::ptr::from_ref(tables).addr();
        if let Err(error) = published {
            // The same grace period is good for it, as nothing was shown.
            let _ = state.view.hand_on_everything(&ports);
            return Err(error.into());
        }
        state.say_rules(self.up);
        let watches = state.watches.clone();
        let inherited = if state.complete { std::mem::take(&mut state.inherited) } else { Vec::new() };
        let filters: Vec<u32> = state.view.filters().iter().map(|rule| rule.number).collect();
        let renewed = state.view.take_renewed();
        drop(state);
        if renewed {
            self.count_filters(filters);
        }
        watches.iter().for_each(|watch| watch.set(tables.tapped()));
        inherited.iter().for_each(|inherited| self.take_over(inherited));
        Ok(())
    }

    fn is_complete(&self) {
        let mut state = lock(&self.state);
        state.complete = true;
        state.changed |= !state.inherited.is_empty();
    }

    fn stand_aside(&self) {
        let mut state = lock(&self.state);
        let ports = state.ports();
        let _ = state.view.hand_on_everything(&ports);
    }

    fn has_changed(&self) -> bool {
        self.check_ports();
        std::mem::take(&mut lock(&self.state).changed)
    }

    fn grace(&self) -> io::Result<()> {
        let shown = lock(&self.state).view.shown();
        grace()?;
        lock(&self.state).view.settle(shown);
        Ok(())
    }

    fn differences(&self, tables: &Tables, repair: bool) -> Vec<String> {
        let mut state = lock(&self.state);
        if state.tables != std::ptr::from_ref(tables).addr() {
            // The plane's thread has newer tables than it has shown, and will show them after a grace period.
            return Vec::new();
        }
        let found = state.view.differences(tables, &state.ports());
        let found: Vec<String> = match found {
            Ok(found) => found.into_iter().map(str::to_owned).collect(),
            // It stands aside: workers forward all packets.
            Err(error) => vec![error.to_string()],
        };
        state.changed |= repair && !found.is_empty();
        found
    }

    fn hits(&self, filter: usize) -> u64 {
        let sum = self.sum();
        let place = sum.filters.iter().position(|number| *number as usize == filter);
        place.map_or(0, |place| sum.plane.hits[place.min(sum.plane.hits.len() - 1)].saturating_sub(sum.before[place]))
    }

    fn share(&self, port: u16) -> Option<PlaneShare> {
        let known = lock(&self.state).ports.iter().any(|known| known.port.number == port);
        let sum = self.sum();
        let own = sum.plane.ports.get(usize::from(port) + 1).filter(|_| known)?;
        // What goes to Linux counts as received here, what goes to workers there.
        let passed = if self.up == Up::Linux { own.handed_on } else { 0 };
        Some(PlaneShare { finished: own.received.saturating_sub(passed), sent: own.sent, handed_on: own.handed_on })
    }

    fn counters(&self) -> Arc<Counters> {
        self.sum().router.clone()
    }
}

/// The program as one port sees it.
struct PortProgram {
    plane: Arc<XdpPlane>,
    number: u16,
    name: String,
}

impl PortProgram {
    fn say_unpinned(&self, error: &io::Error) {
        tracing::warn!("port {}: if the router is killed, the in-kernel plane ends with it: {error}", self.name);
    }

    /// The port's place in the plane's maps.
    fn place(&self) -> u32 {
        u32::from(self.number) + 1
    }
}

impl FrameProgram for PortProgram {
    fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.plane.loaded.set_socket(self.place(), queue, socket).map_err(io::Error::other)?;
        let state = lock(&self.plane.state);
        let before = state.inherited.iter().find(|inherited| inherited.number == self.number);
        if let Some(map) = before.and_then(|inherited| inherited.sockets.as_ref()) {
            // In another order of ports these sockets would get nothing, as the kernel looks at their interface.
            put_socket(map, self.place() * layout::QUEUES as u32 + queue, socket)?;
        }
        Ok(())
    }

    fn attach(&self, below: &Below<'_>, in_driver: bool) -> io::Result<OwnedFd> {
        let link = below.index.unsigned_abs();
        // The kernel is asked soon whether the port sends. Until then workers send its packets.
        let port = PlanePort { number: self.number, link, up: self.plane.up, in_driver, sends: false };
        {
            let mut state = lock(&self.plane.state);
            let known = state.ports.iter().position(|known| known.port.number == self.number);
            let before = known.map(|at| state.ports[at].port.link).filter(|before| *before != link);
            // Before frames come: all of them go up, until the tables are shown with this port.
            state.view.add_port(&port, before).map_err(io::Error::other)?;
            let veth = (below.driver.as_deref() == Some("veth")).then(|| below.name.to_owned());
            let (name, watched) = (self.name.clone(), Watched::default());
            let new = KnownPort { port, name, asked: false, says: true, veth, watched };
            match known {
                Some(at) => state.ports[at] = new,
                None => state.ports.push(new),
            }
            state.changed = true;
        }
        self.plane.loaded.set_device(self.place(), link).map_err(io::Error::other)?;
        let Some(pins) = &self.plane.pins else { return attach(self.plane.loaded.program()?, link, in_driver) };
        let left = match pins.take(&self.name, link, in_driver) {
            Err(error) if error.raw_os_error() == Some(Errno::OPNOTSUPP.raw_os_error()) => return Err(error),
            Err(error) => {
                // As an interface was made again, and there is no privilege for it any more.
                self.say_unpinned(&error);
                return attach(self.plane.loaded.program()?, link, in_driver);
            }
            Ok(left) => left,
        };
        if let Some(left) = left {
            let sockets = sockets_of(&left).unwrap_or_else(|error| {
                tracing::debug!(
                    "port {}: what the plane before does not finish is lost until then: {error}",
                    self.name
                );
                None
            });
            let inherited =
                Inherited { attached: left.try_clone()?, number: self.number, name: self.name.clone(), sockets };
            lock(&self.plane.state).inherited.push(inherited);
            return Ok(left);
        }
        let attached = attach(self.plane.loaded.program()?, link, in_driver)?;
        if let Err(error) = pins.keep(&self.name, &attached, in_driver) {
            self.say_unpinned(&error);
        }
        Ok(attached)
    }
}

/// A port by AF_XDP sockets. Their counters lack the packets that the plane finishes.
struct PortInPlane {
    plane: Arc<XdpPlane>,
    number: u16,
    port: Arc<dyn Port>,
}

impl Port for PortInPlane {
    fn info(&self) -> PortInfo {
        self.port.info()
    }

    fn link(&self) -> Link {
        self.port.link()
    }

    fn is_up(&self) -> bool {
        self.port.is_up()
    }

    fn stats(&self) -> PortStats {
        let mut stats = self.port.stats();
        if let Some(own) = self.plane.sum().plane.ports.get(usize::from(self.number) + 1) {
            stats.rx_packets += own.received;
            stats.rx_bytes += own.received_bytes;
            stats.tx_packets += own.sent;
            stats.tx_bytes += own.sent_bytes;
        }
        stats
    }

    fn device_counters(&self) -> Vec<(String, u64)> {
        self.port.device_counters()
    }

    fn set_promiscuous(&self, on: bool) -> std::result::Result<(), String> {
        self.port.set_promiscuous(on)
    }

    fn set_mtu(&self, mtu: u16) -> std::result::Result<(), String> {
        self.port.set_mtu(mtu)
    }
}
