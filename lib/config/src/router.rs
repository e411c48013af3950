// SPDX-License-Identifier: MIT
//! `[router]`: the router as a whole.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use perigee_net::{Namespace, NamespaceError};

use super::fib::{FibChoice, structures};
use super::given::{Parsed, unfit};
use super::kind::{
    Kind, boolean, checked_path, choice, integer, integer_of, optional, path, socket_address, text, time, value,
};
use super::ports::{PLANES, Plane};
use super::section::section;
use super::values::is_word;

/// The longest path a unix socket can have (`sun_path` without its final zero).
pub(crate) const LONGEST_SOCKET: usize = 107;

section! {
    /// The router as a whole.
    pub struct Router(context) keys {
        /// Names the API socket and the files of DPDK's environment abstraction layer (EAL).
        name: String, text("1 to 32 letters, digits, - or _", router_name), default "perigee".into(), restart;
        /// The Lua fast path.
        script: Option<PathBuf>, optional(path("the path of a Lua script", context.folder)),
            default None => "the built-in one", live;
        /// How long a script may take from one batch boundary to the next: then it is stopped, and the last good one returns.
        stall_budget: Duration, time("a time from 100ms to 60s, such as \"700ms\"", stall_time),
            default Duration::from_millis(700), live;
        /// How long the router may take to end, and a tenth of a second more for each port and worker: then it ends by
        /// force, as it does at a second signal. On a busy machine the kernel makes it wait for seconds to close its
        /// packet sockets.
        end_budget: Duration, time("a time from 1s to 600s, such as \"30s\"", end_time),
            default Duration::from_secs(30), restart;
        /// How long a round of the script's loop should take at most; `over_budget` says what follows.
        round_budget: Option<Duration>, optional(time("a time up to 1s, such as \"1ms\"", up_to_a_second)),
            default None => "no limit", live;
        /// How long a step of the script's garbage collector should take at most.
        gc_budget: Option<Duration>, optional(time("a time up to 1s, such as \"100us\"", up_to_a_second)),
            default None => "no limit", live;
        /// What follows when one of the last two is exceeded: nothing but a count, a warning as well (every ten seconds at most), or,
        /// after three times in ten seconds, the return of the last good script.
        over_budget: OverBudget, choice(OVER_BUDGET), default OverBudget::Count, live;
        /// What follows when the process that keeps the privileges, the helper, dies: its standby takes its place and has another
        /// one started, or the router ends in order. Either way the standby restores interfaces at the end.
        helper_death: HelperDeath, choice(HELPER_DEATH), default HelperDeath::Replace, live;
        /// The network namespace of the twins, the TAP interfaces through which Linux sees the ports.
        namespace: Option<Namespace>, optional(text(NAMESPACE, network_namespace)),
            default None => "the router's own", restart;
        /// Who the router is once it has started, if root starts it: a user's name or number. What of the configuration's files it may not
        /// read then, a reload gets from the helper: the configuration, its script, its routes file. What a script asks for while it
        /// loads (`require`, libraries) must be readable for this user.
        user: Option<String>, optional(text("a user's name or number", user_name)),
            default None => "`perigee` if there is one, else an unused number", restart;
        /// Packets taken from a queue at once.
        burst: u16, integer("packets", 1..=256), default 32, restart;
        /// Packets that a transmit buffer gathers before they are sent.
        transmit_queue: u16, integer("packets", 1..=256), default 32, restart;
        /// How long a packet may wait in a transmit buffer while others arrive; when none do, what waits is sent at once.
        transmit_timeout: Duration, time("a time up to 1s, such as \"100us\"", up_to_a_second),
            default Duration::from_micros(100), restart;
        /// What a worker does when its queues are empty. `adaptive` polls while packets come and for 5 us more, then waits: for receive
        /// interrupts, where the device has them, and for sockets of the router's own; if one of its ports has neither, it looks
        /// again after sleeps of up to 50 us, and of 250 us once nothing has come for 10 ms. `poll` polls again at once, which has the lowest delay and keeps a core busy; `sleep` takes
        /// less of a core: it has no receive interrupts, and sleeps of up to 250 us. To each comes what Linux takes to wake a thread. The log
        /// says at the start what each port wakes its workers by.
        idle: Idle, choice(IDLE), default Idle::Adaptive, restart;
        /// The lookup structures of the routing tables. `perigee check` answers a wrong name with a list of all names.
        fib: FibChoice, structures(&context.machine.fib), default FibChoice::default(), live;
        /// The API's unix socket.
        socket: PathBuf, checked_path("the path of a unix socket, at most 107 bytes", context.folder, socket_path),
            default default_socket(&name) => "`perigee/NAME.sock` in `$XDG_RUNTIME_DIR` or `/run`", restart;
        /// A group whose members may use the API as well, with all that it can change: its name or number. Its socket belongs to the group
        /// then. A folder that the start makes for it may be entered by all; one that is there stays as it is.
        socket_group: Option<String>, optional(text("a group's name or number", user_name)),
            default None => "none: only the user who started the router, and root", restart;
        /// The address on which metrics are served to the network as well.
        metrics: Option<SocketAddr>,
            optional(socket_address("an address with a port, such as \"127.0.0.1:9100\"")),
            default None => "nowhere", restart;
        /// The most routes that are held, of both families and all sources. Less memory than that takes is a limit as well: of the machine, of
        /// the control group, and by `ulimit`. Routes of Linux beyond it go to Linux or are refused, as `unknown_routes` says of those
        /// that the router cannot forward by.
        max_routes: Option<u32>, optional(integer("routes", 1000..=1_000_000_000)),
            default None => "as many as there is memory for", restart;
        /// What forwards packets of ports that do not say it by their own `plane`: `worker` or `xdp`, which is for ports with `interface` and
        /// no other `driver`.
        plane: Plane, choice(PLANES), default Plane::Worker, live;
        /// Whose IP stack answers for the router's addresses and finishes what the in-kernel plane does not: `perigee`, its slow path;
        /// or `linux`, the interfaces' own. With `linux` every port is an `interface` with `plane = "xdp"`, which keeps its addresses,
        /// and Linux is the router (`sysctl net.ipv4.ip_forward=1`), which perigee accelerates (docs/planes.md).
        stack: Stack, choice(STACKS), default Stack::Perigee, restart;
        /// Whether the in-kernel plane forwards on by its last tables if the router is killed or crashes, until the next one has read
        /// everything from Linux. It takes a BPF file system at /sys/fs/bpf. A router that ends in order takes the plane down.
        plane_persist: bool, boolean(), default false, restart;
        /// Megabytes for tables of routers whose ports have `plane = "xdp"`. It is the kernel's memory, and taken whether it is used
        /// or not. An eighth is for IPv6. A table that is built again exists twice for a moment.
        plane_memory: u32, integer("megabytes", 64..=32_768), default 256, restart;
        /// Packets that the ring from each worker to each thread of the slow path holds.
        punt_ring: u32, power_of_two(), default 1024, restart;
        /// Packet buffers of the pool that the ports of a NUMA node share.
        mbufs: Option<u32>, optional(integer("packet buffers", 1024..=16_777_216)),
            default None => "16384, or as many as the queues of PCI devices and the threads hold", restart;
        /// Threads of the slow path: one that owns routes and neighbors, and others that answer, fragment and drop packets beside it.
        slow_paths: u16, integer("threads", 1..=16), default 1, restart;
        /// ICMP errors per second that the router sends about packets of one interface, of each family (RFC 1812 4.3.2.8, RFC 4443
        /// 2.4 f); 0 for none, 1000000000 for no limit.
        icmp_rate: u32, integer("ICMP errors per second", 0..=1_000_000_000), default 1000, restart;
        /// Those to one source network, of 24 bits for IPv4 and 64 for IPv6.
        icmp_source_rate: Option<u32>, optional(integer("ICMP errors per second", 0..=1_000_000_000)),
            default None => "a tenth of `icmp_rate`", restart;
        /// Neighbors of each interface, of each family, whose MAC addresses are known. When there are more, those make room that have told
        /// theirs unasked and were never confirmed, then those that are not used.
        max_neighbors: u32, integer("neighbors", 16..=1_048_576), default 65_536, restart;
        /// Neighbors of each interface, of each family, that were asked for and have not answered (RFC 6583). When there are more, the
        /// oldest makes room of the interface and source that wants most of them.
        max_unresolved: u32, integer("neighbors", 16..=65_536), default 1024, restart;
        /// Neighbors that are asked for per second on each interface, of each family. Half of it is anybody's; the rest is kept for
        /// addresses that have answered before or are wanted again, and for each interface and source.
        neighbor_rate: u32, integer("neighbors per second", 1..=1_000_000), default 1000, restart;
    }
}

/// Whose IP stack answers for the router's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// The router's slow path. Linux sees ports by their twins.
    Perigee,
    /// Linux's, on the interfaces that are ports.
    Linux,
}

const STACKS: &[(&str, Stack)] = &[("perigee", Stack::Perigee), ("linux", Stack::Linux)];

/// What a worker without packets does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Idle {
    /// Polls again at once: lowest delay, one busy core.
    Poll,
    /// Sleeps, longer the longer nothing comes.
    Sleep,
    /// Polls while packets come, then waits.
    Adaptive,
}

/// What follows when a script exceeds a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// It is counted.
    Count,
    /// A warning is logged, too.
    Warn,
    /// The last good script returns after three times in ten seconds.
    RollBack,
}

/// What follows when the helper process dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HelperDeath {
    /// Its standby takes its place.
    Replace,
    /// The router ends.
    End,
}

const HELPER_DEATH: &[(&str, HelperDeath)] = &[("replace", HelperDeath::Replace), ("end", HelperDeath::End)];

const OVER_BUDGET: &[(&str, OverBudget)] =
    &[("count", OverBudget::Count), ("warn", OverBudget::Warn), ("roll-back", OverBudget::RollBack)];

const IDLE: &[(&str, Idle)] = &[("adaptive", Idle::Adaptive), ("poll", Idle::Poll), ("sleep", Idle::Sleep)];

const NAMESPACE: &str = "the name, the path or the process of a network namespace, such as \"blue\"";

/// Where the API of the router `name` listens unless configured otherwise: below `$XDG_RUNTIME_DIR` or `/run`.
pub fn default_socket(name: &str) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let folder = runtime.map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    folder.join("perigee").join(format!("{name}.sock"))
}

fn router_name(text: &str) -> Parsed<String> {
    if text.len() <= 32 && is_word(text) { Ok(text.to_owned()) } else { unfit() }
}

fn user_name(text: &str) -> Parsed<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if (1..=32).contains(&text.len()) && text.chars().all(fits) { Ok(text.to_owned()) } else { unfit() }
}

fn network_namespace(text: &str) -> Parsed<Namespace> {
    text.parse().map_err(|error: NamespaceError| error.to_string())
}

fn up_to_a_second(time: Duration) -> Parsed<Duration> {
    if time <= Duration::from_secs(1) { Ok(time) } else { Err("too long".into()) }
}

fn stall_time(time: Duration) -> Parsed<Duration> {
    if (Duration::from_millis(100)..=Duration::from_secs(60)).contains(&time) { Ok(time) } else { unfit() }
}

fn end_time(time: Duration) -> Parsed<Duration> {
    if (Duration::from_secs(1)..=Duration::from_secs(600)).contains(&time) { Ok(time) } else { unfit() }
}

fn socket_path(path: PathBuf) -> Parsed<PathBuf> {
    match path.as_os_str().len() {
        0..=LONGEST_SOCKET => Ok(path),
        length => Err(format!("{length} bytes long")),
    }
}

fn power_of_two() -> Kind<'static, u32> {
    let parse = |value: &toml::de::DeValue| {
        let size = integer_of(value).and_then(|n| u32::try_from(n).ok());
        size.filter(|n| n.is_power_of_two() && (64..=65536).contains(n)).map_or_else(unfit, Ok)
    };
    value("a power of two from 64 to 65536", parse, |size| i64::from(*size).into())
}
