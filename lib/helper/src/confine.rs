// SPDX-License-Identifier: MIT
//! What the router's threads may still open and call, once they run: seccomp filters and Landlock rules, for good.
//!
//! | thread | files | system calls | `ioctl` |
//! | --- | --- | --- | --- |
//! | worker | none | `WORKER`: packets, memory, time | `INTERFACES`; `VFIO` |
//! | slow path | configuration and routes, to be read | all but `NOBODY`, those of `OWN` for this process | `SOCKETS`, `INTERFACES`; `VFIO`, `PCI` |
//! | assistants, API, netlink, FPM, helper's client | none | as the slow path | as the slow path |
//! | script loader | what the router's user may read: scripts may be anywhere | as the slow path | as the slow path |
//!
//! The lists are in `confine/calls.rs` and `confine/requests.rs`; what they leave, call by call, is
//! docs/confinement.md.
//!
//! What is refused fails with EPERM (seccomp) or EACCES (Landlock) where it is tried, so a C module of a script gets an
//! error and the router goes on. A kernel without one of the two has one barrier less, and the router says so.

mod calls;
mod requests;

use calls::{LAST, NOBODY, OWN, Own, WORKER};
use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};
use libc::c_long;
use requests::{INTERFACES, PCI, SOCKETS, VFIO};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    sock_filter,
};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// The latest version of Landlock that is made use of; an older kernel's is enough.
const LANDLOCK: ABI = ABI::V5;

/// The kinds of devices under a router's ports, as far as their drivers take more of the kernel than others'.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    /// By AF_XDP: a program is attached again where an interface was made again.
    pub xdp: bool,
    /// On the PCI bus.
    pub pci: bool,
}

/// Confines the calling thread to what a worker needs.
///
/// # Errors
/// The kernel has no seccomp filters, or no Landlock; then the other one is in force.
pub fn worker(devices: Devices) -> io::Result<()> {
    let files = files(&[]);
    seccompiler::apply_filter(&worker_filter(devices)?).map_err(io::Error::other)?;
    files
}

/// Lets the calling thread read what is below some paths, and open nothing else.
///
/// # Errors
/// The kernel has no Landlock.
pub fn files(read: &[PathBuf]) -> io::Result<()> {
    let restricted = Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))
        .and_then(Ruleset::create)
        .and_then(|rules| rules.add_rules(path_beneath_rules(read, AccessFs::from_read(LANDLOCK))))
        .and_then(landlock::RulesetCreated::restrict_self)
        .map_err(io::Error::other)?;
    match restricted.ruleset {
        landlock::RulesetStatus::NotEnforced => Err(io::Error::other("the kernel has no Landlock")),
        _ => Ok(()),
    }
}

/// Keeps all threads of the process, those of libraries included, from what no thread of a running router does: other
/// programs and processes, namespaces, the kernel's state.
///
/// # Errors
/// The kernel has no seccomp filters.
pub fn process(devices: Devices) -> io::Result<()> {
    for filter in process_filters(devices)? {
        seccompiler::apply_filter_all_threads(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

/// The filter that workers have on top of the [process'](process_filters).
///
/// # Errors
/// There is none for this processor.
#[doc(hidden)]
pub fn worker_filter(devices: Devices) -> io::Result<BpfProgram> {
    let attach = devices.xdp.then_some(libc::SYS_bpf);
    let mut calls: BTreeMap<_, _> = WORKER.iter().copied().chain(attach).map(|call| (call, Vec::new())).collect();
    let more: &[u32] = if devices.pci { VFIO } else { &[] };
    let allowed = INTERFACES.iter().chain(more).map(|request| rule(vec![(1, SeccompCmpOp::Eq, *request)]));
    calls.insert(libc::SYS_ioctl, allowed.collect::<io::Result<_>>()?);
    filter(calls, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)
}

/// The filters of all threads; the kernel takes the strictest answer.
///
/// # Errors
/// There is none for this processor.
#[doc(hidden)]
pub fn process_filters(devices: Devices) -> io::Result<[BpfProgram; 2]> {
    let mut calls: BTreeMap<c_long, Vec<SeccompRule>> = NOBODY.iter().map(|call| (*call, Vec::new())).collect();
    if !devices.xdp {
        calls.insert(libc::SYS_bpf, Vec::new());
    }
    for (call, argument, own) in OWN {
        let own = match own {
            Own::Number => std::process::id(),
            Own::Zero => 0,
        };
        calls.insert(*call, vec![rule(vec![(*argument, SeccompCmpOp::Ne, own)])?]);
    }
    // A new thread is welcome, a new process is not.
    let threads = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
    calls.insert(libc::SYS_clone, vec![rule(vec![(0, threads, 0)])?]);
    let more: &[&[u32]] = if devices.pci { &[VFIO, PCI] } else { &[] };
    let allowed = [SOCKETS, INTERFACES].iter().chain(more).flat_map(|list| list.iter());
    let others = rule(allowed.map(|request| (1, SeccompCmpOp::Ne, *request)).collect())?;
    calls.insert(libc::SYS_ioctl, vec![others]);
    Ok([absent(), filter(calls, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?])
}

/// What is as if the kernel did not have it: clone3, whose flags are out of a filter's sight, so that the C library
/// takes clone; calls that the lists do not know; and the second table of calls that x86-64 has (x32), by which each
/// call has another number.
fn absent() -> BpfProgram {
    let statement = |code: u32, jt, jf, k: u32| sock_filter { code: code as u16, jt, jf, k };
    let (jump, give) = (libc::BPF_JMP | libc::BPF_K, libc::BPF_RET | libc::BPF_K);
    vec![
        // The number is the first field of `struct seccomp_data`.
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(jump | libc::BPF_JEQ, 1, 0, libc::SYS_clone3 as u32),
        statement(jump | libc::BPF_JGT, 0, 1, LAST as u32),
        statement(give, 0, 0, libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        statement(give, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// A rule of conditions about arguments of 32 bits, all of which must hold.
fn rule(conditions: Vec<(u8, SeccompCmpOp, u32)>) -> io::Result<SeccompRule> {
    let condition = |(argument, compare, value): (u8, SeccompCmpOp, u32)| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value.into())
    };
    let conditions: Result<_, _> = conditions.into_iter().map(condition).collect();
    conditions.and_then(SeccompRule::new).map_err(io::Error::other)
}

fn filter(
    calls: BTreeMap<c_long, Vec<SeccompRule>>,
    others: SeccompAction,
    these: SeccompAction,
) -> io::Result<BpfProgram> {
    let architecture = std::env::consts::ARCH.try_into().map_err(io::Error::other)?;
    let filter = SeccompFilter::new(calls, others, these, architecture).map_err(io::Error::other)?;
    BpfProgram::try_from(filter).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::process::Command;
    use std::time::{Duration, Instant};

    /// Runs a test in a thread of its own, whose confinement ends with it.
    fn confined<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::spawn(body).join().unwrap()
    }

    #[test]
    fn a_worker_opens_no_file_and_no_socket_and_starts_nothing() {
        confined(|| {
            worker(Devices::default()).unwrap();
            let refused = |result: io::Result<()>| result.unwrap_err().kind() == io::ErrorKind::PermissionDenied;
            assert!(refused(File::open("/proc/self/status").map(drop)));
            assert!(refused(File::create("/tmp/perigee-confine-test").map(drop)));
            assert!(refused(std::net::UdpSocket::bind("127.0.0.1:0").map(drop)));
            assert!(refused(Command::new("/bin/true").status().map(drop)));
            // What it needs works.
            let (begin, text) = (Instant::now(), vec![1_u8; 10_000_000]);
            // sleep: takes at least as long as asked for
            std::thread::sleep(Duration::from_millis(1));
            assert!(begin.elapsed() >= Duration::from_millis(1) && text[5_000_000] == 1);
        });
    }

    #[test]
    fn files_are_read_below_the_given_paths_only() {
        let folder = tempfile::tempdir().unwrap();
        let (inside, other) = (folder.path().join("in"), folder.path().join("out"));
        for folder in [&inside, &other] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("file"), "text").unwrap();
        }
        confined(move || {
            files(std::slice::from_ref(&inside)).unwrap();
            assert_eq!(std::fs::read_to_string(inside.join("file")).unwrap(), "text");
            assert!(std::fs::write(inside.join("file"), "other").is_err());
            assert!(std::fs::read_to_string(other.join("file")).is_err());
            assert!(File::create(inside.join("new")).is_err());
            assert!([&inside, &other].iter().all(|folder| std::fs::remove_file(folder.join("file")).is_err()));
        });
    }
}
