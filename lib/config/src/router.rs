// SPDX-License-Identifier: MIT
//! `[router]`, `[eal]` and the workers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use toml::de::DeValue;

use super::Machine;
use super::below;
use super::model::{Eal, FibChoice, FibNames, Hugepages, Idle, Router, Worker};
use super::reader::{At, Parsed, Section, integer_of, unfit};
use super::values::duration;
use perigee_net::Namespace;

/// The longest path a unix socket can have (`sun_path` without its final zero).
const SOCKET_PATH: usize = 107;

/// Where the API of the router `name` listens unless configured otherwise: below `$XDG_RUNTIME_DIR` or `/run`.
pub fn default_socket(name: &str) -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let folder = runtime.map_or_else(|| PathBuf::from("/run"), PathBuf::from);
    folder.join("perigee").join(format!("{name}.sock"))
}

/// A parser for paths, relative ones to `folder`.
pub(super) fn a_path(folder: &Path) -> impl Fn(&str) -> Parsed<PathBuf> {
    move |text| match text.is_empty() || text.contains('\0') {
        true => unfit(),
        false => Ok(below(folder, text)),
    }
}

pub(super) fn read_router(root: &mut Section, folder: &Path, machine: &Machine) -> (Router, Vec<Worker>) {
    let mut section = root.table("router");
    let mut router = router_keys(section.as_mut(), folder, &machine.fib);
    if let Some(choice) = &machine.fib_override {
        router.fib = choice.clone();
    }
    let workers = read_workers(root, section.as_mut(), machine);
    if let Some(section) = section {
        section.finish();
    }
    (router, workers)
}

/// Reads the keys that are there into the defaults.
fn router_keys(section: Option<&mut Section>, folder: &Path, structures: &FibNames) -> Router {
    let mut router = Router {
        name: "perigee".into(),
        script: None,
        namespace: None,
        burst: 32,
        transmit_queue: 32,
        transmit_timeout: Duration::from_micros(100),
        idle: Idle::Poll,
        fib: FibChoice::default(),
        socket: PathBuf::new(),
        metrics: None,
        punt_ring: 1024,
        mbufs: 16_384,
        icmp_rate: 1000,
    };
    if let Some(section) = section {
        read_identity(section, folder, &mut router);
        read_behaviour(section, &mut router);
        set(&mut router.fib, read_fib(section, structures));
    }
    if router.socket.as_os_str().is_empty() {
        router.socket = default_socket(&router.name);
    }
    router
}

/// Who the router is and what it meets: names, files, addresses.
fn read_identity(s: &mut Section, folder: &Path, router: &mut Router) {
    let name = s.text("name", "1 to 32 letters, digits, - or _", |text| match text.len() <= 32 && is_word(text) {
        true => Ok(text.to_owned()),
        false => unfit(),
    });
    set(&mut router.name, name);
    let script = s.text("script", "the path of a Lua script", a_path(folder));
    router.script = script.map(|s| s.value);
    let expected = "the name, the path or the process of a network namespace, such as \"blue\"";
    router.namespace = s
        .text("namespace", expected, |text| text.parse::<Namespace>().map_err(|error| error.to_string()))
        .map(|n| n.value);
    let metrics = s.text("metrics", "an address with a port, such as \"127.0.0.1:9100\"", |text| {
        text.parse().map_err(|_| String::new())
    });
    router.metrics = metrics.map(|m| m.value);
    let socket = s.text("socket", "the path of a unix socket, at most 107 bytes", |text| {
        let path = a_path(folder)(text)?;
        match path.as_os_str().len() <= SOCKET_PATH {
            true => Ok(path),
            false => Err(format!("{} bytes long", path.as_os_str().len())),
        }
    });
    set(&mut router.socket, socket);
}

/// How it works: sizes, times, rates.
fn read_behaviour(s: &mut Section, router: &mut Router) {
    let timeout = s.text("transmit_timeout", "a time up to 1s, such as \"100us\"", |text| match duration(text)? {
        time if time <= Duration::from_secs(1) => Ok(time),
        _ => Err("too long".into()),
    });
    set(&mut router.transmit_timeout, timeout);
    let idle = s.text("idle", "\"poll\" or \"sleep\"", |text| match text {
        "poll" => Ok(Idle::Poll),
        "sleep" => Ok(Idle::Sleep),
        _ => unfit(),
    });
    set(&mut router.idle, idle);
    let ring = s.read("punt_ring", "a power of two from 64 to 65536", |value| {
        let size = integer_of(value).and_then(|n| u32::try_from(n).ok());
        size.filter(|n| n.is_power_of_two() && (64..=65536).contains(n)).map_or_else(unfit, Ok)
    });
    set(&mut router.punt_ring, ring);
    set(&mut router.burst, s.integer("burst", "packets", 1..=256));
    set(&mut router.transmit_queue, s.integer("transmit_queue", "packets", 1..=256));
    set(&mut router.mbufs, s.integer("mbufs", "packet buffers", 1024..=16_777_216));
    set(&mut router.icmp_rate, s.integer("icmp_rate", "ICMP errors per second", 0..=1_000_000));
}

/// A name, or a list of one or two.
fn read_fib(s: &mut Section, structures: &FibNames) -> Option<At<FibChoice>> {
    s.read("fib", &structures.expected(), |value| {
        let names: Option<Vec<&str>> = match value {
            DeValue::Array(array) => array.iter().map(|name| name.get_ref().as_str()).collect(),
            one => one.as_str().map(|name| vec![name]),
        };
        let Some(names) = names else { return unfit() };
        structures.choose(&names).map_err(|_| match names[..] {
            [a, b] => format!("{a:?} and {b:?}"),
            _ => String::new(),
        })
    })
}

/// Letters, digits, - and _, at least one.
pub(super) fn is_word(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    !text.is_empty() && text.bytes().all(fits)
}

pub(super) fn set<T>(target: &mut T, value: Option<At<T>>) {
    if let Some(value) = value {
        *target = value.value;
    }
}

/// `[router] workers = N`, `[router] cores = [...]` or `[[worker]]`: one of them, one worker if none.
fn read_workers(root: &mut Section, mut router: Option<&mut Section>, machine: &Machine) -> Vec<Worker> {
    let expected = format!("a core of this machine, one of {}", listed(&machine.cores));
    let a_core = |value: &DeValue| {
        let core = integer_of(value).and_then(|n| u16::try_from(n).ok());
        core.filter(|core| machine.cores.contains(core)).map_or_else(unfit, Ok)
    };
    let sections = root.tables("worker");
    let places = [
        router.as_ref().and_then(|s| s.place("workers")),
        router.as_ref().and_then(|s| s.place("cores")),
        sections.first().map(|s| s.span.clone()),
    ];
    if let Some(second) = places.iter().flatten().nth(1) {
        root.mistakes().add(
            second,
            "found a second way of naming the workers, expected only one of workers, cores and [[worker]]",
        );
    }
    let count = router.as_mut().and_then(|s| s.integer::<u16>("workers", "workers", 1..=128));
    let before = root.mistakes().count();
    let mut cores: Vec<At<u16>> = router.as_mut().map_or_else(Vec::new, |s| s.list("cores", &expected, a_core));
    for mut section in sections {
        let core = section.read("core", &expected, a_core);
        cores.extend(section.require("core", &expected, core));
        section.finish();
    }
    if places[1..].iter().all(Option::is_none) {
        cores = spread(count, machine);
    } else if cores.is_empty()
        && root.mistakes().count() == before
        && let Some(place) = &places[1]
    {
        root.mistakes().add(place, "found no core to work on, expected at least one");
    }
    for (i, core) in cores.iter().enumerate() {
        if cores[..i].iter().any(|other| other.value == core.value) {
            root.mistakes().warn(
                &core.span,
                format!("found a second worker on core {}, expected a core for each: they will take turns", core.value),
            );
        }
    }
    cores.iter().map(|core| Worker { core: core.value }).collect()
}

/// `count` workers from the last core down, so that the first is left to the slow path and Linux.
fn spread(count: Option<At<u16>>, machine: &Machine) -> Vec<At<u16>> {
    let (count, span) = count.map_or((1, 0..0), |at| (at.value, at.span));
    let cores = machine.cores.iter().rev().cycle();
    let each = cores.take(usize::from(count)).map(|core| At { value: *core, span: span.clone() });
    each.collect()
}

fn listed(cores: &[u16]) -> String {
    match cores {
        [first, .., last] if usize::from(last - first) + 1 == cores.len() => format!("{first} to {last}"),
        _ => cores.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
    }
}

pub(super) fn read_eal(root: &mut Section, name: &str) -> Eal {
    let mut eal = Eal { args: Vec::new(), hugepages: Hugepages::Auto, memory: None, file_prefix: name.to_owned() };
    let Some(mut s) = root.table("eal") else {
        return eal;
    };
    let args = s.list("args", "an argument of the EAL, such as \"--log-level=8\"", |value| {
        let text = value.as_str().filter(|t| !t.is_empty() && !t.contains('\0'));
        text.map_or_else(unfit, |text| Ok(text.to_owned()))
    });
    eal.args = args.into_iter().map(|arg| arg.value).collect();
    let hugepages = s.read("hugepages", "true, false or \"auto\"", |value| match value {
        DeValue::Boolean(true) => Ok(Hugepages::On),
        DeValue::Boolean(false) => Ok(Hugepages::Off),
        DeValue::String(text) if text == "auto" => Ok(Hugepages::Auto),
        _ => unfit(),
    });
    set(&mut eal.hugepages, hugepages);
    let memory = s.integer("memory", "megabytes", 16..=1_048_576);
    eal.memory = memory.map(|m| m.value);
    let prefix = s.text("file_prefix", "letters, digits, - or _", |text| match is_word(text) {
        true => Ok(text.to_owned()),
        false => unfit(),
    });
    set(&mut eal.file_prefix, prefix);
    s.finish();
    eal
}
