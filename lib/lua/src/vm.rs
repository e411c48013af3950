// SPDX-License-Identifier: MIT
//! A script loaded in a VM of its own, ready for a worker.

use mlua::{Function, HookTriggers, LightUserData, Lua, LuaOptions, StdLib, Table, VmState};
use perigee_modules::{Context, MODULES, Run};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

use crate::host::{ScriptCounters, ScriptWorker};

/// What `lua/` holds, carried in the binary: (module name, source).
pub(crate) const LUA_MODULES: &[(&str, &str)] = &[
    ("perigee.modules", include_str!("../../../lua/perigee/modules.lua")),
    ("perigee.worker", include_str!("../../../lua/perigee/worker.lua")),
    ("perigee.packet", include_str!("../../../lua/perigee/packet.lua")),
];
const HOST: &str = include_str!("../../../lua/perigee/host.lua");
pub(crate) const JIT_MODULES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/jit_modules.rs"));

/// Instructions a script may take to load. The loop it returns has no limit.
const LOAD_LIMIT: u32 = 50_000_000;

/// A fast path script: its name and its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// Path, or "built-in".
    pub name: String,
    /// Lua text.
    pub source: String,
    /// Folder that `require` looks in, and that relative paths of shared libraries should start from.
    pub folder: Option<PathBuf>,
}

/// Why a script was refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("{name}: {why}")]
    Unreadable {
        /// Its path.
        name: String,
        /// The system's reason.
        why: String,
    },
    /// It does not compile, or throws while it loads; the message starts with file and line.
    #[error("{0}")]
    Load(String),
    /// It returned something else than a function.
    #[error("{name}: returned {found}, expected a function of the worker: `return function(worker) ... end`")]
    NoFunction {
        name: String,
        /// Type of what it returned.
        found: String,
    },
}

impl Script {
    /// `lua/fastpath.lua`, as built into the binary.
    pub fn builtin() -> Script {
        let source = include_str!("../../../lua/fastpath.lua").to_owned();
        Script { name: "built-in".to_owned(), source, folder: None }
    }

    /// Reads a script from a file.
    pub fn read(path: &Path) -> Result<Script, ScriptError> {
        let name = path.display().to_string();
        let unreadable = |why: String| ScriptError::Unreadable { name: name.clone(), why };
        let source = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let source = String::from_utf8(source).map_err(|_| unreadable("not a text file".to_owned()))?;
        let absolute = std::path::absolute(path).ok();
        let folder = absolute.and_then(|path| path.parent().map(Path::to_owned));
        Ok(Script { name, source, folder })
    }
}

/// A script in a fresh VM, loaded but not running.
pub struct Loaded {
    lua: Lua,
    start: Function,
    body: Function,
}

/// The message of a Lua error without its traceback: "file:line: what".
pub(crate) fn message(error: &mlua::Error) -> String {
    let mut error = error;
    while let mlua::Error::CallbackError { cause, .. } = error {
        error = cause;
    }
    let text = match error {
        mlua::Error::SyntaxError { message, .. } | mlua::Error::RuntimeError(message) => message.clone(),
        other => other.to_string(),
    };
    text.split("\nstack traceback:").next().unwrap_or_default().trim_end().to_owned()
}

impl Loaded {
    /// Loads a script in a fresh VM. While it loads, its modules see `context`, which has tables but no queues.
    pub fn load(script: &Script, context: &mut Context) -> Result<Loaded, ScriptError> {
        assert!(crate::abi::link() > MODULES.len(), "the C ABI is linked in");
        let fail = |error: mlua::Error| ScriptError::Load(message(&error));
        // SAFETY: scripts are the operator's code and get the FFI and the debug library on purpose.
        let lua = unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::default()) };
        let (bind, start) = prepare(&lua, script).map_err(fail)?;
        bind.call::<()>(LightUserData(std::ptr::from_mut(context).cast())).map_err(fail)?;
        let body = run_chunk(&lua, script)?;
        Ok(Loaded { lua, start, body })
    }

    /// Runs the script's loop for a worker until it returns or throws.
    pub(crate) fn run(&self, worker: &mut ScriptWorker) -> Result<(), String> {
        let pointer = LightUserData(std::ptr::from_mut(worker).cast());
        self.start.call::<()>((&self.body, pointer)).map_err(|error| message(&error))
    }

    /// Notes the size of the VM's heap.
    pub(crate) fn note_heap(&self, counters: &Arc<ScriptCounters>) {
        counters.heap_kb.set(self.lua.used_memory() as u64 / 1024);
    }
}

/// Puts the Lua modules in place; returns the host's two functions: bind a context, start a loop.
fn prepare(lua: &Lua, script: &Script) -> mlua::Result<(Function, Function)> {
    let package: Table = lua.globals().get("package")?;
    let preload: Table = package.get("preload")?;
    for (name, source) in LUA_MODULES.iter().chain(JIT_MODULES) {
        let chunk = lua.load(*source).set_name(format!("={name}"));
        preload.set(*name, chunk.into_function()?)?;
    }
    if let Some(folder) = &script.folder {
        let (folder, before): (_, String) = (folder.display(), package.get("path")?);
        package.set("path", format!("{folder}/?.lua;{before}"))?;
        lua.globals().set("SCRIPT_FOLDER", folder.to_string())?;
    }
    let registry = registry(lua)?;
    let names: String = lua.load("return require('jit.vmdef').bcnames").eval()?;
    lua.load(HOST).set_name("=perigee.host").call((crate::header::definitions(), registry, names))
}

/// The modules that scripts may call: name -> number of masks.
pub(crate) fn registry(lua: &Lua) -> mlua::Result<Table> {
    let registry = lua.create_table()?;
    for module in MODULES {
        match module.run {
            Run::One(_) => registry.set(module.name, 1)?,
            Run::Two(_) => registry.set(module.name, 2)?,
            Run::None => {}
        }
    }
    Ok(registry)
}

/// Runs the script's text, which returns its loop. The compiler is off meanwhile, as hooks do not fire in compiled code:
/// a script that never returns is stopped.
fn run_chunk(lua: &Lua, script: &Script) -> Result<Function, ScriptError> {
    let fail = |error: mlua::Error| ScriptError::Load(message(&error));
    let jit = |switch: &str| lua.load(format!("jit.{switch}()")).exec().map_err(fail);
    jit("off")?;
    let name = script.name.clone();
    let limit = HookTriggers { every_nth_instruction: Some(LOAD_LIMIT), ..HookTriggers::default() };
    let too_long = move |_: &Lua, debug: &mlua::debug::Debug<'_>| -> mlua::Result<VmState> {
        let line = debug.current_line().unwrap_or(0);
        let text =
            format!("{name}:{line}: still loading after {LOAD_LIMIT} instructions; expected it to return a function");
        Err(mlua::Error::RuntimeError(text))
    };
    lua.set_hook(limit, too_long).map_err(fail)?;
    let chunk = lua.load(&script.source).set_name(format!("@{}", script.name)).into_function();
    let result = chunk.and_then(|chunk| chunk.call::<mlua::Value>(()));
    lua.remove_hook();
    jit("on")?;
    match result.map_err(fail)? {
        mlua::Value::Function(body) => Ok(body),
        other => Err(ScriptError::NoFunction { name: script.name.clone(), found: lua_type(&other).to_owned() }),
    }
}

/// The type's name as Lua knows it: there are no integers in it.
pub(crate) fn lua_type(value: &mlua::Value) -> &'static str {
    match value {
        mlua::Value::Integer(_) => "number",
        other => other.type_name(),
    }
}

impl Script {
    /// Whether it compiles; what it would do is not tried.
    ///
    /// # Errors
    /// File and line of what does not.
    pub fn compile(&self) -> Result<(), ScriptError> {
        let chunk = Lua::new().load(&self.source).set_name(format!("@{}", self.name)).into_function();
        chunk.map(drop).map_err(|error| ScriptError::Load(message(&error)))
    }
}
