// SPDX-License-Identifier: MIT
//! XDP programs at interfaces: links of the kernel's, each of which goes when its last descriptor is closed.

use libbpf_rs::libbpf_sys;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// XDP_FLAGS_SKB_MODE and XDP_FLAGS_DRV_MODE of linux/if_link.h.
const BEHIND_DRIVER: u32 = 1 << 1;
const IN_DRIVER: u32 = 1 << 2;

/// Attaches an XDP program to an interface of this thread's network namespace, in its driver or behind it. It is
/// detached when the descriptor is closed.
///
/// # Errors
/// The kernel refuses it, or the driver cannot do it.
pub fn attach(program: impl AsFd, link: u32, in_driver: bool) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags: if in_driver { IN_DRIVER } else { BEHIND_DRIVER },
        ..Default::default()
    };
    let (program, link) = (program.as_fd().as_raw_fd(), link as i32);
    // SAFETY: the structure says its own size, and is only read.
    let made = unsafe { libbpf_sys::bpf_link_create(program, link, libbpf_sys::BPF_XDP, &options) };
    owned(made)
}

/// Keeps a program attached for as long as there is this file, in a BPF file system, whoever has descriptors.
///
/// # Errors
/// The file is there, or is in no BPF file system, or this process may not make it.
pub fn pin(attached: impl AsFd, file: &Path) -> io::Result<()> {
    let file = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero.
    let pinned = unsafe { libbpf_sys::bpf_obj_pin(attached.as_fd().as_raw_fd(), file.as_ptr()) };
    if pinned < 0 { Err(io::Error::from_raw_os_error(-pinned)) } else { Ok(()) }
}

/// What was [pinned](pin) to a file, with the index of its interface, which is 0 if that is gone; `None` without such a
/// file.
///
/// # Errors
/// The file is something else, or this process may not open it.
pub fn pinned(file: &Path) -> io::Result<Option<(OwnedFd, u32)>> {
    let file = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero.
    let opened = unsafe { libbpf_sys::bpf_obj_get(file.as_ptr()) };
    let attached = match owned(opened) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let info = info(&attached, libbpf_sys::bpf_link_info::default())?;
    if info.type_ != libbpf_sys::BPF_LINK_TYPE_XDP {
        return Err(io::ErrorKind::InvalidData.into());
    }
    // SAFETY: it is the part for this type.
    Ok(Some((attached, unsafe { info.__bindgen_anon_1.xdp.ifindex })))
}

/// What the kernel says of an object by its descriptor.
fn info<T: Default>(object: &OwnedFd, mut asked: T) -> io::Result<T> {
    let mut size = size_of::<T>() as u32;
    // SAFETY: `size` bytes are there to be written; callers take a structure of the kernel's for this kind of object.
    let done =
        unsafe { libbpf_sys::bpf_obj_get_info_by_fd(object.as_raw_fd(), (&raw mut asked).cast(), &raw mut size) };
    if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(asked) }
}

/// A descriptor that libbpf has returned, or the error.
fn owned(descriptor: i32) -> io::Result<OwnedFd> {
    match descriptor {
        // SAFETY: the kernel has just made it for us.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(descriptor) }),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// The map of AF_XDP sockets that an attached program hands frames to; `None` if it has none.
///
/// # Errors
/// The kernel refuses: it takes CAP_SYS_ADMIN.
pub fn sockets_of(attached: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    let program = info(attached, libbpf_sys::bpf_link_info::default())?.prog_id;
    // SAFETY: no pointers.
    let program = owned(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(program) })?;
    let mut ids = [0u32; MOST_MAPS];
    let asked = libbpf_sys::bpf_prog_info {
        nr_map_ids: MOST_MAPS as u32,
        map_ids: ids.as_mut_ptr() as u64,
        ..Default::default()
    };
    let count = info(&program, asked)?.nr_map_ids as usize;
    for id in &ids[..count.min(MOST_MAPS)] {
        // SAFETY: no pointers.
        let map = owned(unsafe { libbpf_sys::bpf_map_get_fd_by_id(*id) })?;
        if info(&map, libbpf_sys::bpf_map_info::default())?.type_ == libbpf_sys::BPF_MAP_TYPE_XSKMAP {
            return Ok(Some(map));
        }
    }
    Ok(None)
}

/// Puts an AF_XDP socket into such a map.
///
/// # Errors
/// There is no such place.
pub fn put_socket(map: &OwnedFd, place: u32, socket: impl AsFd) -> io::Result<()> {
    let socket = socket.as_fd().as_raw_fd();
    // SAFETY: key and value of the map's sizes, to be read.
    let put = unsafe {
        libbpf_sys::bpf_map_update_elem(map.as_raw_fd(), (&raw const place).cast(), (&raw const socket).cast(), 0)
    };
    if put < 0 { Err(io::Error::from_raw_os_error(-put)) } else { Ok(()) }
}

/// Lets another program take the place of one that is attached, from the next frame on.
///
/// # Errors
/// The interface is gone.
pub fn replace(attached: impl AsFd, program: impl AsFd) -> io::Result<()> {
    let (attached, program) = (attached.as_fd().as_raw_fd(), program.as_fd().as_raw_fd());
    // SAFETY: no options.
    let replaced = unsafe { libbpf_sys::bpf_link_update(attached, program, std::ptr::null()) };
    if replaced < 0 { Err(io::Error::from_raw_os_error(-replaced)) } else { Ok(()) }
}

/// Maps of a program that are looked at.
const MOST_MAPS: usize = 64;

/// NETDEV_XDP_ACT_NDO_XMIT of linux/netdev.h.
const TAKES_REDIRECTED: u64 = 1 << 2;

/// Whether the driver of an interface, which runs a program itself, sends frames that programs in other drivers redirect
/// to it. If not, the kernel drops them without a counter. A veth sends them if its other end has a program or GRO.
/// `None`: the kernel does not say it (before 6.3).
///
/// # Errors
/// The kernel cannot be asked, or the interface is gone.
pub fn takes_redirected(link: u32) -> io::Result<Option<bool>> {
    let mut options =
        libbpf_sys::bpf_xdp_query_opts { sz: size_of::<libbpf_sys::bpf_xdp_query_opts>() as _, ..Default::default() };
    // SAFETY: the structure says its own size, and is written within it.
    let asked = unsafe { libbpf_sys::bpf_xdp_query(link as i32, 0, &mut options) };
    match asked {
        // A driver that takes a program can do something at least.
        0.. if options.feature_flags == 0 => Ok(None),
        0.. => Ok(Some(options.feature_flags & TAKES_REDIRECTED != 0)),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}
