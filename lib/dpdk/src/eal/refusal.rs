// SPDX-License-Identifier: MIT
//! Why EAL does not start, in a sentence. EAL itself prints its whole usage for one wrong argument, a hundred lines,
//! and says what is wrong with it in C's own words or in none.

use super::EalConfig;
use crate::error::{Error, Result};
use crate::ffi;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::stdio::dup2_stdout;

/// What belongs to an argument's mistake: where arguments come from.
const MEND: &str = "change `args` in [eal]";

/// # Errors
/// EAL would end this process, wait for ever, or take half a minute to find that there is not as much memory.
pub(super) fn check(config: &EalConfig, hugepages: bool) -> Result<()> {
    let refuse = |message: String| Err(Error::new(message));
    for (at, argument) in config.extra.iter().enumerate() {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let value = if value.is_empty() { config.extra.get(at + 1).map_or("", String::as_str) } else { value };
        // The C library takes the beginning of an option's name for it.
        let is = |option: &str| name.len() > 2 && option.starts_with(name);
        match name {
            _ if name == "-h" || is("--help") => {
                return refuse(format!("found {argument:?} among DPDK's arguments, which ends the process; {MEND}"));
            }
            _ if is("--proc-type") && value != "primary" => {
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

/// Why EAL did not start. `cause`: what it has logged.
pub(super) fn sentence(config: &EalConfig, arguments: &[String], cause: &str) -> String {
    let quoted = |after: &str, end: char| {
        let text = cause.split("; ").find_map(|line| line.split_once(after))?.1;
        Some(text.split(end).next().unwrap_or(text).trim().to_owned())
    };
    let given = |name: &str| {
        let found = config.extra.iter().find(|argument| argument.starts_with(name));
        found.map_or_else(|| name.to_owned(), Clone::clone)
    };
    let version = super::version();
    if let Some(argument) = quoted("invalid parameter for ", ' ').or_else(|| quoted("invalid parameters for ", ' ')) {
        let found = given(&argument);
        return format!("found {found:?} among DPDK's arguments, expected a value that {version} takes there; {MEND}");
    }
    if let Some(device) = quoted("failed to parse device \"", '"') {
        let expected = "expected one of a driver that is installed, or the address of a PCI device";
        return format!("found the device {device:?} among DPDK's arguments, {expected}; {MEND}");
    }
    if cause.contains("'command line' arguments") && !config.extra.is_empty() {
        let found = config.extra.join(" ");
        return format!(
            "found \"{found}\" as DPDK's arguments, expected such as {version} knows, each with its value (the lines before this \
             one name the wrong one); {MEND}"
        );
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

/// Standard output while something else takes its place: nothing but EAL prints there before a router runs. Standard
/// error stays, as other threads log meanwhile what cannot wait, such as a signal.
pub(super) struct Quiet(OwnedFd);

impl Quiet {
    /// Hides what is printed, if this system can.
    pub fn begin() -> Option<Self> {
        let nowhere = memfd_create("perigee-eal", MemfdFlags::CLOEXEC).ok()?;
        let kept = Self(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3).ok()?);
        // SAFETY: it writes what C has not written yet.
        unsafe { ffi::perigee_flush() };
        dup2_stdout(&nowhere).ok().map(|()| kept)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // SAFETY: as above; EAL's usage goes where nobody reads it.
        unsafe { ffi::perigee_flush() };
        // It was open, so nothing can be wrong with it.
        let _ = dup2_stdout(&self.0);
    }
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

    /// As DPDK 22.11 logs it.
    #[test]
    fn what_eal_prints_becomes_a_sentence() {
        for (argument, cause, said) in [
            ("--bogus", "EAL: Invalid 'command line' arguments.", "found \"--bogus\""),
            ("--lcores=zzz", "EAL: invalid parameter for --lcores; EAL: Invalid", "found \"--lcores=zzz\""),
            ("--socket-mem=x", "EAL: invalid parameters for --socket-mem", "found \"--socket-mem=x\""),
            (
                "--vdev=net_nosuch0",
                "EAL: failed to parse device \"net_nosuch0\"; EAL: Unable",
                "device \"net_nosuch0\"",
            ),
        ] {
            let text = sentence(&with(&[argument]), &[], cause);
            assert!(text.contains(said) && text.ends_with("; change `args` in [eal]"), "{text}");
            assert!(text.contains("expected") && !text.contains("EAL: "), "{text}");
        }
        let text = sentence(&with(&[]), &[], "EAL: Cannot allocate memseg list: Invalid argument");
        assert!(text.starts_with("DPDK could not reserve 64 MB") && text.contains("`memory` in [eal]"), "{text}");
        let text = sentence(&with(&[]), &["-m64".to_owned()], "EAL: something else");
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
