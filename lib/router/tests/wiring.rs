// SPDX-License-Identifier: MIT
//! Who polls what: ports that workers name, ports by weight, and ports with too few queues.

mod common;

use common::{Bed, HeapFabric, Queues};
use perigee_packet::batch::heap::{HeapPool, HeapQueue};
use perigee_packet::{ReceiveQueue, TransmitQueue};
use perigee_router::{PortQueues, wire};

/// Names of what each worker polls, with `pollers` of each port, whose queues are as many as `receive` says.
fn polled(pollers: &[&[usize]], receive: usize, workers: usize) -> (Vec<Vec<String>>, Vec<String>) {
    let pool = HeapPool::leak(16);
    let queue = |port| HeapQueue::new(pool, port, 16);
    let port = |(number, pollers): (u16, &&[usize])| PortQueues {
        name: format!("p{number}"),
        port: number,
        pollers: pollers.to_vec(),
        receive: (0..receive).map(|_| Box::new(queue(number)) as Box<dyn ReceiveQueue>).collect(),
        slow_receive: None,
        slow_transmit: Vec::new(),
        transmit: (0..=workers).map(|_| Box::new(queue(number)) as Box<dyn TransmitQueue>).collect(),
    };
    let ports = (0..).zip(pollers).map(port).collect();
    let wiring = wire(ports, workers, 0, &mut HeapFabric(pool)).unwrap();
    for worker in &wiring.workers {
        assert!(worker.outputs.iter().all(Option::is_some), "every worker sends on every port");
    }
    (wiring.workers.into_iter().map(|worker| worker.names).collect(), wiring.notes)
}

#[test]
fn a_port_has_a_queue_for_each_of_its_workers_and_no_other() {
    let (names, notes) = polled(&[&[0], &[1], &[1]], 1, 2);
    assert_eq!(names, [vec!["p0:0"], vec!["p1:0", "p2:0"]]);
    assert!(notes.is_empty(), "nothing goes by ring: {notes:?}");
    let (names, notes) = polled(&[&[0, 2], &[1, 2]], 2, 3);
    assert_eq!(names, [vec!["p0:0"], vec!["p1:0"], vec!["p0:1", "p1:1"]]);
    assert!(notes.is_empty(), "{notes:?}");
}

/// The first worker received for all others, with as many ports as there were.
#[test]
fn ports_with_one_queue_are_received_by_workers_in_turn() {
    let (names, notes) = polled(&[&[0, 1], &[0, 1], &[0, 1]], 1, 2);
    assert_eq!(names, [vec!["hand-over", "p0:0", "p2:0"], vec!["hand-over", "p1:0"]]);
    assert_eq!(notes.len(), 3);
}

#[test]
fn flows_are_handed_over_among_the_ports_own_workers() {
    let (names, notes) = polled(&[&[1, 2], &[0]], 1, 3);
    assert_eq!(names, [vec!["p1:0"], vec!["hand-over", "p0:0"], vec!["hand-over"]]);
    assert_eq!(
        notes,
        ["port p0: 1 receive queue for 2 workers: flows are spread over them in software, by a symmetric hash"]
    );
}

#[test]
fn a_configuration_with_weights_has_its_ports_dealt() {
    let folder = tempfile::tempdir().unwrap();
    let port = |name: &str, rest: &str| format!("[port.{name}]\ndevice = \"net_{name}\"\n{rest}\n");
    let text = format!(
        "[router]\ncores = [1, 2]\n{}{}{}",
        port("a", ""),
        port("b", "weight = 5"),
        port("c", "addresses = [\"10.0.0.1/24\"]")
    );
    let bed = Bed::new(&text, &folder.path().join("a.toml"), Queues { receive: 1, transmit: 3 });
    assert!(bed.notes.iter().all(|note| !note.contains("spread")), "{:?}", bed.notes);
    let queues: Vec<usize> = bed.workers.iter().map(perigee_worker::Worker::queues).collect();
    assert_eq!(queues, [1, 2], "b alone, and the two others");
}

/// It got a ring to a worker, which therefore had to look every 250 us, where workers were more than queues.
#[test]
fn the_slow_path_has_queues_of_its_own_where_there_are_some() {
    let pool = HeapPool::leak(16);
    let queues = |count: usize| -> Vec<Box<dyn TransmitQueue>> {
        (0..count).map(|_| Box::new(HeapQueue::new(pool, 0, 16)) as Box<dyn TransmitQueue>).collect()
    };
    for (own, noted) in [(2, "1 transmit queue for 2 workers: the others"), (1, "2 threads of the slow path")] {
        let port = PortQueues {
            name: "p0".to_owned(),
            port: 0,
            pollers: vec![0, 1],
            receive: (0..2).map(|_| Box::new(HeapQueue::new(pool, 0, 16)) as Box<dyn ReceiveQueue>).collect(),
            slow_receive: None,
            transmit: queues(1),
            slow_transmit: queues(own),
        };
        let wiring = wire(vec![port], 2, 1, &mut HeapFabric(pool)).unwrap();
        assert!(wiring.notes[0].contains(noted), "{:?}", wiring.notes);
        let outputs = wiring.workers.iter().map(|worker| &worker.outputs).chain([&wiring.slow.outputs]);
        assert!(outputs.chain(&wiring.slow.assistants).all(|outputs| outputs[0].is_some()));
    }
    let enough = PortQueues {
        name: "p0".to_owned(),
        port: 0,
        pollers: vec![0],
        receive: vec![Box::new(HeapQueue::new(pool, 0, 16))],
        slow_receive: None,
        transmit: queues(1),
        slow_transmit: queues(1),
    };
    let wiring = wire(vec![enough], 1, 0, &mut HeapFabric(pool)).unwrap();
    assert!(wiring.notes.is_empty(), "{:?}", wiring.notes);
}
