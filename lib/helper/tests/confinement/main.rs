// SPDX-License-Identifier: MIT
//! Every system call and every request of `ioctl` meets the filters of each kind of thread, and what they leave is
//! docs/confinement.md.
#![cfg(target_arch = "x86_64")]

mod page;

use page::{Call, Filters, Kind, NUMBERS, Verdict, X32, X86_64, calls, requests};
use perigee_helper::confine::Devices;

const ALL: [Devices; 4] = [
    Devices { xdp: false, pci: false },
    Devices { xdp: true, pci: false },
    Devices { xdp: false, pci: true },
    Devices { xdp: true, pci: true },
];

fn each(mut check: impl FnMut(&Filters, Kind)) {
    for kind in [Kind::Worker, Kind::Other] {
        ALL.iter().for_each(|devices| check(&Filters::new(kind, *devices), kind));
    }
}

#[test]
fn docs_confinement_md_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/confinement.md");
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == page::page(),
        "run: cargo run -p perigee-helper --example document_confinement > docs/confinement.md"
    );
}

#[test]
fn what_no_list_knows_is_refused() {
    let known = calls();
    each(|filters, kind| {
        for number in (0..NUMBERS).filter(|number| !known.contains_key(number)) {
            let allowed = filters.number(number);
            // Between the tables of calls there is a gap that no kernel fills.
            let gap = kind == Kind::Other && (335..424).contains(&number);
            assert!(allowed == Verdict::Refused || gap, "{kind:?}: {number}");
        }
        for number in 0..NUMBERS {
            assert_eq!(filters.number(number | X32), Verdict::Refused, "{kind:?}: x32's {number}");
            for arguments in [[0; 6], [u64::MAX; 6]] {
                let i386 = Call { number, architecture: 0x4000_0003, arguments };
                assert!(!filters.allow(i386), "{kind:?}: i386's {number}");
            }
        }
    });
}

/// A worker typed into root's terminal, and made twins outlive the router.
#[test]
fn no_request_of_ioctl_is_left_but_those_listed() {
    let known = requests();
    each(|filters, kind| {
        let allowed: Vec<u32> =
            (0..=0xffff).chain(known.keys().copied()).filter(|request| filters.request((*request).into())).collect();
        assert!(allowed.iter().all(|request| known.contains_key(request)), "{kind:?}: {allowed:x?}");
        // The kernel looks at 32 bits, and so must the filters: what stands above must not lead around them.
        for request in known.keys().filter(|request| !filters.request((**request).into())) {
            assert!(!filters.request(u64::from(*request) | 1 << 32), "{kind:?}: {request:x}");
            assert!(!filters.request(u64::from(*request) | 0xffff_ffff << 32), "{kind:?}: {request:x}");
        }
        for (name, request) in [
            ("TIOCSTI", 0x5412),
            ("TIOCLINUX", 0x541c),
            ("TIOCSCTTY", 0x540e),
            ("TIOCSETD", 0x5423),
            ("TCSETS", 0x5402),
            ("TUNSETIFF", 0x4004_54ca),
            ("TUNSETPERSIST", 0x4004_54cb),
            ("TUNSETOWNER", 0x4004_54cc),
            ("TUNSETGROUP", 0x4004_54ce),
            ("TUNSETLINK", 0x4004_54cd),
            ("TUNSETSTEERINGEBPF", 0x8004_54e0),
            ("SIOCSIFHWADDR", 0x8924),
            ("SIOCSIFFLAGS", 0x8914),
            ("SIOCSIFNAME", 0x8923),
            ("SIOCBRADDIF", 0x89a2),
            ("SIOCGIFMAP", 0x8970),
        ] {
            assert!(known.get(&request).is_some_and(|names| names.split(' ').any(|known| known == name)), "{name}");
            assert!(!filters.request(request.into()), "{kind:?}: {name}");
        }
    });
}

#[test]
fn other_processes_are_out_of_reach() {
    let own = u64::from(std::process::id());
    each(|filters, kind| {
        let allowed = |call: i64, arguments: [u64; 6]| {
            filters.allow(Call { number: call as u32, architecture: X86_64, arguments })
        };
        for call in [libc::SYS_kill, libc::SYS_tgkill] {
            for other in [0, 1, own + 1, u64::MAX] {
                assert!(!allowed(call, [other, own, own, 0, 0, 0]), "{kind:?}: {call} of {other}");
            }
        }
        // The end by force.
        assert_eq!(allowed(libc::SYS_kill, [own, 9, 0, 0, 0, 0]), kind == Kind::Other);
        assert!(allowed(libc::SYS_tgkill, [own, own, 10, 0, 0, 0]), "a signal to a thread, by its C library");
        for call in [libc::SYS_ptrace, libc::SYS_execve, libc::SYS_fork, libc::SYS_vfork, libc::SYS_pidfd_open] {
            assert!(!allowed(call, [own; 6]), "{kind:?}: {call}");
        }
    });
}
