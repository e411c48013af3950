// SPDX-License-Identifier: MIT
//! Loading the program: for who has CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON. What others get of it are descriptors.

use crate::layout::{LINE, PORTS, QUEUES};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, Object, ObjectBuilder, ProgramInput};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use thiserror::Error;

/// The compiled program, of `bpf/plane.c`.
pub const OBJECT: &[u8] = include_bytes!("../bpf/plane.o");

const PROGRAM: &str = "plane";

/// Why there is no plane.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The object is not what this version expects.
    #[error("the in-kernel plane's object has no {0}; build perigee again")]
    Missing(&'static str),
    /// The arena is too small or too large.
    #[error("an arena of {found} bytes; expected 1 MB to 32 GB")]
    Arena {
        /// Bytes asked for.
        found: usize,
    },
    /// The port's number or queue is out of range.
    #[error(
        "the in-kernel plane has {PORTS} ports with {QUEUES} receive queues each, and this is port {port} with queue \
         {queue}: `ethtool -L` sets how many there are"
    )]
    Place {
        /// The port's number.
        port: u32,
        /// The queue's number.
        queue: u32,
    },
    /// The system does not say which processors there are.
    #[error("/sys/devices/system/cpu/possible does not say which processors there are")]
    Processors,
    /// There is no privilege for it.
    #[error(
        "the kernel lets nobody load the in-kernel plane but who has CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON outside of \
         user namespaces: start as root (`sudo`), or use `plane = \"worker\"`"
    )]
    NotPermitted,
    /// The kernel's verifier does not take the program.
    #[error(
        "the kernel's verifier refuses the in-kernel plane ({0}); it takes CAP_PERFMON, and was tried on Linux 6.1 \
         and 6.18: use `plane = \"worker\"`"
    )]
    Verifier(String),
    /// The kernel refuses.
    #[error("the kernel refuses {what}: {source}")]
    Kernel {
        /// What it refuses.
        what: &'static str,
        /// Why.
        #[source]
        source: libbpf_rs::Error,
    },
}

/// One more than the highest number of a processor: numbers may have gaps.
fn processors() -> Option<usize> {
    highest(&std::fs::read_to_string("/sys/devices/system/cpu/possible").ok()?).map(|highest| highest + 1)
}

/// The last number of a list such as `0,2-5`.
fn highest(list: &str) -> Option<usize> {
    list.trim().rsplit([',', '-']).next()?.parse().ok()
}

fn refused(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> LoadError {
    move |source| LoadError::Kernel { what, source }
}

/// CAP_NET_ADMIN, CAP_PERFMON and CAP_BPF of linux/capability.h.
const NEEDED: u64 = 1 << 12 | 1 << 38 | 1 << 39;
/// CAP_SYS_ADMIN, which includes the last two.
const ALL: u64 = 1 << 12 | 1 << 21;

/// Whether a process with this /proc/self/status and /proc/self/uid_map may load it: in no namespace of users but the
/// first, which has all numbers.
fn may_load(status: &str, users: &str) -> bool {
    let has = status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let is_first = users.split_whitespace().nth(2) == Some("4294967295");
    is_first && has.is_none_or(|has| [NEEDED, ALL].iter().any(|needed| has & needed == *needed))
}

/// Why the object was not loaded.
fn not_loaded(source: libbpf_rs::Error) -> LoadError {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    if !may_load(&read("status"), &read("uid_map")) {
        return LoadError::NotPermitted;
    }
    match source.kind() {
        ErrorKind::OutOfMemory => LoadError::Kernel { what: "memory for the in-kernel plane", source },
        ErrorKind::Unsupported => LoadError::Kernel { what: "BPF programs", source },
        _ => LoadError::Verifier(source.to_string()),
    }
}

/// The program, and its maps.
pub struct LoadedPlane {
    object: Object,
    cpus: usize,
    arena: usize,
}

/// The maps that the router reads and writes.
#[derive(Debug)]
pub struct Maps {
    /// Which settings hold.
    pub state: OwnedFd,
    /// What is published as a whole.
    pub settings: OwnedFd,
    /// Tables that are patched in place.
    pub arena: OwnedFd,
    /// What is counted, by processor.
    pub counters: OwnedFd,
    /// How many processors there are.
    pub cpus: usize,
    /// Bytes of the arena.
    pub arena_bytes: usize,
}

impl LoadedPlane {
    /// Loads the program, with an arena of so many bytes.
    ///
    /// # Errors
    /// The kernel refuses it: privileges, memory, or the verifier.
    pub fn load(arena: usize) -> Result<LoadedPlane, LoadError> {
        if !((1 << 20)..=(32 << 30)).contains(&arena) {
            return Err(LoadError::Arena { found: arena });
        }
        let cpus = processors().ok_or(LoadError::Processors)?;
        let mut open = ObjectBuilder::default().open_memory(OBJECT).map_err(refused("the in-kernel plane's object"))?;
        let lines = arena / LINE;
        for (name, count) in [("arena", lines), ("counters", cpus)] {
            let mut map = open.maps_mut().find(|map| map.name() == name).ok_or(LoadError::Missing("map"))?;
            map.set_max_entries(count as u32).map_err(refused("the size of a map"))?;
        }
        let object = open.load().map_err(not_loaded)?;
        Ok(LoadedPlane { object, cpus, arena: lines * LINE })
    }

    fn descriptor(&self, name: &'static str) -> Result<OwnedFd, LoadError> {
        let map = self.object.maps().find(|map| map.name() == name).ok_or(LoadError::Missing(name))?;
        let copied = map.as_fd().try_clone_to_owned();
        copied.map_err(|error| refused("another descriptor of a map")(libbpf_rs::Error::from(error)))
    }

    /// The maps that the router reads and writes.
    ///
    /// # Errors
    /// There are too many open files.
    pub fn maps(&self) -> Result<Maps, LoadError> {
        Ok(Maps {
            state: self.descriptor("state")?,
            settings: self.descriptor("settings")?,
            arena: self.descriptor("arena")?,
            counters: self.descriptor("counters")?,
            cpus: self.cpus,
            arena_bytes: self.arena,
        })
    }

    /// Sends what leaves by a port to an interface of Linux, of this thread's network namespace, by its index.
    ///
    /// # Errors
    /// There is no such port or interface.
    pub fn set_device(&self, port: u32, link: u32) -> Result<(), LoadError> {
        if port as usize >= PORTS {
            return Err(LoadError::Place { port, queue: 0 });
        }
        self.set("devices", port, &link.to_ne_bytes(), "an interface to send to")
    }

    /// Hands what a port's queue receives, and the plane does not finish, to an AF_XDP socket that is bound to it.
    ///
    /// # Errors
    /// There is no such port or queue, or the socket is none.
    pub fn set_socket(&self, port: u32, queue: u32, socket: impl AsFd) -> Result<(), LoadError> {
        if port as usize >= PORTS || queue as usize >= QUEUES {
            return Err(LoadError::Place { port, queue });
        }
        let socket = socket.as_fd().as_raw_fd().to_ne_bytes();
        self.set("sockets", port * QUEUES as u32 + queue, &socket, "a socket to hand packets on to")
    }

    fn set(&self, map: &'static str, key: u32, value: &[u8], what: &'static str) -> Result<(), LoadError> {
        let found = self.object.maps().find(|known| known.name() == map).ok_or(LoadError::Missing(map))?;
        found.update(&key.to_ne_bytes(), value, MapFlags::ANY).map_err(refused(what))
    }

    /// A descriptor of the program, to attach it by.
    ///
    /// # Errors
    /// The object is not what this version expects, or there are no descriptors left.
    pub fn program(&self) -> io::Result<OwnedFd> {
        let program = self.object.progs_mut().find(|program| program.name() == PROGRAM);
        let program = program.ok_or_else(|| io::Error::other(LoadError::Missing(PROGRAM)))?;
        program.as_fd().try_clone_to_owned()
    }

    /// Runs the program on a frame as if it came in by an interface of Linux, some times, without sending anything:
    /// BPF_PROG_TEST_RUN.
    ///
    /// # Errors
    /// The kernel refuses: a frame of less than 14 bytes, or an interface that does not exist.
    pub fn try_frame(&self, frame: &[u8], link: u32, repeat: u32) -> Result<Tried, LoadError> {
        let program = self.object.progs_mut().find(|program| program.name() == PROGRAM);
        let program = program.ok_or(LoadError::Missing(PROGRAM))?;
        // struct xdp_md: data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex.
        let context = [0, frame.len() as u32, 0, link, 0, 0];
        let mut context: Vec<u8> = context.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let mut out = vec![0; frame.len() + 256];
        let output = program
            .test_run(ProgramInput {
                context_in: Some(&mut context),
                data_in: Some(frame),
                data_out: Some(&mut out),
                repeat,
                ..ProgramInput::default()
            })
            .map_err(refused("to try a frame"))?;
        let action = output.return_value;
        let length = output.data.as_ref().map_or(0, |data| data.len());
        let nanoseconds = output.duration.as_nanos() as u64;
        out.truncate(length);
        Ok(Tried { action, frame: out, nanoseconds })
    }
}

/// What came of a frame that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// The program's result: `XDP_ABORTED` 0, `XDP_DROP` 1, `XDP_PASS` 2, `XDP_TX` 3, `XDP_REDIRECT` 4.
    pub action: u32,
    /// The frame as the program left it.
    pub frame: Vec<u8>,
    /// How long one run took, on average, in ns.
    pub nanoseconds: u64,
}

#[cfg(test)]
mod tests {
    #[test]
    fn who_may_load_it_has_the_capabilities_outside_of_namespaces_of_users() {
        let (first, other) = ("         0          0 4294967295\n", "         0       1000          1\n");
        for (capabilities, users, may) in [
            ("000001ffffffffff", first, true),
            ("000000c000001000", first, true),
            ("0000000000201000", first, true),
            ("0000008000001000", first, false),
            ("0000000000000000", first, false),
            ("000001ffffffffff", other, false),
        ] {
            let status = format!("Name:\tperigee\nCapEff:\t{capabilities}\nCapBnd:\t0\n");
            assert_eq!(super::may_load(&status, users), may, "{capabilities} {users}");
        }
    }

    #[test]
    fn processors_may_have_gaps() {
        for (list, highest) in
            [("0\n", Some(0)), ("0-7\n", Some(7)), ("0,2-3", Some(3)), ("0-3,8", Some(8)), ("", None)]
        {
            assert_eq!(super::highest(list), highest, "{list:?}");
        }
    }
}
