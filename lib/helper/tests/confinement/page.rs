// SPDX-License-Identifier: MIT
//! What the filters leave, found by running them over every system call and every request of `ioctl`, as a page.

use perigee_helper::confine::{Devices, process_filters, worker_filter};
use seccompiler::{BpfProgram, sock_filter};
use std::collections::BTreeMap;
use std::fmt::Write;

const CALLS: &str = include_str!("calls.txt");
const REQUESTS: &str = include_str!("requests.txt");

/// Numbers of system calls that are tried: those there are, and room for more.
pub const NUMBERS: u32 = 1024;
/// The bit of x32's numbers.
pub const X32: u32 = 1 << 30;
/// `AUDIT_ARCH_X86_64`.
pub const X86_64: u32 = 0xc000_003e;

/// A kind of thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Worker,
    Other,
}

/// A call, as filters see it (`struct seccomp_data`).
#[derive(Clone, Copy)]
pub struct Call {
    pub number: u32,
    pub architecture: u32,
    pub arguments: [u64; 6],
}

/// What a thread is kept from by.
pub struct Filters(Vec<BpfProgram>);

impl Filters {
    pub fn new(kind: Kind, devices: Devices) -> Filters {
        let mut all = process_filters(devices).expect("this processor has filters").to_vec();
        if kind == Kind::Worker {
            all.push(worker_filter(devices).expect("this processor has filters"));
        }
        Filters(all)
    }

    /// Whether all filters let a call through.
    pub fn allow(&self, call: Call) -> bool {
        self.0.iter().all(|program| run(program, call) == libc::SECCOMP_RET_ALLOW)
    }

    /// Whether they let it through with all arguments, with some, or with none.
    pub fn number(&self, number: u32) -> Verdict {
        let own = u64::from(std::process::id());
        let tried = [0, own, own + 1, libc::CLONE_THREAD as u64, u64::MAX]
            .map(|argument| self.allow(Call { number, architecture: X86_64, arguments: [argument; 6] }));
        match (tried.iter().all(|allowed| *allowed), tried.contains(&true)) {
            (true, _) => Verdict::Allowed,
            (_, true) => Verdict::InPart,
            _ => Verdict::Refused,
        }
    }

    /// Whether they let a request of `ioctl` through.
    pub fn request(&self, request: u64) -> bool {
        let arguments = [0, request, 0, 0, 0, 0];
        self.allow(Call { number: libc::SYS_ioctl as u32, architecture: X86_64, arguments })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Allowed,
    InPart,
    Refused,
}

/// Runs a program as the kernel does: those instructions that seccompiler and we make.
fn run(program: &[sock_filter], call: Call) -> u32 {
    let word = |offset: u32| match offset {
        0 => call.number,
        4 => call.architecture,
        16.. => {
            let argument = call.arguments[(offset as usize - 16) / 8];
            if offset.is_multiple_of(8) { argument as u32 } else { (argument >> 32) as u32 }
        }
        _ => panic!("the filter reads offset {offset}"),
    };
    let (mut accumulator, mut at) = (0, 0);
    loop {
        let sock_filter { code, jt, jf, k } = program[at];
        let jump = |taken: bool| at + 1 + usize::from(if taken { jt } else { jf });
        at = match u32::from(code) {
            c if c == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                accumulator = word(k);
                at + 1
            }
            c if c == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => {
                accumulator &= k;
                at + 1
            }
            c if c == libc::BPF_JMP | libc::BPF_JA => at + 1 + k as usize,
            c if c == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => jump(accumulator == k),
            c if c == libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K => jump(accumulator > k),
            c if c == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => jump(accumulator >= k),
            c if c == libc::BPF_RET | libc::BPF_K => return k,
            code => panic!("the filter has an instruction {code:#x}, which is not known here"),
        };
    }
}

/// The rows of a table: number, names.
fn table(text: &'static str, radix: u32) -> BTreeMap<u32, &'static str> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &'static str| {
        let (number, names) = line.split_once(' ').expect("a number and names");
        (u32::from_str_radix(number, radix).expect("a number"), names)
    };
    rows.map(row).collect()
}

pub fn calls() -> BTreeMap<u32, &'static str> {
    table(CALLS, 10)
}

pub fn requests() -> BTreeMap<u32, &'static str> {
    table(REQUESTS, 16)
}

/// The page.
pub fn page() -> String {
    let plain = Devices::default();
    let mut page = HEAD.to_owned();
    for (title, kind, what) in [("Workers", Kind::Worker, WORKERS), ("All other threads", Kind::Other, OTHERS)] {
        let filters = Filters::new(kind, plain);
        let _ = write!(page, "\n## {title}\n\n{what}\n");
        let list = |wanted: Verdict| names(calls().into_iter().filter(|(number, _)| filters.number(*number) == wanted));
        let ioctl = |names: &String| *names != "`ioctl`";
        let _ = write!(page, "\nSystem calls with any arguments:\n\n{}", wrapped(list(Verdict::Allowed)));
        let some = list(Verdict::InPart).into_iter().filter(ioctl).collect();
        let _ = write!(page, "\nSystem calls about this process, and `clone` of threads, alone:\n\n{}", wrapped(some));
        let all = [plain, Devices { xdp: true, pci: false }, Devices { xdp: false, pci: true }];
        let [usual, xdp, pci] = all.map(|devices| Filters::new(kind, devices));
        let of =
            |filters: &Filters| names(requests().into_iter().filter(|(number, _)| filters.request((*number).into())));
        let usual_ones = of(&usual);
        let more: Vec<_> = of(&pci).into_iter().filter(|name| !usual_ones.contains(name)).collect();
        let _ = write!(page, "\nRequests of `ioctl`:\n\n{}", wrapped(usual_ones));
        let _ = write!(page, "\nWith a port on the PCI bus also:\n\n{}", wrapped(more));
        let calls = names(calls().into_iter().filter(|(n, _)| xdp.number(*n) != usual.number(*n)));
        let _ = write!(page, "\nWith an AF_XDP port also the system call:\n\n{}", wrapped(calls));
    }
    page
}

const HEAD: &str = "<!-- SPDX-License-Identifier: MIT -->
<!-- Generated by `cargo run -p perigee-helper --example document_confinement > docs/confinement.md`. Do not edit. -->
# What a confined thread can still do

Once the router runs, its threads are kept from most of the kernel, for good: by seccomp from system calls and requests of `ioctl`, by
Landlock from files. Who takes over a thread, by a mistake in perigee, DPDK or a driver, can do with it what is listed here, as the
user that the router has become, and without capabilities. Everything else fails with EPERM, or, for `clone3`, the calls of x32 and
those that came after Linux 6.17, with ENOSYS.

The lists are found by running the filters over all numbers of system calls and all requests that Linux' headers know
(`lib/helper/tests/confinement`). A scenario tries them on the kernel, from a worker and from the loader of scripts of a router that
runs (`every_call_is_tried_from_a_confined_thread`). Why each is there stands where it is listed: `lib/helper/src/confine`.
";

const WORKERS: &str = "They forward packets and run scripts. They open no file, not even to be read.";

const OTHERS: &str = "Slow path, its assistants, API, metrics, Linux's notifications, FPM, the loader of scripts, DPDK's own threads and the main one.
The slow path's thread opens configuration, scripts and routes to be read, the loader what the router's user may read, the others
nothing (Landlock).";

fn names<'a>(rows: impl Iterator<Item = (u32, &'a str)>) -> Vec<String> {
    rows.map(|(_, names)| format!("`{}`", names.replace(' ', "` = `"))).collect()
}

/// Lines of a paragraph.
fn wrapped(items: Vec<String>) -> String {
    let (mut lines, last) = (vec![String::new()], items.len());
    for (index, item) in items.into_iter().enumerate() {
        let item = item + if index + 1 == last { "" } else { "," };
        let line = lines.last_mut().expect("one at least");
        match line.is_empty() {
            true => line.push_str(&item),
            false if line.len() + item.len() < 118 => *line += &format!(" {item}"),
            false => lines.push(item),
        }
    }
    lines.join("\n") + "\n"
}
