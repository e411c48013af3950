// SPDX-License-Identifier: MIT
//! Ports, queues and pools on DPDK's software devices, as an ordinary user.

mod common;

use common::*;
use perigee_dpdk::*;
use perigee_net::MacAddr;
use perigee_packet::{Batch, Handle, Mask, Memory, Pool, Port, ReceiveQueue, TransmitQueue};

fn main() {
    common::run(&[
        ("starts_once", starts_once),
        ("telemetry_answers", telemetry_answers),
        ("clock_runs_forward", clock_runs_forward),
        ("bad_devices_are_clear_errors", bad_devices_are_clear_errors),
        ("null_bursts", null_bursts),
        ("pcap_round_trip", pcap_round_trip),
        ("filled_batches_are_sent", filled_batches_are_sent),
        ("push_and_pull_are_written_back", push_and_pull_are_written_back),
        ("copies_are_deep", copies_are_deep),
        ("long_frames_are_dropped_or_whole", long_frames_are_dropped_or_whole),
        ("ring_loop", ring_loop),
        ("mtu_mac_and_modes", mtu_mac_and_modes),
        ("a_port_that_needs_promiscuous_mode_keeps_it", a_port_that_needs_promiscuous_mode_keeps_it),
        ("missing_queues_are_told", missing_queues_are_told),
        ("queues_are_taken_once", queues_are_taken_once),
        ("devices_are_opened_once", devices_are_opened_once),
        ("threads", threads),
        ("empty_pools", empty_pools),
        ("a_leak_is_caught", a_leak_is_caught),
    ]);
}

fn starts_once(_: &Eal) {
    let error = Eal::start(&EalConfig::default()).unwrap_err().to_string();
    assert!(error.contains("only once per process"), "{error}");
}

fn telemetry_answers(eal: &Eal) {
    use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketType, connect, recv, socket};
    let path = eal.telemetry_socket().expect("the telemetry socket is there");
    let client = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
    connect(&client, &SocketAddrUnix::new(path).unwrap()).unwrap();
    let mut hello = [0; 1024];
    let n = recv(&client, &mut hello, RecvFlags::empty()).unwrap().0;
    let hello = String::from_utf8_lossy(&hello[..n]);
    assert!(hello.contains("\"version\"") && hello.contains("DPDK"), "{hello}");
}

fn clock_runs_forward(_: &Eal) {
    let clock = Clock::new();
    let before = clock.now();
    // sleep: takes at least as long as asked for; 1 ms leaves room for the counter's estimated rate
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert!(clock.now() - before >= 1_000_000);
}

fn bad_devices_are_clear_errors(eal: &Eal) {
    let pool = pool(eal);
    let cases = [
        (Device::Dpdk("net_nul0".into()), "port net_nul0: DPDK could not open the device: EAL: failed to parse"),
        (Device::Dpdk("net_pcap8,rx_pcap=/does/not/exist".into()), "/does/not/exist"),
        (Device::Dpdk("0000:ff:1f.7".into()), "bound to a driver for DPDK"),
        (Device::Dpdk(String::new()), "a port needs a device"),
        (Device::Dpdk("net_null\0".into()), "NUL byte"),
        (Device::Interface("nothere0".into()), "interface nothere0: No such device"),
        (Device::Xdp("a,b".into()), "cannot be the name of an interface"),
    ];
    for (device, expected) in cases {
        let error = DpdkPort::open(eal, &PortConfig::new(device.clone()), &pool).err().map(|e| e.to_string());
        let error = error.unwrap_or_else(|| panic!("{device:?} was opened"));
        assert!(error.contains(expected), "{device:?}: {error}");
        println!("    {error}");
    }
    let error = DpdkPort::open(eal, &PortConfig { mtu: Some(9000), ..config("net_null8") }, &pool).err().unwrap();
    assert!(error.to_string().contains("needs packet buffers of 9022 bytes, and the pool's have 2048"), "{error}");
    assert_eq!(pool.in_use(), 0);
}

fn null_bursts(eal: &Eal) {
    let pool = pool(eal);
    let port = open(eal, "net_null0,size=64", &pool);
    let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    let mut batch = Batch::new(&MBUF);
    let mut total = 0;
    for burst in [1, 4, 32, 256] {
        assert_eq!(rx.receive(&mut batch, burst), burst);
        assert_eq!(batch.live(), Mask::first(burst));
        for slot in 0..burst as u8 {
            assert_eq!((batch.length(slot), batch.port(slot)), (64, port.info().port));
        }
        let mut packets: Vec<Handle> = (0..burst).map(|slot| batch.take_handle(slot as u8).unwrap()).collect();
        tx.transmit(&mut packets);
        assert!(packets.is_empty());
        assert_eq!(batch.refill(), 0);
        total += burst as u64;
    }
    assert_eq!(rx.receive(&mut batch, 10), 10);
    assert_eq!(batch.refill(), 10);
    let stats = port.stats();
    assert_eq!((stats.rx_packets, stats.tx_packets), (total + 10, total));
    let counters = port.device_counters();
    assert!(counters.contains(&("rx_good_packets".to_owned(), total + 10)), "{counters:?}");
    let info = port.info();
    assert_eq!((info.driver.as_str(), info.mtu, info.receive_queues), ("net_null", 1500, 1));
    assert!(info.notes.iter().any(|n| n.contains("IPv4 header checksums")), "{:?}", info.notes);
    drop((rx, tx, port, batch));
    assert_eq!(pool.in_use(), 0);
}

fn pcap_round_trip(eal: &Eal) {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let sent = frames(200, 1514);
    write_pcap(&input, &sent);
    let pool = pool(eal);
    let port = open(eal, &format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display()), &pool);
    let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    let mut batch = Batch::new(&MBUF);
    let mut seen = 0;
    loop {
        let n = rx.receive(&mut batch, 32);
        if n == 0 {
            break;
        }
        let mut packets = Vec::new();
        for slot in batch.live() {
            assert_eq!(batch.frame(slot).unwrap(), &sent[seen][..], "frame {seen}");
            packets.push(batch.take_handle(slot).unwrap());
            seen += 1;
        }
        tx.transmit(&mut packets);
        assert!(packets.is_empty());
        batch.refill();
    }
    assert_eq!((seen, port.non_plain()), (200, RxNonPlain::default()));
    drop((rx, tx, port, batch));
    assert_eq!(pool.in_use(), 0);
    assert_eq!(read_pcap(&output), sent);
}

/// New packets by the batch, some of them changed or gone before they are sent, on a port and on a ring.
fn filled_batches_are_sent(eal: &Eal) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.pcap");
    let pool = pool_of(eal, 127, 1600);
    let port = open(eal, &format!("net_pcap5,tx_pcap={}", output.display()), &pool);
    let (mut tx, (mut sender, mut receiver)) = (port.tx_queue(0).unwrap(), ring(eal, 4, None).unwrap());
    let mut batch = Batch::new(&MBUF);
    assert_eq!(pool.fill(&mut batch, &[1601]), 0, "longer than a buffer");
    assert_eq!(pool.fill(&mut batch, &[60; 128]), 0, "more than there are");
    assert_eq!((pool.fill(&mut batch, &[60, 1600, 70, 80, 90, 100]), pool.in_use()), (6, 6));
    for slot in 0..6 {
        batch.slot(slot).unwrap().frame_mut().fill(slot);
    }
    batch.discard([1].into_iter().collect());
    batch.slot(2).unwrap().pull(4).unwrap();
    assert_eq!([1, 9, 9].map(|most| sender.send(&mut batch, most)), [1, 3, 0], "the ring has room for four");
    assert_eq!(batch.live(), [5].into_iter().collect());
    let mut received = Batch::new(&MBUF);
    assert_eq!(receiver.receive(&mut received, 32), 4);
    assert_eq!((tx.send(&mut received, 9), tx.send(&mut batch, 9), tx.send(&mut batch, 9)), (4, 1, 0));
    drop((tx, port, batch, received));
    let expected = [(0, 60), (2, 66), (3, 80), (4, 90), (5, 100)].map(|(byte, length)| vec![byte; length]);
    assert_eq!(read_pcap(&output), expected);
    assert_eq!(pool.in_use(), 0);
}

fn push_and_pull_are_written_back(eal: &Eal) {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcap"), folder.path().join("out.pcap"));
    let sent = frames(4, 300);
    write_pcap(&input, &sent);
    let pool = pool(eal);
    let port = open(eal, &format!("net_pcap1,rx_pcap={},tx_pcap={}", input.display(), output.display()), &pool);
    let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    let mut batch = Batch::new(&MBUF);
    assert_eq!(rx.receive(&mut batch, 32), 4);

    batch.slot(0).unwrap().pull(14).unwrap();
    let mut slot = batch.slot(1).unwrap();
    slot.push(usize::from(HEADROOM)).unwrap();
    slot.frame_mut()[..128].fill(0xaa);
    assert!(slot.push(1).is_err(), "there is no more headroom");
    let mut slot = batch.slot(2).unwrap();
    slot.resize(2048).unwrap();
    assert!(slot.resize(2049).is_err(), "the buffer ends here");
    let out = batch.take(3).unwrap();
    let mut packets: Vec<Handle> = (0..3).map(|slot| batch.take_handle(slot).unwrap()).collect();
    packets.push(out.into_handle());
    tx.transmit(&mut packets);
    drop((rx, tx, port, batch));

    let got = read_pcap(&output);
    assert_eq!(got[0], sent[0][14..]);
    assert_eq!(got[1], [&[0xaa; 128][..], &sent[1]].concat());
    assert_eq!((got[2].len(), &got[2][..sent[2].len()]), (2048, &sent[2][..]));
    assert!(got[2][sent[2].len()..].iter().all(|&b| b == 0));
    assert_eq!(got[3], sent[3]);
    assert_eq!(pool.in_use(), 0);
}

fn copies_are_deep(eal: &Eal) {
    let pool = pool(eal);
    let original: Vec<u8> = (0..100).collect();
    let mut batch = Batch::new(&MBUF);
    batch.push(pool.packet(&original).unwrap(), 0).unwrap();
    let mut copy = batch.copy(0).unwrap();
    assert_eq!(pool.in_use(), 2);
    batch.slot(0).unwrap().frame_mut().fill(0);
    assert_eq!(copy.bytes(), original);
    copy.bytes_mut().fill(1);
    assert_eq!(batch.frame(0).unwrap(), [0; 100]);
    drop((copy, batch));
    assert_eq!(pool.in_use(), 0);
}

fn long_frames_are_dropped_or_whole(eal: &Eal) {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    // Every third frame needs two buffers of the small pool.
    let sent: Vec<Vec<u8>> = (0..30).map(|i| vec![i as u8; if i % 3 == 0 { 3000 } else { 1000 }]).collect();
    write_pcap(&input, &sent);
    let (small, large) = (pool(eal), pool_of(eal, 255, 4096));
    let port = open(eal, &format!("net_pcap2,rx_pcap={}", input.display()), &small);
    let got = receive(&mut port.rx_queue(0).unwrap(), 20);
    assert_eq!(got, sent.iter().filter(|f| f.len() == 1000).cloned().collect::<Vec<_>>());
    assert_eq!(port.non_plain(), RxNonPlain { dropped_chained: 10, ..RxNonPlain::default() });
    let stats = port.stats();
    assert_eq!((stats.rx_packets, stats.rx_errors), (20, 10), "what nobody got counts as errors, not as received");
    drop(port);
    let port = open(eal, &format!("net_pcap2,rx_pcap={}", input.display()), &large);
    assert_eq!(receive(&mut port.rx_queue(0).unwrap(), 30), sent);
    drop(port);
    assert_eq!((small.in_use(), large.in_use()), (0, 0));
}

fn ring_loop(eal: &Eal) {
    let pool = pool(eal);
    let port = open(eal, "net_ring0", &pool);
    let (mut rx, mut tx) = (port.rx_queue(0).unwrap(), port.tx_queue(0).unwrap());
    let sent = frames(100, 1514);
    for chunk in sent.chunks(20) {
        send(&mut tx, &pool, chunk);
        assert_eq!(receive(&mut rx, chunk.len()), chunk);
    }
    // The device does not say where a packet came from; the queue does.
    send(&mut tx, &pool, &sent[..1]);
    let mut batch = Batch::new(&MBUF);
    assert_eq!(rx.receive(&mut batch, 1), 1);
    assert_eq!(batch.port(0), port.info().port);
    assert!(port.link().up);
    drop((rx, tx, port, batch));
    assert_eq!(pool.in_use(), 0);
}

fn mtu_mac_and_modes(eal: &Eal) {
    let pool = pool_of(eal, 255, 9200);
    let mac: MacAddr = "02:00:00:00:00:07".parse().unwrap();
    let config = PortConfig { mtu: Some(9000), mac: Some(mac), promiscuous: true, ..config("net_ring1") };
    let port = DpdkPort::open(eal, &config, &pool).unwrap();
    let info = port.info();
    assert_eq!((info.mac, info.mtu), (mac, 9000));
    assert!(info.notes.iter().any(|n| n.contains("MTU of 9000")), "{:?}", info.notes);
    println!("    {}", info.notes.join("\n    "));
    let error = port.set_mtu(1400).unwrap_err();
    assert!(error.contains("does not take an MTU of 1400"), "{error}");
    let error = port.set_mtu(9300).unwrap_err();
    assert!(error.contains("needs packet buffers of 9322 bytes"), "{error}");
    port.set_promiscuous(true).unwrap();
    port.set_promiscuous(false).unwrap();
    assert!(is_promiscuous(&port), "it is configured");
}

/// A virtual MAC address that was gone took the mode along that the port needs for its own: frames to the router came
/// in no more.
fn a_port_that_needs_promiscuous_mode_keeps_it(eal: &Eal) {
    let pool = pool(eal);
    for (promiscuous, device) in [(true, "net_ring5"), (false, "net_ring6")] {
        let port = DpdkPort::open(eal, &PortConfig { promiscuous, ..config(device) }, &pool).unwrap();
        for on in [true, false] {
            port.set_promiscuous(on).unwrap();
            assert_eq!(is_promiscuous(&port), on || promiscuous);
        }
    }
}

fn is_promiscuous(port: &DpdkPort) -> bool {
    unsafe extern "C" {
        fn rte_eth_promiscuous_get(port: u16) -> std::ffi::c_int;
    }
    // SAFETY: the port is open.
    unsafe { rte_eth_promiscuous_get(port.info().port) == 1 }
}

fn missing_queues_are_told(eal: &Eal) {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcap");
    write_pcap(&input, &frames(3, 100));
    let pool = pool(eal);
    let devargs = format!("net_pcap3,rx_pcap={}", input.display());
    let wanted = PortConfig { receive_queues: 2, transmit_queues: 3, slow_path_queue: true, ..config(&devargs) };
    let port = DpdkPort::open(eal, &wanted, &pool).unwrap();
    let info = port.info();
    println!("    {}", info.notes.join("\n    "));
    assert_eq!((info.receive_queues, info.transmit_queues, port.slow_path_queue()), (1, 1, None));
    for expected in [
        "has 1 receive queue, 2 were asked for",
        "has 1 transmit queue, 3 were asked for",
        "has no receive queue to spare for the slow path",
    ] {
        assert!(info.notes.iter().any(|n| n.contains(expected)), "{expected}: {:?}", info.notes);
    }
    assert_eq!(receive(&mut port.rx_queue(0).unwrap(), 3).len(), 3);
}

fn queues_are_taken_once(eal: &Eal) {
    let pool = pool(eal);
    let wanted = PortConfig { receive_queues: 2, transmit_queues: 3, ..config("net_null1") };
    let port = DpdkPort::open(eal, &wanted, &pool).unwrap();
    assert_eq!((port.info().receive_queues, port.info().transmit_queues), (2, 3));
    let first = port.rx_queue(1).unwrap();
    assert!(port.rx_queue(1).err().unwrap().to_string().contains("already in use"));
    drop(first);
    let again = port.rx_queue(1).unwrap();
    assert!(port.rx_queue(2).err().unwrap().to_string().contains("has no receive queue 2: it has 2"));
    assert!(port.tx_queue(3).err().unwrap().to_string().contains("has no transmit queue 3: it has 3"));
    // The queue keeps the port going.
    let mut again = again;
    drop(port);
    let mut batch = Batch::new(&MBUF);
    assert_eq!(again.receive(&mut batch, 8), 8);
    drop((again, batch));
    assert_eq!(pool.in_use(), 0);
}

fn devices_are_opened_once(eal: &Eal) {
    let pool = pool(eal);
    let port = open(eal, "net_null2", &pool);
    let error = DpdkPort::open(eal, &config("net_null2"), &pool).err().unwrap().to_string();
    assert!(error.contains("already in use by another port"), "{error}");
    drop(port);
    drop(open(eal, "net_null2", &pool));
}

fn threads(eal: &Eal) {
    assert!(eal.register_thread().unwrap().is_none(), "the main thread is known already");
    let pool = pool(eal);
    let core = usable_cores()[0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin_current_thread(core).unwrap();
            assert_eq!(usable_cores(), [core]);
            let registered = eal.register_thread().unwrap();
            assert!(registered.is_some());
            assert!(eal.register_thread().unwrap().is_none());
            let packets: Vec<_> = (0..100).map(|_| pool.packet(&[0; 60]).unwrap()).collect();
            assert_eq!(pool.in_use(), 100);
            drop(packets);
        });
    });
    assert_eq!(pool.in_use(), 0);
}

fn empty_pools(eal: &Eal) {
    let pool = pool_of(eal, 63, 2048);
    assert!(pool.packet(&[0; 2049]).is_none(), "too long for a buffer");
    assert!(pool.packet(&vec![0; 70_000]).is_none(), "too long for any buffer");
    let mut packets: Vec<Handle> = std::iter::from_fn(|| pool.packet(&[1; 60])).map(|p| p.into_handle()).collect();
    assert_eq!((packets.len(), pool.in_use(), pool.size()), (63, 63, 63));
    let mut batch = Batch::new(&MBUF);
    let port = open(eal, "net_null3", &pool_of(eal, 255, 2048));
    assert_eq!(port.rx_queue(0).unwrap().receive(&mut batch, 8), 8);
    MBUF.free(&mut packets);
    assert_eq!(pool.in_use(), 0);

    let config = PoolConfig { buffers: 10_000_000, ..PoolConfig::default() };
    let error = MbufPool::new(eal, config).err().unwrap().to_string();
    assert!(error.starts_with("no memory pool of 10000000 packet buffers"), "{error}");
}

fn a_leak_is_caught(eal: &Eal) {
    let pool = pool(eal);
    let port = open(eal, "net_null4", &pool);
    let mut batch = Batch::new(&MBUF);
    port.rx_queue(0).unwrap().receive(&mut batch, 32);
    std::mem::forget(batch.take(7));
    drop((port, batch));
    assert_eq!(pool.in_use(), 1, "the packet that nobody has any more");
}
