// SPDX-License-Identifier: MIT
//! The programs of `bench/bpf/traffic.c`: source, sink, and what the in-kernel plane is compared with.

use anyhow::{Context as _, Result};
use libbpf_rs::{MapCore, MapFlags, Object, ObjectBuilder, ProgramInput, ProgramMut};
use perigee_net::MacAddr;
use perigee_socket::attach;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsRawFd as _, OwnedFd};

/// The compiled programs.
const OBJECT: &[u8] = include_bytes!("../../bpf/traffic.o");
/// BPF_F_TEST_XDP_LIVE_FRAMES of linux/bpf.h: what a program redirects is sent.
const LIVE_FRAMES: u32 = 1 << 1;
/// Most destinations of a family.
pub const DESTINATIONS: usize = 65_536;

/// What a program is for: its name in the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    Source,
    Timed,
    Nothing,
    Redirect,
    Route,
}

/// A wire that frames are sent by: its place in the object's map.
#[derive(Clone, Copy, Debug)]
pub enum Wire {
    /// From the source to the router.
    ToRouter = 0,
    /// From the router to the sink.
    ToSink = 1,
}

/// Source and destinations of frames.
pub struct Course {
    pub to: MacAddr,
    pub from: MacAddr,
    pub sources: (Ipv4Addr, Ipv6Addr),
    /// All of one family; as many as a power of two says.
    pub destinations: Vec<IpAddr>,
}

/// The programs, loaded.
pub struct Programs {
    object: Object,
}

impl Programs {
    /// Loads them.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn load() -> Result<Programs> {
        let object = ObjectBuilder::default().open_memory(OBJECT)?.load();
        Ok(Programs { object: object.context("the kernel refuses the source's programs")? })
    }

    fn program(&self, name: Name) -> Result<ProgramMut<'_>> {
        let wanted = match name {
            Name::Source => "source",
            Name::Timed => "timed",
            Name::Nothing => "nothing",
            Name::Redirect => "redirect",
            Name::Route => "route",
        };
        let found = self.object.progs_mut().find(|program| program.name() == wanted);
        found.with_context(|| format!("the object has no program {wanted}: ./x plane"))
    }

    fn update(&self, map: &str, key: u32, value: &[u8]) -> Result<()> {
        let found = self.object.maps().find(|found| found.name() == map);
        let found = found.with_context(|| format!("the object has no map {map}: ./x plane"))?;
        found.update(&key.to_ne_bytes(), value, MapFlags::ANY).with_context(|| format!("the map {map} refuses a value"))
    }

    /// Attaches one to an interface of this thread's namespace, in its driver.
    pub fn attach(&self, name: Name, link: u32) -> Result<OwnedFd> {
        attach(self.program(name)?, link, true).with_context(|| format!("no program at interface {link}"))
    }

    /// A descriptor of one, for [`time`](Self::time).
    pub fn descriptor(&self, name: Name) -> Result<OwnedFd> {
        use std::os::fd::AsFd as _;
        Ok(self.program(name)?.as_fd().try_clone_to_owned()?)
    }

    /// An interface of this thread's namespace becomes the end of a wire.
    pub fn set_wire(&self, wire: Wire, link: u32) -> Result<()> {
        self.update("wires", wire as u32, &link.to_ne_bytes())
    }

    /// Sets what the frames are from now on.
    pub fn set_course(&self, course: &Course) -> Result<()> {
        let count = course.destinations.len();
        anyhow::ensure!(count.is_power_of_two() && count <= DESTINATIONS, "{count} destinations");
        for (at, destination) in (0..).zip(&course.destinations) {
            let mut value = [0; 16];
            match destination {
                IpAddr::V4(address) => value[..4].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => value.copy_from_slice(&address.octets()),
            }
            self.update("destinations", at, &value)?;
        }
        let is6 = course.destinations[0].is_ipv6();
        let mac = |mac: MacAddr| {
            let mut bytes = [0; 8];
            bytes[..6].copy_from_slice(&mac.octets());
            bytes
        };
        // struct course.
        let mut value = [mac(course.to), mac(course.from)].concat();
        value.extend(course.sources.1.octets());
        value.extend(course.sources.0.octets());
        value.extend(header_sum(course.sources.0).to_ne_bytes());
        value.extend(u32::from(is6).to_ne_bytes());
        value.extend(0u32.to_ne_bytes());
        value.extend((count as u32 - 1).to_ne_bytes());
        value.extend(0u32.to_ne_bytes());
        self.update("course", 0, &value)
    }

    /// Bytes of a frame without FCS.
    fn length(is6: bool) -> usize {
        if is6 { 62 } else { 60 }
    }

    /// Sends frames from this thread's namespace, as fast as it goes. Where a router and the sink are on the same core,
    /// they run within this call.
    pub fn send(&self, frames: u32, is6: bool) -> Result<()> {
        let frame = vec![0; Self::length(is6)];
        let input =
            ProgramInput { data_in: Some(&frame), repeat: frames, flags: LIVE_FRAMES, ..ProgramInput::default() };
        let sent = self.program(Name::Source)?.test_run(input);
        sent.map(drop).context("the kernel sends no frames for BPF_PROG_TEST_RUN (Linux 5.18 or later is needed)")
    }

    /// How long a program takes for a frame as if it came by an interface of this thread's namespace, in ns: the
    /// writing of its headers included.
    pub fn time(&self, program: &OwnedFd, link: u32, is6: bool, repeat: u32) -> Result<f64> {
        self.update("chain", 0, &program.as_raw_fd().to_ne_bytes())?;
        let frame = vec![0; Self::length(is6)];
        // struct xdp_md.
        let context = [0, frame.len() as u32, 0, link, 0, 0];
        let mut context: Vec<u8> = context.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let input =
            ProgramInput { context_in: Some(&mut context), data_in: Some(&frame), repeat, ..ProgramInput::default() };
        let output = self.program(Name::Timed)?.test_run(input).context("the kernel runs no program for a test")?;
        anyhow::ensure!(output.return_value != 0, "the program gave a frame up (XDP_ABORTED)");
        Ok(output.duration.as_nanos() as f64)
    }
}

/// The sum of the header that `fill4` writes, without checksum and destination, in the machine's byte order.
fn header_sum(source: Ipv4Addr) -> u32 {
    let [a, b, c, d] = source.octets();
    let header = [0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, a, b, c, d];
    header.chunks(2).map(|pair| u32::from(u16::from_ne_bytes([pair[0], pair[1]]))).sum()
}
