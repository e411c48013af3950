// SPDX-License-Identifier: MIT
//! The transport of vhost-user (<https://qemu-project.gitlab.io/qemu/interop/vhost-user.html>), under the names that `apps.vhost` of a
//! Snabb tree calls in C: messages over a unix socket, with descriptors beside them. No call waits.

use rustix::fd::{BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, accept_with, bind, connect, listen, recv, recvmsg, send, socket_with,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;

/// Request, flags and size of the payload, four bytes each.
const HEADER: usize = 12;
/// The most that a payload has: eight regions of memory, with their number and padding.
const PAYLOAD: usize = 8 + 8 * 32;
/// The most descriptors that come with a message.
const DESCRIPTORS: usize = 8;

fn open(path: *const c_char) -> Option<(OwnedFd, SocketAddrUnix)> {
    if path.is_null() {
        return None;
    }
    // SAFETY: Lua's strings end with a zero.
    let path = unsafe { CStr::from_ptr(path) };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    Some((socket, SocketAddrUnix::new(path).ok()?))
}

/// A descriptor for C, or -1.
fn given(socket: Option<OwnedFd>) -> c_int {
    socket.map_or(-1, IntoRawFd::into_raw_fd)
}

/// Connects to a listener; -1 if there is none.
///
/// # Safety
/// `path` is null or ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_connect(path: *const c_char) -> c_int {
    given(open(path).and_then(|(socket, address)| connect(&socket, &address).ok().map(|()| socket)))
}

/// Listens; -1 if it cannot, e.g. as the path exists.
///
/// # Safety
/// As [`vhost_user_connect`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_listen(path: *const c_char) -> c_int {
    let listening = |(socket, address): (OwnedFd, SocketAddrUnix)| {
        bind(&socket, &address).and_then(|()| listen(&socket, 1)).ok().map(|()| socket)
    };
    given(open(path).and_then(listening))
}

/// # Safety
/// `socket` is an open descriptor.
unsafe fn borrowed<'a>(socket: c_int) -> Option<BorrowedFd<'a>> {
    // SAFETY: the caller's.
    (socket >= 0).then(|| unsafe { BorrowedFd::borrow_raw(socket) })
}

/// The next connection of a listener; -1 if there is none.
///
/// # Safety
/// `listener` is an open descriptor, or negative.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_accept(listener: c_int) -> c_int {
    // SAFETY: the caller's.
    let listener = unsafe { borrowed(listener) };
    given(listener.and_then(|listener| accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC).ok()))
}

/// Sends a message: its header, and as much payload as that says. Returns how many bytes were sent, or -1.
///
/// # Safety
/// `socket` is an open descriptor, or negative; `message` has a header and as many bytes as that says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_send(socket: c_int, message: *const u8) -> c_int {
    // SAFETY: the caller's.
    let (Some(socket), false) = (unsafe { borrowed(socket) }, message.is_null()) else { return -1 };
    // SAFETY: the caller's.
    let bytes = unsafe {
        let size = message.add(8).cast::<u32>().read_unaligned() as usize;
        if size > PAYLOAD {
            return -1;
        }
        std::slice::from_raw_parts(message, HEADER + size)
    };
    send(socket, bytes, SendFlags::NOSIGNAL).map_or(-1, |sent| sent as c_int)
}

/// Receives a message, and the descriptors that come with it, which are the caller's then. Returns how many bytes it
/// has; 0 at the end of the connection, or after what is no message; -1 if there is none yet.
///
/// # Safety
/// `socket` is an open descriptor, or negative; `message` has room for the longest one; `descriptors` for eight;
/// `count` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_receive(
    socket: c_int,
    message: *mut u8,
    descriptors: *mut RawFd,
    count: *mut c_int,
) -> c_int {
    // SAFETY: the caller's.
    let Some(socket) = (unsafe { borrowed(socket) }) else { return -1 };
    if message.is_null() || descriptors.is_null() || count.is_null() {
        return -1;
    }
    // SAFETY: the caller's.
    let message = unsafe { std::slice::from_raw_parts_mut(message, HEADER + PAYLOAD) };
    match receive(socket, message) {
        Ok((length, received)) => {
            // SAFETY: the caller's; no more than eight are received.
            unsafe { count.write(received.len() as c_int) };
            for (i, descriptor) in received.into_iter().enumerate() {
                // SAFETY: as above.
                unsafe { descriptors.add(i).write(descriptor.into_raw_fd()) };
            }
            length as c_int
        }
        Err(Errno::AGAIN | Errno::INTR) => -1,
        Err(_) => 0,
    }
}

fn receive(socket: BorrowedFd<'_>, message: &mut [u8]) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let (header, payload) = message.split_at_mut(HEADER);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let length = recvmsg(socket, &mut [IoSliceMut::new(header)], &mut beside, flags)?.bytes;
    let mut descriptors = Vec::new();
    for part in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            descriptors.extend(received);
        }
    }
    let size = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]) as usize;
    if length < HEADER || size > PAYLOAD {
        // Descriptors that came with it are closed.
        return Ok((0, Vec::new()));
    }
    if size > 0 {
        // A sender writes header and payload at once.
        let got = recv(socket, &mut payload[..size], RecvFlags::WAITALL);
        if !got.is_ok_and(|(_, got)| got == size) {
            return Ok((0, Vec::new()));
        }
    }
    Ok((HEADER + size, descriptors))
}

/// What a mapping's length is a multiple of: `apps.vhost` gives so much up, as it expects huge pages.
const HUGE_PAGE: u64 = 2 << 20;

/// Maps a guest's memory; null if it cannot be.
///
/// # Safety
/// `descriptor` is open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_map_guest_memory(descriptor: c_int, size: u64) -> *mut c_void {
    let (access, shared) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
    // SAFETY: a new mapping touches no other memory.
    let at = unsafe {
        libc::mmap(std::ptr::null_mut(), size.next_multiple_of(HUGE_PAGE) as usize, access, shared, descriptor, 0)
    };
    if at == libc::MAP_FAILED { std::ptr::null_mut() } else { at }
}

/// Gives it up; 0, or -1 if that is not possible.
///
/// # Safety
/// `at` came from [`vhost_user_map_guest_memory`] for `size` bytes, or a few less.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_unmap_guest_memory(at: *mut c_void, size: u64) -> c_int {
    // SAFETY: the caller's.
    if at.is_null() { 0 } else { unsafe { libc::munmap(at, size.next_multiple_of(HUGE_PAGE) as usize) } }
}

/// Writes memory that is mapped back to its file; 0, or -1 if that is not possible.
///
/// # Safety
/// `at` is the beginning of a mapping of `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn vhost_user_sync_shm(at: *mut c_void, size: usize) -> c_int {
    // SAFETY: the caller's.
    unsafe { libc::msync(at, size, libc::MS_SYNC) }
}

#[repr(transparent)]
struct Kept([*const c_void; 8]);
// SAFETY: addresses, which never change.
unsafe impl Sync for Kept {}
/// Keeps the linker from leaving out what only Lua calls.
#[used]
static KEPT: Kept = Kept([
    vhost_user_connect as *const c_void,
    vhost_user_listen as *const c_void,
    vhost_user_accept as *const c_void,
    vhost_user_send as *const c_void,
    vhost_user_receive as *const c_void,
    vhost_user_map_guest_memory as *const c_void,
    vhost_user_unmap_guest_memory as *const c_void,
    vhost_user_sync_shm as *const c_void,
]);

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::{AsFd, FromRawFd};
    use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, sendmsg};
    use std::ffi::CString;
    use std::io::{IoSlice, Write};
    use std::os::unix::ffi::OsStrExt;

    /// A message with a payload of this many bytes.
    fn message(request: u32, said: u32, payload: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = [request, 1, said].iter().flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend((0..payload).map(|i| i as u8));
        bytes
    }

    #[test]
    fn messages_and_descriptors_arrive() {
        let folder = tempfile::tempdir().unwrap();
        let path = CString::new(folder.path().join("socket").as_os_str().as_bytes()).unwrap();
        let (mut room, mut descriptors, mut count) = ([0u8; HEADER + PAYLOAD], [-1; DESCRIPTORS], 0);
        // SAFETY: descriptors are open, and room is as long as is said.
        unsafe {
            assert_eq!(vhost_user_connect(path.as_ptr()), -1, "nobody listens");
            let listener = vhost_user_listen(path.as_ptr());
            assert!(listener >= 0 && vhost_user_listen(path.as_ptr()) == -1 && vhost_user_accept(listener) == -1);
            let one = vhost_user_connect(path.as_ptr());
            let other = vhost_user_accept(listener);
            assert!(one >= 0 && other >= 0);
            let mut receive = || {
                let got = vhost_user_receive(other, room.as_mut_ptr(), descriptors.as_mut_ptr(), &raw mut count);
                (got, room[..got.max(0) as usize].to_vec(), descriptors[..count as usize].to_vec())
            };
            assert_eq!(receive().0, -1, "nothing has come");
            let sent = message(5, 8, 8);
            assert_eq!(vhost_user_send(one, sent.as_ptr()), 20);
            assert_eq!(receive(), (20, sent, vec![]));
            // With a file beside it, which is memory to map.
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&[7; 5000]).unwrap();
            let (sent, files) = (message(5, 0, 0), [file.as_fd()]);
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            assert!(beside.push(SendAncillaryMessage::ScmRights(&files)));
            sendmsg(borrowed(one).unwrap(), &[IoSlice::new(&sent)], &mut beside, SendFlags::empty()).unwrap();
            let (got, bytes, received) = receive();
            assert_eq!((got, bytes, received.len()), (12, sent, 1));
            let memory = vhost_user_map_guest_memory(received[0], 5000);
            assert_eq!(memory.cast::<u8>().add(4999).read(), 7);
            assert_eq!(vhost_user_sync_shm(memory, 5000), 0);
            assert_eq!(vhost_user_unmap_guest_memory(memory, HUGE_PAGE), 0);
            assert!(vhost_user_map_guest_memory(-1, 5000).is_null());
            drop(OwnedFd::from_raw_fd(received[0]));
            // What says that it is longer than any message ends the connection.
            assert_eq!(vhost_user_send(one, message(5, 1 << 20, 0).as_ptr()), -1);
            send(borrowed(one).unwrap(), &message(5, u32::MAX, 20), SendFlags::empty()).unwrap();
            assert_eq!(receive().0, 0);
            for descriptor in [listener, one, other] {
                drop(OwnedFd::from_raw_fd(descriptor));
            }
        }
    }

    /// A connection, and what the second end of it receives: its result, bytes, and how many descriptors.
    fn connected() -> (OwnedFd, OwnedFd) {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        (one.into(), other.into())
    }

    fn received(from: c_int) -> (c_int, Vec<u8>) {
        let (mut room, mut descriptors, mut count) = ([0u8; HEADER + PAYLOAD], [-1; DESCRIPTORS], 0);
        // SAFETY: room is as long as is said.
        let got = unsafe { vhost_user_receive(from, room.as_mut_ptr(), descriptors.as_mut_ptr(), &raw mut count) };
        (got, room[..got.max(0) as usize].to_vec())
    }

    #[test]
    fn the_longest_message_arrives_and_a_longer_one_is_none() {
        use rustix::fd::AsRawFd;
        let (one, other) = connected();
        let longest = message(5, PAYLOAD as u32, PAYLOAD);
        // SAFETY: the message is as long as it says.
        assert_eq!(unsafe { vhost_user_send(one.as_raw_fd(), longest.as_ptr()) }, (HEADER + PAYLOAD) as c_int);
        assert_eq!(received(other.as_raw_fd()), ((HEADER + PAYLOAD) as c_int, longest));
        let longer = message(5, PAYLOAD as u32 + 1, PAYLOAD + 1);
        // SAFETY: as above.
        assert_eq!(unsafe { vhost_user_send(one.as_raw_fd(), longer.as_ptr()) }, -1);
        send(&one, &longer, SendFlags::empty()).unwrap();
        assert_eq!(received(other.as_raw_fd()).0, 0);
    }

    #[test]
    fn a_message_that_is_cut_off_ends_the_connection() {
        use rustix::fd::AsRawFd;
        for length in [HEADER - 1, HEADER + 7] {
            let (one, other) = connected();
            send(&one, &message(5, 8, 8)[..length], SendFlags::empty()).unwrap();
            drop(one);
            assert_eq!(received(other.as_raw_fd()).0, 0, "{length} bytes");
        }
        let (one, other) = connected();
        drop(one);
        assert_eq!(received(other.as_raw_fd()).0, 0, "the other end is closed");
    }

    #[test]
    fn what_is_not_there_is_an_error_and_no_crash() {
        let message = message(5, 0, 0);
        let (mut room, mut descriptors, mut count) = ([0u8; HEADER + PAYLOAD], [-1; DESCRIPTORS], 0);
        let (_one, other) = connected();
        let other = rustix::fd::AsRawFd::as_raw_fd(&other);
        // SAFETY: null or valid, as each function says.
        unsafe {
            assert_eq!(vhost_user_connect(std::ptr::null()), -1);
            assert_eq!(vhost_user_listen(std::ptr::null()), -1);
            assert_eq!(vhost_user_accept(-1), -1);
            assert_eq!(vhost_user_send(-1, message.as_ptr()), -1);
            assert_eq!(vhost_user_send(other, std::ptr::null()), -1);
            let (room, descriptors, count) = (room.as_mut_ptr(), descriptors.as_mut_ptr(), &raw mut count);
            assert_eq!(vhost_user_receive(-1, room, descriptors, count), -1);
            assert_eq!(vhost_user_receive(other, std::ptr::null_mut(), descriptors, count), -1);
            assert_eq!(vhost_user_receive(other, room, std::ptr::null_mut(), count), -1);
            assert_eq!(vhost_user_receive(other, room, descriptors, std::ptr::null_mut()), -1);
            assert_eq!(vhost_user_unmap_guest_memory(std::ptr::null_mut(), 5000), 0);
            assert_eq!(vhost_user_unmap_guest_memory(std::ptr::without_provenance_mut(1), 5000), -1);
            assert_eq!(vhost_user_sync_shm(std::ptr::without_provenance_mut(1), 5000), -1);
        }
    }
}
