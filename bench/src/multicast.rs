// SPDX-License-Identifier: MIT
//! `./x bench multicast`: what it costs to replicate a packet to a group, in the fast path and in the slow path.
//!
//! Both get the same packets in buffers of DPDK's, and send to ports that discard. They take turns on one core; rates
//! are per CPU time of the thread, ratios within a round.

use crate::machine::{self, Interrupts, Machine, thread_time};
use crate::slowpath::NoRoutes;
use crate::statistics::Median;
use crate::traffic::{Frame, eight_routes, tables};
use anyhow::{Context as _, Result, ensure};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::ProgressBar;
use perigee_config::{Config, Machine as Known};
use perigee_dpdk::{Clock, Device, DpdkPort, Eal, EalConfig, Hugepages, MBUF, MbufPool, PoolConfig, PortConfig};
use perigee_fib::{MulticastInput, MulticastOrigin, MulticastTable, Published};
use perigee_modules::{Context, Counters, PuntSink, Punted, Tables, classify, distribute, ipv4_valid, multicast};
use perigee_net::{InterfaceId, MacAddr, MulticastOutput, MulticastRoute};
use perigee_packet::wire::{ethernet, ipv4, protocol, udp};
use perigee_packet::{Batch, Mask, Packet, Pool, TransmitBuffer, TransmitQueue};
use perigee_router::{AssistantBell, AssistantParts, AssistantThread, Assistants};
use perigee_slowpath::{Input, Time};
use perigee_worker::{Bell, PuntRings, Stop, punt_rings};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Packets at once.
const BURST: usize = 32;
/// Groups, each with a route of its own.
const GROUPS: u8 = 64;
/// Numbers of interfaces that packets leave by.
const OUTPUTS: [u16; 4] = [1, 2, 4, 8];

/// Arguments of `./x bench multicast`.
#[derive(Args)]
pub struct MulticastArgs {
    /// Rounds
    #[arg(long, default_value_t = 9)]
    pairs: usize,
    /// Seconds per measurement
    #[arg(long, default_value_t = 0.3)]
    seconds: f64,
    /// The core [default: the last this process may use]
    #[arg(long)]
    core: Option<usize>,
    /// Add what is printed to a file of results, with date, machine and command
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "bench/RESULTS.md")]
    record: Option<PathBuf>,
}

/// Runs it.
pub fn run(args: &MulticastArgs) -> Result<ExitCode> {
    ensure!((0.01..=60.0).contains(&args.seconds) && args.pairs > 0, "--seconds: 0.01 to 60; --pairs: at least 1");
    let core = machine::core(args.core)?;
    let (bed, mut interrupts) = (Bed::new(core)?, Interrupts::new()?);
    let time = Duration::from_secs_f64(args.seconds);
    let bar = ProgressBar::new((OUTPUTS.len() * args.pairs) as u64);
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["interfaces", "fast path, Mpps in", "Mpps out", "slow path, Mpps in", "Mpps out", "fast / slow"]);
    for outputs in OUTPUTS {
        let (mut fast, mut slow, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..args.pairs {
            let (a, b) = (bed.fast(outputs, time)?, bed.slow(outputs, time)?);
            interrupts.check()?;
            fast.push(a);
            slow.push(b);
            ratios.push(a / b);
            bar.inc(1);
        }
        let [fast, slow, ratio] = [fast, slow, ratios].map(|samples| Median::of(&samples));
        let out = |rate: Median| format!("{:.1}", rate.median * f64::from(outputs));
        let ratio = format!("{:.1} [{:.1}, {:.1}]", ratio.median, ratio.low, ratio.high);
        let [a, b] = [fast, slow].map(|rate| format!("{:.2}", rate.median));
        table.add_row([outputs.to_string(), a, out(fast), b, out(slow), ratio]);
    }
    bar.finish_and_clear();
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let text = format!(
        "{table}\n\nPackets of 64 bytes to {GROUPS} groups, {BURST} at once, on core {core}; ordinary pages; ports that discard.\n\
         Rates per CPU time, medians of {} rounds of {} s; the ratio with the interval that holds the true median with 95 %.\n\
         Making the packet is in both, the punt ring in the slow path's.\n",
        args.pairs, args.seconds
    );
    print!("{text}");
    if let Some(file) = &args.record {
        machine::record(file, "bench multicast", &Machine::this(), &text)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Bed {
    // Dropped in this order: the port before the pool that its buffers go back to.
    port: DpdkPort,
    pool: Arc<MbufPool>,
    frames: Vec<Frame>,
    _eal: Eal,
}

/// Nothing is punted.
struct NoPunts;

impl PuntSink for NoPunts {
    fn punt(&mut self, packet: Punted) -> Result<(), Punted> {
        Err(packet)
    }
}

fn group(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(239, 1, 0, number)
}

fn frame(number: u8) -> Result<Frame> {
    let mut frame = vec![0; 60];
    let (group, source_mac) = (group(number), MacAddr([2, 0, 0, 0, 2, 0]));
    ethernet::emit(&mut frame, MacAddr::from_ipv4_multicast(group), source_mac, ethernet::ethertype::IPV4)?;
    let length = frame.len() - ethernet::HEADER_LEN - ipv4::HEADER_LEN;
    ipv4::Repr::new(Ipv4Addr::new(10, 0, 0, 1 + number), group, protocol::UDP, length).emit(&mut frame[14..])?;
    udp::emit(&mut frame[34..], 5000, 5001, length - udp::HEADER_LEN)?;
    Ok(frame)
}

/// Tables of a router whose groups come in by the first interface and leave by this many others.
fn routes(outputs: u16) -> Result<Tables> {
    let tables = tables(eight_routes()?, outputs + 1)?;
    let to: Vec<_> = (1..=outputs).map(|port| MulticastOutput { interface: InterfaceId(port), ttl: 1 }).collect();
    let route = |number: u8| MulticastInput {
        route: MulticastRoute { group: group(number).into(), source: None, from: Some(InterfaceId(0)), to: to.clone() },
        origin: MulticastOrigin::Static,
        counters: Arc::default(),
    };
    let table = MulticastTable::new((0..GROUPS).map(route), &tables.interfaces, Vec::new());
    Ok(tables.with_multicast(Some(Arc::new(table))))
}

impl Bed {
    fn new(core: usize) -> Result<Bed> {
        let config =
            EalConfig { hugepages: Hugepages::No, memory_mb: 256, main_core: Some(core), ..EalConfig::default() };
        let eal = Eal::start(&config)?;
        perigee_dpdk::pin_current_thread(core)?;
        let pool = MbufPool::new(&eal, PoolConfig { buffers: 32_767, ..PoolConfig::default() })?;
        let device = Device::Dpdk("net_null0,no-rx=1".to_owned());
        let queues = 1 + OUTPUTS[OUTPUTS.len() - 1];
        let port = DpdkPort::open(&eal, &PortConfig { transmit_queues: queues, ..PortConfig::new(device) }, &pool)?;
        let frames = (0..GROUPS).map(frame).collect::<Result<_>>()?;
        Ok(Bed { port, pool, frames, _eal: eal })
    }

    /// What a port of the router's sends to: one device discards for all of them.
    fn queue(&self, port: u16) -> Result<Box<dyn TransmitQueue>> {
        Ok(Box::new(self.port.tx_queue(port)?))
    }

    /// A packet of a group, in a buffer.
    fn packet(&self, number: usize) -> Result<Packet> {
        self.pool.packet(&self.frames[number % self.frames.len()]).context("there is no packet buffer left")
    }

    /// Millions of packets per second of CPU time that the fast path takes.
    fn fast(&self, outputs: u16, time: Duration) -> Result<f64> {
        let tables = Published::new(routes(outputs)?).subscribe();
        let buffer = |port| Ok(Some(TransmitBuffer::new(self.queue(port)?, 32, 0)));
        let mut ctx = Context {
            now: 1,
            worker: 0,
            tables,
            counters: Arc::new(Counters::new(usize::from(outputs) + 1)),
            outputs: (0..=outputs).map(buffer).collect::<Result<_>>()?,
            punts: Box::new(NoPunts),
            custom: Arc::default(),
            next_redirect: 0,
            fragments: Default::default(),
            multicast: Default::default(),
            failure: None,
            trace: None,
            stopwatch: Default::default(),
            watched: false,
        };
        ctx.multicast.runs = true;
        let mut batch = Batch::new(&MBUF);
        let (before, begun, mut packets) = (thread_time(), Instant::now(), 0usize);
        while begun.elapsed() < time {
            batch.refill();
            for number in 0..BURST {
                ensure!(batch.push(self.packet(packets + number)?, 0).is_ok(), "the batch is full");
            }
            let (mut ip4, mut ip6) = (Mask::EMPTY, Mask::EMPTY);
            classify::classify(&mut ctx, &mut batch, &mut ip4, &mut ip6);
            ipv4_valid::ipv4_valid(&mut ctx, &mut batch, &mut ip4);
            multicast::multicast(&mut ctx, &mut batch, &mut ip4, &mut ip6);
            distribute::distribute(&mut ctx, &mut batch, &mut ip4, &mut ip6);
            packets += BURST;
        }
        let seconds = (thread_time() - before).as_secs_f64();
        ctx.flush_all();
        let sent: u64 = (0..=outputs).map(|port| ctx.counters.port_transmitted(port)).sum();
        ensure!(sent == packets as u64 * u64::from(outputs), "{sent} of {packets} packets by {outputs} were sent");
        Ok(packets as f64 / seconds / 1e6)
    }

    /// Millions of packets per second of CPU time that a thread of the slow path takes.
    fn slow(&self, outputs: u16, time: Duration) -> Result<f64> {
        let ports: String =
            (0..=outputs).map(|port| format!("[port.p{port}]\ndevice = \"d{port}\"\ntwin = false\n")).collect();
        let config = Config::parse_on("bench", &ports, &Known::default())?;
        let mut assistants = Assistants::new(&config);
        let mut owner = assistants.owner();
        let tables = routes(outputs)?;
        for (id, interface) in tables.interfaces.iter() {
            owner.handle(Time(0), Input::SetInterface { id, interface: interface.clone() }, &NoRoutes);
        }
        let (mut published, bell, clock) = (Published::new(tables), AssistantBell::default(), Clock::new());
        let (rings, punts) = punt_rings(4 * BURST, &[bell.bell()]);
        let mut assistant = assistants.add(AssistantParts {
            punts,
            outputs: (0..=outputs).map(|port| Ok(Some(self.queue(port)?))).collect::<Result<_>>()?,
            pools: (0..=outputs).map(|_| Some(self.pool.clone() as Arc<dyn Pool>)).collect(),
            tables: published.subscribe(),
            bell,
            owner: Arc::new(Bell::new(|| {})),
            clock: Arc::new(move || clock.now()),
            stop: Stop::default(),
        });
        assistants.publish(&owner);
        let rate = self.judge(rings, &mut assistant, time)?;
        assistant.finish();
        let counters = assistants.counters(&owner);
        let (taken, copies) = (counters.forwarded, counters.multicast_copies);
        ensure!(taken > 0 && copies == taken * u64::from(outputs), "{copies} copies of {taken} packets by {outputs}");
        Ok(rate)
    }

    fn judge(&self, mut rings: PuntRings, assistant: &mut AssistantThread, time: Duration) -> Result<f64> {
        let (before, begun, mut packets) = (thread_time(), Instant::now(), 0usize);
        while begun.elapsed() < time {
            for number in 0..BURST {
                let packet = self.packet(packets + number)?;
                let (reason, interface) = (multicast::TOO_BIG, InterfaceId(0));
                let punted = Punted { packet, reason, port: 0, interface, next_hop: 0, trace: None };
                ensure!(rings.punt(punted).is_ok(), "the ring is full");
            }
            rings.announce();
            assistant.round();
            packets += BURST;
        }
        Ok(packets as f64 / (thread_time() - before).as_secs_f64() / 1e6)
    }
}
