// SPDX-License-Identifier: MIT
//! AF_XDP sockets: one for each queue of a device, each with frame memory of its own (UMEM), which frames are copied
//! from and to.
//!
//! The memory is cut into chunks, one for each frame. The first ones circulate through the fill ring and the receive
//! ring, the others through the transmit ring and the completion ring; so two threads may work with a socket, one in
//! each direction.

use super::rings::{Consumer, Mapping, Producer};
use super::{check, get_option, set_option};
use libc::{c_int, c_void, off_t, xdp_desc};
use perigee_packet::{Handle, Memory};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

/// Frames that may wait to be received, a power of two.
const RECEIVE: u32 = 2048;
/// Frames that may be on their way out, a power of two.
const TRANSMIT: u32 = 1024;
/// Bytes that the kernel keeps free ahead of each frame (XDP_PACKET_HEADROOM).
const HEADROOM: usize = 256;
/// Sizes of chunks in bytes; the kernel takes no others without huge pages, and none beyond a page.
const CHUNKS: [usize; 2] = [2048, 4096];
/// The longest frame in bytes.
pub(crate) const LONGEST: usize = CHUNKS[1] - HEADROOM;
/// Shortest frame: an Ethernet header.
const SHORTEST: usize = 14;
/// Frames that the kernel sends by one call.
const PER_CALL: usize = 32;

/// Size of the chunks for frames of up to `longest` bytes.
pub(crate) fn chunk_for(longest: usize) -> Option<usize> {
    CHUNKS.into_iter().find(|chunk| longest + HEADROOM <= *chunk)
}

/// Memory for the frames of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Frames {
    memory: Arc<Mapping>,
    chunk: usize,
}

impl Frames {
    /// With chunks of `chunk` bytes.
    pub(crate) fn new(chunk: usize) -> io::Result<Frames> {
        Ok(Frames { memory: Arc::new(Mapping::anonymous((RECEIVE + TRANSMIT) as usize * chunk)?), chunk })
    }
}

/// A socket that knows its memory, and no queue yet. Several may have the same memory, as long as only one is bound.
#[derive(Debug)]
pub(crate) struct Unbound {
    descriptor: OwnedFd,
    frames: Frames,
}

impl Unbound {
    /// Opens one. The kernel locks the memory, for which it asks for a privilege or counts it against a limit.
    pub(crate) fn open(frames: &Frames) -> io::Result<Unbound> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: no pointers; a descriptor that is returned is ours alone.
        let descriptor = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_XDP, kind, 0))?) };
        let (addr, len) = (frames.memory.address(), frames.memory.length() as u64);
        let wanted = libc::xdp_umem_reg_v1 { addr, len, chunk_size: frames.chunk as u32, headroom: 0 };
        set_option(descriptor.as_raw_fd(), libc::SOL_XDP, libc::XDP_UMEM_REG, &wanted)?;
        Ok(Unbound { descriptor, frames: frames.clone() })
    }
}

/// The two directions of a socket.
pub(crate) struct Ends {
    pub(crate) socket: Arc<XdpSocket>,
    pub(crate) receiver: Receiver,
    pub(crate) transmitter: Transmitter,
}

/// A socket that is bound to a queue.
#[derive(Debug)]
pub(crate) struct XdpSocket {
    descriptor: OwnedFd,
    memory: Arc<Mapping>,
    zero_copy: bool,
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl AsRawFd for XdpSocket {
    fn as_raw_fd(&self) -> c_int {
        self.descriptor.as_raw_fd()
    }
}

/// What the kernel counts, since the socket was opened.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lost {
    /// Frames that no chunk or entry was free for, or that were too long for a chunk.
    pub(crate) missed: u64,
    /// Entries that the kernel did not accept, in the fill ring and in the transmit ring.
    pub(crate) refused: (u64, u64),
}

impl std::ops::Add for Lost {
    type Output = Lost;

    fn add(self, other: Lost) -> Lost {
        let refused = (self.refused.0 + other.refused.0, self.refused.1 + other.refused.1);
        Lost { missed: self.missed + other.missed, refused }
    }
}

impl XdpSocket {
    /// Is its memory the device's own, without a copy by the kernel?
    pub(crate) fn zero_copy(&self) -> bool {
        self.zero_copy
    }

    pub(crate) fn lost(&self) -> Lost {
        // SAFETY: plain numbers, for which zeros are valid.
        let mut counted: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        // An older kernel writes fewer of them.
        if get_option(self.as_raw_fd(), libc::SOL_XDP, libc::XDP_STATISTICS, &mut counted).is_err() {
            return Lost::default();
        }
        Lost {
            missed: counted.rx_dropped.saturating_add(counted.rx_ring_full),
            refused: (counted.rx_invalid_descs, counted.tx_invalid_descs),
        }
    }
}

/// Where an XDP program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the driver, before the kernel has made a socket buffer of the frame.
    Native,
    /// Behind the driver: for every kind of interface, and slower.
    Generic,
}

/// Binds a socket to a queue of the interface `index`.
pub(crate) fn bind(socket: Unbound, index: i32, queue: u32, mode: Mode) -> io::Result<Ends> {
    let Unbound { descriptor, frames: Frames { memory, chunk } } = socket;
    let fd = descriptor.as_raw_fd();
    for (ring, entries) in [
        (libc::XDP_UMEM_FILL_RING, RECEIVE),
        (libc::XDP_UMEM_COMPLETION_RING, TRANSMIT),
        (libc::XDP_RX_RING, RECEIVE),
        (libc::XDP_TX_RING, TRANSMIT),
    ] {
        set_option(fd, libc::SOL_XDP, ring, &entries)?;
    }
    // SAFETY: plain numbers, for which zeros are valid.
    let mut layout: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
    let written = get_option(fd, libc::SOL_XDP, libc::XDP_MMAP_OFFSETS, &mut layout)?;
    if written != size_of::<libc::xdp_mmap_offsets>() {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
    }
    let mut fill = Producer::map(fd, libc::XDP_UMEM_PGOFF_FILL_RING as off_t, &layout.fr, RECEIVE)?;
    let completed = Consumer::map(fd, libc::XDP_UMEM_PGOFF_COMPLETION_RING as off_t, &layout.cr, TRANSMIT)?;
    let received = Consumer::map(fd, libc::XDP_PGOFF_RX_RING, &layout.rx, RECEIVE)?;
    let ring = Producer::map(fd, libc::XDP_PGOFF_TX_RING, &layout.tx, TRANSMIT)?;
    // Drivers take their first buffers while the socket is bound.
    (0..RECEIVE as u64).for_each(|number| fill.put(number * chunk as u64));
    fill.publish();
    // A driver that shares its memory would not do so with a program behind it.
    let copy = if mode == Mode::Generic { libc::XDP_COPY } else { 0 };
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP | copy,
        sxdp_ifindex: index.unsigned_abs(),
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    let size = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: an address of the size given.
    check(unsafe { libc::bind(fd, (&raw const address).cast(), size) })?;
    let mut options = libc::xdp_options { flags: 0 };
    let zero_copy = get_option(fd, libc::SOL_XDP, libc::XDP_OPTIONS, &mut options).is_ok()
        && options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0;
    let socket = Arc::new(XdpSocket { descriptor, memory, zero_copy });
    let receiver = Receiver { socket: socket.clone(), fill, received, chunk };
    let free = (RECEIVE..RECEIVE + TRANSMIT).collect();
    let out = [false; TRANSMIT as usize].into();
    let transmitter = Transmitter { socket: socket.clone(), ring, completed, chunk, free, out };
    Ok(Ends { socket, receiver, transmitter })
}

/// The receiving direction.
pub(crate) struct Receiver {
    socket: Arc<XdpSocket>,
    fill: Producer<u64>,
    received: Consumer<xdp_desc>,
    chunk: usize,
}

impl Receiver {
    /// Becomes readable when a frame comes.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.socket.descriptor.as_fd()
    }

    /// Frames that can be received now.
    #[inline]
    pub(crate) fn there(&self) -> usize {
        self.received.there()
    }

    /// Where a frame is, and its length in bytes; `None` if that is outside the memory for received frames, or no whole
    /// frame.
    #[inline]
    fn place(&self, ahead: usize) -> Option<(usize, usize)> {
        let entry = self.received.get(ahead);
        let (start, length) = (usize::try_from(entry.addr).ok()?, entry.len as usize);
        let inside = start < RECEIVE as usize * self.chunk && start % self.chunk + length <= self.chunk;
        (inside && length >= SHORTEST && entry.options == 0).then_some((start, length))
    }

    /// Length in bytes of the frame `ahead` behind the first (less than [`there`](Receiver::there)); `None` if it is no
    /// use.
    #[inline]
    pub(crate) fn length(&self, ahead: usize) -> Option<usize> {
        self.place(ahead).map(|(_, length)| length)
    }

    /// Copies the frame `ahead` behind the first, which is as long as `to`.
    #[inline]
    pub(crate) fn copy(&self, ahead: usize, to: &mut [u8]) {
        let place = self.place(ahead).filter(|(_, length)| *length == to.len());
        let from = place.and_then(|(start, length)| self.socket.memory.part(start, length));
        match from {
            // SAFETY: as many bytes, inside the mapping; the buffer is another memory. The kernel does not write there
            // until the chunk is released, for which this is needed exclusively.
            Some(from) => unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len()) },
            None => to.fill(0),
        }
    }

    /// Gives the first `n` frames' chunks back to the kernel.
    #[inline]
    pub(crate) fn release(&mut self, n: usize) {
        for ahead in 0..n {
            let chunk = self.received.get(ahead).addr / self.chunk as u64;
            // There is room: the ring has as many entries as there are chunks.
            if chunk < u64::from(RECEIVE) && self.fill.room() > 0 {
                self.fill.put(chunk * self.chunk as u64);
            }
        }
        self.fill.publish();
        self.received.release(n);
    }

    /// Lets the driver go on, if it waits for chunks.
    #[inline]
    pub(crate) fn wake(&self) {
        if self.fill.wants_wakeup() {
            // SAFETY: no bytes are asked for. It fails where there is nothing, or nothing to wake.
            unsafe { libc::recvfrom(self.fd(), std::ptr::null_mut(), 0, libc::MSG_DONTWAIT, NONE.cast(), NONE.cast()) };
        }
    }

    fn fd(&self) -> c_int {
        self.socket.as_raw_fd()
    }
}

const NONE: *mut c_void = std::ptr::null_mut();

/// What came of asking the kernel to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kick {
    /// It went on, and dropped this number of frames behind the socket.
    Went { dropped: usize },
    /// The interface is down or gone: what was put stays.
    Stopped { gone: bool },
}

/// The sending direction.
pub(crate) struct Transmitter {
    socket: Arc<XdpSocket>,
    ring: Producer<xdp_desc>,
    completed: Consumer<u64>,
    chunk: usize,
    /// Numbers of the chunks that hold no frame.
    free: Vec<u32>,
    /// Of each chunk for sending: whether the kernel has it.
    out: Box<[bool]>,
}

impl Transmitter {
    /// How many frames can be put now.
    pub(crate) fn room(&mut self) -> usize {
        let n = self.completed.there();
        for ahead in 0..n {
            let chunk = self.completed.get(ahead) / self.chunk as u64;
            let number = chunk.checked_sub(u64::from(RECEIVE)).and_then(|number| usize::try_from(number).ok());
            // What the kernel does not have it cannot give back.
            if let Some(out) = number.and_then(|number| self.out.get_mut(number)).filter(|out| **out) {
                *out = false;
                self.free.push(chunk as u32);
            }
        }
        self.completed.release(n);
        self.free.len().min(self.ring.room())
    }

    /// Copies a packet, for which there must be room, for the kernel to send. Returns its length in bytes; `None`: it
    /// is shorter than a header or longer than `longest`, and not sent.
    #[inline]
    pub(crate) fn put(&mut self, memory: &dyn Memory, packet: &Handle, longest: usize) -> Option<usize> {
        let (data, length) = memory.place(packet);
        let length = usize::from(length);
        if length < SHORTEST || length > longest.min(self.chunk) {
            return None;
        }
        let chunk = self.free.pop()?;
        let start = chunk as usize * self.chunk;
        let to = self.socket.memory.part(start, length)?;
        // SAFETY: as many bytes of a packet that is lent to us; the chunk is ours and inside the mapping.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to.as_ptr(), length) };
        self.out[(chunk - RECEIVE) as usize] = true;
        self.ring.put(xdp_desc { addr: start as u64, len: length as u32, options: 0 });
        Some(length)
    }

    /// Shows the kernel what was put.
    #[inline]
    pub(crate) fn publish(&self) {
        self.ring.publish();
    }

    /// Frames that the kernel has not taken yet.
    pub(crate) fn pending(&self) -> usize {
        self.ring.pending()
    }

    /// Has the kernel not taken everything yet?
    pub(crate) fn is_pending(&self) -> bool {
        self.pending() > 0
    }

    /// Lets the kernel send, if it has to be asked; never waits. Without zero copy it sends right in this call.
    pub(crate) fn kick(&self) -> Kick {
        let pending = self.ring.pending();
        // One call more, as the kernel may not have said yet what it has taken.
        let (mut calls, mut dropped) = (pending.div_ceil(PER_CALL) + 1, 0);
        while calls > 0 && self.is_pending() && self.ring.wants_wakeup() {
            calls -= 1;
            // SAFETY: no bytes and no address.
            let sent = unsafe { libc::sendto(self.socket.as_raw_fd(), NONE, 0, libc::MSG_DONTWAIT, NONE.cast(), 0) };
            if sent >= 0 {
                break;
            }
            match io::Error::last_os_error().raw_os_error() {
                // It has sent as many as by one call, or the device's queue is full.
                Some(libc::EAGAIN | libc::EINTR) => {}
                // A frame that is dropped ends a call early.
                Some(libc::EBUSY) if !self.socket.zero_copy && dropped < pending => {
                    dropped += 1;
                    calls += 1;
                }
                Some(libc::ENETDOWN) => return Kick::Stopped { gone: false },
                Some(libc::ENXIO | libc::ENODEV) => return Kick::Stopped { gone: true },
                _ => break,
            }
        }
        Kick::Went { dropped }
    }
}
