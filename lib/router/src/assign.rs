// SPDX-License-Identifier: MIT
//! Which workers poll which ports: as the configuration names them, else by weight and NUMA node.

use perigee_config::Config;

/// What a port's worker is chosen by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortShare {
    /// How much work it is, beside others.
    pub weight: u16,
    /// Its NUMA node, where there are several and it is known.
    pub node: Option<u16>,
    /// The workers that name it, in rising order.
    pub named_by: Vec<usize>,
}

/// The workers that poll each port, in rising order; at least one. `nodes`: that of each port and that of each worker,
/// where known.
pub fn pollers(config: &Config, (ports, workers): (&[Option<u16>], &[Option<u16>])) -> Vec<Vec<usize>> {
    let by_worker = config.workers.iter().any(|worker| !worker.ports.is_empty());
    if !by_worker && config.ports.iter().all(|port| port.weight.is_none()) {
        return vec![(0..workers.len()).collect(); config.ports.len()];
    }
    let share = |(index, (port, node)): (u16, (&perigee_config::Port, &Option<u16>))| {
        let names =
            |(number, worker): (usize, &perigee_config::Worker)| worker.ports.contains(&index).then_some(number);
        let named_by = config.workers.iter().enumerate().filter_map(names).collect();
        PortShare { weight: port.weight.unwrap_or(1), node: *node, named_by }
    };
    deal(&(0..).zip(config.ports.iter().zip(ports)).map(share).collect::<Vec<_>>(), workers)
}

/// The workers of each port: those that name it; else the heaviest port first, to the worker with the least weight so
/// far, of those on its node if there are some. Among equals the first: so that equal ports go round.
pub fn deal(ports: &[PortShare], workers: &[Option<u16>]) -> Vec<Vec<usize>> {
    // Shares of weights in millionths, as whole numbers compare without surprises.
    let mut loads = vec![0_u64; workers.len()];
    for port in ports {
        let share = u64::from(port.weight) * 1_000_000 / port.named_by.len().max(1) as u64;
        port.named_by.iter().for_each(|worker| loads[*worker] += share);
    }
    let mut all: Vec<Vec<usize>> = ports.iter().map(|port| port.named_by.clone()).collect();
    let mut free: Vec<usize> = (0..ports.len()).filter(|port| all[*port].is_empty()).collect();
    free.sort_by_key(|port| std::cmp::Reverse(ports[*port].weight));
    for port in free {
        let is_near = |worker: usize| ports[port].node.is_some() && workers[worker] == ports[port].node;
        // Far ones come after all near ones, whatever they have.
        let least = (0..workers.len()).min_by_key(|worker| (!is_near(*worker), loads[*worker]));
        let Some(least) = least else { continue };
        loads[least] += u64::from(ports[port].weight) * 1_000_000;
        all[port].push(least);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(weight: u16) -> PortShare {
        PortShare { weight, node: None, named_by: vec![] }
    }

    #[test]
    fn equal_ports_go_round() {
        assert_eq!(deal(&vec![port(1); 5], &[None; 2]), [[0], [1], [0], [1], [0]]);
        assert_eq!(deal(&vec![port(7); 2], &[None; 3]), [[0], [1]], "a worker is left without one");
    }

    #[test]
    fn heavy_ports_are_dealt_first_and_weights_end_up_even() {
        let ports = [1, 1, 10, 4, 4].map(port);
        assert_eq!(deal(&ports, &[None; 2]), [[1], [1], [0], [1], [1]]);
        let random = &mut perigee_fib::synth::Random::new(7);
        for round in 0..1000 {
            let ports: Vec<_> = (0..1 + random.below(20)).map(|_| port(1 + random.below(50) as u16)).collect();
            let workers = 1 + random.below(6) as usize;
            let mut loads = vec![0; workers];
            let dealt = deal(&ports, &vec![None; workers]);
            dealt.iter().zip(&ports).for_each(|(to, port)| {
                assert_eq!(to.len(), 1);
                loads[to[0]] += u64::from(port.weight);
            });
            // The one with the most got its last port when it had the least.
            let heaviest = ports.iter().map(|port| u64::from(port.weight)).max().unwrap_or(0);
            let (least, most) = (loads.iter().min().unwrap(), loads.iter().max().unwrap());
            assert!(most - least <= heaviest, "seed 7, round {round}: {loads:?}");
        }
    }

    #[test]
    fn named_ports_stay_and_count() {
        let named = |by: &[usize]| PortShare { named_by: by.to_vec(), ..port(4) };
        let ports = [named(&[1]), port(1), port(1), named(&[0, 1])];
        // Worker 1 has 4 and half of 4.
        assert_eq!(deal(&ports, &[None; 2]), [vec![1], vec![0], vec![0], vec![0, 1]]);
        assert_eq!(deal(&ports, &[None; 3]), [vec![1], vec![2], vec![2], vec![0, 1]]);
    }

    #[test]
    fn ports_go_to_workers_on_their_node() {
        let on = |node| PortShare { node: Some(node), ..port(1) };
        let workers = [Some(0), Some(0), Some(1)];
        let ports = [on(1), on(1), on(1), on(0), on(0), on(7), port(1)];
        assert_eq!(deal(&ports, &workers), [[2], [2], [2], [0], [1], [0], [1]]);
    }

    #[test]
    fn ports_are_dealt_evenly_however_many_workers_there_are() {
        for workers in [1, 2, 3, 16, 63, 64, 128_usize] {
            for ports in [1, 2, 5, 64] {
                // The first half is on one node, the others on another; ports lie on both in turn.
                let nodes: Vec<_> = (0..workers).map(|worker| Some(u16::from(worker >= workers.div_ceil(2)))).collect();
                let all: Vec<_> = (0..ports).map(|index| PortShare { node: Some(index % 2), ..port(1) }).collect();
                let mut loads = vec![0; workers];
                for (port, pollers) in all.iter().zip(deal(&all, &nodes)) {
                    let [worker] = pollers[..] else { panic!("{pollers:?}: {ports} ports, {workers} workers") };
                    assert!(
                        nodes[worker] == port.node || !nodes.contains(&port.node),
                        "{ports} ports, {workers} workers"
                    );
                    loads[worker] += 1;
                }
                for node in [0, 1] {
                    let own = || loads.iter().zip(&nodes).filter(|(_, of)| **of == Some(node)).map(|(load, _)| *load);
                    assert!(own().max() <= own().min().map(|least: u32| least + 1), "{ports} ports: {loads:?}");
                }
            }
        }
    }
}
