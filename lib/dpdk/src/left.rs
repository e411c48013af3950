// SPDX-License-Identifier: MIT
//! How much memory this process may still take: the machine's, and what its control groups (cgroups) leave it. A
//! process that takes more is killed without a word.

use std::path::{Path, PathBuf};

/// What the rest of a program may take until then.
const MARGIN: u64 = 32 << 20;

/// A sentence if `bytes` are more than there are.
pub(crate) fn too_much(bytes: u64) -> Option<String> {
    too_much_of(Path::new("/"), bytes)
}

fn too_much_of(root: &Path, bytes: u64) -> Option<String> {
    let (left, whose) = control_groups(root).into_iter().chain(machine(root)).min_by_key(|(left, _)| *left)?;
    let mb = |bytes: u64| bytes >> 20;
    (left < bytes.saturating_add(MARGIN))
        .then(|| format!("{} MB are needed, and {whose} has {} MB left", mb(bytes), mb(left)))
}

fn machine(root: &Path) -> Option<(u64, String)> {
    let text = std::fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let kb = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(((kb("MemAvailable:")? + kb("SwapFree:").unwrap_or(0)) << 10, "the machine".to_owned()))
}

/// Where control groups are mounted. `ip netns exec` hides them behind a new /sys, and init still has them, for root.
const MOUNTS: [&str; 2] = ["sys/fs/cgroup", "proc/1/root/sys/fs/cgroup"];

/// What each control group with a limit leaves this process: those of version 2, or of version 1.
fn control_groups(root: &Path) -> Vec<(u64, String)> {
    MOUNTS.iter().map(|mount| mounted_at(root, mount)).find(|found| !found.is_empty()).unwrap_or_default()
}

fn mounted_at(root: &Path, mount: &str) -> Vec<(u64, String)> {
    let text = std::fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let of_line = |line: &str| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/').to_owned());
        match controllers {
            "" => Some(("", path, ["memory.max", "memory.current", "inactive_file "])),
            _ if controllers.split(',').any(|name| name == "memory") => {
                let files = ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file "];
                Some(("memory", path, files))
            }
            _ => None,
        }
    };
    let mut all = Vec::new();
    for (hierarchy, path, files) in text.lines().filter_map(of_line) {
        let top = Path::new(mount).join(hierarchy);
        // A limit may be that of any group around.
        all.extend(Path::new(&path).ancestors().filter_map(|group| left(root, &top.join(group), files)));
    }
    all
}

/// What the files of a group say; nothing where it has no limit.
fn left(root: &Path, group: &Path, [limit, usage, cache]: [&str; 3]) -> Option<(u64, String)> {
    let folder = root.join(group);
    let number = |file: &str| std::fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
    let limit = number(limit)?;
    // No limit, as version 1 writes it.
    if limit > i64::MAX as u64 / 2 {
        return None;
    }
    let statistics = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    // Pages of files that were read make room.
    let pages = statistics.lines().find_map(|line| line.strip_prefix(cache)?.parse::<u64>().ok()).unwrap_or(0);
    let used = number(usage)?.saturating_sub(pages);
    let name = PathBuf::from("/").join(group);
    Some((limit.saturating_sub(used), format!("the control group {}", name.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pretended machine with 1000 MB available.
    fn machine_with(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let memory = "MemTotal: 2048000 kB\nMemAvailable:    1024000 kB\nSwapFree: 0 kB\n";
        for (name, text) in files.iter().chain(&[("proc/meminfo", memory)]) {
            let file = root.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        root
    }

    const MB: u64 = 1 << 20;

    #[test]
    fn the_machine_is_the_limit_where_no_control_group_is() {
        let root = machine_with(&[("proc/self/cgroup", "0::/\n")]);
        assert_eq!(too_much_of(root.path(), 900 * MB), None);
        let sentence = too_much_of(root.path(), 990 * MB).unwrap();
        assert_eq!(sentence, "990 MB are needed, and the machine has 1000 MB left");
        assert_eq!(too_much_of(Path::new("/does/not/exist"), u64::MAX), None, "nothing is known");
    }

    /// A pool of 131,072 buffers in a control group of 300 MB: the router was killed without a word.
    #[test]
    fn the_tightest_control_group_is_the_limit() {
        let unified = [
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "1048576\n"),
            ("sys/fs/cgroup/a/memory.max", "314572800\n"),
            ("sys/fs/cgroup/a/memory.current", "209715200\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 1\nfile 2\ninactive_file 104857600\n"),
        ];
        let root = machine_with(&unified);
        assert_eq!(too_much_of(root.path(), 160 * MB), None);
        let sentence = too_much_of(root.path(), 315 * MB).unwrap();
        assert_eq!(sentence, "315 MB are needed, and the control group /sys/fs/cgroup/a has 200 MB left");

        let first = [
            ("proc/self/cgroup", "5:cpu,memory:/x\n1:name=systemd:/\n0::/\n"),
            ("sys/fs/cgroup/memory/x/memory.limit_in_bytes", "104857600\n"),
            ("sys/fs/cgroup/memory/x/memory.usage_in_bytes", "52428800\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "52428800\n"),
        ];
        let sentence = too_much_of(machine_with(&first).path(), 40 * MB).unwrap();
        assert_eq!(sentence, "40 MB are needed, and the control group /sys/fs/cgroup/memory/x has 50 MB left");
    }

    /// In a namespace that was entered by `ip netns exec`, the limit was not known.
    #[test]
    fn control_groups_are_found_where_a_new_sys_hides_them() {
        let hidden = [
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/1/root/sys/fs/cgroup/a/memory.max", "104857600\n"),
            ("proc/1/root/sys/fs/cgroup/a/memory.current", "52428800\n"),
        ];
        let sentence = too_much_of(machine_with(&hidden).path(), 40 * MB).unwrap();
        assert!(sentence.ends_with("has 50 MB left"), "{sentence}");
    }
}
