// SPDX-License-Identifier: MIT
//! Frames that are nearly right through both planes, by the tables of a whole router: the in-kernel plane sends the same
//! bytes as the modules, drops for the same reason, or leaves the frame to others.

use crate::bed;
use crate::frames::mutate;
use crate::frames::router::configuration_with;
use crate::frames::templates;
use crate::plane_bed::{Bed, Outcome};
use perigee_config::Port;
use perigee_fib::Arena;
use perigee_modules::Tables;
use perigee_net::MacAddr;
use perigee_packet::PortInfo;
use perigee_router::{Forwarding, Lookups};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Lookup structures for IPv4 that both planes read.
const STRUCTURES: [&str; 3] = ["auto", "dirb", "bm19"];
/// Frames between two structures.
const PIECE: u64 = 1 << 15;
/// What BPF_PROG_TEST_RUN takes, in bytes: an Ethernet header, and a page less what the kernel keeps in it.
const LENGTHS: std::ops::RangeInclusive<usize> = 14..=3300;

/// How often the modules did something, and how often the plane has left that to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Frames.
    pub all: u64,
    /// Those among them that the plane has not finished.
    pub left: u64,
}

/// Sends `frames` frames through both; what the modules did with them. `progress` is called with the number of frames
/// that each piece adds.
///
/// # Panics
/// The plane does something else than the modules, or cannot be loaded.
pub fn run(frames: u64, seed: u64, progress: impl Fn(u64)) -> BTreeMap<String, Times> {
    let (templates, mut seen) = (templates::all(), BTreeMap::<String, Times>::new());
    let mut beds: Vec<(Forwarding, Bed)> = STRUCTURES.iter().map(|structure| router(structure)).collect();
    let pieces = frames.div_ceil(PIECE);
    for piece in 0..pieces {
        let mut random = SmallRng::seed_from_u64(seed ^ piece.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (_, bed) = &mut beds[(piece % STRUCTURES.len() as u64) as usize];
        let count = PIECE.min(frames - piece * PIECE);
        let mut made: Vec<(u16, Vec<u8>)> = (0..count)
            .map(|_| {
                let mut frame = Vec::new();
                loop {
                    let port = mutate::frame(&mut frame, &templates, &mut random);
                    if LENGTHS.contains(&frame.len()) {
                        return (port, frame);
                    }
                }
            })
            .collect();
        // Of each port in a row: to change it, the plane's settings are written again.
        made.sort_by_key(|(port, _)| *port);
        for (port, frame) in &made {
            let (user, kernel) = bed.compare(*port, frame);
            let what = match user {
                Outcome::Sent(..) => "sent".to_owned(),
                Outcome::Dropped(module, reason) => format!("dropped: {module}.{reason}"),
                Outcome::Up => "for the slow path".to_owned(),
                Outcome::Copied => "copied to several ports".to_owned(),
            };
            let times = seen.entry(what).or_default();
            times.all += 1;
            times.left += u64::from(kernel == Outcome::Up);
        }
        progress(count);
    }
    if let Some(sent) = seen.get("sent").filter(|sent| sent.all > 1000) {
        assert!(sent.left * 4 < sent.all, "the plane leaves most of what is sent to others: {sent:?}");
    }
    seen
}

/// The router of all frames, with its tables where both planes read them.
fn router(structure: &str) -> (Forwarding, Bed) {
    // By the clock, now and then a packet goes up instead of being sent back.
    let quiet = ["twin = false", "mtu = 1280"];
    let text = quiet
        .iter()
        .fold(configuration_with(1, 1, structure), |text, key| text.replace(key, &format!("{key}\nredirects = false")));
    let config = bed::parse(&text);
    let info = |(number, port): (u16, &Port)| PortInfo {
        port: number,
        device: port.name.clone(),
        driver: "heap".to_owned(),
        mac: MacAddr(bed::mac(number)),
        mtu: port.mtu,
        receive_queues: 1,
        transmit_queues: 1,
        numa_node: None,
        offloads: vec![],
        notes: vec![],
    };
    let infos: Vec<PortInfo> = (0..).zip(&config.ports).map(info).collect();
    let mut made = None;
    let tables = |arena: &Arc<Arena>| -> Tables {
        let lookups = Lookups::default().in_arena(arena.clone());
        let mut forwarding = Forwarding::new(&config, &infos, bed::filters(&config), lookups).expect("the tables");
        // Those of the configuration are the slow path's to set, which is not here.
        for neighbor in &config.neighbors {
            forwarding.set_neighbor(neighbor.interface, neighbor.address, Some(neighbor.mac));
        }
        forwarding.publish().expect("the tables");
        let tables = (*forwarding.subscribe()).clone();
        made = Some(forwarding);
        tables
    };
    let bed = Bed::by_tables(tables);
    (made.expect("made with the tables"), bed)
}
