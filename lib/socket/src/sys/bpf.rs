// SPDX-License-Identifier: MIT
//! XDP programs (bpf(2)), made of instructions without a compiler or a library in C: here the one that gives an
//! interface's frames to AF_XDP sockets.
//!
//! The libc crate has neither the structures of this call nor its numbers; they are those of linux/bpf.h.

use super::check;
use libc::{c_int, c_long};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

const MAP_CREATE: c_int = 0;
const MAP_UPDATE_ELEM: c_int = 2;
const PROG_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_XDP: u32 = 37;
const FUNC_REDIRECT_MAP: i32 = 51;
/// What the program returns for frames of queues without a socket: they go to the kernel.
pub(crate) const XDP_PASS: i32 = 2;
/// Where a program finds the number of the receive queue (`struct xdp_md`).
const RX_QUEUE_INDEX: i16 = 16;
/// A name in `bpftool prog` and `bpftool map`.
const NAME: [u8; 16] = *b"perigee\0\0\0\0\0\0\0\0\0";

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
    flags: u32,
    inner: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    _padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

/// An instruction (`struct bpf_insn`); of `registers` the low half is the destination, the high half the source.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instruction {
    pub(crate) code: u8,
    pub(crate) registers: u8,
    pub(crate) offset: i16,
    pub(crate) immediate: i32,
}

/// Where a program is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// In the driver, before the kernel has made a socket buffer of the frame.
    Native,
    /// Behind the driver: for every kind of interface, and slower.
    Generic,
}

/// Calls bpf(2) with a structure that it only reads.
///
/// # Safety
/// `attributes` must be the kernel's structure for `command`, whose addresses lead to what the kernel reads or writes
/// there.
unsafe fn bpf<T>(command: c_int, attributes: &T) -> io::Result<c_int> {
    // SAFETY: the caller's contract; the size is that of the structure, and what the kernel knows beyond that it takes
    // for zeros.
    let result: c_long =
        unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), size_of::<T>()) };
    check(result as c_int)
}

/// Takes over a descriptor.
fn own(descriptor: c_int) -> OwnedFd {
    // SAFETY: the kernel has just made it for us.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

fn number(descriptor: &impl AsRawFd) -> u32 {
    descriptor.as_raw_fd().unsigned_abs()
}

/// Which socket receives the frames of which queue.
#[derive(Debug)]
pub(crate) struct SocketMap(OwnedFd);

impl SocketMap {
    /// For the queues `0 .. queues`.
    pub(crate) fn new(queues: u32) -> io::Result<SocketMap> {
        let (max_entries, name) = (queues, NAME);
        let wanted = MapCreate {
            kind: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries,
            flags: 0,
            inner: 0,
            numa_node: 0,
            name,
        };
        // SAFETY: the structure of MAP_CREATE, without addresses.
        unsafe { bpf(MAP_CREATE, &wanted) }.map(|map| SocketMap(own(map)))
    }

    /// Gives the frames of a queue to a socket that is bound to it.
    pub(crate) fn set(&self, queue: u32, socket: &impl AsRawFd) -> io::Result<()> {
        let socket = number(socket);
        let (key, value) = ((&raw const queue) as u64, (&raw const socket) as u64);
        let wanted = MapUpdate { map: number(&self.0), _padding: 0, key, value, flags: 0 };
        // SAFETY: the structure of MAP_UPDATE_ELEM, whose addresses lead to four bytes each, as the map was made with.
        unsafe { bpf(MAP_UPDATE_ELEM, &wanted) }.map(drop)
    }
}

/// The program, in the kernel.
#[derive(Debug)]
pub(crate) struct Program(OwnedFd);

impl Program {
    /// Loads it, for a map.
    pub(crate) fn load(map: &SocketMap) -> io::Result<Program> {
        let instruction = |code, registers, offset, immediate| Instruction { code, registers, offset, immediate };
        let program = [
            // r2 = number of the receive queue
            instruction(0x61, 0x12, RX_QUEUE_INDEX, 0),
            // r1 = map, by its descriptor; takes two instructions
            instruction(0x18, 0x11, 0, map.0.as_raw_fd()),
            instruction(0, 0, 0, 0),
            // r3 = what is returned where there is no socket
            instruction(0xb7, 0x03, 0, XDP_PASS),
            // r0 = bpf_redirect_map(r1, r2, r3)
            instruction(0x85, 0, 0, FUNC_REDIRECT_MAP),
            // return r0
            instruction(0x95, 0, 0, 0),
        ];
        Program::new(&program, c"MIT")
    }

    /// Loads these instructions, if the kernel finds that they do no harm. Some of its functions are for licenses that
    /// it knows.
    pub(crate) fn new(program: &[Instruction], license: &CStr) -> io::Result<Program> {
        let wanted = ProgLoad {
            kind: PROG_TYPE_XDP,
            instructions_count: program.len() as u32,
            instructions: program.as_ptr() as u64,
            license: license.as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name: NAME,
            interface: 0,
            attach: ATTACH_XDP,
        };
        // SAFETY: the structure of PROG_LOAD; as many instructions as it says and a string that ends with zero, which
        // are read.
        unsafe { bpf(PROG_LOAD, &wanted) }.map(|program| Program(own(program)))
    }

    /// Attaches it to an interface.
    ///
    /// It is detached when the descriptor is closed, or when the process ends, however it does.
    pub(crate) fn attach(&self, index: i32, mode: Mode) -> io::Result<OwnedFd> {
        // XDP_FLAGS_SKB_MODE and XDP_FLAGS_DRV_MODE of linux/if_link.h.
        let flags = match mode {
            Mode::Generic => 1 << 1,
            Mode::Native => 1 << 2,
        };
        let wanted =
            LinkCreate { program: number(&self.0), interface: index.unsigned_abs(), attach: ATTACH_XDP, flags };
        // SAFETY: the structure of LINK_CREATE, without addresses.
        unsafe { bpf(LINK_CREATE, &wanted) }.map(own)
    }
}
