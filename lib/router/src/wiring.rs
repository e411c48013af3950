// SPDX-License-Identifier: MIT
//! Who polls which receive queue and who sends on which transmit queue.
//!
//! With a queue each, workers share nothing. Where a port has fewer receive queues than workers that poll it, their
//! owners spread packets over these workers by flow, on one ring per worker. Where it has fewer transmit queues than
//! workers and slow path, those without send over a ring to the owner of the port's first queue. Never a lock.

use crate::Refusal;
use perigee_packet::{ReceiveQueue, TransmitQueue};
use perigee_worker::{Receiver, Spread};
use std::collections::BTreeMap;

/// The opened queues of one port.
pub struct PortQueues {
    /// The port's name.
    pub name: String,
    /// The port's number.
    pub port: u16,
    /// The workers that poll it, in rising order; at least one.
    pub pollers: Vec<usize>,
    /// The workers' receive queues; at least one.
    pub receive: Vec<Box<dyn ReceiveQueue>>,
    /// A receive queue for the slow path alone, filled by hardware filters.
    pub slow_receive: Option<Box<dyn ReceiveQueue>>,
    /// Transmit queues; at least one.
    pub transmit: Vec<Box<dyn TransmitQueue>>,
    /// Transmit queues for the threads of the slow path alone; if they are fewer than these, none of them is used.
    pub slow_transmit: Vec<Box<dyn TransmitQueue>>,
}

/// The producers' end of a ring.
pub trait Sender {
    /// A queue that puts packets into the ring; any number of threads may have one.
    fn queue(&self) -> Box<dyn TransmitQueue>;
}

/// Makes rings for packets of the router's memory.
pub trait Fabric {
    /// A ring from all threads to one worker, by its number.
    ///
    /// # Errors
    /// There is no memory for it.
    fn hand_over(&mut self, worker: usize) -> Result<Ring, Refusal>;
    /// A ring in front of a transmit queue: its producers' end, and the queue for its owner, which also sends what is
    /// in the ring whenever it is used or polled.
    ///
    /// # Errors
    /// There is no memory for it.
    fn share(&mut self, queue: Box<dyn TransmitQueue>) -> Result<Shared, Refusal>;
}

/// A ring: its producers' end and its consumer's.
pub type Ring = (Box<dyn Sender>, Box<dyn ReceiveQueue>);

/// A transmit queue with a ring in front of it.
pub type Shared = (Box<dyn Sender>, Box<dyn TransmitQueue>);

/// One worker's share of the queues.
#[derive(Default)]
pub struct WorkerQueues {
    /// The queues that it polls.
    pub receivers: Vec<Receiver>,
    /// Names of the queues that it polls: `wan:0`, `hand-over`.
    pub names: Vec<String>,
    /// The queues that it sends on, by port number.
    pub outputs: Vec<Option<Box<dyn TransmitQueue>>>,
}

/// The queues that a thread of the slow path sends on, by port number.
pub type Outputs = Vec<Option<Box<dyn TransmitQueue>>>;

/// The slow path's share.
#[derive(Default)]
pub struct SlowQueues {
    /// Queues that hardware filters fill.
    pub receivers: Vec<(u16, Box<dyn ReceiveQueue>)>,
    /// The queues that the owner of the tables sends on.
    pub outputs: Outputs,
    /// Those of each assistant.
    pub assistants: Vec<Outputs>,
}

/// The distribution of all queues.
pub struct Wiring {
    pub workers: Vec<WorkerQueues>,
    /// The slow path's queues.
    pub slow: SlowQueues,
    /// A sentence about each use of a ring, for the start-up messages.
    pub notes: Vec<String>,
}

/// Why the queues cannot be given out.
#[derive(Debug, thiserror::Error)]
pub enum WiringError {
    /// A port was opened without one.
    #[error("port {0} has no transmit queue")]
    NoTransmitQueue(String),
    /// A ring could not be made.
    #[error("{0}")]
    Ring(#[from] Refusal),
}

/// Gives the ports' queues to `workers` workers and the slow path, which has `assistants` threads besides the owner of
/// the tables.
///
/// # Errors
/// A port has no transmit queue, or a ring could not be made.
pub fn wire(
    ports: Vec<PortQueues>,
    workers: usize,
    assistants: usize,
    fabric: &mut dyn Fabric,
) -> Result<Wiring, WiringError> {
    let width = ports.iter().map(|port| usize::from(port.port) + 1).max().unwrap_or(0);
    let empty = || std::iter::repeat_with(|| None).take(width).collect::<Vec<_>>();
    let share = || WorkerQueues { outputs: empty(), ..WorkerQueues::default() };
    let of_assistants = (0..assistants).map(|_| empty()).collect();
    let slow = SlowQueues { outputs: empty(), assistants: of_assistants, ..SlowQueues::default() };
    let mut wiring = Wiring { workers: (0..workers).map(|_| share()).collect(), slow, notes: Vec::new() };

    let few = |port: &PortQueues| port.receive.len() < port.pollers.len();
    let to_hand_over = |worker: &usize| ports.iter().any(|port| few(port) && port.pollers.contains(worker));
    let inboxes = inboxes((0..workers).filter(to_hand_over).collect(), &mut wiring, fabric)?;
    // Queues that are too few go round, so that not one worker polls those of all ports.
    let mut next = 0;
    for port in ports {
        let few = few(&port);
        let PortQueues { name, port, pollers, receive, slow_receive, transmit, slow_transmit } = port;
        if few {
            wiring.notes.push(format!(
                "port {name}: {} for {} workers: flows are spread over them in software, by a symmetric hash",
                count(receive.len(), "receive queue"),
                pollers.len()
            ));
        }
        let first = if few { next } else { 0 };
        next += if few { receive.len() } else { 0 };
        for (index, queue) in receive.into_iter().enumerate() {
            let place = (first + index) % pollers.len();
            let owner = pollers[place];
            let ring = |worker: &usize| inboxes.get(worker).map(|ring| ring.queue());
            let spread = few.then(|| Spread::new(place, pollers.iter().map(ring).collect()));
            wiring.workers[owner].receivers.push(Receiver { queue, spread, handed_over: false });
            wiring.workers[owner].names.push(format!("{name}:{index}"));
        }
        wiring.slow.receivers.extend(slow_receive.map(|queue| (port, queue)));
        outputs(&mut wiring, (&name, port.into()), [transmit, slow_transmit], fabric)?;
    }
    Ok(wiring)
}

/// Makes a ring to each of these workers; its other end becomes one of the worker's queues.
fn inboxes(
    workers: Vec<usize>,
    wiring: &mut Wiring,
    fabric: &mut dyn Fabric,
) -> Result<BTreeMap<usize, Box<dyn Sender>>, WiringError> {
    let mut senders = BTreeMap::new();
    for number in workers {
        let worker = &mut wiring.workers[number];
        let (sender, queue) = fabric.hand_over(number)?;
        senders.insert(number, sender);
        worker.receivers.push(Receiver { queue, spread: None, handed_over: true });
        worker.names.push("hand-over".to_owned());
    }
    Ok(senders)
}

fn outputs(
    wiring: &mut Wiring,
    (name, port): (&str, usize),
    [transmit, of_slow_path]: [Vec<Box<dyn TransmitQueue>>; 2],
    fabric: &mut dyn Fabric,
) -> Result<(), WiringError> {
    let (workers, threads) = (wiring.workers.len(), 1 + wiring.slow.assistants.len());
    let mut places: Vec<_> = wiring.workers.iter_mut().map(|worker| &mut worker.outputs[port]).collect();
    let of_assistants = wiring.slow.assistants.iter_mut().map(|outputs| &mut outputs[port]);
    let slow_places = std::iter::once(&mut wiring.slow.outputs[port]).chain(of_assistants);
    let own = of_slow_path.len() >= threads;
    if own {
        slow_places.zip(of_slow_path).for_each(|(place, queue)| *place = Some(queue));
    } else {
        places.extend(slow_places);
    }
    if transmit.len() >= places.len() {
        places.into_iter().zip(transmit).for_each(|(place, queue)| *place = Some(queue));
        return Ok(());
    }
    let several = count(transmit.len(), "transmit queue");
    let slow = match threads {
        _ if own => String::new(),
        1 => " and the slow path".to_owned(),
        threads => format!(" and {threads} threads of the slow path"),
    };
    let note = format!("port {name}: {several} for {workers} workers{slow}: the others send over a ring");
    wiring.notes.push(note);
    let mut transmit = transmit.into_iter();
    let first = transmit.next().ok_or_else(|| WiringError::NoTransmitQueue(name.to_owned()))?;
    // A worker owns the queue with the ring, as it looks at it all the time; workers have queues of their own before
    // others do.
    let (sender, owners) = fabric.share(first)?;
    let rest = transmit.take(workers - 1).map(Some).chain(std::iter::repeat_with(|| None));
    let queues = std::iter::once(Some(owners)).chain(rest);
    for (place, queue) in places.into_iter().zip(queues) {
        *place = Some(queue.unwrap_or_else(|| sender.queue()));
    }
    Ok(())
}

fn count(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}
