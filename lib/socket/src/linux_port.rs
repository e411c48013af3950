// SPDX-License-Identifier: MIT
//! A port that stays Linux's: an XDP program at the interface forwards what it can, and Linux gets everything else.
//!
//! The router sends nothing there, and changes nothing of the interface but whether the device takes VLAN tags out. It
//! receives copies of what Linux receives while somebody watches: for captures and traces.

use crate::error::{Error, Result, text, xdp_failed};
use crate::port::{Buffers, SocketConfig, SocketPort, lock};
use crate::sys::interface;
use crate::xdp::site::{FrameProgram, Site};
use perigee_packet::{Handle, Link, Memory, Port, PortInfo, PortStats, ReceiveQueue, TransmitQueue};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, Weak};

/// Where the program is attached.
struct Attached {
    index: i32,
    /// It is detached when this is closed.
    _program: OwnedFd,
}

struct Shared {
    base: SocketPort,
    program: Arc<dyn FrameProgram>,
    /// `None` while the interface is away.
    attached: Mutex<Option<Attached>>,
    /// The device took VLAN tags out before.
    took_tags: bool,
    transmit_queues: u16,
    memory: &'static dyn Memory,
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.took_tags {
            // Without privileges it stays as it is.
            let _ = interface::leave_tags(self.base.0.control(), &self.base.0.name, false);
        }
    }
}

/// An open port; clones are the same port. The program goes away when it and all its queues are dropped.
#[derive(Clone)]
pub struct LinuxPort(Arc<Shared>);

/// Switches what a port receives; the port may be gone.
#[derive(Clone)]
pub struct Watch(Weak<Shared>);

impl Watch {
    /// Whether the port receives copies of what Linux receives from now on.
    pub fn set(&self, on: bool) {
        // An interface that is gone has nothing to watch, and is watched once it is back.
        let _ = self.0.upgrade().map(|port| port.base.watch(on));
    }
}

impl LinuxPort {
    /// Attaches the program to an interface of this thread's network namespace.
    ///
    /// # Errors
    /// There is no such interface, programs cannot forward there, or the system refuses the program.
    pub fn open(config: &SocketConfig, program: Arc<dyn FrameProgram>, buffers: Buffers) -> Result<LinuxPort> {
        let memory = buffers.memory;
        let config = SocketConfig { mtu: None, mac: None, promiscuous: false, quiet: true, ..config.clone() };
        let base = SocketPort::with_queues(&config, Buffers { super_frames: None, ..buffers }, 1, 0)?;
        let name = config.interface.as_str();
        let note = |sentence| base.0.note(sentence);
        let site = Site { name, control: base.0.control(), note: &note };
        if let Some(why) = site.unfit_for_programs() {
            return Err(Error::new(format!("interface {name} {why}")));
        }
        let index = base.0.find().ok_or_else(|| Error::new(format!("interface {name} is gone: start again")))?;
        // First, as drivers may reset the device for it.
        let took_tags = site.keep_tags();
        let attached = site.attach(program.as_ref(), index);
        let (attached, _) = attached.map_err(|error| xdp_failed(name, "no XDP program could be attached", &error))?;
        let attached = Mutex::new(Some(Attached { index, _program: attached }));
        let transmit_queues = (config.transmit_queues + config.packet_queues).max(1);
        Ok(LinuxPort(Arc::new(Shared { base, program, attached, took_tags, transmit_queues, memory })))
    }

    /// What switches whether it receives anything: nothing at first.
    pub fn watch(&self) -> Watch {
        Watch(Arc::downgrade(&self.0))
    }

    /// Takes a receive queue: `0 .. info().receive_queues`.
    ///
    /// # Errors
    /// It is taken already, or there is none of that number.
    pub fn rx_queue(&self, index: u16) -> Result<impl ReceiveQueue + use<>> {
        self.0.base.rx_queue(index)
    }

    /// A transmit queue, whose packets vanish: Linux has sent them, or will.
    pub fn tx_queue(&self) -> impl TransmitQueue + use<> {
        Vanishing(self.0.clone())
    }
}

impl Shared {
    /// Attaches the program again if the interface was deleted and made again.
    fn follow(&self) {
        let base = &self.base.0;
        let now = base.find();
        let mut attached = lock(&self.attached);
        if now == attached.as_ref().map(|attached| attached.index) {
            return;
        }
        *attached = None;
        let Some(index) = now else { return };
        let note = |sentence| base.note(sentence);
        let site = Site { name: &base.name, control: base.control(), note: &note };
        site.keep_tags();
        let failed = format!("port {}: the interface came back and is not used: ", base.name);
        base.withdraw(&failed);
        match site.attach(self.program.as_ref(), index) {
            Ok((program, _)) => *attached = Some(Attached { index, _program: program }),
            Err(error) => note(format!("{failed}{}: start again", text(&error))),
        }
    }
}

impl Port for LinuxPort {
    fn info(&self) -> PortInfo {
        PortInfo { driver: "xdp-linux".to_owned(), transmit_queues: self.0.transmit_queues, ..self.0.base.info() }
    }

    /// Attaches the program again as well if the interface was made again.
    fn is_up(&self) -> bool {
        self.0.follow();
        self.0.base.is_up()
    }

    fn link(&self) -> Link {
        Link { up: self.is_up(), ..self.0.base.link() }
    }

    /// None: who opened it knows what the program has done, and `ip -s link` what Linux has. Copies do not count.
    fn stats(&self) -> PortStats {
        PortStats::default()
    }

    /// Linux does it where it needs it.
    fn set_promiscuous(&self, _: bool) -> std::result::Result<(), String> {
        Ok(())
    }

    fn set_mtu(&self, mtu: u16) -> std::result::Result<(), String> {
        let name = &self.0.base.0.name;
        Err(format!("port {name}: its MTU is Linux's: `ip link set {name} mtu {mtu}`"))
    }
}

struct Vanishing(Arc<Shared>);

impl TransmitQueue for Vanishing {
    fn transmit(&mut self, packets: &mut Vec<Handle>) {
        self.discard(packets);
    }

    fn discard(&self, packets: &mut Vec<Handle>) {
        self.0.memory.free(packets);
    }
}
