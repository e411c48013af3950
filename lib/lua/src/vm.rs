// SPDX-License-Identifier: MIT
//! A script loaded in a VM of its own, ready for a worker.

use crate::exit::{self, Exit, Left};
use crate::host::ScriptWorker;
use mlua::ffi::{self, lua_State};
use mlua::{Function, HookTriggers, LightUserData, Lua, StdLib, Table, VmState};
use perigee_modules::{Context, MODULES, Run};
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

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
    /// It did not return while it loaded, in C or in machine code, and was stopped.
    #[error("{name}: still loading after a second; expected it to return a function")]
    Stalled { name: String },
    /// The thread that loads scripts has not answered.
    #[error("the script was not loaded within {0:?}; nothing has changed")]
    Late(Duration),
}

impl Script {
    /// `lua/fastpath.lua`, as built into the binary.
    pub fn builtin() -> Script {
        let source = include_str!("../../../lua/fastpath.lua").to_owned();
        Script { name: "built-in".to_owned(), source, folder: None }
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// It cannot be read, or is no text.
    pub fn read(path: &Path) -> Result<Script, ScriptError> {
        Self::read_by(path, perigee_file::read)
    }

    /// Like [`Script::read`], where the caller reads the file, up to a number of bytes: somebody else may have to open
    /// it.
    ///
    /// # Errors
    /// As there.
    pub fn read_by(
        path: &Path,
        read: impl FnOnce(&Path, u64) -> std::io::Result<Vec<u8>>,
    ) -> Result<Script, ScriptError> {
        let name = path.display().to_string();
        let unreadable = |why: String| ScriptError::Unreadable { name: name.clone(), why };
        let source = read(path, perigee_file::LONGEST_TEXT).map_err(|error| match error.kind() {
            // A router that root has started is somebody else once it runs.
            std::io::ErrorKind::PermissionDenied => unreadable(format!(
                "{error}; user {}, as whom this runs, must be able to read it and to enter the folders that it is in",
                rustix::process::geteuid().as_raw()
            )),
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                unreadable(format!("{error}; is the path right?"))
            }
            _ => unreadable(error.to_string()),
        })?;
        let source = String::from_utf8(source).map_err(|_| unreadable("not a text file".to_owned()))?;
        let absolute = std::path::absolute(path).ok();
        let folder = absolute.and_then(|path| path.parent().map(Path::to_owned));
        Ok(Script { name, source, folder })
    }
}

/// A VM that is called directly, not through mlua: a call that is left by an [`Exit`] has none of mlua's frames to
/// skip. What is done with it between two calls runs nothing of the script's: no finalizer, as the collector stands
/// still, and no metamethod of the registry.
struct Vm {
    /// `None` once a call was left: the VM is in an unknown state, and is not even freed.
    lua: Option<Lua>,
    state: *mut lua_State,
}

// SAFETY: the pointer is that of `lua`, which is Send; only the owner uses either.
unsafe impl Send for Vm {}

/// Names in the VM's registry: what is called, and what it threw.
const START: &CStr = c"perigee.start";
/// `jit.on`, whatever the script makes of its own.
const JIT_ON: &CStr = c"perigee.jit_on";
const BODY: &CStr = c"perigee.body";
const CHUNK: &CStr = c"perigee.chunk";
const THROWN: &CStr = c"perigee.thrown";
const TOSTRING: &CStr = c"perigee.tostring";

/// How a call of a script ended, if not well.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It threw; the message starts with file and line, if it is a string.
    Threw(String),
    /// It did not return, and was left.
    Left,
}

impl Vm {
    /// A fresh VM with all libraries, which mlua knows but does not own: it is closed by [`Self::close`].
    fn new() -> Result<Vm, ScriptError> {
        let fail = |why: String| ScriptError::Load(format!("no virtual machine for a script: {why}"));
        // SAFETY: the state is fresh and ours alone; scripts are the operator's code and get the FFI and the debug
        // library on purpose. Protected calls are LuaJIT's own, which it compiles, and have no frames of Rust.
        let (lua, state) = unsafe {
            let state = ffi::luaL_newstate();
            if state.is_null() {
                return Err(fail("there is no memory for it".to_owned()));
            }
            ffi::luaL_requiref(state, c"_G".as_ptr(), ffi::luaopen_base, 1);
            ffi::lua_settop(state, 0);
            (Lua::get_or_init_from_ptr(state).clone(), state)
        };
        let vm = Vm { lua: Some(lua), state };
        if let Some(lua) = &vm.lua {
            lua.load_std_libs(StdLib::ALL).map_err(|error| fail(message(&error)))?;
        }
        Ok(vm)
    }

    /// Runs the finalizers and frees the VM. Fails if a finalizer did not return: the VM is given up then.
    fn close(&mut self, exit: &Exit) -> Result<(), Left> {
        let Some(lua) = self.lua.take() else { return Ok(()) };
        // SAFETY: nobody else uses the VM, and nobody will: `lua`, which does not own it, is all that is left of it.
        let closed = unsafe { exit.close(self.state) };
        match closed {
            Ok(()) => drop(lua),
            Err(Left) => std::mem::forget(lua),
        }
        closed
    }

    /// Calls a function of the registry with another value of it and a pointer, if these are given; its result stays on
    /// the stack.
    fn call(&mut self, exit: &Exit, function: &CStr, with: Option<(&CStr, LightUserData)>) -> Result<(), Ended> {
        let Some(lua) = &self.lua else { return Err(Ended::Left) };
        let (state, arguments, results) = (self.state, if with.is_some() { 2 } else { 0 }, 1);
        // SAFETY: the VM is ours alone; LuaJIT has room for 20 values in a new call.
        let status = unsafe {
            ffi::lua_settop(state, 0);
            exit::push_named(state, function);
            if let Some((value, pointer)) = with {
                exit::push_named(state, value);
                ffi::lua_pushlightuserdata(state, pointer.0);
            }
            exit.call(state, arguments, results)
        };
        match status {
            Ok(0) => Ok(()),
            Ok(_) => {
                // SAFETY: what was thrown is on the stack.
                let has_text = unsafe {
                    let has_text = ffi::luaL_getmetafield_(state, -1, c"__tostring".as_ptr()) != 0;
                    ffi::lua_settop(state, if has_text { -2 } else { -1 });
                    exit::keep_named(state, THROWN);
                    has_text
                };
                let (thrown, is_text) = thrown(lua);
                let text = if has_text && !is_text { self.text(exit) } else { None };
                Err(Ended::Threw(text.unwrap_or(thrown)))
            }
            Err(Left) => {
                std::mem::forget(self.lua.take());
                Err(Ended::Left)
            }
        }
    }
}

impl Vm {
    /// What `tostring` says of what was thrown: that is the script's code, too, which may not return.
    fn text(&mut self, exit: &Exit) -> Option<String> {
        // SAFETY: the VM is ours alone, and what `call` leaves on the stack is what `tostring` has returned, a string.
        unsafe {
            ffi::lua_settop(self.state, 0);
            exit::push_named(self.state, TOSTRING);
            exit::push_named(self.state, THROWN);
            match exit.call(self.state, 1, 1) {
                Ok(0) => {
                    let mut length = 0;
                    let text = ffi::lua_tolstring(self.state, -1, &raw mut length);
                    let bytes = (!text.is_null()).then(|| std::slice::from_raw_parts(text.cast::<u8>(), length));
                    bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
                }
                Ok(_) => None,
                Err(Left) => {
                    std::mem::forget(self.lua.take());
                    None
                }
            }
        }
    }
}

impl Vm {
    fn load(&mut self, script: &Script, context: &mut Context, exit: &Exit) -> Result<(), ScriptError> {
        if let Some(lua) = &self.lua {
            prepare_all(lua, script, context).map_err(|error| ScriptError::Load(message(&error)))?;
        }
        match self.call(exit, CHUNK, None) {
            Ok(()) => {}
            Err(Ended::Threw(message)) => return Err(ScriptError::Load(message)),
            Err(Ended::Left) => return Err(ScriptError::Stalled { name: script.name.clone() }),
        }
        // SAFETY: the chunk's only result is on the stack.
        unsafe { exit::keep_named(self.state, BODY) };
        self.lua.as_ref().map_or(Ok(()), |lua| accept(lua, script))
    }
}

impl Drop for Vm {
    fn drop(&mut self) {
        // Nobody watches here, and a finalizer may not return: who has an exit closes it, else its memory is given up.
        std::mem::forget(self.lua.take());
    }
}

/// The message of what was thrown last, and whether that is a text or an error of perigee's.
fn thrown(lua: &Lua) -> (String, bool) {
    match lua.named_registry_value::<mlua::Value>(&THROWN.to_string_lossy()) {
        Ok(mlua::Value::String(text)) => (text.to_string_lossy().to_owned(), true),
        Ok(mlua::Value::Error(error)) => (message(&error), true),
        Ok(other) => (format!("an error that is no text but a {}", lua_type(&other)), false),
        Err(error) => (message(&error), true),
    }
}

/// A script in a fresh VM, loaded but not running.
pub(crate) struct Loaded {
    vm: Vm,
    /// The script's name.
    pub name: String,
}

/// Why a script was refused, and what is left of it.
pub(crate) struct Refused {
    pub error: ScriptError,
    pub loaded: Option<Loaded>,
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
    /// Loads a script in a fresh VM. While it loads, its modules see `context`, which has tables but no queues. The VM
    /// of a script that is refused is to be closed, too.
    pub(crate) fn load(script: &Script, context: &mut Context, exit: &Exit) -> Result<Loaded, Refused> {
        assert!(crate::abi::link() > MODULES.len(), "the C ABI is linked in");
        exit.name_script(&script.name);
        let mut vm = Vm::new().map_err(|error| Refused { error, loaded: None })?;
        let result = vm.load(script, context, exit);
        // What it has loaded is known to signal handlers from now on.
        exit::learn_modules();
        let loaded = Loaded { vm, name: script.name.clone() };
        match result {
            Ok(()) => Ok(loaded),
            Err(error) => Err(Refused { error, loaded: Some(loaded) }),
        }
    }

    /// Runs the script's loop for a worker until it returns, throws or is left.
    pub(crate) fn run(&mut self, worker: &mut ScriptWorker, exit: &Exit) -> Result<(), Ended> {
        let pointer = LightUserData(std::ptr::from_mut(worker).cast());
        exit.name_script(&self.name);
        self.vm.call(exit, START, Some((BODY, pointer)))
    }

    /// Runs the script's finalizers and frees its VM. Fails if a finalizer did not return.
    pub(crate) fn close(mut self, exit: &Exit) -> Result<(), Left> {
        exit.name_script(&self.name);
        self.vm.close(exit)
    }
}

/// Prepares a VM up to the script's text, whose function is left in the registry.
fn prepare_all(lua: &Lua, script: &Script, context: &mut Context) -> mlua::Result<()> {
    let (bind, start) = prepare(lua, script)?;
    bind.call::<()>(LightUserData(std::ptr::from_mut(context).cast()))?;
    lua.set_named_registry_value(&START.to_string_lossy(), start)?;
    lua.set_named_registry_value(&TOSTRING.to_string_lossy(), lua.globals().get::<Function>("tostring")?)?;
    let chunk = lua.load(&script.source).set_name(format!("@{}", script.name)).into_function()?;
    lua.set_named_registry_value(&CHUNK.to_string_lossy(), chunk)?;
    limit_loading(lua, script)
}

/// The compiler is off while a script's text runs, as hooks do not fire in compiled code: one that never returns is
/// stopped, and its line is known.
fn limit_loading(lua: &Lua, script: &Script) -> mlua::Result<()> {
    let on: Function = lua.load("jit.off() return jit.on").eval()?;
    lua.set_named_registry_value(&JIT_ON.to_string_lossy(), on)?;
    let name = script.name.clone();
    let limit = HookTriggers { every_nth_instruction: Some(LOAD_LIMIT), ..HookTriggers::default() };
    lua.set_hook(limit, move |_: &Lua, debug: &mlua::debug::Debug<'_>| -> mlua::Result<VmState> {
        let line = debug.current_line().unwrap_or(0);
        let text =
            format!("{name}:{line}: still loading after {LOAD_LIMIT} instructions; expected it to return a function");
        Err(mlua::Error::RuntimeError(text))
    })
}

/// Takes what the script's text has returned, which has to be a function.
fn accept(lua: &Lua, script: &Script) -> Result<(), ScriptError> {
    let fail = |error: mlua::Error| ScriptError::Load(message(&error));
    lua.remove_hook();
    let on = lua.named_registry_value::<Function>(&JIT_ON.to_string_lossy());
    on.and_then(|on| on.call::<()>(())).map_err(fail)?;
    match lua.named_registry_value::<mlua::Value>(&BODY.to_string_lossy()).map_err(fail)? {
        mlua::Value::Function(_) => Ok(()),
        other => Err(ScriptError::NoFunction { name: script.name.clone(), found: lua_type(&other).to_owned() }),
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
    let library = lua.create_function(|_, path: mlua::LuaString| {
        let path = path.to_str()?.to_owned();
        // Without a folder in it, the name is the system's to find.
        if !path.contains('/') {
            return Ok((Some(path), None));
        }
        Ok(match exit::in_host(|| crate::library::copy(&path)) {
            Ok(copy) => (Some(copy), None),
            Err(why) => (None, Some(why)),
        })
    })?;
    let registry = registry(lua)?;
    let names: String = lua.load("return require('jit.vmdef').bcnames").eval()?;
    lua.load(HOST).set_name("=perigee.host").call((crate::header::definitions(), registry, names, library))
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
