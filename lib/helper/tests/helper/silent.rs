// SPDX-License-Identifier: MIT
//! Helpers that do not answer, as a stopped process does not, and what they may still undo when others have come.

use super::{LinkChange, LinkPreparation, children, eventually, ip, start, twin};
use perigee_helper::Helper;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(super) fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn mtu(name: &str) -> String {
    ip(&format!("link show dev {name}")).split("mtu ").nth(1).unwrap().split(' ').next().unwrap().to_owned()
}

fn change(helper: &Helper, mtu: u16) -> Result<(), String> {
    let change = LinkChange { name: "wan".into(), mtu: Some(mtu), ..LinkChange::default() };
    helper.change_link(&change).map_err(|error| error.to_string())
}

/// The helper with an interface and a twin, its process, and that of its standby.
fn with_standby() -> (Helper, impl Sized, u32, u32) {
    with_standby_for(Path::new("/nowhere"))
}

fn with_standby_for(configuration: &Path) -> (Helper, impl Sized, u32, u32) {
    ip("link add left mtu 1400 type veth peer name right");
    let helper = start();
    helper.stand_by().unwrap();
    helper
        .prepare_link(&LinkPreparation { name: "left".into(), other_mac: None, mtu: Some(1450), leaves_program: false })
        .unwrap();
    let (fd, _) = helper.make_twin(&twin("wan")).unwrap();
    helper.configuration(configuration).unwrap();
    helper.started().unwrap();
    let first = children(std::process::id()).pop().expect("a process");
    let second = children(first)[0];
    (helper, fd, first, second)
}

/// A request to it never came back. It must not wake up later, and restore interfaces under the router.
pub(super) fn a_stopped_helper_is_ended_by_its_standby() {
    let (helper, _fd, first, _) = with_standby();
    kill("-STOP", first);
    change(&helper, 1300).unwrap();
    assert_eq!((mtu("wan"), mtu("left")), ("1300".into(), "1450".into()));
    // A killed helper stayed in the list of processes until the router ended.
    eventually("it to be gone", || {
        let health = helper.look().unwrap();
        assert!(health.alive && health.answers && !health.standby && health.deaths == 1, "{health:?}");
        !fs::exists(format!("/proc/{first}")).unwrap()
    });
    helper.stand_by().unwrap();
    drop(helper);
    assert_eq!(mtu("left"), "1400");
    ip("link del left");
}

pub(super) fn two_stopped_helpers_refuse_in_a_sentence_and_may_go_on() {
    let (helper, _fd, first, second) = with_standby();
    kill("-STOP", first);
    kill("-STOP", second);
    for mtu in [1300, 1310] {
        let refused = change(&helper, mtu).unwrap_err();
        assert!(refused.contains("has not answered for 10s, and there is no standby: is it stopped?"), "{refused}");
    }
    let health = helper.look().unwrap();
    assert!(health.alive && !health.answers && health.deaths == 1, "{health:?}");
    assert_eq!(mtu("left"), "1450", "nobody took the router for dead");
    kill("-CONT", second);
    eventually("an answer", || helper.look().unwrap().answers);
    change(&helper, 1320).unwrap();
    assert_eq!((mtu("wan"), mtu("left")), ("1320".into(), "1450".into()));
    drop(helper);
    assert_eq!(mtu("left"), "1400");
    ip("link del left");
}

/// The file that a line of a configuration names. One that begins with `slow ` is not known before somebody writes to
/// the FIFO that it names.
pub(super) fn named(line: &str) -> PathBuf {
    if let Some(fifo) = line.strip_prefix("slow ") {
        let _ = fs::read(fifo);
    }
    line.into()
}

/// The helper opened files in its only thread, and the router asked the standby for the same ones.
pub(super) fn a_file_system_that_does_not_answer_takes_no_helper() {
    let folder = tempfile::tempdir().unwrap();
    let [fifo, configuration, script] = ["fifo", "configuration", "script"].map(|name| folder.path().join(name));
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let names = |line: &str| fs::write(&configuration, format!("{line}\n{}\n", script.display())).unwrap();
    fs::write(&script, "hello").unwrap();
    let (helper, fd, ..) = with_standby_for(&configuration);
    names(&format!("slow {}", fifo.display()));
    for mtu in [1300, 1310] {
        let refused = helper.open_file(&script).unwrap_err().to_string();
        assert!(refused.contains("script: it could not be read within"), "{refused}");
        change(&helper, mtu).unwrap();
        let health = helper.look().unwrap();
        assert!(health.alive && health.answers && health.standby && health.deaths == 0, "{health:?}");
    }
    names("");
    let read = || helper.open_file(&script).ok().and_then(|file| std::io::read_to_string(file).ok());
    // A busy machine may take its two seconds once more.
    eventually("the script", || read().as_deref() == Some("hello"));
    drop(helper);
    assert_eq!(mtu("left"), "1400", "it ends though it still waits");
    drop(fd);
    ip("link del left");
}

pub(super) fn a_standby_restores_what_a_stopped_helper_does_not() {
    let (helper, _fd, first, _) = with_standby();
    kill("-STOP", first);
    drop(helper);
    assert_eq!(mtu("left"), "1400");
    ip("link del left");
}

/// The helper of a router that was killed removed the API's socket of the next one.
pub(super) fn a_file_that_was_replaced_stays() {
    let folder = std::env::temp_dir().join(format!("perigee-files-{}", std::process::id()));
    let (own, replaced) = (folder.join("own"), folder.join("replaced"));
    fs::create_dir(&folder).unwrap();
    [&own, &replaced].into_iter().for_each(|file| fs::write(file, "").unwrap());
    let helper = start();
    helper.remove_at_end(vec![own.clone(), replaced.clone(), folder.clone()]).unwrap();
    let other = folder.join("other");
    fs::write(&other, "").unwrap();
    fs::rename(&other, &replaced).unwrap();
    drop(helper);
    assert!(!own.exists() && replaced.exists());
    // A folder that somebody has locked is somebody's.
    fs::remove_file(&replaced).unwrap();
    for locked in [true, false] {
        let lock = fs::File::open(&folder).unwrap();
        if locked {
            rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockShared).unwrap();
        }
        let helper = start();
        helper.remove_at_end(vec![folder.clone()]).unwrap();
        drop(helper);
        assert_eq!(folder.exists(), locked);
    }
}
