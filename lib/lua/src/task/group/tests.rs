// SPDX-License-Identifier: MIT
//! Tasks as their group sees them, without a script: cores, ends, devices, what several of them share.

use super::*;
use crate::task::machine::Core;
use perigee_modules::Kind;
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{Link, Memory, PortInfo, PortStats, ReceiveQueue, TransmitQueue};
use std::any::Any;

/// A machine with these cores and a clock that stands still unless `step` is set.
pub(in crate::task) struct Still {
    pub pool: &'static HeapPool,
    cores: Vec<Core>,
    /// Cores that others than tasks have.
    held: Vec<usize>,
    pub now: AtomicU64,
    /// ns that each look at the clock takes.
    pub step: AtomicU64,
}

/// A device whose link is up once it was looked at so often.
struct Device(AtomicU64);

impl Port for Device {
    fn info(&self) -> PortInfo {
        PortInfo {
            port: 2,
            device: "d".to_owned(),
            driver: "heap".to_owned(),
            mac: MacAddr([2, 0, 0, 0, 0, 2]),
            mtu: 1400,
            receive_queues: 1,
            transmit_queues: 1,
            numa_node: None,
            offloads: vec![],
            notes: vec![],
        }
    }
    fn link(&self) -> Link {
        let looks = self.0.load(Ordering::Relaxed);
        self.0.store(looks.saturating_sub(1), Ordering::Relaxed);
        Link { up: looks == 0, speed: None, full_duplex: true }
    }
    fn stats(&self) -> PortStats {
        PortStats::default()
    }
    fn set_promiscuous(&self, _: bool) -> Result<(), String> {
        Ok(())
    }
    fn set_mtu(&self, _: u16) -> Result<(), String> {
        Ok(())
    }
}

impl Machine for Still {
    fn memory(&self) -> &'static dyn Memory {
        self.pool
    }
    fn cores(&self) -> Vec<Core> {
        self.cores.clone()
    }
    fn holder(&self, core: usize) -> Option<String> {
        self.held.contains(&core).then(|| "worker 2".to_owned())
    }
    fn open(&self, request: &DeviceRequest) -> Result<OpenDevice, String> {
        let queues = |n| (0..n).map(|_| HeapQueue::new(self.pool, 2, 128));
        Ok(OpenDevice {
            port: Box::new(Device(AtomicU64::new(0))),
            receive: queues(request.receive_queues).map(|q| (Box::new(q) as Box<dyn ReceiveQueue>).into()).collect(),
            transmit: queues(request.transmit_queues).map(|q| (Box::new(q) as Box<dyn TransmitQueue>).into()).collect(),
        })
    }
    fn pool(&self, _: u32, _: u16, _: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        Ok(Arc::new(self.pool))
    }
    fn ring(&self, capacity: u32) -> Result<(Box<dyn TransmitQueue>, Box<dyn ReceiveQueue>), String> {
        let queue = HeapQueue::ring(self.pool, capacity as usize);
        Ok((Box::new(queue.clone()), Box::new(queue)))
    }
    fn now(&self) -> u64 {
        self.now.fetch_add(self.step.load(Ordering::Relaxed), Ordering::Relaxed)
    }
    fn enter(&self, _: usize) -> Result<Box<dyn Any>, String> {
        Ok(Box::new(()))
    }
}

/// A program on a machine of cores 0 and 1 on the first node, 2 on the second one.
pub(in crate::task) fn program(held: &[usize], ports: &[&str]) -> (Arc<Still>, Arc<Tasks>) {
    let core = |(number, numa_node)| Core { number, numa_node: Some(numa_node) };
    let cores = [(0, 0), (1, 0), (2, 1)].map(core).to_vec();
    let machine = Arc::new(Still {
        pool: HeapPool::leak(1000),
        cores,
        held: held.to_vec(),
        now: AtomicU64::new(50),
        step: AtomicU64::new(0),
    });
    let script = Script { name: "test.lua".to_owned(), source: String::new(), folder: None };
    let ports = ports.iter().map(|port| (*port).to_owned()).collect();
    (machine.clone(), Tasks::new(machine, script, ports))
}

/// A task on a core, which has ended with a result or not.
fn started(name: &str, core: usize, result: Option<Option<Vec<u8>>>) -> Started {
    Started { name: name.to_owned(), guest: false, core, result, thread: None }
}

/// The core that a new task gets while tasks run on these.
fn core_with(tasks: &Arc<Tasks>, on: &[usize], node: Option<u16>) -> usize {
    let all = (1..).zip(on).map(|(id, core)| (id, started("t", *core, None))).collect();
    tasks.free_core(&all, node)
}

#[test]
fn a_task_gets_a_free_core_and_else_the_one_with_the_fewest_tasks() {
    let (_, tasks) = program(&[], &[]);
    let core = |on: &[usize]| core_with(&tasks, on, None);
    assert_eq!([core(&[]), core(&[0]), core(&[0, 1])], [0, 1, 2]);
    // All are in use: the main task waits most of the time.
    assert_eq!([core(&[0, 1, 2]), core(&[1, 0, 2]), core(&[2, 0, 1])], [0, 1, 2]);
    assert_eq!(core(&[0, 1, 2, 0]), 1, "the main task and another one, against one");
    // Who has ended has none.
    let ended = [(1, started("main", 0, Some(None))), (2, started("t", 1, None))].into();
    assert_eq!(tasks.free_core(&ended, None), 0);
}

#[test]
fn a_task_gets_a_free_core_of_its_devices_node_if_there_is_one() {
    let (_, tasks) = program(&[], &[]);
    assert_eq!(core_with(&tasks, &[], Some(1)), 2);
    assert_eq!(core_with(&tasks, &[0], Some(0)), 1);
    assert_eq!(core_with(&tasks, &[0, 2], Some(1)), 1, "a free one of another node before one in use");
    assert_eq!(core_with(&tasks, &[0, 1, 2], Some(1)), 0, "among those in use the node does not count");
}

#[test]
fn a_core_that_a_worker_has_is_in_use() {
    let (_, tasks) = program(&[0, 1], &[]);
    assert_eq!([core_with(&tasks, &[], None), core_with(&tasks, &[2], None)], [2, 2]);
    assert_eq!(core_with(&tasks, &[1, 2], None), 0, "as much as a task");
    let on = |core| [(1, started("main", 0, None)), (2, started("t", core, None))].into();
    *lock(&tasks.tasks) = on(1);
    assert_eq!(tasks.shares_core(2), Some(("worker 2".to_owned(), 1)));
    *lock(&tasks.tasks) = on(2);
    assert_eq!(tasks.shares_core(2), None);
}

#[test]
fn who_shares_a_core_is_named_unless_it_is_the_main_task_or_has_ended() {
    let (_, tasks) = program(&[], &[]);
    let all = [
        (1, started("main", 2, None)),
        (2, started("one", 1, None)),
        (3, started("two", 2, None)),
        (4, started("three", 1, Some(None))),
        (5, started("four", 0, None)),
        (6, started("five", 0, None)),
    ];
    *lock(&tasks.tasks) = all.into();
    assert_eq!(
        [2, 3, 5, 6, 7].map(|id| tasks.shares_core(id)),
        [None, None, Some(("task five".to_owned(), 0)), Some(("task four".to_owned(), 0)), None]
    );
}

#[test]
fn tasks_run_until_they_are_asked_to_end_and_a_later_end_does_not_put_that_off() {
    let (machine, tasks) = program(&[], &[]);
    assert!(tasks.running(u64::MAX - 1, 0));
    tasks.limit(100);
    assert_eq!([149, 150, 151].map(|now| tasks.running(now, 0)), [true, false, false]);
    assert_eq!([150, 151].map(|now| tasks.running(now, 1)), [true, false], "with some time for the end");
    tasks.limit(1000);
    assert!(!tasks.running(150, 0));
    machine.now.store(60, Ordering::Relaxed);
    tasks.stop();
    assert_eq!([59, 60].map(|now| tasks.running(now, 0)), [true, false]);
}

#[test]
fn whoever_waits_for_tasks_waits_for_those_that_are_active() {
    let (_, tasks) = program(&[], &[]);
    *lock(&tasks.tasks) = [(1, started("main", 0, None)), (2, started("t", 1, Some(Some(vec![7]))))].into();
    assert!(tasks.active() && tasks.ended(2) && !tasks.ended(1) && tasks.ended(3));
    assert_eq!((tasks.wait(2), tasks.wait(3)), (Some(vec![7]), None));
    // It is the only one that is active.
    tasks.wait_others(1);
    let waiting = tasks.clone();
    let (said, heard) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        waiting.wait_others(2);
        said.send(waiting.active()).unwrap();
    });
    // sleep: it would have returned by then if it did not wait; a slow machine hides that, and fails nothing.
    std::thread::sleep(Duration::from_millis(50));
    assert!(heard.try_recv().is_err());
    lock(&tasks.tasks).get_mut(&1).unwrap().result = Some(None);
    assert!(!heard.recv_timeout(Duration::from_secs(120)).expect("it returns once the task has ended"));
    thread.join().unwrap();
    assert!(!tasks.active());
    assert_eq!(tasks.wait(1), None, "it threw");
}

#[test]
fn a_guest_is_no_task_and_keeps_its_name() {
    let (_, tasks) = program(&[], &[]);
    let seat = tasks.seat(None, "an app");
    assert!(!tasks.active());
    assert_eq!((seat.id(), seat.name(), seat.arguments()), (1, "an app", &[][..]));
    lock(&tasks.tasks).insert(2, started("t", 0, None));
    let names = [1, 2, 3].map(|id| tasks.name_of(id));
    assert_eq!(names, [Some("an app".to_owned()), Some("task t".to_owned()), None]);
    assert_eq!((tasks.seat(None, "another").id(), tasks.seat(Some(1), "x").id()), (3, 1));
    assert_eq!(tasks.name_of(1).as_deref(), Some("an app"), "a seat that is there keeps its name");
}

#[test]
fn a_port_that_is_not_there_is_an_error_that_says_which_are() {
    for (ports, said) in [(&[][..], "none is"), (&["x"], "one, 0, is"), (&["x", "y"], "2, from 0 on, are")] {
        let (_, tasks) = program(&[], ports);
        assert_eq!(tasks.ports().len(), ports.len());
        let error = tasks.port(2).unwrap_err();
        assert!(error.starts_with(&format!("there is no port 2: {said} on the command line")), "{error}");
        assert_eq!(tasks.port(0).ok().as_deref(), ports.first().copied());
    }
}

#[test]
fn values_are_shared_by_name_and_the_first_one_stays() {
    let (_, tasks) = program(&[], &[]);
    assert_eq!(tasks.share_once("a".to_owned(), vec![1]), [1]);
    assert_eq!(tasks.share_once("a".to_owned(), vec![2]), [1]);
    tasks.set_shared("b".to_owned(), Some(vec![3]));
    assert_eq!((tasks.shared("a"), tasks.shared("b"), tasks.shared("c")), (Some(vec![1]), Some(vec![3]), None));
    assert_eq!(tasks.shared_names(), ["a", "b"]);
    tasks.set_shared("a".to_owned(), None);
    assert_eq!(tasks.shared_names(), ["b"]);
}

#[test]
fn a_device_is_open_once_and_its_queues_are_known_by_their_addresses() {
    let (_, tasks) = program(&[], &[]);
    assert_eq!((tasks.devices(), tasks.find("d")), (0, None));
    let request = DeviceRequest { receive_queues: 2, transmit_queues: 3, ..DeviceRequest::new("d") };
    assert_eq!((tasks.open(&request), tasks.open(&DeviceRequest::new("e"))), (Ok(0), Ok(1)));
    assert!(tasks.open(&request).unwrap_err().contains("d is open already"));
    assert_eq!((tasks.devices(), tasks.find("d"), tasks.find("e")), (2, Some(0), Some(1)));
    assert!(tasks.device(2).is_err_and(|error| error == "there is no device 2"));
    let device = tasks.device(0).unwrap();
    let names: Vec<_> = device.receive.iter().map(|queue| queue.name.as_str()).collect();
    assert_eq!((names, device.transmit.len()), (vec!["0 of d", "1 of d"], 3));
    // A queue of another device, none, and the middle one.
    let address = |queue: &super::super::shared::SharedSender| &raw const *queue as usize;
    assert!(tasks.set_rate(address(&tasks.device(1).unwrap().transmit[0]), 1.0, 0.0).is_ok());
    assert_eq!(tasks.set_rate(7, 1.0, 0.0), Err("there is no such queue".to_owned()));
    assert!(tasks.set_rate(address(&device.transmit[1]), 1.0, 0.0).is_ok());
    let error = tasks.steer(0, 0, Rule::EtherType(0x0800)).unwrap_err();
    assert!(error.starts_with("d has receive queues of its own"), "{error}");
    // Modules find the device's interface by its port's number.
    let context = tasks.context();
    let interface = context.tables.interfaces.iter().next().map(|(_, i)| (i.name.clone(), i.port, i.mtu));
    assert_eq!(interface, None, "two devices of one port are none");
}

#[test]
fn rules_choose_between_queues_of_a_device_that_share_one() {
    let (_, tasks) = program(&[], &[]);
    let request = DeviceRequest { receive_queues: 2, transmit_queues: 2, share: true, ..DeviceRequest::new("d") };
    tasks.open(&request).unwrap();
    assert_eq!(tasks.steer(0, 1, Rule::EtherType(0x0800)), Ok(()));
    let error = tasks.steer(0, 2, Rule::EtherType(0x0800)).unwrap_err();
    assert_eq!(error, "d has 2 receive queues, not one more");
    assert!(tasks.steer(1, 0, Rule::EtherType(0x0800)).is_err());
    let context = tasks.context();
    let interface = context.tables.interfaces.iter().next().map(|(_, i)| (i.name.clone(), i.port, i.mtu));
    assert_eq!(interface, Some(("d".to_owned(), 2, 1400)));
}

#[test]
fn queues_and_rings_are_given_back_by_their_addresses_and_at_the_end() {
    let (_, tasks) = program(&[], &[]);
    let request = DeviceRequest { receive_queues: 2, transmit_queues: 2, ..DeviceRequest::new("d") };
    tasks.open(&request).unwrap();
    let (ring, other) = (tasks.ring(8).unwrap(), tasks.ring(8).unwrap());
    assert!(ring != other && ring != 0 && tasks.pipe(8).unwrap() != tasks.pipe(8).unwrap());
    let device = tasks.device(0).unwrap();
    let owners = || {
        let objects = lock(&tasks.objects);
        let receive = device.receive.iter().map(|queue| queue.owner());
        let transmit = device.transmit.iter().map(|queue| queue.owner());
        receive.chain(transmit).chain(objects.rings.iter().map(|ring| ring.receiver.owner())).collect::<Vec<_>>()
    };
    let take = |task| {
        let objects = lock(&tasks.objects);
        // SAFETY: this thread alone asks, and keeps no reference.
        unsafe {
            device.receive.iter().for_each(|queue| drop(queue.of(task)));
            device.transmit.iter().for_each(|queue| drop(queue.of(task)));
            objects.rings.iter().for_each(|ring| drop(ring.receiver.of(task)));
        }
    };
    take(7);
    assert_eq!(owners(), [Some(7); 6]);
    tasks.leave(7, &raw const *device.receive[1] as usize);
    tasks.leave(7, &raw const *device.transmit[0] as usize);
    tasks.leave(7, other);
    tasks.leave(8, ring);
    tasks.leave(7, 0);
    assert_eq!(owners(), [Some(7), None, None, Some(7), Some(7), None], "its own, and nobody else's");
    take(8);
    tasks.retire(7, Vec::new());
    assert_eq!(owners(), [None, Some(8), Some(8), None, None, Some(8)]);
}

#[test]
fn drops_of_all_tasks_are_summed_by_reason() {
    let (_, tasks) = program(&[], &[]);
    let contexts = [tasks.context(), tasks.context()];
    assert!(tasks.drops().is_empty());
    let own = tasks.custom.number("mine", "full", Kind::Drop);
    let unclaimed = perigee_modules::host::UNCLAIMED;
    for (context, n) in contexts.iter().zip([3, 4]) {
        context.counters.reason(own, n);
        context.counters.reason(unclaimed, 10 * n);
    }
    let expected = [("host", "unclaimed", 70), ("mine", "full", 7)];
    assert_eq!(tasks.drops(), expected.map(|(module, reason, n)| (module.to_owned(), reason.to_owned(), n)));
}

#[test]
fn buffers_that_nobody_gives_back_are_counted_at_the_end() {
    let (machine, tasks) = program(&[], &[]);
    let queue = HeapQueue::new(machine.pool, 2, 10);
    (0..3).for_each(|_| assert!(queue.inject(&[0; 60])));
    tasks.retire(1, vec![Arc::new(machine.pool)]);
    assert_eq!(tasks.give_back(), Err(Failure::Leak(3)));
    tasks.retire(1, vec![Arc::new(machine.pool)]);
    while queue.collect().is_some() {}
    assert_eq!(tasks.give_back(), Ok(()));
}

#[test]
fn what_waits_in_a_device_is_freed_at_the_end() {
    let (machine, tasks) = program(&[], &[]);
    tasks.open(&DeviceRequest::new("d")).unwrap();
    let mut batch = Batch::new(machine.pool);
    let source = HeapQueue::new(machine.pool, 2, 500);
    let device = tasks.device(0).unwrap();
    for _ in 0..300 {
        assert!(source.inject(&[0; 60]));
    }
    // SAFETY: this thread alone asks, and keeps no reference.
    unsafe {
        source.clone().receive(&mut batch, BATCH_SIZE);
        device.transmit[0].of(1).unwrap().send(&mut batch, 0);
    }
    drop((batch, source, device));
    let rings = tasks.ring(8).unwrap();
    assert!(rings != 0 && tasks.give_back().is_ok());
    assert_eq!((tasks.devices(), machine.pool.in_use()), (0, 0));
}

#[test]
fn a_link_is_waited_for_until_it_is_up_or_the_task_is_to_end() {
    let device = |looks| Device(AtomicU64::new(looks));
    let hour = Duration::from_secs(3600);
    let mut go_on = || true;
    assert!(wait_for_link(&device(0), Duration::ZERO, &mut go_on), "it is up");
    assert!(wait_for_link(&device(3), hour, &mut go_on));
    assert!(!wait_for_link(&device(u64::MAX), Duration::ZERO, &mut go_on));
    let mut asked = 0;
    let twice = || {
        asked += 1;
        asked <= 2
    };
    assert!(!wait_for_link(&device(u64::MAX), hour, twice), "the task is to end");
    assert_eq!(asked, 3);
}
