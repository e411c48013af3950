// SPDX-License-Identifier: MIT
//! All figures: what each asks, how it is measured here, and by what. Adding one is an entry here, and its function.

use super::outcome::Outcome;
use super::stand::Stand;
use super::{changes, layout, lookups, moonroute, mswitch, ns3, rivals, schemes, snabb};
use anyhow::Result;

/// A figure.
pub struct Figure {
    /// Its name on the command line, and its folder's.
    pub name: &'static str,
    /// The publication and its number there.
    pub from: &'static str,
    pub title: &'static str,
    pub question: &'static str,
    /// How it is measured here, and what replaces what this machine does not have.
    pub method: &'static str,
    /// What was published, in words.
    pub published: &'static str,
    pub measure: fn(&mut Stand) -> Result<Outcome>,
}

/// In the order of the page.
pub const FIGURES: &[Figure] = &[
    Figure {
        name: "moonroute-sizes",
        from: "MoonRoute, packet sizes",
        title: "Packet sizes 64 to 544 bytes",
        question: "Does a packet cost more if it is longer?",
        method: "One saturated worker; 1 network and 2^20 of them. The source writes the headers of a frame and not the rest, as no \
                 router reads it; a device's DMA would write all of it.",
        published: "6.12 Mpps at 64 bytes to 6.10 at 384 with few destinations, 5.3 to 5.5 with 2^24: flat until the links are full (1.2 GHz, \
                    two links of 10 Gbit/s).",
        measure: moonroute::sizes,
    },
    Figure {
        name: "moonroute-workers",
        from: "MoonRoute, Fig. 8",
        title: "Workers",
        question: "Do n workers forward n times as much?",
        method: "1 to n saturated workers (1, 2, 4, 8, 12, 16 and so on), each with a source and a sink of its own, \
                 one table; 1, 2^16 and 2^20 networks. To 8 workers a prediction, dashed, where there are fewer cores: a \
                 packet takes longer by as much for each further worker as it did for the measured ones.",
        published: "Linear: of 1 worker's rate, 2 workers have 0.976 each at 2.0 GHz, 3 have 1.002 with 2^24 destinations, 4 have 0.973 at 1.2 GHz.",
        measure: moonroute::workers,
    },
    Figure {
        name: "moonroute-routes",
        from: "MoonRoute, Figs. 9, 10",
        title: "Routes in use",
        question: "How does the rate fall when lookups no longer fit the caches?",
        method: "One saturated worker; so many /24 routes, each in use, destinations at random; perigee's default structure and DIR-24-8, which \
                 MoonRoute has, with their sizes. Misses and mispredictions are simulated by cachegrind, for DIR-24-8 and the loop in Rust: this \
                 machine's first level, and 256 KB and 8 MB as on the published one; no prefetching, no overlap.",
        published: "Flat up to 2^20 (14.4 to 14.2 Mpps at 3.2 GHz, 8 MB of L3), then a step to 0.80 at 2^24; misses of the L3 mirror it (0.02 to \
                    0.92 per packet).",
        measure: moonroute::routes,
    },
    Figure {
        name: "moonroute-clock",
        from: "MoonRoute, Fig. 7",
        title: "The processor's time and the memory's",
        question: "How much of a packet's time does not depend on the processor's clock?",
        method: "The clock of this machine cannot be set. Instead the table grows: what a packet takes with one network is the processor's, what it \
                 takes more with others is the memory's. DIR-24-8; instructions per packet by valgrind, of the loop in Rust.",
        published: "One core from 1.6 to 3.2 GHz: 206 cycles and 4 ns that do not scale with one network, 214 + 4 with 2^20, 208 + 10 with 2^21, \
                    221 + 18 with 2^24.",
        measure: moonroute::clock,
    },
    Figure {
        name: "moonroute-batches",
        from: "MoonRoute, Fig. 11",
        title: "Receive and transmit bursts",
        question: "Which bursts are best?",
        method: "One saturated worker, 2^20 networks; receive bursts up to 256, as many as a batch holds, transmit bursts up to 1024. Sending to memory is cheaper than to a \
                 device, so the transmit burst matters less.",
        published: "Best at 128 / 128; receive bursts of 1, 16 and 128 reach 0.22, 0.85 and 1 of it, transmit bursts of 8 0.96.",
        measure: moonroute::batches,
    },
    Figure {
        name: "moonroute-latency",
        from: "MoonRoute, Fig. 13",
        title: "Latency at 90 % load",
        question: "What do large bursts cost in time?",
        method: "Poisson arrivals at 90 % of the throughput found for the same bursts right before, and right behind to see whether it is still \
                 the same; from arrival in the receive ring to hand-over to the transmit device. The wire and the devices are not in it, so shapes compare, microseconds do not.",
        published: "With transmit bursts of 8 flat to receive bursts of 16, growing beyond (median 10.8 us at 1, 18.8 at 128, 49.0 at 1024); with \
                    128 large at both ends.",
        measure: moonroute::latency,
    },
    Figure {
        name: "moonroute-modules",
        from: "MoonRoute, Table 1",
        title: "Time per module",
        question: "Where does the time go?",
        method: "One burst in 127 is timed by the time-stamp counter, module by module; `script` is what lies between modules, the timing \
                 itself included. 2^20 networks.",
        published: "distribute and send 35 %, lookup 24, receive 17, apply 9, other 16 (LuaJIT's profiler); perf on the same set-up: LuaJIT's \
                    own code 44, sending 17, lookup 15, receiving 12.5.",
        measure: moonroute::modules,
    },
    Figure {
        name: "moonroute-rivals",
        from: "MoonRoute, Tables 2, 3",
        title: "Rivals",
        question: "How fast are others on the same core?",
        method: "All on one core of this machine, in turn, with packets from memory: perigee in Lua and in Rust, testpmd's bare I/O, l3fwd with both of its \
                 lookups (built from Debian's source package), and what --peer names; 8 routes, and with --routes a full table. In the kernel, \
                 between veth pairs: Linux, XDP, and both by perigee's table. Rates of others are not scaled by clock or cores.",
        published: "MoonRoute 14.6 Mpps, FastClick 10.4 (0.72), Click 4.32 (0.29), Linux 1.5 (0.10), at 3.2 GHz with one destination; MoonRoute 0.97 \
                    of its rate with 2^20 destinations, 0.79 with 2^24. FastClick's configuration had no ARP and no error replies.",
        measure: rivals::rivals,
    },
    Figure {
        name: "moonroute-changes",
        from: "MoonRoute, table changes",
        title: "Forwarding while routes change",
        question: "What do packets notice of changes?",
        method: "A running router in namespaces of its own, the Internet's table in Linux; as many routes as Linux takes are withdrawn and announced again, \
                 in turn with quiet windows. No packet goes to a route that changes, so none may get lost. A worker that only computes shows the \
                 machine's part of gaps and rates.",
        published: "No figures for MoonRoute; Click lost 99 % of packets during large insertions.",
        measure: changes::changes,
    },
    Figure {
        name: "mswitch-breakdown",
        from: "mSwitch+DXR, Table 2",
        title: "Breakdown by vantage points",
        question: "What does each step of a packet's way cost?",
        method: "The fast path returns at a point, and the packet leaves as if it had been routed: receive and send are paid in every row, except \
                 the first, in which packets are freed at once. For every lookup structure, with a full table (--routes FILE, or a synthetic one); \
                 destinations from its prefixes, three ports to leave by. A step is the difference of times per packet.",
        published: "69.6 ns for receive and send, 118 for Ethernet input, 36 for IP checks, 49 for the lookup, 137 for output and ARP (FreeBSD, 3.2 \
                    GHz; 4.64 Mpps in print contradicts 36 and 49 ns and is 4.46).",
        measure: mswitch::breakdown,
    },
    Figure {
        name: "mswitch-io-lookup",
        from: "mSwitch+DXR, Table 1",
        title: "Input and output by lookup",
        question: "Do a faster way of input and output and a faster lookup add up?",
        method: "{DPDK's af_packet on veth pairs, memory} x {poptrie, address by address; DXR, a burst at a time}, the loop in Rust, a full table \
                 (--routes FILE, or a synthetic one). A generator beside it would have to be faster than the router: the ring is filled whenever it \
                 is empty, on the same core, and that time is not counted. Rates are per second of the worker's CPU time.",
        published: "699.3 ns with the default of both, 602.4 with DXR, 512.8 with mSwitch, 411.5 with both: DXR saves 97 and 101 ns, mSwitch 187 and \
                    191, so they add up.",
        measure: mswitch::io_lookup,
    },
    Figure {
        name: "mswitch-ports",
        from: "mSwitch+DXR, ports",
        title: "2 to 64 ports",
        question: "What does it cost when packets leave by many ports?",
        method: "One saturated worker, 2^16 networks; packets come in by one port and leave by the others at random, with transmit buffers for 32 \
                 packets and without (1). 64 neighbors behind them, whatever the number of ports.",
        published: "No figures.",
        measure: mswitch::ports,
    },
    Figure {
        name: "mswitch-idle",
        from: "mSwitch+DXR, idle cores",
        title: "Idle cores",
        question: "What does a worker take of its core, and how late is a packet, when little comes?",
        method: "Poisson arrivals at parts of the throughput, with `idle = \"poll\"` and `\"adaptive\"`; a sleeping worker is woken by a timer at the \
                 next arrival, as by an interrupt.",
        published: "No figures.",
        measure: mswitch::idle,
    },
    Figure {
        name: "mswitch-lookups",
        from: "mSwitch+DXR, lookups",
        title: "Lookups on several cores",
        question: "Do n threads look up n times as much in one table?",
        method: "Threads with random destinations of their own, in one table of the Internet's size (or --routes), beside one thread, in rounds; \
                 beside them what the machine allows: multiplications, and random reads in 64 MB.",
        published: "No figures for several cores; on one core of 3.2 GHz a lookup by DXR took about 49 ns of a packet's time, by the radix tree about 150.",
        measure: lookups::lookups,
    },
    Figure {
        name: "schemes",
        from: "MoonRoute, batch scattering",
        title: "Three ways to scatter a batch",
        question: "What does it cost when packets of a batch go different ways?",
        method: "A batch of 64, of which a share diverges at random: sorted into masks, moved into a batch per way, or gathered as drop-outs. \
                 Packets are only touched, so the differences are those of the schemes.",
        published: "No figures; arrays, bit masks and drop-outs are described.",
        measure: schemes::scatter,
    },
    Figure {
        name: "snabb-chains",
        from: "Snabb thesis, chains",
        title: "Chains of Snabb apps",
        question: "What does each further app cost a packet, and who is faster?",
        method: "Source, 1 to 100 apps, sink, and the same between two DPDK ports in memory; 60 bytes, one thread, its CPU time. With --snabb perigee and \
                 Snabb take turns on one core.",
        published: "libmoon's rate was 1.16 and 1.25 times a full link of 10 Gbit/s with 1 app, on cards of 40 Gbit/s; with 10 apps about 1.4 times Snabb's; \
                    the lead shrinks from about 50 apps on.",
        measure: snabb::chains,
    },
    Figure {
        name: "ns3-table1",
        from: "ns-3 paper, Tables I and II: rates",
        title: "A Linux router, measured and simulated: rates",
        question: "Does the model give the rates that were measured?",
        method: "The published router as the ns-3 module simulates it, by Eq. 7 and by linear contention; without ns-3, by closed forms. Nothing is measured here.",
        published: "1.1928 Gbit/s at 64 bytes with 1 flow, 2.2265 with 2, 3.1858 with 3, 4.0612 with 4: 1.87, 2.67 and 3.40 times one.",
        measure: ns3::rates,
    },
    Figure {
        name: "ns3-table2",
        from: "ns-3 paper, Tables I and II: errors",
        title: "A Linux router, measured and simulated: errors",
        question: "How far is the model from what was measured?",
        method: "Each row's error, (predicted - measured) / measured, of the same predictions.",
        published: "-3.57 to +1.47 %, worst with 2 flows; the 0.95 % in print are a mean with signs, without signs it is 1.44 %.",
        measure: ns3::deviations,
    },
    Figure {
        name: "ns3-fig8",
        from: "ns-3 paper, Figs. 8 and 9: Gbit/s",
        title: "Eight cores, two links of 50 Gbit/s, by frame size",
        question: "How many cores fill the links?",
        method: "A flow for each core, both ways; by the ns-3 module, or by closed forms. A prediction, here as there.",
        published: "Fewer than six flows cannot fill the links, and small frames cannot with all eight cores.",
        measure: ns3::gbps_by_size,
    },
    Figure {
        name: "ns3-fig9",
        from: "ns-3 paper, Figs. 8 and 9: packets",
        title: "Eight cores, two links of 50 Gbit/s, by cores",
        question: "How do packets per second grow with cores?",
        method: "The same predictions, in packets per second.",
        published: "By Eq. 7 8 cores forward 11.73 Mpps of 64 bytes.",
        measure: ns3::mpps_by_cores,
    },
    Figure {
        name: "layout",
        from: "MoonRoute, batches",
        title: "Structure of arrays, or pointers",
        question: "Is a batch faster when what passes need lies in arrays than as an array of pointers to packets?",
        method: "The C program in bench/batch-layout: seven passes over bursts of packets from memory, both layouts from one source, alternating run \
                 by run; with four passes in place of seven, too.",
        published: "No figures; MoonRoute's batches are arrays of pointers.",
        measure: layout::layout,
    },
];
