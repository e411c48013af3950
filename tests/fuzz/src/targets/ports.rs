// SPDX-License-Identifier: MIT
//! From ports to ports: frames come in by any port of a whole router, one or two workers and threads of the slow path, while time passes,
//! routes change and neighbors are forgotten. Every packet is accounted for, what is sent is fit to be sent, and no buffer is left.

use crate::bed::{Bed, Queues, ask};
use crate::frames::mutate;
use crate::frames::router::{ADDRESSES4, ADDRESSES6, PORTS, configuration};
use crate::frames::templates::{self, Template};
use crate::frames::account;
use crate::input::Input;
use crate::kept::Kept;
use crate::sentence;
use perigee_api::RouteChange;
use perigee_api::queries::{AddRoute, DeleteRoute, FlushNeighbors, ShowDrops, ShowNeighbors, ShowSlowPath};
use perigee_net::Prefix;
use perigee_packet::Pool;
use std::cell::RefCell;
use std::net::IpAddr;
use std::sync::LazyLock;
use std::sync::atomic::Ordering;

static TEMPLATES: LazyLock<Vec<Template>> = LazyLock::new(templates::all);

/// An hour, in ns: longer than anything is waited for.
const HOUR: u64 = 3_600_000_000_000;
/// The most steps of one input: what many steps find, few steps of many inputs find, too.
const STEPS: usize = 200;

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let shape = usize::from(input.byte() & 3);
    ROUTERS.with_borrow_mut(|routers| {
        routers[shape].with(
            bytes,
            || make(1 + (shape & 1), 1 + (shape >> 1)),
            |bed| steps(bed, &mut input),
            |bed| assert_eq!(bed.end(), 0, "packet buffers are missing"),
        );
    });
}

thread_local! {
    /// By the number of workers and of the slow path's threads.
    static ROUTERS: RefCell<[Kept<Bed>; 4]> = const { RefCell::new([const { Kept::new() }; 4]) };
}

fn make(workers: usize, slow_paths: usize) -> Bed {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = configuration(workers, slow_paths);
    let queues = Queues { receive: workers, transmit: workers + slow_paths };
    let mut bed = Bed::new(&text, &folder.path().join("router.toml"), queues);
    bed.settle();
    bed
}

fn steps(bed: &mut Bed, input: &mut Input) {
    let (mut frame, mut routes) = (Vec::new(), Vec::new());
    for _ in 0..STEPS {
        if input.is_empty() {
            break;
        }
        step(bed, input, &mut frame, &mut routes);
    }
    // As if it had just been started, for the next input: its routes are gone, its neighbors and all that waits for them, too.
    for change in routes {
        told(ask(bed, DeleteRoute(change)).map(drop));
    }
    told(ask(bed, FlushNeighbors { dev: None, address: None }).map(drop));
    bed.settle();
    bed.now.fetch_add(HOUR, Ordering::Relaxed);
    bed.settle();
    bed.workers.iter_mut().for_each(account::settled);
    account::take_sent(bed);
    assert_eq!((&bed.pool).in_use(), 0, "packet buffers are missing");
}

/// One thing that happens to the router.
fn step(bed: &mut Bed, input: &mut Input, frame: &mut Vec<u8>, routes: &mut Vec<RouteChange>) {
    match input.byte() {
        0..170 => {
            let port = mutate::frame(frame, &TEMPLATES, input);
            receive(bed, port, frame);
        }
        170..190 => {
            let port = input.below(PORTS.into()) as u16;
            receive(bed, port, input.bytes(1600));
        }
        190..220 => bed.settle(),
        220..235 => {
            let leap = [1_000, 1_000_000, 100_000_000, 1_100_000_000, 61_000_000_000][input.below(5)];
            bed.now.fetch_add(leap, Ordering::Relaxed);
            bed.settle();
            account::take_sent(bed);
        }
        235..245 => route(bed, input, routes),
        245..250 => {
            let address = (!input.chance(80)).then(|| address(input));
            let dev = ["a", "b", "b.7", "c", "x"][input.below(5)];
            let dev = input.chance(128).then(|| dev.to_owned());
            told(ask(bed, FlushNeighbors { dev, address }).map(drop));
        }
        _ => {
            told(ask(bed, ShowDrops {}).map(drop));
            told(ask(bed, ShowNeighbors {}).map(drop));
            told(ask(bed, ShowSlowPath {}).map(drop));
        }
    }
}

/// A port receives a frame, by the queue of the worker that its length chooses.
fn receive(bed: &mut Bed, port: u16, frame: &[u8]) {
    let queues = &bed.receive[usize::from(port)];
    if !queues[frame.len() % queues.len()].inject(frame) {
        bed.settle();
        account::take_sent(bed);
    }
}

fn address(input: &mut Input) -> IpAddr {
    if input.chance(128) { IpAddr::V6(*input.pick(&ADDRESSES6)) } else { IpAddr::V4(*input.pick(&ADDRESSES4)) }
}

/// A route comes, to be taken back, or goes.
fn route(bed: &mut Bed, input: &mut Input, routes: &mut Vec<RouteChange>) {
    let (to, via) = (address(input), address(input));
    let length = input.below(if to.is_ipv4() { 33 } else { 129 }) as u8;
    let prefix = Prefix::truncated(to, length).expect("a length of the family");
    let change = RouteChange { via: Some(via), metric: input.below(2) as u32, ..RouteChange::of(prefix) };
    if input.chance(100) {
        told(ask(bed, DeleteRoute(change)).map(drop));
    } else {
        routes.push(change.clone());
        told(ask(bed, AddRoute(change)).map(drop));
    }
}

/// A refusal is a sentence.
fn told(outcome: Result<(), String>) {
    if let Err(message) = outcome {
        sentence::check(&message);
    }
}
