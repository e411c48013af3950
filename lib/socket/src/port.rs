// SPDX-License-Identifier: MIT
//! A port: the sockets of an interface, and what they share.
//!
//! An interface that is deleted and made again has another index, and sockets bound to the old one stay silent. A queue
//! notices that by itself and binds its socket again. Sockets of a fanout group cannot be bound again: those of a port
//! with several receive queues are replaced by spare ones, opened at the start while there is still the privilege for
//! it.

mod pretended;

use crate::close::drop_together;
use crate::error::{Error, Result, failed, text};
use crate::receive::RxQueue;
use crate::sys::{Membership, Ring, Sender, Socket, interface};
use crate::transmit::TxQueue;
use perigee_net::MacAddr;
use perigee_packet::{Link, Memory, Pool, Port, PortInfo, PortStats, SuperFrames};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of a frame around its IP packet: an Ethernet header and two VLAN tags.
pub(crate) const FRAME_OVERHEAD: usize = 14 + 2 * 4;
/// Sockets kept for each receive queue of a port with several.
const SPARES: usize = 4;
/// How often a queue without packets looks for its interface.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The requested port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketConfig {
    /// Name of the interface, in the network namespace of the thread that opens the port.
    pub interface: String,
    /// Number of the port, which its packets carry.
    pub number: u16,
    /// Receive queues, at least one; the kernel spreads flows over them.
    pub receive_queues: u16,
    /// Transmit queues, at least one.
    pub transmit_queues: u16,
    /// Transmit queues for those who send little, by packet sockets: behind the others, whatever these are.
    pub packet_queues: u16,
    /// Largest IP packet in bytes; `None`: the interface's.
    pub mtu: Option<u16>,
    /// Address that the port sends from and receives for; `None`: the interface's. The interface keeps its own.
    pub mac: Option<MacAddr>,
    /// Whether frames to other addresses are received.
    pub promiscuous: bool,
    /// Room of the pool's buffers in bytes: longer frames are dropped as errors.
    pub room: u16,
    /// Whether the interface stays Linux's: nothing of it is changed, and frames are received while somebody
    /// [watches](SocketPort::watch).
    pub quiet: bool,
}

impl SocketConfig {
    /// One queue in each direction, everything else as the interface has it.
    pub fn new(interface: &str) -> SocketConfig {
        SocketConfig {
            interface: interface.to_owned(),
            number: 0,
            receive_queues: 1,
            transmit_queues: 1,
            packet_queues: 0,
            mtu: None,
            mac: None,
            promiscuous: false,
            room: u16::MAX,
            quiet: false,
        }
    }
}

/// Where a port's packets are.
#[derive(Clone)]
pub struct Buffers {
    /// What frames are received into.
    pub pool: Arc<dyn Pool>,
    /// What super-frames are received into, as a whole, and then sent whole as well: buffers of up to 65,535 bytes.
    /// `None`: super-frames are cut into segments as they arrive, and those of other ports have to be cut before
    /// they are sent here ([`Cutting`](perigee_packet::Cutting)).
    pub super_frames: Option<Arc<dyn Pool>>,
    /// The memory that both are of.
    pub memory: &'static dyn Memory,
}

/// Counts super-frames.
#[derive(Default)]
pub(crate) struct WholeCounters {
    frames: AtomicU64,
    segments: AtomicU64,
}

impl WholeCounters {
    pub(crate) fn add(&self, more: SuperFrames) {
        self.frames.fetch_add(more.frames, Ordering::Relaxed);
        self.segments.fetch_add(more.segments, Ordering::Relaxed);
    }

    fn add_to(&self, sum: &mut SuperFrames) {
        sum.frames += self.frames.load(Ordering::Relaxed);
        sum.segments += self.segments.load(Ordering::Relaxed);
    }
}

/// What a receive queue works with.
pub(crate) struct ReceiveEnd {
    pub(crate) socket: Arc<Socket>,
    pub(crate) ring: Ring,
}

/// A receive queue as its port sees it.
pub(crate) struct ReceiveSide {
    /// Here while nobody has taken the queue.
    pub(crate) end: Mutex<Option<ReceiveEnd>>,
    socket: Mutex<Arc<Socket>>,
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) whole: WholeCounters,
    pub(crate) no_buffer: AtomicU64,
    /// Frames too long for a slot that the socket's queue had no room for, and frames in the ring of an interface that
    /// was deleted.
    pub(crate) lost: AtomicU64,
    missed: AtomicU64,
}

impl ReceiveSide {
    fn new(end: ReceiveEnd) -> ReceiveSide {
        let socket = Mutex::new(end.socket.clone());
        let [packets, bytes, errors, no_buffer, lost, missed] = [const { AtomicU64::new(0) }; 6];
        let whole = WholeCounters::default();
        ReceiveSide { end: Mutex::new(Some(end)), socket, whole, packets, bytes, errors, no_buffer, lost, missed }
    }

    /// Frames that the ring or the socket's queue had no room for; the kernel counts from zero each time it is asked.
    fn missed(&self) -> u64 {
        let more = lock(&self.socket).drops();
        self.missed.fetch_add(more, Ordering::Relaxed) + more + self.lost.load(Ordering::Relaxed)
    }

    fn replace(&self, socket: Arc<Socket>) {
        let old = std::mem::replace(&mut *lock(&self.socket), socket);
        self.missed.fetch_add(old.drops(), Ordering::Relaxed);
    }
}

/// What a transmit queue works with.
pub(crate) struct TransmitEnd {
    pub(crate) socket: Socket,
    pub(crate) sender: Sender,
}

/// A transmit queue as its port sees it.
pub(crate) struct TransmitSide {
    /// Here while nobody has taken the queue.
    pub(crate) end: Mutex<Option<TransmitEnd>>,
    pub(crate) packets: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) whole: WholeCounters,
}

impl TransmitSide {
    fn new(socket: Socket, memory: &'static dyn Memory, super_frames: bool) -> TransmitSide {
        let [packets, bytes, errors] = [const { AtomicU64::new(0) }; 3];
        let end = TransmitEnd { socket, sender: Sender::new(memory, super_frames) };
        let whole = WholeCounters::default();
        TransmitSide { end: Mutex::new(Some(end)), whole, packets, bytes, errors }
    }
}

/// What changes while the port is open.
struct State {
    info: PortInfo,
    promiscuous: bool,
    /// The interface's index when it was last seen.
    index: i32,
    /// The fanout group, and the index of the interface that it is of.
    group: Option<(i32, u16)>,
    spares: Vec<Socket>,
}

/// What the port and its queues share.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) number: u16,
    pub(crate) room: usize,
    pub(crate) pool: Arc<dyn Pool>,
    pub(crate) large: Option<Arc<dyn Pool>>,
    pub(crate) memory: &'static dyn Memory,
    pub(crate) receive: Vec<ReceiveSide>,
    pub(crate) transmit: Vec<TransmitSide>,
    /// Asks about the interface, and holds its memberships.
    control: Arc<Socket>,
    mtu: AtomicU16,
    /// Longest frame that rings are made for, in bytes.
    longest: usize,
    quiet: bool,
    /// Whether a quiet port receives now.
    watched: AtomicBool,
    state: Mutex<State>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An open port; clones are the same port. Its sockets are closed when it and all its queues are dropped.
#[derive(Clone)]
pub struct SocketPort(pub(crate) Arc<Shared>);

impl SocketPort {
    /// Opens a port.
    pub fn open(config: &SocketConfig, buffers: Buffers) -> Result<SocketPort> {
        let transmit = config.transmit_queues.max(1) + config.packet_queues;
        SocketPort::with_queues(config, buffers, config.receive_queues.max(1), transmit)
    }

    /// Opens a port with this number of queues.
    pub(crate) fn with_queues(config: &SocketConfig, buffers: Buffers, rx: u16, tx: u16) -> Result<SocketPort> {
        let Buffers { pool, super_frames: large, memory } = buffers;
        let super_frames = large.is_some();
        let name = config.interface.as_str();
        let fail = |what| move |error: io::Error| failed(name, what, &error);
        let control = Socket::open().map_err(fail("no packet socket could be opened"))?;
        let index = interface::index(&control, name).map_err(fail("it could not be found"))?;
        let own = interface::mac(&control, name).map_err(fail("its address could not be read"))?;
        let own =
            own.ok_or_else(|| Error::new(format!("interface {name} is no Ethernet interface; a port needs one")))?;
        let mtu = match config.mtu {
            Some(mtu) => mtu,
            None => interface::mtu(&control, name).map_err(fail("its MTU could not be read"))?.clamp(68, 65_000) as u16,
        };
        let set = match interface::mtu(&control, name) {
            _ if config.quiet => Ok(()),
            Ok(there) if there == i32::from(mtu) => Ok(()),
            _ => interface::set_mtu(&control, name, mtu),
        };
        set.map_err(fail("its MTU could not be set"))?;
        let mut longest = usize::from(mtu) + FRAME_OVERHEAD;
        if config.quiet {
            longest = longest.min(config.room.into());
        }
        if longest > usize::from(config.room) {
            return Err(Error::new(format!(
                "interface {name}: an MTU of {mtu} needs packet buffers of {longest} bytes, and the pool's have {}: make them larger",
                config.room
            )));
        }

        let mut state = State {
            info: PortInfo {
                port: config.number,
                device: name.to_owned(),
                driver: "packet".to_owned(),
                mac: config.mac.unwrap_or(own),
                mtu,
                receive_queues: rx,
                transmit_queues: tx,
                numa_node: None,
                offloads: if super_frames { vec!["super-frames"] } else { Vec::new() },
                notes: Vec::new(),
            },
            promiscuous: config.promiscuous,
            index,
            group: None,
            spares: Vec::new(),
        };
        let shared = rx > 1;
        for _ in 0..if shared { SPARES * usize::from(rx) } else { 0 } {
            state.spares.push(Socket::open().map_err(fail("no packet socket could be opened"))?);
        }
        let listen = |_| {
            let socket = Socket::open()?;
            let group = shared.then_some(&mut state.group);
            let end = if config.quiet { wait(socket, longest, index)? } else { listen(socket, longest, index, group)? };
            Ok(ReceiveSide::new(end))
        };
        let receive = (0..rx).map(listen).collect::<io::Result<Vec<_>>>();
        let receive = receive.map_err(fail("no receive queue could be opened"))?;
        let send = |_| {
            let socket = Socket::open()?;
            socket.enlarge_send_queue();
            if super_frames {
                socket.send_offloads()?;
            }
            socket.send_to(index)?;
            Ok(TransmitSide::new(socket, memory, super_frames))
        };
        let transmit =
            (0..tx).map(send).collect::<io::Result<_>>().map_err(fail("no transmit queue could be opened"))?;
        let port = Shared {
            name: name.to_owned(),
            number: config.number,
            room: config.room.into(),
            pool,
            large,
            memory,
            receive,
            transmit,
            control: Arc::new(control),
            mtu: AtomicU16::new(mtu),
            longest,
            quiet: config.quiet,
            watched: AtomicBool::new(false),
            state: Mutex::new(state),
        };
        port.become_member(&mut lock(&port.state));
        Ok(SocketPort(Arc::new(port)))
    }

    /// Of a [quiet](SocketConfig::quiet) port: whether frames are received from now on. The kernel makes a copy of each for
    /// that.
    ///
    /// # Errors
    /// The interface is gone.
    pub fn watch(&self, on: bool) -> io::Result<()> {
        if self.0.watched.swap(on, Ordering::Relaxed) == on {
            return Ok(());
        }
        let index = interface::index(&self.0.control, &self.0.name)?;
        self.0.receive.iter().try_for_each(|side| self.0.listen(&lock(&side.socket), index))
    }

    /// Takes a receive queue: `0 .. info().receive_queues`, all of which have to be polled.
    pub fn rx_queue(&self, index: u16) -> Result<RxQueue> {
        let side = self.0.receive.get(usize::from(index));
        let side = side.ok_or_else(|| self.0.no_queue("receive", index, self.0.receive.len()))?;
        let end = lock(&side.end).take().ok_or_else(|| self.0.taken("receive", index))?;
        Ok(RxQueue::new(self.0.clone(), index.into(), end))
    }

    /// Takes a transmit queue: `0 .. info().transmit_queues`.
    pub fn tx_queue(&self, index: u16) -> Result<TxQueue> {
        let side = self.0.transmit.get(usize::from(index));
        let side = side.ok_or_else(|| self.0.no_queue("transmit", index, self.0.transmit.len()))?;
        let end = lock(&side.end).take().ok_or_else(|| self.0.taken("transmit", index))?;
        Ok(TxQueue::new(self.0.clone(), index.into(), end))
    }
}

/// Lets a socket receive the frames of an interface: all of them, or its part of those of a group, which the first one
/// founds.
fn listen(
    socket: Socket,
    longest: usize,
    index: i32,
    group: Option<&mut Option<(i32, u16)>>,
) -> io::Result<ReceiveEnd> {
    socket.ignore_outgoing()?;
    let ring = Ring::new(&socket, longest)?;
    if let Some(group) = group {
        // Between these two calls it would receive what is others' part.
        socket.mute()?;
        socket.listen(index)?;
        let number = group.and_then(|(of, number)| (of == index).then_some(number));
        *group = Some((index, socket.share(number)?));
        socket.unmute()?;
    } else {
        socket.listen(index)?;
    }
    // What came until now was not missed by anybody.
    socket.drops();
    Ok(ReceiveEnd { socket: Arc::new(socket), ring })
}

/// A queue that receives nothing yet.
fn wait(socket: Socket, longest: usize, index: i32) -> io::Result<ReceiveEnd> {
    socket.ignore_outgoing()?;
    let ring = Ring::new(&socket, longest)?;
    socket.ignore(index)?;
    Ok(ReceiveEnd { socket: Arc::new(socket), ring })
}

impl Drop for Shared {
    fn drop(&mut self) {
        let spares = std::mem::take(&mut self.state.get_mut().unwrap_or_else(PoisonError::into_inner).spares);
        let (receive, transmit) = (std::mem::take(&mut self.receive), std::mem::take(&mut self.transmit));
        let queues = receive.into_iter().map(boxed).chain(transmit.into_iter().map(boxed));
        let control = std::iter::once(boxed(self.control.clone()));
        drop_together(spares.into_iter().map(boxed).chain(queues).chain(control).collect());
    }
}

fn boxed<T: Send + 'static>(item: T) -> Box<dyn Send> {
    Box::new(item)
}

impl Shared {
    pub(crate) fn no_queue(&self, what: &str, index: u16, there_are: usize) -> Error {
        Error::new(format!("port {} has no {what} queue {index}: it has {there_are}", self.name))
    }

    pub(crate) fn taken(&self, what: &str, index: u16) -> Error {
        Error::new(format!("{what} queue {index} of port {} is already in use by another thread", self.name))
    }

    /// Binds a queue's socket to the interface, to receive its frames if somebody wants them.
    pub(crate) fn listen(&self, socket: &Socket, index: i32) -> io::Result<()> {
        match self.quiet && !self.watched.load(Ordering::Relaxed) {
            true => socket.ignore(index),
            false => socket.listen(index),
        }
    }

    /// The socket that asks about the interface.
    pub(crate) fn control(&self) -> &Socket {
        &self.control
    }

    /// Adds a sentence to the port's notes, unless it is there.
    pub(crate) fn note(&self, note: String) {
        let notes = &mut lock(&self.state).info.notes;
        if !notes.contains(&note) {
            notes.push(note);
        }
    }

    /// Withdraws notes that begin so.
    pub(crate) fn withdraw(&self, start: &str) {
        lock(&self.state).info.notes.retain(|note| !note.starts_with(start));
    }

    /// The interface's index now, if it exists.
    pub(crate) fn find(&self) -> Option<i32> {
        interface::index(&self.control, &self.name).ok()
    }

    /// Longest frame in bytes that the interface should receive.
    #[inline]
    pub(crate) fn longest_now(&self) -> usize {
        usize::from(self.mtu.load(Ordering::Relaxed)) + FRAME_OVERHEAD
    }

    /// Asks for the interface's MTU, which others may change.
    pub(crate) fn look_at_mtu(&self) {
        if let Ok(mtu) = interface::mtu(&self.control, &self.name) {
            self.mtu.store(mtu.clamp(0, u16::MAX.into()) as u16, Ordering::Relaxed);
        }
    }

    /// A queue has found the interface again, under this index.
    pub(crate) fn found(&self, index: i32) {
        let mut state = lock(&self.state);
        if state.index != index {
            state.index = index;
            self.become_member(&mut state);
        }
        self.look_at_mtu();
    }

    /// Lets a receive queue use a new socket instead of one of a group, which cannot be bound again.
    pub(crate) fn listen_again(&self, queue: usize, index: i32) -> io::Result<ReceiveEnd> {
        let mut state = lock(&self.state);
        // The kernel lets a socket into a group only while its interface is up.
        if !interface::flags(&self.control, &self.name)?.0 {
            return Err(io::Error::from_raw_os_error(libc::ENETDOWN));
        }
        let socket = match state.spares.pop() {
            Some(socket) => socket,
            None => Socket::open().inspect_err(|error| {
                let reason = text(error);
                let note = format!(
                    "port {}: the interface came back too often, and no further socket could be opened ({reason}): start again",
                    self.name
                );
                if !state.info.notes.contains(&note) {
                    state.info.notes.push(note);
                }
            })?,
        };
        let end = listen(socket, self.longest, index, Some(&mut state.group))?;
        self.receive[queue].replace(end.socket.clone());
        Ok(end)
    }

    /// Asks for frames to all groups, to the port's address if it is not the interface's, and to all addresses if the
    /// port is promiscuous.
    fn become_member(&self, state: &mut State) {
        if self.quiet {
            return;
        }
        let mut refused = |of, what: &str| {
            if let Err(error) = self.control.member(state.index, of, true) {
                let reason = text(&error);
                let note = format!("port {}: the interface may not receive frames to {what}: {reason}", self.name);
                if !state.info.notes.contains(&note) {
                    state.info.notes.push(note);
                }
            }
        };
        refused(Membership::AllGroups, "groups");
        // Interfaces that cannot filter by two addresses take all frames for this.
        if !matches!(interface::mac(&self.control, &self.name), Ok(Some(own)) if own == state.info.mac) {
            refused(Membership::Address(state.info.mac), "the port's address");
        }
        if state.promiscuous {
            refused(Membership::Promiscuous, "other addresses");
        }
    }
}

impl Port for SocketPort {
    fn info(&self) -> PortInfo {
        lock(&self.0.state).info.clone()
    }

    fn is_up(&self) -> bool {
        let (control, name) = (&self.0.control, &self.0.name);
        let (up, running) = interface::flags(control, name).unwrap_or_default();
        up && interface::carrier(control, name).unwrap_or(running)
    }

    fn link(&self) -> Link {
        let speed = interface::speed(&self.0.control, &self.0.name);
        Link { up: self.is_up(), speed: speed.map(|(speed, _)| speed), full_duplex: speed.is_none_or(|(_, full)| full) }
    }

    fn stats(&self) -> PortStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = PortStats::default();
        for side in &self.0.receive {
            stats.rx_packets += get(&side.packets);
            stats.rx_bytes += get(&side.bytes);
            stats.rx_errors += get(&side.errors);
            stats.rx_no_buffer += get(&side.no_buffer);
            stats.rx_missed += side.missed();
            side.whole.add_to(&mut stats.rx_super);
        }
        for side in &self.0.transmit {
            stats.tx_packets += get(&side.packets);
            stats.tx_bytes += get(&side.bytes);
            stats.tx_errors += get(&side.errors);
            side.whole.add_to(&mut stats.tx_super);
        }
        stats
    }

    fn set_promiscuous(&self, on: bool) -> std::result::Result<(), String> {
        let mut state = lock(&self.0.state);
        if state.promiscuous == on {
            return Ok(());
        }
        let changed = self.0.control.member(state.index, Membership::Promiscuous, on);
        changed.map_err(|error| failed(&self.0.name, "promiscuous mode could not be switched", &error).to_string())?;
        state.promiscuous = on;
        Ok(())
    }

    fn set_mtu(&self, mtu: u16) -> std::result::Result<(), String> {
        let mut state = lock(&self.0.state);
        let longest = usize::from(mtu) + FRAME_OVERHEAD;
        if longest > self.0.room {
            let room = self.0.room.saturating_sub(FRAME_OVERHEAD);
            return Err(format!(
                "port {}: an MTU of {mtu} was requested, and its buffers have room for {room} now; set it in the configuration",
                self.0.name
            ));
        }
        let changed = interface::set_mtu(&self.0.control, &self.0.name, mtu);
        changed.map_err(|error| failed(&self.0.name, "its MTU could not be set", &error).to_string())?;
        state.info.mtu = mtu;
        self.0.mtu.store(mtu, Ordering::Relaxed);
        Ok(())
    }
}
