// SPDX-License-Identifier: MIT
//! From a description to a traffic: every check is here.

use std::io;
use std::path::Path;

use perigee_net::MacAddr;

use super::combinations::Combinations;
use super::description::{Description, Family, Protocol};
use super::error::TrafficError;
use super::heads::{Field, Heads, KEPT, Set, Values, Varying};
use super::plan::{Drawing, Plan};
use super::prototype::{Headers, Place, Prototype, smallest_frame};
use super::random::{self, Alias, MOST_RANKS, Random, Shuffle};
use super::range::{Addresses, Order, Range, Value};
use super::rss::Rss;
use super::sizes::{Cycle, FCS, Sizes};
use super::{MOST_FLOWS, Traffic, routes};

/// Reads a route file.
pub(crate) type Read<'r> = &'r mut dyn FnMut(&Path) -> io::Result<String>;

/// Flows per queue, if rss is given and their number is not.
const FLOWS_PER_QUEUE: u64 = 64;
/// How many combinations are looked at for each one that is needed if all queues get the same share, and at least.
const TRIES: u64 = 4;
const LEAST_TRIES: u64 = 1 << 20;

/// A field with all that its values say.
struct Given {
    name: &'static str,
    place: Place,
    order: Order,
    length: u128,
    values: Values,
}

/// Numbers that make the seeds of a description's random orders differ.
const SIZES_SEED: u64 = 100;
const DRAWS_SEED: u64 = 101;

pub(crate) fn compile(description: &Description, read: Read) -> Result<Traffic, TrafficError> {
    let headers = headers(description)?;
    let cycle = sizes(description, headers)?;
    let longest = cycle.sizes.iter().max().copied().unwrap_or(0);
    let mut prototype = Prototype::new(headers, description.ttl, description.dscp, usize::from(longest - FCS));
    let fitted: Vec<_> = cycle.sizes.iter().map(|size| prototype.fit(*size)).collect();

    let mut given = fields(&description.with_defaults(), headers, read)?;
    if description.reversed {
        given.iter_mut().for_each(|field| field.place = field.place.opposite(headers.protocol));
    }
    let (varying, drawn_name) = vary(given, &mut prototype)?;
    let flows = flow_count(description, &varying)?;
    let drawing = varying.drawn.as_ref().map(|(_, ranks)| Drawing {
        alias: Alias::zipf(*ranks, drawn_name.map_or(0.0, |(_, s)| s)),
        ranks: *ranks,
        random: Random::new(random::at(description.seed, DRAWS_SEED)),
    });
    let heads = match (&description.rss, drawn_name) {
        (Some(_), Some((field, _))) => return Err(TrafficError::SpreadOfZipf { field }),
        (Some(rss), None) => {
            let chosen = choose(rss, flows, &varying, &prototype, headers)?;
            Heads::keep(&prototype, &varying, chosen.into_iter(), &fitted)
        }
        (None, _) if flows <= KEPT => Heads::keep(&prototype, &varying, 0..flows, &fitted),
        (None, _) => Heads::make(&mut prototype, varying, flows, &fitted),
    };
    let lengths = fitted.iter().map(|fitted| fitted.length).collect();
    let total: u64 = cycle.pattern.iter().map(|size| u64::from(cycle.sizes[usize::from(*size)])).sum();
    let mean_size = total as f64 / cycle.pattern.len() as f64;
    let plan = Plan::new(lengths, cycle.pattern, flows as u32, drawing);
    // The pages are touched now, not by the first frames of a trial.
    let mut sequences = vec![0; flows as usize];
    std::hint::black_box(&mut sequences).fill(0);
    Ok(Traffic { prototype, fitted, heads, plan, sequences, first_flow: 0, mean_size })
}

/// The kinds of headers, from the fields that choose them.
fn headers(description: &Description) -> Result<Headers, TrafficError> {
    let number = |field, found: u64, most, expected| {
        if found > most { Err(TrafficError::Number { field, found, expected }) } else { Ok(()) }
    };
    number("dscp", description.dscp.into(), 63, "0 to 63")?;
    let family = match description.given_family() {
        None => Family::default(),
        Some((first, family)) => {
            let others = [("source", &description.source), ("destination", &description.destination)];
            for (second, addresses) in others {
                if matches!(addresses, Some(Addresses::Range(range)) if Family::of(range.first()) != family) {
                    return Err(TrafficError::MixedFamilies { first, first_family: family.name(), second });
                }
            }
            family
        }
    };
    if description.vlan.is_none() && description.service_vlan.is_some() {
        return Err(TrafficError::OuterTagAlone);
    }
    if description.protocol == Protocol::Icmp && description.destination_port.is_some() {
        return Err(TrafficError::NoSuchField { field: "destination_port", protocol: "icmp" });
    }
    let (field, source) = match description.reversed {
        false => ("source_mac", &description.source_mac),
        true => ("destination_mac", &description.destination_mac),
    };
    let ends = source.map(|range| [range.first(), range.last()]);
    if let Some(mac) = ends.into_iter().flatten().find(|mac: &MacAddr| mac.is_multicast()) {
        return Err(TrafficError::GroupSource { field, found: mac.to_string() });
    }
    let tags = u8::from(description.vlan.is_some()) + u8::from(description.service_vlan.is_some());
    Ok(Headers { protocol: description.protocol, family, tags, stamp: description.stamp })
}

/// The sizes, all of which the headers fit into.
fn sizes(description: &Description, headers: Headers) -> Result<Cycle, TrafficError> {
    let needed = smallest_frame(headers);
    let sizes = match &description.sizes {
        Some(sizes) => sizes.clone(),
        None => Sizes::one(needed)?,
    };
    let found = sizes.smallest();
    if found < needed {
        let bare = smallest_frame(Headers { stamp: false, ..headers });
        let mut advice = format!("use {needed} or more");
        if headers.stamp && found >= bare {
            advice +=
                ", or stamp = false, with which a receiver can count frames but not find out which were lost or late";
        }
        return Err(TrafficError::TooShort { found, contents: headers.contents(), needed, advice });
    }
    sizes.cycle(random::at(description.seed, SIZES_SEED))
}

/// All fields with their values; `full` has its defaults filled in.
fn fields(full: &Description, headers: Headers, read: Read) -> Result<Vec<Given>, TrafficError> {
    let mut given = Vec::new();
    let seed = |place: Place| random::at(full.seed, place as u64);
    for (name, place, addresses) in
        [("source", Place::Source, &full.source), ("destination", Place::Destination, &full.destination)]
    {
        given.extend(
            addresses.as_ref().map(|a| from_addresses(name, place, a, headers, seed(place), read)).transpose()?,
        );
    }
    let mut add = |field: Option<Given>| given.extend(field);
    use Place::{DestinationMac, DestinationPort, ServiceVlan, SourceMac, SourcePort, Vlan};
    add(full.source_port.map(|range| from_range("source_port", SourcePort, range, seed(SourcePort))));
    add(full
        .destination_port
        .map(|range| from_range("destination_port", DestinationPort, range, seed(DestinationPort))));
    add(full.vlan.map(|range| from_range("vlan", Vlan, range, seed(Vlan))));
    add(full.service_vlan.map(|range| from_range("service_vlan", ServiceVlan, range, seed(ServiceVlan))));
    add(full.source_mac.map(|range| from_range("source_mac", SourceMac, range, seed(SourceMac))));
    add(full.destination_mac.map(|range| from_range("destination_mac", DestinationMac, range, seed(DestinationMac))));
    Ok(given)
}

/// Values in this order; those of Zipf's law lie scattered.
fn ordered(set: Set, order: Order, length: u128, seed: u64) -> Values {
    Values { set, shuffle: (order != Order::Sequential && length > 1).then(|| Shuffle::new(length, seed)) }
}

fn from_range<T: Value>(name: &'static str, place: Place, range: Range<T>, seed: u64) -> Given {
    let values = ordered(Set::From(range.first().number()), range.order(), range.len(), seed);
    Given { name, place, order: range.order(), length: range.len(), values }
}

fn from_addresses(
    name: &'static str,
    place: Place,
    addresses: &Addresses,
    headers: Headers,
    seed: u64,
    read: Read,
) -> Result<Given, TrafficError> {
    let (order, file) = match addresses {
        Addresses::Range(range) => return Ok(from_range(name, place, *range, seed)),
        Addresses::Routes { order, file } => (*order, file),
    };
    let text = read(file).map_err(|why| TrafficError::Unreadable { file: file.clone(), why: why.to_string() })?;
    let hosts = routes::hosts(file, &text, headers.family, seed)?;
    let length = hosts.len() as u128;
    let set = match headers.family {
        Family::Ipv4 => Set::Narrow(hosts.iter().map(|host| *host as u32).collect()),
        Family::Ipv6 => Set::Wide(hosts),
    };
    Ok(Given { name, place, order, length, values: ordered(set, order, length, seed) })
}

/// Writes the fields with one value into the prototype, and gives back the others: in turn, and drawn, with the drawn
/// one's name and exponent.
#[allow(clippy::type_complexity)]
fn vary(given: Vec<Given>, prototype: &mut Prototype) -> Result<(Varying, Option<(&'static str, f64)>), TrafficError> {
    let mut drawn: Option<(Field, u32)> = None;
    let mut drawn_name = None;
    let (mut fields, mut lengths) = (Vec::new(), Vec::new());
    for Given { name, place, order, length, values } in given {
        let field = Field { spot: prototype.spot(place), values };
        match order {
            _ if length == 1 => field.put(0, &mut prototype.bytes, &mut prototype.sums),
            Order::Zipf(s) => {
                if let Some((first, _)) = drawn_name {
                    return Err(TrafficError::TwoZipf { first, second: name });
                }
                if length > MOST_RANKS.into() {
                    return Err(TrafficError::ZipfValues { found: length, most: MOST_RANKS });
                }
                drawn_name = Some((name, s));
                drawn = Some((field, length as u32));
            }
            _ => {
                fields.push(field);
                lengths.push(u64::try_from(length).unwrap_or(u64::MAX));
            }
        }
    }
    Ok((Varying { fields, combinations: Combinations::new(&lengths), drawn }, drawn_name))
}

/// How many flows there are, of all.
fn flow_count(description: &Description, varying: &Varying) -> Result<u64, TrafficError> {
    let ranks = varying.drawn.as_ref().map_or(1, |(_, ranks)| u64::from(*ranks));
    let distinct = varying.combinations.count().saturating_mul(ranks);
    let Some(flows) = description.flows.map(u64::from) else {
        return Ok(match &description.rss {
            Some(rss) => FLOWS_PER_QUEUE * if rss.queue().is_some() { 1 } else { u64::from(rss.queues()) },
            None if distinct <= MOST_FLOWS => distinct,
            None => ranks * (KEPT / ranks).max(1),
        });
    };
    let most = if description.rss.is_some() { KEPT } else { MOST_FLOWS };
    if !(1..=most).contains(&flows) {
        let expected = if description.rss.is_some() { "1 to 65536 with rss" } else { "1 to 16777216" };
        return Err(TrafficError::Number { field: "flows", found: flows, expected });
    }
    if flows > distinct {
        return Err(TrafficError::Duplicates { found: flows, distinct });
    }
    if !flows.is_multiple_of(ranks) {
        return Err(TrafficError::ZipfFlows { found: flows, values: ranks });
    }
    Ok(flows)
}

/// Which combinations become flows so that each goes to the queue that it should.
fn choose(
    rss: &Rss,
    flows: u64,
    varying: &Varying,
    prototype: &Prototype,
    headers: Headers,
) -> Result<Vec<u64>, TrafficError> {
    // What the device hashes, in this order.
    let mut places = vec![Place::Source, Place::Destination];
    if headers.protocol != Protocol::Icmp {
        places.extend([Place::SourcePort, Place::DestinationPort]);
    }
    let spots: Vec<_> = places.into_iter().map(|place| prototype.spot(place).bytes()).collect();
    let queues = usize::from(rss.queues());
    let mut needed = vec![0u64; queues];
    (0..flows).for_each(|flow| needed[usize::from(rss.wanted(flow))] += 1);
    let mut found: Vec<Vec<u64>> = vec![Vec::new(); queues];
    let mut missing = flows;
    let tries = (needed.iter().max().copied().unwrap_or(0) * u64::from(rss.queues()) * TRIES).max(LEAST_TRIES);
    let tries = tries.min(varying.combinations.count());
    let mut input = Vec::new();
    for combination in 0..tries {
        if missing == 0 {
            break;
        }
        let (head, _) = varying.head(prototype, combination);
        input.clear();
        spots.iter().for_each(|bytes| input.extend_from_slice(&head[bytes.clone()]));
        let queue = usize::from(rss.queue_of(&input));
        if (found[queue].len() as u64) < needed[queue] {
            found[queue].push(combination);
            missing -= 1;
        }
    }
    if missing > 0 {
        let lacks = |queue: &usize| (found[*queue].len() as u64) < needed[*queue];
        let queue = (0..queues).find(lacks).unwrap_or(0);
        let (found, needed) = (found[queue].len() as u64, needed[queue]);
        return Err(TrafficError::NoSpread { tried: tries, found, queue: queue as u16, needed });
    }
    let mut next = found.into_iter().map(Vec::into_iter).collect::<Vec<_>>();
    Ok((0..flows).filter_map(|flow| next[usize::from(rss.wanted(flow))].next()).collect())
}
