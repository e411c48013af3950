// SPDX-License-Identifier: MIT
//! What the router's threads may still open and call, once they run: seccomp filters and Landlock rules, for good.
//!
//! | thread | files | system calls |
//! | --- | --- | --- |
//! | worker | none | `WORKER`: packets, memory, time |
//! | slow path | configuration and routes, to be read | all but `NOBODY` |
//! | assistants, API, netlink, FPM, helper's client | none | all but `NOBODY` |
//! | script loader | what the router's user may read: scripts may be anywhere | all but `NOBODY` |
//!
//! What is refused fails with EPERM (seccomp) or EACCES (Landlock) where it is tried, so a C module of a script gets an error and
//! the router goes on. A kernel without one of the two has one barrier less, and the router says so.

use landlock::{ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, path_beneath_rules};
use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// The latest version of Landlock that is made use of; an older kernel's is enough.
const LANDLOCK: ABI = ABI::V5;

/// What a worker calls: packets through sockets and descriptors it has, memory for LuaJIT and batches, time, its end.
const WORKER: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    // An interface that was made again is joined again by the socket there is.
    libc::SYS_bind,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_ioctl,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_lseek,
    libc::SYS_close,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_mbind,
    libc::SYS_get_mempolicy,
    libc::SYS_membarrier,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_set_robust_list,
    libc::SYS_exit,
    libc::SYS_exit_group,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_select,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_time,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pause,
];

/// What nobody calls once the router runs: other programs, other processes' memory, namespaces and mounts, the kernel's own state.
const NOBODY: &[c_long] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_quotactl,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_personality,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Confines the calling thread to what a worker needs. `xdp`: it attaches an XDP program again where an interface was made again.
///
/// # Errors
/// The kernel has no seccomp filters, or no Landlock; then the other one is in force.
pub fn worker(xdp: bool) -> io::Result<()> {
    let files = files(&[]);
    let attach = xdp.then_some(libc::SYS_bpf);
    let calls = WORKER.iter().copied().chain(attach).map(|call| (call, Vec::new())).collect();
    let filter = filter(calls, SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow)?;
    seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
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

/// Keeps all threads of the process, those of libraries included, from what no thread of a running router does: other programs and
/// processes, namespaces, the kernel's state.
///
/// # Errors
/// The kernel has no seccomp filters.
pub fn process() -> io::Result<()> {
    let mut calls: BTreeMap<c_long, Vec<SeccompRule>> = NOBODY.iter().map(|call| (*call, Vec::new())).collect();
    // A new thread is welcome, a new process is not.
    let flags = SeccompCmpOp::MaskedEq(libc::CLONE_THREAD as u64);
    let process = SeccompCondition::new(0, SeccompCmpArgLen::Qword, flags, 0).map_err(io::Error::other)?;
    calls.insert(libc::SYS_clone, vec![SeccompRule::new(vec![process]).map_err(io::Error::other)?]);
    let refused = filter(calls, SeccompAction::Allow, SeccompAction::Errno(libc::EPERM as u32))?;
    // The flags of clone3 are out of a filter's sight: where there is none, the C library takes clone.
    let absent = [(libc::SYS_clone3, Vec::new())].into();
    let absent = filter(absent, SeccompAction::Allow, SeccompAction::Errno(libc::ENOSYS as u32))?;
    for filter in [absent, refused] {
        seccompiler::apply_filter_all_threads(&filter).map_err(io::Error::other)?;
    }
    Ok(())
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
            worker(false).unwrap();
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
