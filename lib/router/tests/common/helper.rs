// SPDX-License-Identifier: MIT
//! A helper that is a thread, before a Linux that is pretended: what a router asks it for, without privileges.

use perigee_helper::rehearsal::{self, Changeable, Each, Failure, Refusal, System, Undo};
use perigee_helper::{Helper, LinkChange, LinkPreparation, NeighborChange, SocketWanted, TwinStatus, TwinWanted};
use perigee_net::{MacAddr, Namespace};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};

/// What a helper was asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    Twin(TwinWanted),
    Change(LinkChange),
    Neighbor(NeighborChange),
    /// A VLAN on the twin of this name, its number, and how it should be.
    Vlan(String, u16, TwinWanted),
}

#[derive(Default)]
struct State {
    asked: Vec<Asked>,
    refuses: bool,
    /// Of each helper and standby the end of its socket to the router, in the order in which they were started.
    started: Vec<OwnedFd>,
    /// Linux's ends of twins, in the order in which they were made.
    twins: Vec<UnixDatagram>,
}

/// The Linux of helper and standby; clones are the same one.
#[derive(Clone, Default)]
pub struct Pretended(Arc<Mutex<State>>);

impl Pretended {
    /// Starts a helper.
    pub fn helper(&self) -> Arc<Helper> {
        let (router, helper) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        self.serve(helper).unwrap();
        Arc::new(rehearsal::helper(router))
    }

    fn serve(&self, socket: OwnedFd) -> io::Result<()> {
        self.0.lock().unwrap().started.push(socket.try_clone()?);
        rehearsal::serve(self.clone(), |_, _| vec![], socket);
        Ok(())
    }

    /// How many helpers and standbys have been started.
    pub fn started(&self) -> usize {
        self.0.lock().unwrap().started.len()
    }

    /// Ends one of them, by its place among those that were started.
    pub fn end(&self, at: usize) {
        shutdown(&self.0.lock().unwrap().started[at], Shutdown::Both).unwrap();
    }

    /// Whether it refuses everything from now on.
    pub fn refuse(&self, refuses: bool) {
        self.0.lock().unwrap().refuses = refuses;
    }

    /// What was asked for so far, and is not known to the caller yet.
    pub fn take_asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }

    /// Linux's end of the last twin that was made.
    pub fn last_twin(&self) -> Option<UnixDatagram> {
        self.0.lock().unwrap().twins.pop()
    }

    fn ask(&self, what: Asked) -> Result<(), Failure> {
        let mut state = self.0.lock().unwrap();
        state.asked.push(what);
        if state.refuses { Err("this Linux refuses everything".to_owned().into()) } else { Ok(()) }
    }
}

impl System for Pretended {
    fn make_twins(
        &mut self,
        _: Option<&Namespace>,
        wanted: &[TwinWanted],
        done: Each<(OwnedFd, TwinStatus)>,
    ) -> Result<(), Refusal> {
        for (at, wanted) in wanted.iter().enumerate() {
            self.ask(Asked::Twin(wanted.clone())).map_err(|failure| failure.at(at))?;
            let (routers, linux) = UnixDatagram::pair().map_err(Failure::from)?;
            linux.set_nonblocking(true).map_err(Failure::from)?;
            self.0.lock().unwrap().twins.push(linux);
            let status = TwinStatus { name: wanted.name.clone(), namespace: None, index: 20 + at as u32 };
            done((routers.into(), status));
        }
        Ok(())
    }
    fn change(&mut self, change: LinkChange, _: Changeable) -> Result<Option<u32>, Failure> {
        let deleted = change.index.filter(|_| change.delete);
        self.ask(Asked::Change(change)).map(|()| deleted)
    }
    fn macs(&mut self, _: &[String], _: Each<MacAddr>) -> Result<(), Refusal> {
        unreachable!("a router that runs asks for no MAC address")
    }
    fn look(&mut self, _: &[LinkPreparation], _: Each<Undo>) -> Result<(), Refusal> {
        unreachable!("these ports are on no interface of Linux")
    }
    fn prepare(&mut self, _: &[(LinkPreparation, Undo)], _: Each<()>) -> Result<(), Refusal> {
        unreachable!("these ports are on no interface of Linux")
    }
    fn gone(&mut self, _: Vec<u32>) -> Result<Vec<u32>, Failure> {
        unreachable!("these ports are on no interface of Linux")
    }
    fn open_socket(&mut self, _: SocketWanted, _: Option<&Namespace>) -> Result<OwnedFd, Failure> {
        unreachable!("the twins are in no namespace that could go")
    }
    fn change_neighbors(
        &mut self,
        neighbors: Vec<NeighborChange>,
        _: Option<&Namespace>,
        _: Changeable,
    ) -> Result<(), Failure> {
        neighbors.into_iter().try_for_each(|neighbor| self.ask(Asked::Neighbor(neighbor)))
    }
    fn confirm_neighbors(&mut self, _: Vec<(u32, IpAddr)>, _: BTreeSet<String>) -> Result<(), Failure> {
        unreachable!("the stack is the router's")
    }
    fn make_vlan(&mut self, on: String, vlan: u16, wanted: TwinWanted, _: Changeable) -> Result<u32, Failure> {
        self.ask(Asked::Vlan(on, vlan, wanted)).map(|()| 30)
    }
    fn take_kept(&mut self, _: &Path) -> Option<Vec<Undo>> {
        unreachable!("no router was killed")
    }
    fn identity(&mut self, _: &Path) -> Option<(u64, u64)> {
        None
    }
    fn open_file(
        &mut self,
        _: &Path,
        _: Option<&Path>,
        _: fn(&Path, &str) -> Vec<PathBuf>,
    ) -> Result<OwnedFd, Failure> {
        unreachable!("the router may read its files")
    }
    /// The standby is a thread as well; a process that ends at once stands for it.
    fn start_standby(&mut self, input: OwnedFd) -> io::Result<Child> {
        self.serve(input)?;
        Command::new("true").spawn()
    }
}
