// SPDX-License-Identifier: MIT
//! An XDP program and the interface that it is attached to.

use crate::error::text;
use crate::sys::xsk::Mode;
use crate::sys::{Socket, interface};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The kernel's ENOTSUPP, which some drivers return; it has no name outside.
const ENOTSUPP: i32 = 524;

/// A program that gives frames of an interface to AF_XDP sockets: all of them, or those that it does not finish itself.
pub trait FrameProgram: Send + Sync {
    /// Gives what a queue receives to a socket that is bound to it.
    ///
    /// # Errors
    /// The system refuses it.
    fn set_socket(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()>;

    /// Attaches it to an interface, in the driver or behind it. It is detached when the descriptor is closed.
    ///
    /// # Errors
    /// The system refuses it, or the driver cannot do it.
    fn attach(&self, below: &Below<'_>, in_driver: bool) -> io::Result<OwnedFd>;
}

/// The interface below a port.
pub struct Below<'a> {
    /// Its name.
    pub name: &'a str,
    /// Linux's number of it.
    pub index: i32,
    /// The name of its driver, if that says it.
    pub driver: Option<String>,
}

/// An interface that a program is attached to.
pub(crate) struct Site<'a> {
    pub name: &'a str,
    /// Asks about the interface.
    pub control: &'a Socket,
    /// Takes sentences for the port's notes.
    pub note: &'a dyn Fn(String),
}

impl Site<'_> {
    fn driver(&self) -> Option<String> {
        interface::driver(self.control, self.name)
    }

    /// Why a program that forwards by itself is of no use at an interface that consists of others: it would run behind
    /// the driver, after what the driver has done to the frames.
    pub fn unfit_for_programs(&self) -> Option<&'static str> {
        match self.driver()?.as_str() {
            "802.1Q VLAN Support" => Some(
                "is a VLAN of another interface: make that one the port (with `stack = \"perigee\"` the VLAN is [port.NAME.vlan.ID]), \
                 whose tags the in-kernel plane reads and writes itself",
            ),
            "bonding" | "team" => Some(
                "consists of other interfaces, whose driver chooses among them: make these the ports and route over several of \
                 them, or use `plane = \"worker\"`",
            ),
            _ => None,
        }
    }

    /// Attaches a program, in the driver if that can run it.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn attach(&self, program: &dyn FrameProgram, index: i32) -> io::Result<(OwnedFd, Mode)> {
        let below = Below { name: self.name, index, driver: self.driver() };
        match program.attach(&below, true) {
            Ok(attached) => Ok((attached, Mode::Native)),
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL | ENOTSUPP)) => {
                let attached = program.attach(&below, false)?;
                (self.note)(format!(
                    "port {}: its driver does not run XDP programs ({}), so the kernel does, which is slower",
                    self.name,
                    text(&error)
                ));
                Ok((attached, Mode::Generic))
            }
            Err(error) => Err(error),
        }
    }

    /// Leaves VLAN tags where XDP programs see them; returns whether the device took them out before.
    pub fn keep_tags(&self) -> bool {
        let name = self.name;
        if self.driver().as_deref() == Some("veth") {
            (self.note)(format!(
                "port {name}: the other end of a veth pair must leave neither checksums nor VLAN tags to it, as XDP programs do \
                 not see what is unfinished: `ethtool -K PEER tx off txvlan off`"
            ));
        }
        match interface::leave_tags(self.control, name, true) {
            Ok(took) => took,
            Err(error) => {
                (self.note)(format!(
                    "port {name}: whether VLAN tags arrive is not known ({}): `ethtool -k {name}` shows rxvlan",
                    text(&error)
                ));
                false
            }
        }
    }
}
