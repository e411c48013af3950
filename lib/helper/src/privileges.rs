// SPDX-License-Identifier: MIT
//! Giving up the capabilities that only start-up needs.
//!
//! Linux keeps capabilities per thread, and a new thread inherits its creator's. So the router calls [`drop_all`] at
//! the beginning of each of its threads, and then asks [`still_privileged`] whether one (of a library, say) was
//! forgotten.

use std::sync::OnceLock;
use std::{fs, io};

use caps::{CapSet, Capability, CapsHashSet};

/// Drops every capability of the calling thread for good: not even a setuid program brings one back. Where the process
/// is [to become another user](plan), the thread keeps what that takes until it has happened.
///
/// # Errors
/// The kernel's refusal; then some may be left.
pub fn drop_all() -> io::Result<()> {
    let switching = matches!(PLAN.get(), Some(Some(_))) && rustix::process::geteuid().is_root();
    keep_only(if switching { &[Capability::CAP_SETUID, Capability::CAP_SETGID] } else { &[] })
}

/// Drops every capability of the calling thread except those of `kept` that it has.
///
/// # Errors
/// The kernel's refusal; then some may be left.
pub fn keep_only(kept: &[Capability]) -> io::Result<()> {
    // Without this a root process would gain everything again by running any program.
    rustix::thread::set_no_new_privs(true)?;
    let has = caps::read(None, CapSet::Permitted).map_err(io::Error::other)?;
    let kept: CapsHashSet = kept.iter().copied().filter(|cap| has.contains(cap)).collect();
    // From the outermost set inwards: each may only hold what the next one has.
    caps::clear(None, CapSet::Ambient).map_err(io::Error::other)?;
    caps::clear(None, CapSet::Inheritable).map_err(io::Error::other)?;
    caps::set(None, CapSet::Effective, &kept).map_err(io::Error::other)?;
    caps::set(None, CapSet::Permitted, &kept).map_err(io::Error::other)
}

/// The number of a user of this machine, and of its group, by name or number.
///
/// # Errors
/// There is none of that name, or the users cannot be read.
pub fn user(name: &str) -> io::Result<(u32, u32)> {
    ids(Some(name))
}

/// Drops every capability of the calling thread except the one that signals to other users' processes take.
///
/// # Errors
/// The kernel's refusal; then some may be left.
pub fn keep_for_signals() -> io::Result<()> {
    keep_only(&[Capability::CAP_KILL])
}

/// Lets programs that this thread starts have its capabilities.
///
/// # Errors
/// The kernel's refusal.
pub(crate) fn pass_on() -> io::Result<()> {
    let has = caps::read(None, CapSet::Permitted).map_err(io::Error::other)?;
    caps::set(None, CapSet::Inheritable, &has).map_err(io::Error::other)?;
    caps::set(None, CapSet::Ambient, &has).map_err(io::Error::other)
}

/// The threads of this process that could still use a capability: name and number of each.
///
/// # Errors
/// `/proc` cannot be read.
pub fn still_privileged() -> io::Result<Vec<String>> {
    let mut threads = Vec::new();
    for entry in fs::read_dir("/proc/self/task")? {
        let path = entry?.path();
        // A thread that ended meanwhile has no privileges either.
        let Ok(status) = fs::read_to_string(path.join("status")) else {
            continue;
        };
        let field = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let permitted = field("CapPrm:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        if permitted != Some(0) {
            let (name, number) = (field("Name:").unwrap_or("?"), field("Pid:").unwrap_or("?"));
            threads.push(format!("{name} ({number})"));
        }
    }
    Ok(threads)
}

/// Who the process is after [`become_user`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Became {
    /// This user, with no group but its own.
    User(u32),
    /// Who it was: it is not root, or is root of a namespace that knows no other user.
    Same,
}

/// Ids among which one is found for a router that has no user of its own: systemd takes them for services likewise
/// (<https://systemd.io/UIDS-GIDS>), and gives them to no person.
const UNUSED: std::ops::RangeInclusive<u32> = 61_184..=65_519;

/// Who the process is to become: user and group.
static PLAN: OnceLock<Option<(u32, u32)>> = OnceLock::new();

/// Decides who the process becomes by [`become_user`]: `user`, by name or number, or the user `perigee` if there is
/// one, or else one that nobody has. To be called before the first thread is started: all threads change at once, so
/// all must be able to.
///
/// # Errors
/// There is no such user, or root of this namespace cannot become it.
pub fn plan(user: Option<&str>) -> io::Result<()> {
    let ids = match rustix::process::geteuid().is_root() {
        false => None,
        true => Some(ids(user)?).filter(|ids| is_known(*ids)),
    };
    if let Some(user) = user.filter(|_| ids.is_none()) {
        return Err(io::Error::other(format!("only root can become {user}, and only where its number exists")));
    }
    let _ = PLAN.set(ids);
    Ok(())
}

/// The number of a group, by its name.
pub fn group(name: &str) -> Option<u32> {
    nix::unistd::Group::from_name(name).ok().flatten().map(|group| group.gid.as_raw())
}

/// Whether this user namespace knows the ids, and lets groups be given up.
fn is_known((uid, gid): (u32, u32)) -> bool {
    let covers = |map: &str, id: u32| {
        let text = fs::read_to_string(map).unwrap_or_default();
        text.lines().any(|line| match line.split_whitespace().map(str::parse::<u64>).collect::<Vec<_>>()[..] {
            [Ok(first), _, Ok(count)] => (first..first + count).contains(&id.into()),
            _ => false,
        })
    };
    let groups = fs::read_to_string("/proc/self/setgroups").is_ok_and(|text| text.trim() == "allow");
    groups && covers("/proc/self/uid_map", uid) && covers("/proc/self/gid_map", gid)
}

/// Makes all threads of the process the [planned](plan) user's, with no group but its own; capabilities go with that.
/// Others than root stay who they are, and so does root of a namespace that knows no other user.
///
/// # Errors
/// The kernel refuses.
pub fn become_user() -> io::Result<Became> {
    let Some(Some((uid, gid))) = PLAN.get() else { return Ok(Became::Same) };
    let (user, group) = (nix::unistd::Uid::from_raw(*uid), nix::unistd::Gid::from_raw(*gid));
    nix::unistd::setgroups(&[])?;
    nix::unistd::setresgid(group, group, group)?;
    nix::unistd::setresuid(user, user, user)?;
    // The kernel would hide /proc/self from a process that was somebody else. Nobody else is this user.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)?;
    Ok(Became::User(*uid))
}

fn ids(user: Option<&str>) -> io::Result<(u32, u32)> {
    use nix::unistd::User;
    let known = |name: &str| User::from_name(name).map(|user| user.map(|user| (user.uid.as_raw(), user.gid.as_raw())));
    match user {
        Some(user) => match user.parse() {
            Ok(id) => Ok((id, id)),
            Err(_) => known(user)?.ok_or_else(|| io::Error::other(format!("there is no user {user}"))),
        },
        None => match known("perigee")? {
            Some(ids) => Ok(ids),
            // Not the same for all routers, so that they cannot touch each other.
            None => {
                let first = UNUSED.start() + std::process::id() % (UNUSED.end() - UNUSED.start());
                let free = |id: &u32| matches!(User::from_uid((*id).into()), Ok(None));
                let id = (first..=*UNUSED.end()).chain(UNUSED).find(free);
                id.map(|id| (id, id)).ok_or_else(|| io::Error::other("no user id is free"))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_dropped_everything_is_not_listed() {
        let listed = || -> usize {
            let own = format!("({})", rustix::thread::gettid().as_raw_nonzero());
            still_privileged().unwrap().iter().filter(|t| t.ends_with(&own)).count()
        };
        let (before, after) = std::thread::spawn(move || {
            let before = listed();
            drop_all().unwrap();
            drop_all().unwrap(); // a second time is no error
            (before, listed())
        })
        .join()
        .unwrap();
        let privileged = !caps::read(None, CapSet::Permitted).unwrap().is_empty();
        assert_eq!(before, usize::from(privileged));
        assert_eq!(after, 0);
    }
}
