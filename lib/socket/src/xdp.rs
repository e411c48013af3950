// SPDX-License-Identifier: MIT
//! A port by AF_XDP sockets: an XDP program takes an interface's frames before the kernel has looked at them.
//!
//! Each of the device's receive queues has a socket, which sends, too. Everything about the interface itself, its
//! address, link, MTU and memberships, is as with packet sockets: a [`SocketPort`] without queues.
//!
//! An interface that is deleted and made again needs the program attached to it, and new sockets. Attaching a program
//! that is loaded takes no privilege, and sockets are kept in reserve, with the same memory for frames, as the router
//! has dropped its privileges by then.

mod frames;
mod receive;
pub(crate) mod site;
mod transmit;
mod way;

pub use receive::XdpRxQueue;
pub use site::{Below, FrameProgram};
pub use transmit::XdpTxQueue;

use crate::error::{Error, Result, xdp_failed};
use crate::port::{Buffers, FRAME_OVERHEAD, Shared, SocketConfig, SocketPort, lock};
use crate::sys::interface;
use crate::sys::xsk::{self, Ends, Frames, LONGEST, Lost, Mode, Receiver, Transmitter, Unbound, XdpSocket};
use frames::AllFrames;
use perigee_packet::{Link, Port, PortInfo, PortStats, TransmitQueue};
use site::Site;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use way::{Generation, Way};

/// Sockets kept in reserve for each queue.
const SPARES: usize = 4;
/// No interface's index.
const GONE: i32 = 0;

/// A queue of the device.
struct Side {
    receive: Way<Receiver>,
    transmit: Way<Transmitter>,
    no_buffer: AtomicU64,
    /// Frames that were received and not taken when the interface went away.
    left: AtomicU64,
    frames: Frames,
    /// The socket, and what those before it have lost.
    socket: Mutex<(Arc<XdpSocket>, Lost)>,
}

impl Side {
    fn new(frames: Frames, ends: Ends) -> Side {
        Side {
            receive: Way::new(ends.receiver),
            transmit: Way::new(ends.transmitter),
            no_buffer: AtomicU64::new(0),
            left: AtomicU64::new(0),
            frames,
            socket: Mutex::new((ends.socket, Lost::default())),
        }
    }

    fn lost(&self) -> Lost {
        let here = lock(&self.socket);
        here.0.lost() + here.1
    }

    fn replace(&self, ends: Ends) {
        // Under one lock: in between, what the old socket has lost would count twice, and then once again.
        let mut here = lock(&self.socket);
        let lost = here.0.lost() + here.1;
        *here = (ends.socket, lost);
        drop(here);
        self.receive.put(ends.receiver);
        self.transmit.put(ends.transmitter);
    }
}

/// What gives the interface's frames to the sockets.
struct Redirection {
    program: Arc<dyn FrameProgram>,
    /// `None` while the interface is away.
    attached: Option<OwnedFd>,
    /// Of each queue.
    spares: Vec<Vec<Unbound>>,
}

impl Redirection {
    /// Attaches the program to an interface instead of to the one before.
    fn attach(&mut self, site: &Site<'_>, index: i32) -> io::Result<Mode> {
        self.attached = None;
        let (attached, mode) = site.attach(self.program.as_ref(), index)?;
        self.attached = Some(attached);
        Ok(mode)
    }
}

/// What the port and its queues share.
struct XdpShared {
    base: SocketPort,
    sides: Vec<Side>,
    transmit_queues: u16,
    chunk: usize,
    /// The interface that the sockets are bound to.
    index: AtomicI32,
    generation: Generation,
    redirection: Mutex<Redirection>,
    _tags: Tags,
}

/// Lets the device take VLAN tags out again when the port is closed, if it did before.
struct Tags {
    base: SocketPort,
    took: bool,
}

impl Drop for Tags {
    fn drop(&mut self) {
        if self.took {
            // Without privileges it stays as it is.
            let _ = interface::leave_tags(self.base.0.control(), &self.base.0.name, false);
        }
    }
}

/// An open port; clones are the same port. The program goes away, and its sockets are closed, when it and all its
/// queues are dropped.
#[derive(Clone)]
pub struct XdpPort(Arc<XdpShared>);

impl XdpPort {
    /// Opens a port. It has as many receive queues as the device, whatever `config` says, and at most as many transmit
    /// queues, besides those by packet sockets.
    pub fn open(config: &SocketConfig, buffers: Buffers) -> Result<XdpPort> {
        XdpPort::open_behind(None, config, buffers)
    }

    /// As [`open`](Self::open), for what a program of the caller's gives to sockets.
    pub fn open_behind(
        program: Option<Arc<dyn FrameProgram>>,
        config: &SocketConfig,
        buffers: Buffers,
    ) -> Result<XdpPort> {
        let name = config.interface.as_str();
        let base = SocketPort::with_queues(config, Buffers { super_frames: None, ..buffers }, 0, config.packet_queues)?;
        let shared = &base.0;
        let note = |sentence| shared.note(sentence);
        let site = Site { name, control: shared.control(), note: &note };
        if let Some(why) = program.as_ref().and_then(|_| site.unfit_for_programs()) {
            return Err(Error::new(format!("interface {name} {why}")));
        }
        let fail = |what: &str| {
            let what = what.to_owned();
            move |error: io::Error| xdp_failed(name, &what, &error)
        };
        let chunk = xsk::chunk_for(shared.longest_now()).ok_or_else(|| too_long(name, shared.longest_now()))?;
        let (rx, tx) = interface::queues(shared.control(), name).unwrap_or_else(|| {
            shared.note(format!(
                "port {name}: its driver does not say how many queues it has: one is used, and frames of others go to Linux"
            ));
            (1, 1)
        });
        let (rx, tx) = (rx.clamp(1, u16::MAX.into()), tx.clamp(1, u16::MAX.into()));
        let own = || AllFrames::load(rx).map(|own| Arc::new(own) as Arc<dyn FrameProgram>);
        let program = program.map_or_else(own, Ok).map_err(fail("its XDP program could not be loaded"))?;
        let mut redirection = Redirection { program, attached: None, spares: Vec::new() };
        let index = shared.find().ok_or_else(|| Error::new(format!("interface {name} is gone: start again")))?;
        // First, as drivers may reset the device for it.
        let tags = Tags { took: site.keep_tags(), base: base.clone() };
        let mode = redirection.attach(&site, index).map_err(fail("no XDP program could be attached"))?;
        let mut sides = Vec::new();
        for queue in 0..rx {
            let side = first(&mut redirection, index, queue, mode, chunk);
            sides.push(side.map_err(fail(&format!("queue {queue} could not be opened")))?);
        }
        say_what_it_is(shared, &sides, config.receive_queues);
        Ok(XdpPort(Arc::new(XdpShared {
            transmit_queues: config.transmit_queues.clamp(1, rx.min(tx) as u16),
            sides,
            chunk,
            index: AtomicI32::new(index),
            generation: Generation::new(),
            redirection: Mutex::new(redirection),
            _tags: tags,
            base,
        })))
    }

    /// How many of its transmit queues, the last ones, are packet sockets'.
    pub fn packet_queues(&self) -> u16 {
        self.0.packet_queues()
    }

    /// Takes a receive queue: `0 .. info().receive_queues`, all of which have to be polled.
    pub fn rx_queue(&self, index: u16) -> Result<XdpRxQueue> {
        let shared = &self.0;
        let side = shared.sides.get(usize::from(index));
        let side = side.ok_or_else(|| shared.base.0.no_queue("receive", index, shared.sides.len()))?;
        if side.receive.taken.swap(true, Ordering::AcqRel) {
            return Err(shared.base.0.taken("receive", index));
        }
        Ok(XdpRxQueue::new(shared.clone(), index.into()))
    }

    /// Takes a transmit queue: `0 .. info().transmit_queues`, first those of the device, then those by packet sockets.
    pub fn tx_queue(&self, index: u16) -> Result<Box<dyn TransmitQueue>> {
        let shared = &self.0;
        if let Some(behind) =
            index.checked_sub(shared.transmit_queues).filter(|behind| *behind < shared.packet_queues())
        {
            return Ok(Box::new(shared.base.tx_queue(behind)?));
        }
        let side = shared.sides.get(usize::from(index)).filter(|_| index < shared.transmit_queues);
        let side = side.ok_or_else(|| shared.base.0.no_queue("transmit", index, self.info().transmit_queues.into()))?;
        if side.transmit.taken.swap(true, Ordering::AcqRel) {
            return Err(shared.base.0.taken("transmit", index));
        }
        Ok(Box::new(XdpTxQueue::new(shared.clone(), index.into())))
    }
}

fn too_long(name: &str, longest: usize) -> Error {
    Error::new(format!(
        "interface {name}: an MTU of {} was requested, and AF_XDP takes up to {}: lower it, or use packet sockets",
        longest - FRAME_OVERHEAD,
        LONGEST - FRAME_OVERHEAD
    ))
}

/// Opens a queue and its spare sockets, as many as the limit of locked memory allows.
fn first(by: &mut Redirection, index: i32, queue: u32, mode: Mode, chunk: usize) -> io::Result<Side> {
    let frames = Frames::new(chunk)?;
    let ends = bind(by, Unbound::open(&frames)?, index, queue, mode)?;
    by.spares.push((0..SPARES).map_while(|_| Unbound::open(&frames).ok()).collect());
    Ok(Side::new(frames, ends))
}

/// Binds a socket to a queue, and lets the program give it that queue's frames.
fn bind(by: &Redirection, socket: Unbound, index: i32, queue: u32, mode: Mode) -> io::Result<Ends> {
    let ends = xsk::bind(socket, index, queue, mode)?;
    by.program.set_socket(queue, ends.socket.as_fd())?;
    Ok(ends)
}

fn say_what_it_is(shared: &Shared, sides: &[Side], requested: u16) {
    let name = &shared.name;
    if sides.iter().all(|side| lock(&side.socket).0.zero_copy()) {
        shared.note(format!("port {name}: its driver receives and sends without a copy by the kernel"));
    }
    if sides.len() != usize::from(requested) {
        shared.note(format!(
            "port {name}: the device has {} receive queues, all of which are used: `ethtool -L {name}` changes their number",
            sides.len()
        ));
    }
}

impl XdpShared {
    /// Transmit queues by packet sockets.
    fn packet_queues(&self) -> u16 {
        self.base.0.transmit.len() as u16
    }

    /// Looks for the interface, and for its MTU. If it was made again, one of the queues gives new sockets to all of
    /// them.
    fn look(&self) {
        let base = &self.base.0;
        let Some(index) = base.find() else { return self.leave() };
        if index == self.index.load(Ordering::Acquire) {
            base.look_at_mtu();
            return;
        }
        // Not before it is up, as some drivers refuse sockets until then. If another queue is at it, nobody waits.
        let up = interface::flags(base.control(), &base.name).is_ok_and(|(up, _)| up);
        let Ok(mut redirection) = self.redirection.try_lock() else { return };
        if !up || index == self.index.load(Ordering::Acquire) {
            return;
        }
        let failed = format!("port {}: the interface came back and is not used: ", base.name);
        base.withdraw(&failed);
        if let Err(error) = self.join(&mut redirection, index) {
            base.note(format!("{failed}{}: start again", crate::error::text(&error)));
        }
    }

    /// The interface is gone, or in another namespace, whose frames are not this router's. If it comes back it is joined
    /// again, whatever its index is.
    fn leave(&self) {
        if self.index.load(Ordering::Acquire) != GONE
            && let Ok(mut redirection) = self.redirection.try_lock()
        {
            redirection.attached = None;
            self.index.store(GONE, Ordering::Release);
        }
    }

    fn join(&self, redirection: &mut Redirection, index: i32) -> io::Result<()> {
        let base = &self.base.0;
        let note = |sentence| base.note(sentence);
        let site = Site { name: &base.name, control: base.control(), note: &note };
        let mode = redirection.attach(&site, index)?;
        // Queues let go of their sockets before others receive into the same memory.
        self.generation.begin();
        let replaced = self.replace(redirection, index, mode);
        // If it failed, too: it is tried again from the beginning.
        self.generation.end();
        replaced?;
        self.index.store(index, Ordering::Release);
        base.found(index);
        // If there is no privilege for it, it says so.
        site.keep_tags();
        Ok(())
    }

    fn replace(&self, redirection: &mut Redirection, index: i32, mode: Mode) -> io::Result<()> {
        for (queue, side) in self.sides.iter().enumerate() {
            let spare = redirection.spares[queue].pop();
            let socket = spare.map_or_else(|| Unbound::open(&side.frames), Ok)?;
            side.replace(bind(redirection, socket, index, queue as u32, mode)?);
        }
        Ok(())
    }
}

impl Port for XdpPort {
    fn info(&self) -> PortInfo {
        PortInfo {
            driver: "xdp".to_owned(),
            receive_queues: self.0.sides.len() as u16,
            transmit_queues: self.0.transmit_queues + self.0.packet_queues(),
            ..self.0.base.info()
        }
    }

    fn link(&self) -> Link {
        self.0.base.link()
    }

    fn is_up(&self) -> bool {
        self.0.base.is_up()
    }

    fn stats(&self) -> PortStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut stats = self.0.base.stats();
        for side in &self.0.sides {
            let lost = side.lost();
            stats.rx_packets += get(&side.receive.packets);
            stats.rx_bytes += get(&side.receive.bytes);
            stats.rx_errors += get(&side.receive.errors) + lost.refused.0;
            stats.rx_missed += lost.missed + get(&side.left);
            stats.rx_no_buffer += get(&side.no_buffer);
            stats.tx_packets += get(&side.transmit.packets);
            stats.tx_bytes += get(&side.transmit.bytes);
            stats.tx_errors += get(&side.transmit.errors) + lost.refused.1;
        }
        stats
    }

    fn set_promiscuous(&self, on: bool) -> std::result::Result<(), String> {
        self.0.base.set_promiscuous(on)
    }

    fn set_mtu(&self, mtu: u16) -> std::result::Result<(), String> {
        let longest = usize::from(mtu) + FRAME_OVERHEAD;
        if longest > LONGEST {
            return Err(too_long(&self.0.base.0.name, longest).to_string());
        }
        if xsk::chunk_for(longest).is_none_or(|chunk| chunk > self.0.chunk) {
            let name = &self.0.base.0.name;
            return Err(format!(
                "port {name}: an MTU of {mtu} was requested, and its memory is cut for smaller ones; set it in the configuration"
            ));
        }
        self.0.base.set_mtu(mtu)
    }
}
