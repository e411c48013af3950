// SPDX-License-Identifier: MIT
//! Receive interrupts, of the two software devices that have some: net_virtio_user, connected to net_vhost in the same
//! process, whose interrupts are switched on and off like a card's, and net_tap, whose are always on.

mod common;

use common::*;
use perigee_dpdk::*;
use perigee_packet::{Batch, Pool, ReceiveQueue, TransmitQueue, Wakes};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::process::{Command, exit};
use std::sync::Arc;
use std::time::{Duration, Instant};

const INSIDE: &str = "PERIGEE_TEST_INSIDE";

fn main() {
    if std::env::var_os(INSIDE).is_some() {
        return common::run(&[
            ("devices_without_interrupts_are_polled", devices_without_interrupts_are_polled),
            ("virtio", virtio),
            ("tap", tap),
        ]);
    }
    let refused = match Command::new("unshare").args(["-Urnm", "true"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = refused {
        println!("skipped: user namespaces are refused here ({why})");
        println!("test result: ok. 0 passed; 0 failed; 1 ignored");
        exit(i32::from(std::env::var("CI").is_ok_and(|ci| ci == "true")));
    }
    let me = std::env::current_exe().unwrap();
    let status = Command::new("unshare").arg("-Urnm").arg(me).args(std::env::args().skip(1)).env(INSIDE, "1").status();
    exit(status.unwrap().code().unwrap_or(1));
}

/// Whether the queue's descriptor becomes readable within that time.
fn readable(queue: &RxQueue, longest: Duration) -> bool {
    let timeout = Timespec { tv_sec: longest.as_secs() as _, tv_nsec: longest.subsec_nanos().into() };
    let descriptor = queue.descriptor().expect("a queue with interrupts");
    poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}

fn interrupting(eal: &Eal, devargs: &str, pool: &Arc<MbufPool>) -> DpdkPort {
    let wanted = PortConfig { interrupts: true, ..config(devargs) };
    DpdkPort::open(eal, &wanted, pool).unwrap_or_else(|error| panic!("{error}"))
}

/// One poll; the number of packets.
fn look(queue: &mut RxQueue) -> usize {
    queue.receive(&mut Batch::new(&MBUF), 32)
}

/// Receives until nothing has come for 20 ms.
fn empty(queue: &mut RxQueue) {
    let mut last = Instant::now();
    while last.elapsed() < Duration::from_millis(20) {
        if look(queue) > 0 {
            last = Instant::now();
        }
    }
}

/// Arms an empty queue: with the one look more that the order demands.
fn arm(queue: &mut RxQueue) {
    loop {
        assert!(queue.arm());
        if look(queue) == 0 {
            return;
        }
        queue.disarm();
    }
}

/// Sends `n` frames, one after the other, each to a queue that sleeps; all must wake it.
fn each_wakes(rx: &mut RxQueue, tx: &mut TxQueue, pool: &Arc<MbufPool>, n: usize) {
    for frame in frames(n, 1000) {
        empty(rx);
        arm(rx);
        assert!(!readable(rx, Duration::ZERO), "nothing has come");
        send(tx, pool, std::slice::from_ref(&frame));
        assert!(readable(rx, LONGEST_WAIT), "the packet wakes it");
        rx.disarm();
        assert_eq!(receive(rx, 1), [frame]);
        assert!(!readable(rx, Duration::ZERO), "the interrupt is taken");
    }
}

fn devices_without_interrupts_are_polled(eal: &Eal) {
    let pool = pool(eal);
    for devargs in ["net_null0", "net_ring0"] {
        let port = interrupting(eal, devargs, &pool);
        let mut queue = port.rx_queue(0).unwrap();
        assert!(queue.descriptor().is_none() && !queue.arm(), "{devargs}");
        // Whether the processor watches memory or not, these devices' packets come from none.
        assert_eq!(queue.wakes(), Wakes::Timer);
        queue.disarm();
        [true, false].iter().for_each(|alone| queue.rest(*alone));
    }
}

fn virtio(eal: &Eal) {
    let (pool, folder) = (pool(eal), tempfile::tempdir().unwrap());
    let socket = folder.path().join("s").display().to_string();
    let host = open(eal, &format!("net_vhost0,iface={socket}"), &pool);
    let guest = interrupting(eal, &format!("virtio_user0,path={socket}"), &pool);
    let (mut tx, mut rx) = (host.tx_queue(0).unwrap(), guest.rx_queue(0).unwrap());
    assert_eq!(rx.wakes(), Wakes::Interrupt);
    // The two have agreed once a frame comes.
    let deadline = Instant::now() + LONGEST_WAIT;
    loop {
        let mut packets = vec![pool.packet(&frames(1, 60)[0]).unwrap().into_handle()];
        tx.transmit(&mut packets);
        tx.discard(&mut packets);
        if !receive_all(&mut rx).is_empty() {
            break;
        }
        assert!(Instant::now() < deadline, "the devices do not find each other");
    }
    each_wakes(&mut rx, &mut tx, &pool, 20);

    // Without being armed it sleeps through everything, and a packet that came before it was armed is found by the
    // look.
    empty(&mut rx);
    send(&mut tx, &pool, &frames(3, 100));
    assert!(!readable(&rx, Duration::from_millis(20)), "interrupts are off while the queue is polled");
    assert!(rx.arm());
    assert_eq!(receive(&mut rx, 3).len(), 3);
    rx.disarm();

    // The next one to take the queue has its interrupts, too.
    drop(rx);
    let mut rx = guest.rx_queue(0).unwrap();
    each_wakes(&mut rx, &mut tx, &pool, 2);
    drop((rx, tx, guest, host));
    assert_eq!(pool.in_use(), 0);
}

fn tap(eal: &Eal) {
    if std::fs::File::open("/dev/net/tun").is_err() {
        println!("    left out: there is no /dev/net/tun");
        return;
    }
    let pool = pool(eal);
    let port = interrupting(eal, "net_tap0,iface=dtap7", &pool);
    let mut rx = port.rx_queue(0).unwrap();
    assert_eq!(rx.wakes(), Wakes::Interrupt);
    let linux = DpdkPort::open(eal, &PortConfig::new(Device::Interface("dtap7".into())), &pool).unwrap();
    let mut tx = linux.tx_queue(0).unwrap();
    let start = Instant::now();
    // Linux's own neighbor discovery comes in between, so only that something wakes it.
    for frame in frames(10, 1000) {
        empty(&mut rx);
        arm(&mut rx);
        send(&mut tx, &pool, std::slice::from_ref(&frame));
        assert!(readable(&rx, LONGEST_WAIT), "the packet wakes it");
        rx.disarm();
        while !receive(&mut rx, 1).contains(&frame) {
            assert!(start.elapsed() < LONGEST_WAIT, "the packet does not come");
        }
    }
}
