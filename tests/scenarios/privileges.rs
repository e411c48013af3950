// SPDX-License-Identifier: MIT
//! What a running router may do: its user, its capabilities, its system calls and files.

use crate::{PORTS, Pair};
use perigee_tests::{Asserts, Good, Router, Signal, World, perigee, run, wait_until};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

perigee_tests::scenarios![
    a_router_of_root_is_somebody_else_once_it_runs as root,
    a_router_reloads_files_that_only_root_may_read as root,
    a_group_may_use_the_api_of_roots_router as root,
    every_thread_is_confined,
    a_script_opens_no_file_and_starts_no_program,
    every_call_is_tried_from_a_confined_thread,
    nothing_listens_that_is_not_configured,
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
    assert_eq!(helper(&router)["CapPrm"], "0000000000001004", "CAP_NET_ADMIN and CAP_DAC_READ_SEARCH");
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

/// `./x run my.toml` by root, in a home that no other user may enter: no reload was possible, and SIGHUP did nothing,
/// in silence.
fn a_router_reloads_files_that_only_root_may_read(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let home = Path::new("/run/home");
    let mode = |path: &Path, mode| std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("root's");
    std::fs::create_dir(home).expect("a folder");
    mode(home, 0o700);
    let write = |name: &str, text: &str| {
        std::fs::write(home.join(name), text).expect("a file");
        mode(&home.join(name), 0o600);
    };
    write("fast.lua", SCRIPT);
    write("routes", "10.9.0.0/24 via 10.0.2.2\n");
    let write_configuration = |router: &str, first: &str| {
        let file = world.configuration(router, PORTS);
        let text = std::fs::read_to_string(&file).expect("the configuration");
        std::fs::remove_file(file).expect("the configuration");
        write("router.toml", &format!("{first}\n{text}"));
    };
    write_configuration("script = \"fast.lua\"", "");
    let router = Router::start(&home.join("router.toml"));
    client.reaches("10.0.2.2");
    router.ask("reload").good();
    // What the configuration names from now on is root's choice as well.
    write("other.lua", SCRIPT);
    write_configuration("script = \"other.lua\"", "routes_file = \"routes\"");
    router.signal(Signal::HUP);
    router.says("SIGHUP:");
    router.says("script /run/home/other.lua (generation 3)");
    assert!(router.ask("show routes").text.contains("10.9.0.0/24"));
    // A script that a client names is read by the client.
    write("mine.lua", SCRIPT);
    let output = router.ask("reload /run/home/mine.lua").good().text;
    assert!(output.contains("/run/home/mine.lua (generation 4)"), "{output}");
    write("other.lua", "return 7");
    router.signal(Signal::HUP);
    router.says("not reloaded: /run/home/other.lua: returned number");
    write_configuration("script = \"absent.lua\"", "");
    router.ask("reload").refused("cannot open /run/home/absent.lua: No such file");
    client.ping(5, "10.0.2.2");
    router.stop();
}

/// The API was root's alone, and every operator needed sudo to look.
fn a_group_may_use_the_api_of_roots_router(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    world.refused("socket_group = \"no-such-group\"", PORTS).refused("there is no group no-such-group");
    let router = world.router("socket_group = \"4242\"", PORTS);
    client.reaches("10.0.2.2");
    let show = |groups: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "61000", "--regid", "61000", groups]).arg(perigee()).args(["show", "ports"]);
        run(command.args(["--socket", "/run/t.sock"]).env("NO_COLOR", "1"))
    };
    std::fs::set_permissions("/run", Permissions::from_mode(0o755)).expect("root's folder");
    assert!(show("--groups=4242").good().text.contains("10.0.1.1/24"));
    show("--clear-groups").refused("no permission to use");
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

/// Names of system calls and of requests of `ioctl`, as the kernel numbers them, and what a kind of thread is left.
#[cfg(target_arch = "x86_64")]
mod table {
    const PAGE: &str = include_str!("../../docs/confinement.md");
    const CALLS: &str = include_str!("../../lib/helper/tests/confinement/calls.txt");
    const REQUESTS: &str = include_str!("../../lib/helper/tests/confinement/requests.txt");

    /// The numbers of what a section of docs/confinement.md does not name, as a Lua table; without ports of other
    /// drivers.
    fn refused(section: &str, text: &str, radix: u32) -> String {
        let page = PAGE.split(&format!("\n## {section}\n")).nth(1).expect("a section");
        let usual = page.split("With a port on the PCI bus").next().expect("a beginning");
        let rows = text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split_once(' ').expect("a row"));
        let listed = |names: &str| names.split(' ').any(|name| usual.contains(&format!("`{name}`")));
        let numbers = rows.filter(|(_, names)| !listed(names));
        let numbers: Vec<String> =
            numbers.map(|(number, _)| i64::from_str_radix(number, radix).expect("a number").to_string()).collect();
        assert!(numbers.len() > 40, "{section}: {numbers:?}");
        format!("{{{}}}", numbers.join(","))
    }

    /// Lua that tries all of it, and throws if something is not refused.
    pub fn tries(section: &str) -> String {
        let (calls, requests) = (refused(section, CALLS, 10), refused(section, REQUESTS, 16));
        format!(
            "do local ffi = require 'ffi'
            ffi.cdef 'long syscall(long, long, long, long, long, long, long);'
            local function try(number, request) ffi.errno(0)
              local got = ffi.C.syscall(number, -1, request or -1, -1, -1, -1, -1)
              return got == -1 and ffi.errno() or 0 end
            local EPERM, EBADF, ENOSYS, IOCTL = 1, 9, 38, 16
            for _, number in ipairs({calls}) do
              local got = try(number)
              if got ~= EPERM and got ~= ENOSYS then error('call ' .. number .. ' is not refused: ' .. got) end
            end
            for number = 470, 1023 do if try(number) ~= ENOSYS and try(number) ~= EPERM then error('call ' .. number) end end
            for _, request in ipairs({requests}) do
              if try(IOCTL, request) ~= EPERM then error('request ' .. request .. ' is not refused') end
            end
            -- Not because of the descriptor, which is none.
            if try(IOCTL, 0x8933) ~= EBADF then error('SIOCGIFINDEX is refused') end end\n"
        )
    }
}

/// What docs/confinement.md does not list is refused by the kernel as well, not only by the filters as we read them:
/// from a worker, and from the loader, which has what all others have.
#[cfg(target_arch = "x86_64")]
fn every_call_is_tried_from_a_confined_thread(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    let body = format!("return function(worker)\n{}", table::tries("Workers"));
    let script = table::tries("All other threads") + &SCRIPT.replace("return function(worker)", &body);
    let script = world.file("tries.lua", &script);
    router.ask(&format!("reload {}", script.display())).good();
    client.reaches("10.0.2.2");
    let shown = router.show("scripts")[0].clone();
    assert_eq!((&shown["throws"], &shown["state"]), (&0.into(), &"running".into()), "{shown}");
    router.stop();
}

#[cfg(not(target_arch = "x86_64"))]
fn every_call_is_tried_from_a_confined_thread(world: &World) {
    world.unable("the tables of calls are those of x86-64");
}

/// Sockets of the router's namespace that take what comes from the network: TCP's listeners, and all of UDP and raw IP.
fn listeners() -> Vec<String> {
    let read = |table: &str| std::fs::read_to_string(format!("/proc/self/net/{table}")).unwrap_or_default();
    let all = ["tcp", "tcp6", "udp", "udp6", "udplite", "udplite6", "raw", "raw6"].map(|table| (table, read(table)));
    let of = |(table, text): &(&str, String)| -> Vec<String> {
        let rows = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
        // The fourth column is the state; 0A is that of a listener.
        let open = rows.filter(|row| !table.starts_with("tcp") || row.get(3) == Some(&"0A"));
        open.map(|row| format!("{table} {}", row.get(1).unwrap_or(&"?"))).collect()
    };
    // The kernel has them in the order of a hash.
    let mut all: Vec<String> = all.iter().flat_map(of).collect();
    all.sort();
    all
}

fn nothing_listens_that_is_not_configured(world: &World) {
    let Pair { client, .. } = Pair::new(world);
    let before = listeners();
    let router = world.router("", PORTS);
    client.reaches("10.0.2.2");
    assert_eq!(listeners(), before);
    router.stop();
    let router = world.router("metrics = \"127.0.0.1:9100\"", &format!("{PORTS}[linux]\nfeed = \"fpm\"\n"));
    client.reaches("10.0.2.2");
    let ports: Vec<_> = listeners().into_iter().filter(|row| !before.contains(row)).collect();
    assert_eq!(ports, ["tcp 0100007F:0A3C", "tcp 0100007F:238C"], "FPM and metrics");
    router.stop();
}
