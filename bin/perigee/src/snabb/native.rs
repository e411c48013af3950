// SPDX-License-Identifier: MIT
//! The functions that Lua finds in `core.native`: everything that is not called for every burst.
//!
//! Failures come back as nil and a message, as Lua's own libraries do it.

use super::Options;
use super::process::{PortRequest, Process, VmState, lock};
use super::tasks;
use perigee_dpdk as dpdk;
use perigee_lua::mlua::{self, LightUserData, Lua, Table, Value};
use perigee_net::MacAddr;
use std::ffi::c_void;
use std::path::Path;
use std::sync::Arc;

fn pointer(address: usize) -> LightUserData {
    LightUserData(address as *mut c_void)
}

/// A result as Lua expects it: the value, or nil and a message.
pub fn or_message<T>(result: Result<T, String>) -> mlua::Result<(Option<T>, Option<String>)> {
    Ok(match result {
        Ok(value) => (Some(value), None),
        Err(why) => (None, Some(why)),
    })
}

/// Fills the table for one VM; `thread` counts from 1, the program's own; a task's is 0.
pub fn fill(lua: &Lua, to: &Table, process: &Arc<Process>, state: &Arc<VmState>, thread: u16) -> mlua::Result<()> {
    let options = &process.options;
    to.set("thread", thread)?;
    let folder = match (thread, &lock(&state.seat).seat) {
        (1, _) => String::new(),
        (0, Some(seat)) => format!("tasks/{}/", seat.id()),
        _ => format!("workers/{thread}/"),
    };
    to.set("folder", folder)?;
    to.set("workers", options.workers)?;
    to.set("auto", options.auto)?;
    to.set("ports", options.ports.devices())?;
    to.set("port_table", lua.create_table_from(options.ports.addresses())?)?;
    to.set("ports_variable", options.ports.as_variable())?;
    to.set("tree", options.tree.as_ref().map(|tree| tree.display().to_string()))?;
    let tree = options.tree.clone();
    to.set("files", lua.create_function(move |_, ()| Ok(tree.as_deref().map(files)))?)?;
    to.set("interrupted", pointer((&raw const process.interrupted) as usize))?;
    let list = programs(options);
    to.set("programs", lua.create_function(move |_, ()| Ok(list.clone()))?)?;
    super::threads::fill_costs(lua, to, process, thread)?;
    packets(lua, to, process, state)?;
    ports(lua, to, process, state)?;
    tasks::fill(lua, to, process, state, thread)?;
    let shared = process.clone();
    to.set("ring", lua.create_function(move |_, name: String| or_message(shared.ring(&name).map(pointer)))?)?;
    let shared = process.clone();
    to.set("free_ring", lua.create_function(move |_, name: String| Ok(shared.free_ring(&name)))?)?;
    let shared = process.clone();
    let exit = move |_: &Lua, code: i32| -> mlua::Result<()> {
        if thread == 1 {
            shared.exit(code);
        }
        // The program's own thread ends the process; this one stops even if the app catches the error.
        shared.threads.ask_for_exit(thread, code);
        if thread == 0 {
            shared.tasks.stop();
            return Err(mlua::Error::runtime(format!("it ended the program with exit code {code}")));
        }
        Err(mlua::Error::runtime(format!("the app ended the program with exit code {code}")))
    };
    to.set("exit", lua.create_function(exit)?)
}

fn packets(lua: &Lua, to: &Table, process: &Arc<Process>, state: &Arc<VmState>) -> mlua::Result<()> {
    let mine = state.clone();
    to.set("freelist", lua.create_function(move |_, ()| Ok(LightUserData(lock(&mine.thread).freelist())))?)?;
    let mine = state.clone();
    to.set("new_link", lua.create_function(move |_, ()| Ok(LightUserData(lock(&mine.thread).new_link())))?)?;
    let mine = state.clone();
    let free_link = move |_: &Lua, at: usize| Ok(lock(&mine.thread).free_link(at as *mut c_void));
    to.set("free_link", lua.create_function(free_link)?)?;
    let (shared, mine) = (process.clone(), state.clone());
    let pool = move |_: &Lua, ()| {
        or_message(shared.pool_here().map(|pool| {
            lock(&mine.thread).use_pool(&pool);
            LightUserData(pool.as_ptr())
        }))
    };
    to.set("pool", lua.create_function(pool)?)?;
    let (shared, mine) = (process.clone(), state.clone());
    // Of a port's node, if one is named, for it to receive into.
    let grow = move |_: &Lua, (n, port): (u32, Option<usize>)| {
        let ports = lock(&mine.ports);
        let pool = port.and_then(|port| ports.get(&port)).map(|(_, port)| port.packets().clone());
        drop(ports);
        if let Some(pool) = pool {
            return Ok(match pool.grow(n) {
                Ok(made) => (Some(made), None, None),
                Err(why) => (None, Some(why.to_string()), None),
            });
        }
        Ok(match shared.grow(n) {
            Ok((made, early)) => (Some(made), None, early.map(LightUserData)),
            Err(why) => (None, Some(why), None),
        })
    };
    to.set("grow", lua.create_function(grow)?)?;
    let (shared, mine) = (process.clone(), state.clone());
    // All, or those that a port receives into.
    let packets = move |_: &Lua, port: Option<usize>| {
        let ports = lock(&mine.ports);
        let port = port.and_then(|port| ports.get(&port));
        Ok(port.map_or_else(|| shared.packets(), |(_, port)| (port.packets().size(), port.packets().available())))
    };
    to.set("packets", lua.create_function(packets)?)?;
    to.set("several_nodes", dpdk::numa::Topology::here().several())
}

/// The options of an app for its port: {queue =, receive =, transmit =, queues =, descriptors =, mac =, promiscuous =,
/// mtu =, copy =}.
fn requested(table: &Table) -> Result<PortRequest, String> {
    let number = |key: &str, most: u16| -> Result<Option<u16>, String> {
        match table.get::<Value>(key) {
            Ok(Value::Nil) => Ok(None),
            Ok(value) => match value.as_u32() {
                Some(n) if n <= u32::from(most) => Ok(Some(n as u16)),
                _ => Err(format!("port: {key}: expected a number from 0 to {most}")),
            },
            Err(error) => Err(error.to_string()),
        }
    };
    let mac = match table.get::<Option<String>>("mac") {
        Ok(None) => None,
        Ok(Some(text)) => Some(text.parse::<MacAddr>().map_err(|error| format!("port: mac {text:?}: {error}"))?),
        Err(error) => return Err(error.to_string()),
    };
    let said = |key: &str| table.get::<Option<bool>>(key).ok().flatten();
    let flag = |key: &str| said(key).unwrap_or(false);
    Ok(PortRequest {
        queue: number("queue", 1023)?.unwrap_or(0),
        use_of: dpdk::snabb::Directions {
            receive: said("receive").unwrap_or(true),
            transmit: said("transmit").unwrap_or(true),
        },
        queues: number("queues", 1024)?.unwrap_or(1),
        descriptors: number("descriptors", 32768)?,
        mac,
        promiscuous: flag("promiscuous"),
        copy: flag("copy"),
        mtu: number("mtu", dpdk::snabb::MAX_PAYLOAD - dpdk::FRAME_OVERHEAD)?,
    })
}

fn ports(lua: &Lua, to: &Table, process: &Arc<Process>, state: &Arc<VmState>) -> mlua::Result<()> {
    let (shared, mine) = (process.clone(), state.clone());
    let open = move |lua: &Lua, (name, asked): (String, Table)| {
        let opened = requested(&asked).and_then(|requested| shared.open_port(&mine, &name, &requested));
        or_message(match opened {
            Ok((address, first)) => {
                let described = describe(lua, &mine, address)?;
                described.set("first", first)?;
                Ok(described)
            }
            Err(why) => Err(why),
        })
    };
    to.set("open_port", lua.create_function(open)?)?;
    let shared = process.clone();
    to.set("port_is_open", lua.create_function(move |_, name: String| Ok(shared.port_is_open(&name)))?)?;
    let (shared, mine) = (process.clone(), state.clone());
    to.set("close_port", lua.create_function(move |_, at: usize| Ok(shared.close_port(&mine, at)))?)?;
    let mine = state.clone();
    let counts = move |lua: &Lua, at: usize| -> mlua::Result<Option<Table>> {
        let ports = lock(&mine.ports);
        let Some((_, port)) = ports.get(&at) else { return Ok(None) };
        let (counts, stats) = (port.counts(), port.stats());
        let table = lua.create_table()?;
        for (name, n) in [
            ("received", counts.received),
            ("transmitted", counts.transmitted),
            ("copied_in", counts.copied_in),
            ("copied_out", counts.copied_out),
            ("rx_long", counts.rx_long),
            ("rx_dropped", counts.rx_no_buffer),
            ("tx_long", counts.tx_long),
            ("tx_no_buffer", counts.tx_no_buffer),
            ("rx_packets", stats.rx_packets),
            ("rx_bytes", stats.rx_bytes),
            ("rx_missed", stats.rx_missed),
            ("rx_errors", stats.rx_errors),
            ("rx_no_buffer", stats.rx_no_buffer),
            ("tx_packets", stats.tx_packets),
            ("tx_bytes", stats.tx_bytes),
            ("tx_errors", stats.tx_errors),
        ] {
            table.set(name, n as f64)?;
        }
        let link = port.link();
        table.set("link_up", link.up)?;
        table.set("speed", link.speed.map(|mbits| f64::from(mbits) * 1e6))?;
        Ok(Some(table))
    };
    to.set("port_counts", lua.create_function(counts)?)?;
    let mine = state.clone();
    let device_counts = move |lua: &Lua, at: usize| -> mlua::Result<Option<Table>> {
        let ports = lock(&mine.ports);
        let Some((_, port)) = ports.get(&at) else { return Ok(None) };
        let counters = port.device_counters().into_iter().map(|(name, n)| (name, n as f64));
        lua.create_table_from(counters).map(Some)
    };
    to.set("device_counts", lua.create_function(device_counts)?)
}

fn describe(lua: &Lua, state: &VmState, address: usize) -> mlua::Result<Table> {
    let ports = lock(&state.ports);
    let table = lua.create_table()?;
    let Some((_, port)) = ports.get(&address) else { return Ok(table) };
    let info = port.info();
    table.set("queues", pointer(address))?;
    table.set("address", address)?;
    table.set("device", info.device)?;
    table.set("driver", info.driver)?;
    table.set("mac", info.mac.to_string())?;
    table.set("mtu", info.mtu)?;
    table.set("receive_queues", info.receive_queues)?;
    table.set("transmit_queues", info.transmit_queues)?;
    table.set("notes", info.notes)?;
    Ok(table)
}

/// Names of the programs that are built in, or in the tree.
pub fn programs(options: &Options) -> Vec<String> {
    let own = match &options.sources.folder {
        Some(folder) => folders(&folder.join("program")),
        None => {
            let names = perigee_lua::snabb::SOURCES.iter().filter_map(|(path, _)| {
                let (name, file) = path.strip_prefix("program/")?.split_once('/')?;
                (file == format!("{name}.lua")).then(|| name.to_owned())
            });
            names.collect()
        }
    };
    let tree = options.tree.as_ref().map(|tree| folders(&tree.join("program"))).unwrap_or_default();
    let mut names: Vec<String> = own.into_iter().chain(tree).collect();
    names.sort();
    names.dedup();
    names
}

fn folders(of: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(of).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        entry.path().join(format!("{name}.lua")).is_file().then_some(name)
    });
    names.collect()
}

/// How deep folders of a tree are looked into.
const DEEPEST: usize = 12;

/// The files below a folder, as paths relative to it, sorted. Folders that cannot be read have none.
fn files(root: &Path) -> Vec<String> {
    let (mut found, mut folders) = (Vec::new(), vec![(root.to_path_buf(), 0)]);
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            // Links to folders may lead in circles.
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.extend((depth < DEEPEST).then(|| (path, depth + 1)));
            } else if let Some(path) = path.strip_prefix(root).ok().and_then(Path::to_str) {
                found.push(path.to_owned());
            }
        }
    }
    found.sort();
    found
}
