// SPDX-License-Identifier: MIT
//! What is measured, and which cores it gets.

use crate::launch::plane;
use crate::task::Cores;
use anyhow::{Context as _, Result};
use perigee_dpdk::usable_cores;
use perigee_lab::World;
use perigee_lab::device::{CommandLine, Device, Kind, Perigee, Setup, Testpmd};
use perigee_net::MacAddr;
use rustix::net::{AddressFamily, SocketType};
use std::fmt::{Display, Formatter};
use std::str::FromStr;
use std::time::Duration;

/// How long a command line's device may take after its links are up.
const SETTLE: Duration = Duration::from_secs(2);
/// The longest frame, in bytes with FCS, with which veth surely takes XDP programs: a frame shares a page with what the
/// kernel keeps there (3,498 bytes of MTU at most).
pub const LONGEST_BY_XDP: u32 = 3000;

/// The tester's ports at some interfaces, for frames of up to `largest` bytes with FCS: AF_XDP sockets where the kernel
/// lets this process have them. They are faster than packet sockets, so that fewer devices are faster than the tester,
/// and what an XDP program redirects reaches them uncopied.
pub fn tester_ports(interfaces: &[String; 2], largest: u32) -> [String; 2] {
    let has_sockets = || rustix::net::socket(AddressFamily::XDP, SocketType::RAW, None).is_ok();
    let by_xdp = largest <= LONGEST_BY_XDP && plane::unavailable().is_none() && has_sockets();
    interfaces.each_ref().map(|name| format!("{}{name}", if by_xdp { "xdp:" } else { "" }))
}

/// A device that is built in namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Perigee,
    /// perigee with the in-kernel plane.
    PerigeeXdp,
    Linux,
    Testpmd,
    /// A command line that forwards between $PERIGEE_LEFT and $PERIGEE_RIGHT.
    Command(String),
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        match text {
            "perigee" => Ok(Target::Perigee),
            "perigee-xdp" => Ok(Target::PerigeeXdp),
            "linux" => Ok(Target::Linux),
            "testpmd" => Ok(Target::Testpmd),
            line if line.contains([' ', '/']) => Ok(Target::Command(line.to_owned())),
            _ => Err(format!(
                "found {text:?}, expected perigee, perigee-xdp, linux, testpmd, or a command line such as './my-router.sh'"
            )),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Target::Perigee => "perigee",
            Target::PerigeeXdp => "perigee-xdp",
            Target::Linux => "linux",
            Target::Testpmd => "testpmd",
            Target::Command(line) => line,
        })
    }
}

/// What a device may have of the machine, and what it has to know of the tester.
#[derive(Debug, Clone)]
pub struct Share {
    pub cores: Vec<usize>,
    pub mtu: u16,
    /// Whether it is given the tester's MAC addresses instead of having to ask.
    pub static_neighbors: bool,
}

impl Target {
    /// Builds it as one of several of a world, and starts it.
    pub fn build(&self, world: &World, number: u8, share: &Share) -> Result<Device> {
        let setup = Setup { number, mtu: share.mtu, static_neighbors: share.static_neighbors, ..Setup::default() };
        let kind = match self {
            Target::Linux => Kind::Linux,
            Target::Perigee | Target::PerigeeXdp => {
                let in_kernel = *self == Target::PerigeeXdp;
                let program = std::env::current_exe().context("the program's own path is not known")?;
                Kind::Perigee(Perigee { cores: share.cores.clone(), in_kernel, ..Perigee::new(program) })
            }
            Target::Testpmd => Kind::Testpmd(Testpmd { core: share.cores.first().copied(), ..Testpmd::default() }),
            Target::Command(line) => {
                Kind::Command(CommandLine { line: line.clone(), settle: SETTLE, cores: share.cores.clone() })
            }
        };
        Device::build(world, setup, kind).with_context(|| format!("{self} cannot be measured"))
    }

    /// Whether it is perigee, whose twins are TAP interfaces.
    pub fn is_router(&self) -> bool {
        matches!(self, Target::Perigee | Target::PerigeeXdp)
    }

    /// The cores of its share that forward.
    pub fn cores(&self, share: &Share) -> u32 {
        match self {
            Target::Testpmd => 1,
            _ => share.cores.len().max(1) as u32,
        }
    }

    /// The MAC addresses of a device that may not answer ARP.
    pub fn macs(&self, device: &Device) -> Option<[MacAddr; 2]> {
        let macs = device.sides().each_ref().map(|side| side.mac.parse().ok());
        match (self, macs) {
            (Target::Testpmd | Target::Command(_), [Some(left), Some(right)]) => Some([left, right]),
            _ => None,
        }
    }
}

/// The tester's cores and the device's, of those that may be used: one for the device, one or two for the tester.
pub fn share(tester: Option<&Cores>, device: Option<&Cores>) -> (Vec<usize>, Vec<usize>) {
    divide(usable_cores(), tester.map(|cores| cores.0.clone()), device.map(|cores| cores.0.clone()))
}

fn divide(usable: Vec<usize>, tester: Option<Vec<usize>>, device: Option<Vec<usize>>) -> (Vec<usize>, Vec<usize>) {
    let without = |taken: &[usize], most: usize| -> Vec<usize> {
        let rest: Vec<usize> = usable.iter().copied().filter(|core| !taken.contains(core)).take(most).collect();
        // If there are no others, it is shared.
        if rest.is_empty() { usable.iter().copied().take(1).collect() } else { rest }
    };
    match (tester, device) {
        (Some(tester), Some(device)) => (tester, device),
        (Some(tester), None) => {
            let device = without(&tester, 1);
            (tester, device)
        }
        (None, Some(device)) => (without(&device, 2), device),
        (None, None) => {
            let tester: Vec<usize> = usable.iter().copied().take(if usable.len() > 2 { 2 } else { 1 }).collect();
            let device = without(&tester, 1);
            (tester, device)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_divided() {
        for (usable, tester, device, expected) in [
            (vec![0], None, None, (vec![0], vec![0])),
            (vec![0, 1], None, None, (vec![0], vec![1])),
            (vec![0, 1, 2, 3], None, None, (vec![0, 1], vec![2])),
            (vec![0, 1, 2, 3], Some(vec![0]), None, (vec![0], vec![1])),
            (vec![0, 1, 2, 3], None, Some(vec![0, 1]), (vec![2, 3], vec![0, 1])),
            (vec![0, 1], None, Some(vec![0, 1]), (vec![0], vec![0, 1])),
            (vec![4, 5], Some(vec![5]), Some(vec![4]), (vec![5], vec![4])),
        ] {
            assert_eq!(divide(usable.clone(), tester, device), expected, "{usable:?}");
        }
    }

    #[test]
    fn targets_are_read_as_they_are_called() {
        for text in ["perigee", "perigee-xdp", "linux", "testpmd", "./router.sh --fast", "vpp -c x"] {
            assert_eq!(text.parse::<Target>().unwrap().to_string(), text);
        }
        assert!("lunix".parse::<Target>().unwrap_err().contains("expected perigee, perigee-xdp, linux"));
    }
}
