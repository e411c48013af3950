// SPDX-License-Identifier: MIT
//! A port without an interface: for [`crate::rehearsal`].

use super::{Buffers, ReceiveEnd, ReceiveSide, Shared, SocketPort, State};
use crate::sys::{Ring, Socket};
use perigee_net::MacAddr;
use perigee_packet::PortInfo;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU16};
use std::sync::{Arc, Mutex};

impl SocketPort {
    /// A port with one receive queue, whose long frames wait in `queue`.
    pub(crate) fn pretended(buffers: Buffers, mtu: u16, room: u16, queue: OwnedFd) -> io::Result<SocketPort> {
        let Buffers { pool, super_frames: large, memory } = buffers;
        // No interface has a name of none.
        let name = String::new();
        let longest = usize::from(mtu) + super::FRAME_OVERHEAD;
        let control = Arc::new(Socket::of(queue.try_clone()?));
        let end = ReceiveEnd { socket: Arc::new(Socket::of(queue)), ring: Ring::pretended(longest)? };
        let info = PortInfo {
            port: 0,
            device: name.clone(),
            driver: "packet".to_owned(),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            mtu,
            receive_queues: 1,
            transmit_queues: 0,
            numa_node: None,
            offloads: Vec::new(),
            notes: Vec::new(),
        };
        let state = State { info, promiscuous: false, index: 0, group: None, spares: Vec::new() };
        Ok(SocketPort(Arc::new(Shared {
            name,
            number: 0,
            room: room.into(),
            pool,
            large,
            memory,
            receive: vec![ReceiveSide::new(end)],
            transmit: Vec::new(),
            control,
            mtu: AtomicU16::new(mtu),
            longest,
            quiet: false,
            watched: AtomicBool::new(false),
            state: Mutex::new(state),
        })))
    }
}
