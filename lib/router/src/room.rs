// SPDX-License-Identifier: MIT
//! How many routes there is room for: as many as `max_routes` says, and as the memory holds that is left to the
//! process.
//!
//! Rust ends a process that an allocation is refused, and Linux one whose control group is full. So memory is looked at
//! before routes are added, a thousand at a time, and a part of it is never used for routes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// What is left to everything else: answers of the API, dumps of Linux, packets that wait.
const RESERVE: u64 = 32 << 20;
/// What a route takes, with room for arrays that grow while both the old and the new one are there. Measured: 260 bytes
/// for an operator's route, of which the lookup structures are a few.
const PER_ROUTE: u64 = 512;
/// What one that is held may take for a moment when an array doubles.
const PER_HELD: u64 = 128;
/// What one takes in a table that is made at once.
const PER_LOADED: u64 = 320;
/// Routes that are granted at a time, and refusals between two looks at a full memory.
const STEP: usize = 1024;
const IN_VAIN: u32 = 256;
/// Where control groups are mounted. `ip netns exec` hides them behind a new /sys, and init still has them, for root.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/proc/1/root/sys/fs/cgroup"];

/// The limit of routes.
pub(crate) struct Room {
    configured: usize,
    memory: Memory,
    /// Refusals since the last look.
    refusals: u32,
}

impl Room {
    /// Opens what says how much memory is left: later, the threads of the router open no files.
    pub fn new(max_routes: Option<u32>) -> Room {
        let configured = max_routes.map_or(usize::MAX, |most| most as usize);
        Room { configured, memory: Memory::open(), refusals: 0 }
    }

    /// The most routes that may be held for now, where so many are held.
    pub fn most(&mut self, held: usize) -> usize {
        if held >= self.configured {
            return self.configured;
        }
        // A look costs some microseconds, and a peer may send a million routes too many.
        if self.refusals > 0 && self.refusals < IN_VAIN {
            self.refusals += 1;
            return held.min(self.configured);
        }
        let more = self.affordable(held);
        self.refusals = u32::from(more == 0);
        held.saturating_add(more.min(STEP)).min(self.configured)
    }

    /// Whether so many routes can be held in new tables beside everything there is.
    pub fn holds(&self, routes: usize) -> bool {
        let needed = (routes as u64).saturating_mul(PER_LOADED).saturating_add(RESERVE);
        routes <= self.configured && (routes < STEP || self.memory.left().is_none_or(|left| left >= needed))
    }

    /// Whether there is room again for a good part more, so that it is worthwhile to ask Linux for what was refused.
    pub fn has_some(&self, held: usize) -> bool {
        let more = (held / 16).max(STEP);
        held.saturating_add(more) <= self.configured && self.affordable(held) >= more
    }

    fn affordable(&self, held: usize) -> usize {
        let kept = RESERVE.saturating_add(PER_HELD.saturating_mul(held as u64));
        let left = self.memory.left().map(|left| left.saturating_sub(kept) / PER_ROUTE);
        left.map_or(usize::MAX, |routes| usize::try_from(routes).unwrap_or(usize::MAX))
    }
}

/// Files that say how much memory is left; those that are not there limit nothing.
struct Memory {
    /// The machine's.
    machine: Option<File>,
    /// The process's own size.
    own: Option<File>,
    groups: Vec<Group>,
}

/// A control group with a limit.
struct Group {
    limit: File,
    used: File,
    statistics: Option<File>,
}

impl Memory {
    fn open() -> Memory {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let found = found_in(&MOUNTS.map(Path::new), &groups);
        if found.is_empty()
            && let Some(group) = of_memory(&groups)
        {
            tracing::info!(
                "how much memory the control group {group} may have is not known, as {} shows no control groups here: routes are limited \
                 by the machine's memory and by `max_routes`",
                MOUNTS[0]
            );
        }
        Memory { machine: File::open("/proc/meminfo").ok(), own: File::open("/proc/self/status").ok(), groups: found }
    }

    /// Bytes that the process can still have; `None`: nothing is known.
    fn left(&self) -> Option<u64> {
        let machine =
            self.machine.as_ref().and_then(|file| number_after(&read(file)?, "MemAvailable:")).map(|kb| kb << 10);
        let groups = self.groups.iter().filter_map(Group::left);
        groups.chain(machine).chain(self.by_own_limits()).min()
    }

    /// By `ulimit -v` and `ulimit -d`.
    fn by_own_limits(&self) -> Option<u64> {
        let own = self.own.as_ref().and_then(read)?;
        let left = |resource, used| {
            let used = number_after(&own, used)? << 10;
            Some(getrlimit(resource).current?.saturating_sub(used))
        };
        [left(Resource::As, "VmSize:"), left(Resource::Data, "VmData:")].into_iter().flatten().min()
    }
}

impl Group {
    fn open(folder: &Path) -> Option<Group> {
        let names = [("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes")];
        let open = |name: &str| File::open(folder.join(name));
        let (limit, used) =
            names.iter().find_map(|(limit, used)| open(limit).and_then(|l| Ok((l, open(used)?))).ok())?;
        Some(Group { limit, used, statistics: open("memory.stat").ok() })
    }

    /// What the kernel can take from the page cache counts as left.
    fn left(&self) -> Option<u64> {
        let number = |file| read(file)?.trim().parse::<u64>().ok();
        let statistics = self.statistics.as_ref().and_then(read).unwrap_or_default();
        let cache = number_after(&statistics, "total_inactive_file").or(number_after(&statistics, "inactive_file"));
        let used = number(&self.used)?.saturating_sub(cache.unwrap_or(0));
        // Without a limit it says `max`, or a number beyond all memory.
        Some(number(&self.limit)?.saturating_sub(used))
    }
}

/// The limits that a process has by its control groups, from the first of `mounts` that shows any.
fn found_in(mounts: &[&Path], groups: &str) -> Vec<Group> {
    let open = |mount: &&Path| -> Vec<Group> {
        folders(mount, groups).iter().filter_map(|folder| Group::open(folder)).collect()
    };
    mounts.iter().map(open).find(|found| !found.is_empty()).unwrap_or_default()
}

/// The control group, but for the root of all, by which a process may have a limit of memory.
fn of_memory(groups: &str) -> Option<&str> {
    let fields = groups.lines().filter_map(|line| line.splitn(3, ':').skip(1).collect::<Vec<_>>().try_into().ok());
    let named = fields.filter(|[controllers, _]: &[&str; 2]| has_memory(controllers)).map(|[_, path]| path);
    named.into_iter().find(|path| !matches!(*path, "" | "/"))
}

/// Whether a hierarchy, by its controllers, is one for memory: that of version 2 has no names.
fn has_memory(controllers: &str) -> bool {
    controllers.is_empty() || controllers.split(',').any(|one| one == "memory")
}

/// The folders of the control groups that a process is in, by its `/proc/self/cgroup`: of each hierarchy for memory the
/// group itself and those around it.
fn folders(mount: &Path, groups: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let base = match controllers {
            "" => mount.to_owned(),
            _ if has_memory(controllers) => mount.join("memory"),
            _ => continue,
        };
        // In a container the group may be the root of what is mounted.
        let inside = Path::new(path.trim_start_matches('/'));
        folders.extend(inside.ancestors().map(|ancestor| base.join(ancestor)));
    }
    folders
}

/// A file of the kernel's, from its beginning.
fn read(file: &File) -> Option<String> {
    let mut buffer = vec![0; 8192];
    let length = file.read_at(&mut buffer, 0).ok()?;
    buffer.truncate(length);
    String::from_utf8(buffer).ok()
}

/// The number behind a word at the beginning of a line.
fn number_after(text: &str, word: &str) -> Option<u64> {
    let line =
        text.lines().find_map(|line| line.strip_prefix(word).filter(|rest| rest.starts_with(char::is_whitespace)));
    line?.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn group(folder: &Path, limit: &str, used: &str, statistics: &str) -> Group {
        for (name, text) in [("memory.max", limit), ("memory.current", used), ("memory.stat", statistics)] {
            File::create(folder.join(name)).unwrap().write_all(text.as_bytes()).unwrap();
        }
        Group::open(folder).unwrap()
    }

    fn room(groups: Vec<Group>, configured: usize) -> Room {
        Room { configured, memory: Memory { machine: None, own: None, groups }, refusals: 0 }
    }

    #[test]
    fn a_control_groups_limit_and_its_cache_count() {
        let folder = tempfile::tempdir().unwrap();
        let left =
            group(folder.path(), "200000000\n", "150000000\n", "file 9\ninactive_file 30000000\nother 1\n").left();
        assert_eq!(left, Some(80_000_000));
        assert_eq!(group(folder.path(), "max\n", "1\n", "").left(), None);
        assert_eq!(group(folder.path(), "10\n", "20\n", "").left(), Some(0));
    }

    #[test]
    fn groups_of_both_versions_are_looked_for_up_to_the_root() {
        let found = folders(Path::new("/groups"), "4:cpu,memory:/a/b\n3:cpuset:/x\n0::/c\n");
        let expected = ["memory/a/b", "memory/a", "memory", "c", ""].map(|path| Path::new("/groups").join(path));
        assert_eq!(found, expected);
    }

    /// In a namespace that was entered by `ip netns exec`, a router took all memory of its control group, and the
    /// kernel ended it.
    #[test]
    fn control_groups_are_found_where_a_new_sys_hides_them() {
        let (hidden, shown) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(shown.path().join("a")).unwrap();
        let _ = group(&shown.path().join("a"), "1000", "400", "");
        let groups = "3:cpuset:/x\n0::/a\n";
        let found = found_in(&[hidden.path(), shown.path()], groups);
        assert_eq!(found.iter().filter_map(Group::left).collect::<Vec<_>>(), [600]);
        assert!(found_in(&[hidden.path()], groups).is_empty());
        // Where none is found, that is said, unless the process is in none.
        assert_eq!(of_memory(groups), Some("/a"));
        assert_eq!(of_memory("4:cpu,memory:/a/b\n0::/\n"), Some("/a/b"));
        assert_eq!(of_memory("4:cpu:/a/b\n0::/\n"), None);
    }

    #[test]
    fn routes_are_granted_in_steps_until_the_reserve() {
        let folder = tempfile::tempdir().unwrap();
        let mut of_memory = room(vec![group(folder.path(), "100000000", "0", "")], usize::MAX);
        assert_eq!(of_memory.most(0), STEP);
        // 100 MB less the reserve: what is held counts as well.
        assert!(of_memory.most(400_000) > 400_000 && of_memory.has_some(10_000));
        assert_eq!(of_memory.most(520_000), 520_000);
        assert!(!of_memory.has_some(520_000) && of_memory.holds(200_000) && !of_memory.holds(250_000));
        // Memory that is free again is not seen at once.
        let _ = group(folder.path(), "900000000", "0", "");
        assert_eq!(of_memory.most(520_000), 520_000);
        assert!((0..IN_VAIN).any(|_| of_memory.most(520_000) > 520_000));
        assert_eq!(room(Vec::new(), 5).most(3), 5);
        assert_eq!(room(Vec::new(), 5).most(7), 5);
    }

    /// Each route beyond `max_routes` cost a look at the memory.
    #[test]
    fn memory_is_not_looked_at_for_routes_beyond_max_routes() {
        let folder = tempfile::tempdir().unwrap();
        let mut full = room(vec![group(folder.path(), "10", "20", "")], 5);
        assert_eq!((full.most(5), full.most(7), full.refusals), (5, 5, 0));
        // A look finds none left, and counts.
        assert_eq!((full.most(3), full.refusals), (3, 1));
    }

    #[test]
    fn the_least_of_all_limits_is_what_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            std::fs::write(folder.path().join(name), text).unwrap();
            File::open(folder.path().join(name)).ok()
        };
        let left = |machine: Option<File>, groups| Memory { machine, own: None, groups }.left();
        let machine = || file("meminfo", "MemTotal:  900 kB\nMemAvailable:    200 kB\n");
        assert_eq!(left(machine(), Vec::new()), Some(200 << 10));
        let within = |limit: &str| vec![group(folder.path(), limit, "1000", "")];
        assert_eq!(left(machine(), within("3000")), Some(2000));
        assert_eq!(left(machine(), within("3000000")), Some(200 << 10));
        assert_eq!((left(None, within("max")), left(None, Vec::new())), (None, None), "nothing is known");
    }

    #[test]
    fn refused_routes_are_asked_for_again_when_there_is_room_for_a_good_part_more() {
        assert!(room(Vec::new(), 1024).has_some(0) && !room(Vec::new(), 1023).has_some(0));
        assert!(room(Vec::new(), 34_000).has_some(32_000) && !room(Vec::new(), 33_999).has_some(32_000));
        // Few routes are not worth a look at the memory.
        let folder = tempfile::tempdir().unwrap();
        let full = || room(vec![group(folder.path(), "10", "20", "")], 2000);
        assert!(full().holds(STEP - 1) && !full().holds(STEP) && !full().has_some(0));
        assert!(room(Vec::new(), 2000).holds(2000) && !room(Vec::new(), 2000).holds(2001));
    }

    #[test]
    fn a_number_stands_behind_its_word_at_the_beginning_of_a_line() {
        let text = "a_file 1\nfile_b 2\nfile\t3 kB\nfile 4\n";
        assert_eq!(
            (number_after(text, "file"), number_after(text, "b"), number_after("file x", "file")),
            (Some(3), None, None)
        );
    }

    #[test]
    fn this_process_has_memory_left() {
        assert!(Memory::open().left().is_some_and(|left| left > 0));
    }
}
