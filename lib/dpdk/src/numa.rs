// SPDX-License-Identifier: MIT
//! NUMA nodes: which cores and devices are near each other, and which core a thread should have for its devices.

use crate::ffi;
use std::path::Path;
use std::sync::OnceLock;

/// The machine's nodes and their cores.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// (number, cores), in rising order.
    nodes: Vec<(u16, Vec<usize>)>,
}

/// Where a thread should run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On this core, which no other thread has.
    Core(usize),
    /// On any core of a node.
    Cores(Vec<usize>),
    /// Wherever the kernel likes.
    Anywhere,
}

impl Topology {
    /// Reads a folder like /sys/devices/system/node. What is not there, or cannot be understood, is no node.
    pub fn read(folder: &Path) -> Topology {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut nodes: Vec<_> = entries
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
                let cores = cores(&std::fs::read_to_string(entry.path().join("cpulist")).ok()?)?;
                Some((number, cores))
            })
            .collect();
        nodes.sort();
        Topology { nodes }
    }

    /// This machine's.
    pub fn here() -> &'static Topology {
        static HERE: OnceLock<Topology> = OnceLock::new();
        HERE.get_or_init(|| Topology::read(Path::new("/sys/devices/system/node")))
    }

    /// Is there more than one node?
    pub fn several(&self) -> bool {
        self.nodes.len() > 1
    }

    /// The node of a core, if there is more than one.
    pub fn node_of(&self, core: usize) -> Option<u16> {
        let of = |(number, cores): &(u16, Vec<usize>)| cores.contains(&core).then_some(*number);
        if self.several() { self.nodes.iter().find_map(of) } else { None }
    }

    /// The node of the core that the calling thread runs on, if there is more than one.
    pub fn current(&self) -> Option<u16> {
        if self.several() { self.node_of(rustix::thread::sched_getcpu()) } else { None }
    }

    /// Where a thread for devices of `node` should run: on `preferred` if that is of the node and free, else on another
    /// free core of the node, else on a free one of another. Without a preferred core it is not to have one of its
    /// own: then it may run on all cores of the node. `free`: the cores that no thread has, of those that the
    /// process may use, `usable`.
    pub fn place(&self, usable: &[usize], free: &[usize], preferred: Option<usize>, node: Option<u16>) -> Place {
        let is_near = |core: usize| node.is_none() || self.node_of(core) == node;
        let Some(preferred) = preferred else {
            let near: Vec<usize> = usable.iter().copied().filter(|&core| is_near(core)).collect();
            return if near.is_empty() || !self.several() || node.is_none() {
                Place::Anywhere
            } else {
                Place::Cores(near)
            };
        };
        // The preferred core stands first among those that are as near.
        let order = |core: &&usize| (!is_near(**core), **core != preferred);
        free.iter().min_by_key(order).map_or(Place::Anywhere, |&core| Place::Core(core))
    }
}

/// Calls `work`; memory that it touches first is on `node`, where there is some, and where the kernel knows of nodes.
pub fn allocate_on(node: u16, work: &mut dyn FnMut()) {
    struct AsBefore;
    impl Drop for AsBefore {
        fn drop(&mut self) {
            // SAFETY: sets a policy of the calling thread's.
            unsafe { ffi::perigee_prefer_node(-1) };
        }
    }
    // SAFETY: as above. If it is refused, memory is where the thread runs.
    unsafe { ffi::perigee_prefer_node(node.into()) };
    let _as_before = AsBefore;
    work();
}

/// The numbers of a list such as "0-3,8".
fn cores(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.trim().parse::<usize>().ok()?, last.trim().parse::<usize>().ok()?);
        all.extend(first..=last.min(first.saturating_add(65_535)));
    }
    Some(all)
}

/// The node of a device by its name (a PCI address, a Linux interface, `xdp:INTERFACE`) in a folder like /sys; `None`:
/// not known.
pub fn device_node(sys: &Path, name: &str) -> Option<u16> {
    let name = name.split(',').next().unwrap_or(name);
    let interface = name.strip_prefix("xdp:").unwrap_or(name);
    let bad = |part: &str| part.is_empty() || part.contains('/') || part.starts_with('.');
    if bad(name) || bad(interface) {
        return None;
    }
    let pci = [name.to_owned(), format!("0000:{name}")].map(|address| sys.join("bus/pci/devices").join(address));
    let files = pci.into_iter().chain([sys.join("class/net").join(interface).join("device")]);
    // -1: not known.
    files.into_iter().find_map(|folder| std::fs::read_to_string(folder.join("numa_node")).ok()?.trim().parse().ok())
}

/// The node that most of the devices are of, the lowest of those; `None`: none is known.
pub fn node_of_most(devices: impl IntoIterator<Item = Option<u16>>) -> Option<u16> {
    let mut counts = std::collections::BTreeMap::new();
    devices.into_iter().flatten().for_each(|node| *counts.entry(node).or_insert(0) += 1);
    counts.into_iter().min_by_key(|(_, n)| std::cmp::Reverse(*n)).map(|(node, _)| node)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A folder like /sys, of the test's own (tests run side by side), which goes when it is dropped.
    fn sys(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("in a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        root
    }

    const NODES: &str = "devices/system/node";

    fn two() -> Topology {
        let folder = sys(&[
            (&format!("{NODES}/node0/cpulist"), "0-1,4-5\n"),
            (&format!("{NODES}/node1/cpulist"), "2-3,6-7\n"),
            (&format!("{NODES}/possible"), "0-1\n"),
            (&format!("{NODES}/nodex/cpulist"), "9\n"),
            (&format!("{NODES}/node7/other"), "9\n"),
        ]);
        Topology::read(&folder.path().join(NODES))
    }

    #[test]
    fn nodes_are_read_from_a_folder_like_linuxs() {
        let two = two();
        assert_eq!(two.nodes, [(0, vec![0, 1, 4, 5]), (1, vec![2, 3, 6, 7])]);
        assert!(two.several());
        assert_eq!((two.node_of(5), two.node_of(6), two.node_of(8)), (Some(0), Some(1), None));
        let none = Topology::read(Path::new("/nothing/here"));
        assert!(!none.several() && none.node_of(0).is_none() && none.current().is_none());
        for bad in ["a", "1-", "-1", "1-x"] {
            assert_eq!(cores(bad), None, "{bad}");
        }
        assert_eq!(cores("\n"), Some(vec![]));
    }

    #[test]
    fn threads_are_placed_near_their_devices() {
        let (two, all) = (two(), [0, 1, 2, 3, 4, 5, 6, 7]);
        // The preferred core, if it is of the node.
        assert_eq!(two.place(&all, &all, Some(1), Some(0)), Place::Core(1));
        assert_eq!(two.place(&all, &all, Some(1), Some(1)), Place::Core(2));
        assert_eq!(two.place(&all, &[0, 6, 7], Some(1), Some(1)), Place::Core(6));
        // Else one of another node, preferably that.
        assert_eq!(two.place(&all, &[0, 1, 4], Some(1), Some(1)), Place::Core(1));
        assert_eq!(two.place(&all, &[4], Some(1), Some(1)), Place::Core(4));
        assert_eq!(two.place(&all, &[], Some(1), Some(1)), Place::Anywhere);
        // A node that is not known, or that the process may not use.
        assert_eq!(two.place(&all, &all, Some(3), None), Place::Core(3));
        assert_eq!(two.place(&all, &all, Some(3), Some(9)), Place::Core(3));
        assert_eq!(two.place(&[0, 1], &[0, 1], None, Some(1)), Place::Anywhere);
        // Without a core of its own it stays on the node.
        assert_eq!(two.place(&all, &[], None, Some(1)), Place::Cores(vec![2, 3, 6, 7]));
        assert_eq!(two.place(&[0, 2, 7], &[], None, Some(1)), Place::Cores(vec![2, 7]));
        assert_eq!(two.place(&all, &[], None, None), Place::Anywhere);
    }

    #[test]
    fn on_one_node_nothing_changes() {
        let one = Topology { nodes: vec![(0, vec![0, 1, 2, 3])] };
        for node in [None, Some(0)] {
            assert_eq!(one.place(&[0, 1, 2, 3], &[1, 2, 3], Some(2), None), Place::Core(2));
            assert_eq!(one.place(&[0, 1], &[0, 1], None, node), Place::Anywhere);
        }
        assert_eq!((one.several(), one.node_of(0), one.current()), (false, None, None));
    }

    #[test]
    fn memory_can_be_placed_on_any_node_there_may_be() {
        for node in [0, 1, 63, 1023, 1024, u16::MAX] {
            let mut done = 0;
            allocate_on(node, &mut || done += std::hint::black_box(vec![1u8; 1 << 20]).len());
            assert_eq!(done, 1 << 20, "node {node}");
        }
    }

    #[test]
    fn devices_have_the_node_that_linux_says() {
        let folder = sys(&[
            ("bus/pci/devices/0000:81:00.0/numa_node", "1\n"),
            ("bus/pci/devices/0000:01:00.0/numa_node", "-1\n"),
            ("class/net/eth7/device/numa_node", "0\n"),
        ]);
        let node = |name| device_node(folder.path(), name);
        assert_eq!((node("0000:81:00.0"), node("81:00.0"), node("81:00.0,a=b")), (Some(1), Some(1), Some(1)));
        assert_eq!(
            (node("01:00.0"), node("eth7"), node("xdp:eth7"), node("net_null0")),
            (None, Some(0), Some(0), None)
        );
        assert_eq!((node(""), node(".."), node("a/../b"), node("xdp:")), (None, None, None, None));
        assert_eq!(node_of_most([Some(1), None, Some(0), Some(1)]), Some(1));
        assert_eq!(node_of_most([Some(1), Some(0)]), Some(0));
        assert_eq!(node_of_most([None, None]), None);
    }
}
