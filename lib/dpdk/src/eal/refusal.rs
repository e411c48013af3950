// SPDX-License-Identifier: MIT
//! Why EAL does not start, in a sentence. EAL itself prints its whole usage for one wrong argument, a hundred lines, and says what is
//! wrong with it in C's own words or in none.

use super::EalConfig;
use crate::error::{Error, Result};
use crate::ffi;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::stdio::{dup2_stderr, dup2_stdout};
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::sync::{Mutex, PoisonError};

/// What belongs to an argument's mistake: where arguments come from.
const MEND: &str = "change `args` in [eal]";

/// # Errors
/// EAL would end this process, wait for ever, or take half a minute to find that there is not as much memory.
pub(super) fn check(config: &EalConfig, hugepages: bool) -> Result<()> {
    let refuse = |message: String| Err(Error::new(message));
    for (at, argument) in config.extra.iter().enumerate() {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let value = if value.is_empty() { config.extra.get(at + 1).map_or("", String::as_str) } else { value };
        match name {
            "-h" | "--help" => {
                return refuse(format!("found {argument:?} among DPDK's arguments, which ends the process; {MEND}"));
            }
            "--proc-type" if value != "primary" => {
                let found = format!("found {argument:?} among DPDK's arguments");
                return refuse(format!("{found}, expected none or primary, as perigee shares no memory; {MEND}"));
            }
            _ => {}
        }
    }
    let own = config.extra.iter().any(|argument| argument.starts_with("-m"));
    match machine_mb(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default()) {
        Some(there) if !hugepages && !own && u64::from(config.memory_mb) > there => refuse(format!(
            "found {} MB of memory for DPDK, expected no more than the {there} MB that this machine has; change `memory` in [eal], or \
             --memory",
            config.memory_mb
        )),
        _ => Ok(()),
    }
}

/// All memory of a machine, from the text of /proc/meminfo.
fn machine_mb(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kb| kb / 1024)
}

/// Why EAL did not start. `cause`: what it has logged; `printed`: what was printed meanwhile, by C's reader of arguments.
pub(super) fn sentence(config: &EalConfig, arguments: &[String], cause: &str, printed: &str) -> String {
    let quoted = |after: &str, end: char| {
        let text = printed.lines().chain(cause.split("; ")).find_map(|line| line.split_once(after))?.1;
        Some(text.split(end).next().unwrap_or(text).trim().to_owned())
    };
    let given = |name: &str| {
        let found = config.extra.iter().find(|argument| argument.starts_with(name));
        found.map_or_else(|| name.to_owned(), Clone::clone)
    };
    let version = super::version();
    if let Some(argument) = quoted("unrecognized option '", '\'') {
        return format!("found {argument:?} among DPDK's arguments, expected one that {version} knows; {MEND}");
    }
    if let Some(letter) = quoted("invalid option -- '", '\'') {
        return format!("found \"-{letter}\" among DPDK's arguments, expected one that {version} knows; {MEND}");
    }
    if let Some(letter) = quoted("option requires an argument -- '", '\'') {
        return format!("found \"-{letter}\" among DPDK's arguments without a value, expected one behind it; {MEND}");
    }
    if let Some((name, _)) = printed.lines().find_map(|line| line.split_once("' requires an argument")) {
        let name = name.rsplit('\'').next().unwrap_or(name);
        return format!("found {name:?} among DPDK's arguments without a value, expected one behind it; {MEND}");
    }
    if let Some(argument) = quoted("invalid parameter for ", ' ').or_else(|| quoted("invalid parameters for ", ' ')) {
        let found = given(&argument);
        return format!("found {found:?} among DPDK's arguments, expected a value that {version} takes there; {MEND}");
    }
    if let Some(device) = quoted("failed to parse device \"", '"') {
        let expected = "expected one of a driver that is installed, or the address of a PCI device";
        return format!("found the device {device:?} among DPDK's arguments, {expected}; {MEND}");
    }
    if ["virtual area", "memseg list", "Cannot init memory"].iter().any(|words| cause.contains(words)) {
        return format!(
            "DPDK could not reserve {} MB of memory: the limit of address space (`ulimit -v`) is too low, or there is not as much; raise \
             the limit, or ask for less by `memory` in [eal]: {cause}",
            config.memory_mb
        );
    }
    format!("DPDK did not start with \"{}\": {cause}", arguments.join(" "))
}

/// Standard output and standard error while [`Caught`] has them.
static KEPT: Mutex<Option<[OwnedFd; 2]>> = Mutex::new(None);

/// Gives both back.
pub(crate) fn release() {
    let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some([out, err]) = kept {
        // SAFETY: it writes what C has not written yet.
        unsafe { ffi::perigee_flush() };
        // They were open, so nothing can be wrong with them.
        let _ = dup2_stdout(&out);
        let _ = dup2_stderr(&err);
    }
}

/// What is printed while this is there.
pub(super) struct Caught([File; 2]);

impl Caught {
    /// Catches what is printed, if this system can.
    pub fn begin() -> Option<Self> {
        let file = || memfd_create("perigee-eal", MemfdFlags::CLOEXEC).ok();
        let (out, err) = (file()?, file()?);
        let kept = [rustix::io::dup(rustix::stdio::stdout()).ok()?, rustix::io::dup(rustix::stdio::stderr()).ok()?];
        // SAFETY: it writes what C has not written yet.
        unsafe { ffi::perigee_flush() };
        *KEPT.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        if dup2_stdout(&out).and_then(|()| dup2_stderr(&err)).is_err() {
            release();
            return None;
        }
        Some(Self([File::from(out), File::from(err)]))
    }

    /// What was printed to standard output and standard error.
    pub fn end(self) -> [String; 2] {
        release();
        self.0.map(|mut file| {
            let mut bytes = Vec::new();
            // A file in memory.
            let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
}

/// Prints what somebody else than EAL has printed meanwhile.
pub(super) fn pass_on([out, err]: &[String; 2], started: bool) {
    let eal = |line: &&str| !started && (line.starts_with("EAL: ") || line.starts_with("perigee: "));
    let err: String = err.split_inclusive('\n').filter(|line| !eal(line)).collect();
    let out = if started { out } else { "" };
    // Nobody may read it.
    let _ = std::io::stdout().write_all(out.as_bytes());
    let _ = std::io::stderr().write_all(err.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(extra: &[&str]) -> EalConfig {
        EalConfig {
            memory_mb: 64,
            extra: extra.iter().map(|text| (*text).to_owned()).collect(),
            ..EalConfig::default()
        }
    }

    /// As DPDK 22.11 and the C library print them.
    #[test]
    fn what_eal_prints_becomes_a_sentence() {
        let usage = "EAL: Invalid 'command line' arguments.";
        for (argument, cause, printed, said) in [
            ("--bogus", usage, "perigee: unrecognized option '--bogus'\n", "found \"--bogus\""),
            ("-Q", usage, "perigee: invalid option -- 'Q'\n", "found \"-Q\""),
            ("-b", usage, "perigee: option requires an argument -- 'b'\n", "found \"-b\""),
            ("--vfio-intr", usage, "perigee: option '--vfio-intr' requires an argument\n", "found \"--vfio-intr\""),
            ("--lcores=zzz", "EAL: invalid parameter for --lcores; EAL: Invalid", "", "found \"--lcores=zzz\""),
            ("--socket-mem=x", "EAL: invalid parameters for --socket-mem", "", "found \"--socket-mem=x\""),
            (
                "--vdev=net_nosuch0",
                "EAL: failed to parse device \"net_nosuch0\"; EAL: Unable",
                "",
                "the device \"net_nosuch0\"",
            ),
        ] {
            let text = sentence(&with(&[argument]), &[], cause, printed);
            assert!(text.contains(said) && text.ends_with("; change `args` in [eal]"), "{text}");
            assert!(text.contains("expected") && !text.contains("EAL: "), "{text}");
        }
        let text = sentence(&with(&[]), &[], "EAL: Cannot allocate memseg list: Invalid argument", "");
        assert!(text.starts_with("DPDK could not reserve 64 MB") && text.contains("`memory` in [eal]"), "{text}");
        let text = sentence(&with(&[]), &["-m64".to_owned()], "EAL: something else", "");
        assert_eq!(text, "DPDK did not start with \"-m64\": EAL: something else");
    }

    #[test]
    fn what_would_end_or_hang_the_process_is_refused_before() {
        let refused = |extra: &[&str]| check(&with(extra), true).err().map(|error| error.to_string());
        assert!(refused(&["--help"]).unwrap().contains("ends the process"));
        assert!(refused(&["--proc-type=secondary"]).unwrap().contains("expected none or primary"));
        assert!(refused(&["--proc-type", "auto"]).is_some());
        assert_eq!(refused(&["--proc-type=primary", "--vdev=net_null7"]), None);
        assert_eq!(machine_mb("MemFree: 7 kB\nMemTotal:       16370112 kB\n"), Some(15_986));
        let most = EalConfig { memory_mb: u32::MAX, ..EalConfig::default() };
        assert!(check(&most, false).unwrap_err().to_string().starts_with("found 4294967295 MB of memory for DPDK"));
        assert!(check(&most, true).is_ok() && check(&with(&[]), false).is_ok());
    }
}
