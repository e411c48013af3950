// SPDX-License-Identifier: MIT
//! What Snabb programs give to the runtime before and beside packets: descriptions of graphs, arguments of apps and
//! their schemas, JSON, addresses, headers over any bytes, tables of keys and prefixes. A call may fail, which is an
//! error in Lua with a message; what is taken is printed and read again as the same, and a table has what was put into
//! it.
//!
//! Packets are DPDK's, and so is the engine that moves them: neither is here.

use crate::kept::Kept;
use perigee_lua::snabb::{SnabbSources, SnabbVm};
use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::LazyLock;

/// A VM, and the function of `snabb.lua` in it.
struct Running {
    run: mlua::Function,
    lua: mlua::Lua,
    _vm: SnabbVm,
    _folder: tempfile::TempDir,
}

/// Runs one input: what `snabb.lua` reads.
pub fn run(bytes: &[u8]) {
    thread_local! {
        static VM: RefCell<Kept<Running>> = const { RefCell::new(Kept::new()) };
    }
    let call = |running: &mut Running| {
        let program = running.lua.create_string(bytes).expect("memory");
        if let Err(error) = running.run.call::<()>(program) {
            panic!("{error}");
        }
    };
    VM.with_borrow_mut(|vm| vm.with(bytes, Running::new, call, drop));
}

/// The layout of packets, as the program passes it to Lua.
fn definitions() -> &'static str {
    let header = include_str!("../../../../lib/dpdk/src/snabb.h");
    let body = header.split_once("/* ffi.cdef begins */").and_then(|(_, rest)| rest.split_once("/* ffi.cdef ends */"));
    body.expect("snabb.h has its marks").0
}

impl Running {
    fn new() -> Running {
        // A list without packets, as none is asked for: `struct perigee_snabb_freelist`.
        static LIST: LazyLock<usize> =
            LazyLock::new(|| Box::leak(vec![0_u64; 5 + (1 << 20)].into_boxed_slice()).as_mut_ptr() as usize);
        let mut inside = None;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let native = |lua: &mlua::Lua, native: &mlua::Table| {
            inside = Some(lua.clone());
            let list = |_: &mlua::Lua, ()| Ok(mlua::LightUserData(*LIST as *mut c_void));
            native.set("freelist", lua.create_function(list)?)?;
            native.set("folder", "")?;
            native.set("thread", 1)?;
            native.set("workers", 0)?;
            native.set("ports", lua.create_table()?)?;
            native.set("interrupted", mlua::LightUserData(*LIST as *mut c_void))?;
            // Counters are files: those of an engine that never runs.
            let place = format!(
                "local get = os.getenv; os.getenv = function(name) return name == 'SNABB_SHM_ROOT' and {:?} or get(name) end",
                folder.path()
            );
            lua.load(place).exec()
        };
        let sources = SnabbSources { folder: None, definitions: definitions() };
        let vm = SnabbVm::new(&sources, native).expect("a VM");
        let lua = inside.expect("a VM");
        let run = lua.load(include_str!("snabb.lua")).set_name("=snabb.lua").call(());
        Running { run: run.unwrap_or_else(|error| panic!("{error}")), lua, _vm: vm, _folder: folder }
    }
}
