// SPDX-License-Identifier: MIT
//! What a running router may do: its user, its capabilities, its system calls and files.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, Router, World, wait_until};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

perigee_tests::scenarios![
    a_router_of_root_is_somebody_else_once_it_runs as root,
    a_router_of_roots_own_files_says_what_reloads_need as root,
    every_thread_is_confined,
    a_script_opens_no_file_and_starts_no_program,
];

/// The default fast path.
const SCRIPT: &str = include_str!("../../lua/fastpath.lua");

/// The fields of a thread's `/proc/PID/task/TID/status`.
fn status(path: &Path) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path.join("status")).unwrap_or_default();
    let field = |line: &str| line.split_once(':').map(|(key, value)| (key.to_owned(), value.trim().to_owned()));
    text.lines().filter_map(field).collect()
}

/// The router's threads.
fn threads(router: &Router) -> Vec<BTreeMap<String, String>> {
    let list = std::fs::read_dir(format!("/proc/{}/task", router.pid())).expect("the router runs");
    list.map(|entry| status(&entry.expect("a thread").path())).collect()
}

/// The helper's status.
fn helper(router: &Router) -> BTreeMap<String, String> {
    let children = format!("/proc/{0}/task/{0}/children", router.pid());
    let children = std::fs::read_to_string(children).expect("the router runs");
    let child = children.split_whitespace().next().expect("a helper");
    status(&PathBuf::from(format!("/proc/{child}")))
}

fn a_router_of_root_is_somebody_else_once_it_runs(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let script = world.file("good.lua", SCRIPT);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    for thread in threads(&router) {
        for ids in ["Uid", "Gid"] {
            assert!(
                thread[ids].split_whitespace().all(|id| id.parse::<u32>().is_ok_and(|id| id >= 61_184)),
                "{thread:?}"
            );
        }
        assert_eq!((thread["Groups"].as_str(), thread["CapPrm"].as_str()), ("", "0000000000000000"), "{thread:?}");
    }
    assert_eq!(helper(&router)["CapPrm"], "0000000000001000", "CAP_NET_ADMIN alone");
    // What an operator does goes on: scripts, configuration, captures, twins that come back.
    router.ask(&format!("reload {}", script.display())).good();
    world.configuration("", &PORTS.replace("\"10.0.1.1/24\"", "\"10.0.1.1/24\", \"10.0.1.200/24\""));
    router.ask("reload").good();
    client.ping(5, "10.0.1.200");
    world.ip("link del wan");
    wait_until("the twin to be made again", || world.ip("-br link").contains("wan"));
    client.reaches("10.0.2.2");
    world.file("loop.lua", "return function(worker) while true do end end");
    router.ask("reload /run/loop.lua").refused("did not return");
    client.reaches("10.0.2.2");
    router.stop();
}

/// `./x run my.toml` by root, in a home that no other user may enter: a reload was refused for a reason that did not say
/// whose.
fn a_router_of_roots_own_files_says_what_reloads_need(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let home = Path::new("/run/home");
    let mode = |mode| std::fs::set_permissions(home, Permissions::from_mode(mode)).expect("root's folder");
    std::fs::create_dir(home).expect("a folder");
    mode(0o700);
    std::fs::write(home.join("fast.lua"), SCRIPT).expect("a script");
    let file = world.configuration("script = \"fast.lua\"", PORTS);
    std::fs::rename(file, home.join("router.toml")).expect("the configuration");
    let router = Router::start(&home.join("router.toml"));
    client.reaches("10.0.2.2");
    router.says("who cannot read /run/home/router.toml and /run/home/fast.lua;");
    router.ask("reload").refused("as whom this runs, must be able to read it");
    mode(0o711);
    router.ask("reload").good();
    router.stop();
}

fn every_thread_is_confined(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("slow_paths = 2", PORTS);
    client.reaches("10.0.2.2");
    let threads = threads(&router);
    assert!(threads.len() >= 8, "{threads:?}");
    for thread in threads {
        assert_eq!((thread["NoNewPrivs"].as_str(), thread["Seccomp"].as_str()), ("1", "2"), "{thread:?}");
        let filters: u32 = thread["Seccomp_filters"].parse().expect("a number");
        assert_eq!(filters, if thread["Name"].starts_with("worker") { 3 } else { 2 }, "{thread:?}");
    }
    router.stop();
}

fn a_script_opens_no_file_and_starts_no_program(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    // It forwards if all of this is refused, and throws if not.
    let tries = "local function refused(result, why) if result then error('not refused: ' .. tostring(why)) end end
        return function(worker)
          refused(io.open('/etc/passwd'))
          refused(io.open('/tmp/perigee', 'w'))
          refused(io.popen and pcall(io.popen, 'true') and nil)
          refused(os.execute('true') == 0)
          refused(os.remove('/run/router.toml'))";
    let script = world.file("tries.lua", &SCRIPT.replace("return function(worker)", tries));
    let router = world.router(&format!("script = {:?}", script.display()), PORTS);
    client.reaches("10.0.2.2");
    let shown = router.show("scripts")[0].clone();
    assert_eq!((&shown["throws"], &shown["state"]), (&0.into(), &"running".into()), "{shown}");
    router.stop();
}
