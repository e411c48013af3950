// SPDX-License-Identifier: MIT
//! A VM in which Snabb programs run: the Lua sources of `snabb/`, and what they need of the program around them.
//!
//! The program passes in a table of its own functions (`native`), which open ports and start threads; whatever is
//! called for every burst, Lua calls in C by name instead.

mod checksum;
mod replay;
mod shared;
mod system;
mod vhost;

use crate::vm::JIT_MODULES;
use mlua::{Function, Lua, LuaOptions, MultiValue, StdLib, Table, Value};
use perigee_packet::expression::Expression;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The files of `snabb/`: (path, text).
pub const SOURCES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/snabb_sources.rs"));

/// Where the Lua sources come from, and what `ffi.cdef` has to know.
#[derive(Debug, Clone, Default)]
pub struct SnabbSources {
    /// A folder like `snabb/` that is read instead of what is built in: for those who change it.
    pub folder: Option<PathBuf>,
    /// C declarations of the functions that the program exports.
    pub definitions: &'static str,
}

impl SnabbSources {
    /// The text of a file of `snabb/`, such as `core/app.lua`.
    pub fn text(&self, path: &str) -> Option<String> {
        match &self.folder {
            Some(folder) if Path::new(path).components().all(|c| matches!(c, std::path::Component::Normal(_))) => {
                std::fs::read_to_string(folder.join(path)).ok()
            }
            Some(_) => None,
            None => SOURCES.iter().find(|(name, _)| *name == path).map(|(_, text)| (*text).to_owned()),
        }
    }
}

/// Why a program did not run to its end: Lua's message with its traceback.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct SnabbError(pub String);

impl SnabbError {
    fn of(error: &mlua::Error) -> SnabbError {
        SnabbError(crate::vm::message(error))
    }
}

/// A VM of its own, with Snabb's modules in reach; one thread's.
pub struct SnabbVm {
    start: Function,
    lua: Lua,
}

impl SnabbVm {
    /// Makes the VM and loads `core/boot.lua`; `native` fills the table of the program's functions.
    ///
    /// # Errors
    /// Where a source is missing or throws.
    pub fn new(
        sources: &SnabbSources,
        native: impl FnOnce(&Lua, &Table) -> mlua::Result<()>,
    ) -> Result<SnabbVm, SnabbError> {
        // SAFETY: programs are the user's own code and get the FFI and the debug library on purpose.
        let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::default()) };
        let boot = || -> mlua::Result<Function> {
            let table = lua.create_table()?;
            let from = sources.clone();
            table.set("source", lua.create_function(move |_, path: String| Ok(from.text(&path)))?)?;
            table.set("filter", lua.create_function(filter)?)?;
            native(&lua, &table)?;
            let package: Table = lua.globals().get("package")?;
            let preload: Table = package.get("preload")?;
            for (name, source) in JIT_MODULES {
                preload.set(*name, lua.load(*source).set_name(format!("={name}")).into_function()?)?;
            }
            let text = sources.text("core/boot.lua");
            let text = text.ok_or_else(|| mlua::Error::runtime("core/boot.lua is missing among the sources"))?;
            lua.load(text).set_name("=snabb/core/boot.lua").call((table, sources.definitions))
        };
        let start = boot().map_err(|error| SnabbError::of(&error))?;
        Ok(SnabbVm { start, lua })
    }

    /// Calls `require(module)[function](args)`; returns the exit code that it returns, or 0.
    ///
    /// # Errors
    /// What it throws, with a traceback.
    pub fn call(&self, module: &str, function: &str, args: &[String]) -> Result<i32, SnabbError> {
        let args = self.lua.create_sequence_from(args.iter().map(String::as_str)).map_err(|e| SnabbError::of(&e))?;
        let result: MultiValue = self.start.call((module, function, args)).map_err(|error| SnabbError::of(&error))?;
        match (result.front(), result.get(1)) {
            (Some(Value::Boolean(true)), code) => Ok(code.and_then(Value::as_i32).unwrap_or(0)),
            (_, Some(text)) => Err(SnabbError(text.to_string().unwrap_or_default())),
            (_, None) => Err(SnabbError("the program failed without a message".to_owned())),
        }
    }
}

/// `native.filter(text)`: a compiled filter expression, whose address is good as long as the VM lives.
fn filter(lua: &Lua, text: String) -> mlua::Result<(Option<mlua::LightUserData>, Option<String>)> {
    match Expression::parse(&text, |_| None) {
        Err(error) => Ok((None, Some(error.to_string()))),
        Ok(expression) => {
            let kept = lua.create_any_userdata(expression)?;
            let at = std::ptr::from_ref(&*kept.borrow::<Expression>()?).cast_mut().cast::<c_void>();
            // Filters are few and as old as their apps: the registry keeps each until the VM ends.
            let key = lua.create_registry_value(kept)?;
            std::mem::forget(key);
            Ok((Some(mlua::LightUserData(at)), None))
        }
    }
}

/// Does a frame match a filter? For Lua, by name.
///
/// # Safety
/// `filter` must come from `native.filter` of the calling VM, and `data` have `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perigee_snabb_match(filter: *const Expression, data: *const u8, length: u32) -> bool {
    if filter.is_null() || data.is_null() {
        return false;
    }
    // SAFETY: the caller's.
    let (filter, frame) = unsafe { (&*filter, std::slice::from_raw_parts(data, length as usize)) };
    std::panic::catch_unwind(|| filter.matches(frame, 0)).unwrap_or(false)
}

/// Keeps the linker from leaving a function out that only Lua calls.
#[used]
static EXPORT: unsafe extern "C" fn(*const Expression, *const u8, u32) -> bool = perigee_snabb_match;

/// Keeps DynASM's encoder in the program, as above.
#[cfg(target_arch = "x86_64")]
mod dynasm {
    use std::ffi::c_void;

    macro_rules! keep {
        ($($name:ident)*) => {
            unsafe extern "C" {
                $(fn $name();)*
                static DASM_EXTERN_FUNC: c_void;
            }

            #[repr(transparent)]
            struct Kept([*const c_void; 11]);
            // SAFETY: addresses, which never change.
            unsafe impl Sync for Kept {}
            #[used]
            static KEPT: Kept = Kept([$($name as *const c_void,)* &raw const DASM_EXTERN_FUNC]);
        };
    }

    // Their arguments are of no interest here.
    keep! {
        dasm_init dasm_free dasm_setupglobal dasm_growpc dasm_setup dasm_put dasm_link dasm_encode dasm_getpclabel
        dasm_checkstep
    }
}
