// SPDX-License-Identifier: MIT
//! Collects LuaJIT's own jit/*.lua (jit.v, jit.dump, jit.p, ...) from where the vendored LuaJIT was built, so that the
//! binary carries those of exactly its version, and the sources of the Snabb runtime; and makes this crate's tests
//! export their symbols for `ffi.C`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const MODULES: &[&str] = &["bc", "dis_arm64", "dis_x64", "dis_x86", "dump", "p", "v", "vmdef", "zone"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg=-rdynamic");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let jit = jit_folder(&out).expect("the vendored LuaJIT leaves its jit/*.lua in its build folder");
    let mut list = String::from("&[\n");
    for name in MODULES {
        let from = jit.join(format!("{name}.lua"));
        let to = out.join(format!("jit_{name}.lua"));
        fs::copy(&from, &to).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
        writeln!(list, "    (\"jit.{name}\", include_str!({to:?})),").expect("writing to a string");
    }
    list.push(']');
    fs::write(out.join("jit_modules.rs"), list).expect("OUT_DIR can be written");
    dynasm(&out, jit.parent().and_then(Path::parent).expect("jit/ lies in src/ of LuaJIT"));
    println!("cargo::rerun-if-changed=src/exit.c");
    let headers = jit.parent().expect("jit/ lies in src/ of LuaJIT");
    let include = format!("-isystem{}", headers.display());
    cc::Build::new().file("src/exit.c").flag(include).opt_level(2).compile("perigee_exit");
    fs::write(out.join("snabb_sources.rs"), snabb_sources()).expect("OUT_DIR can be written");
    fs::write(out.join("task_sources.rs"), task_sources()).expect("OUT_DIR can be written");
}

/// Compiles the encoder of DynASM, which comes with LuaJIT: libraries of Snabb trees call it from Lua.
fn dynasm(out: &Path, luajit: &Path) {
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        return;
    }
    let file = out.join("dynasm.c");
    let text = "#include <stddef.h>\n\
        typedef int (*DASM_EXTERN_TYPE)(void *ctx, unsigned char *addr, int idx, int type);\n\
        DASM_EXTERN_TYPE DASM_EXTERN_FUNC;\n\
        #define DASM_EXTERN(ctx, addr, idx, type) DASM_EXTERN_FUNC(ctx, addr, idx, type)\n\
        #define DASM_CHECKS 1\n\
        #include \"dasm_proto.h\"\n\
        #include \"dasm_x86.h\"\n";
    fs::write(&file, text).expect("OUT_DIR can be written");
    cc::Build::new().file(&file).include(luajit.join("dynasm")).warnings(false).opt_level(2).compile("perigee_dynasm");
}

/// Every file of `snabb/` but its documentation, as a list of (path, text).
fn snabb_sources() -> String {
    sources("snabb", |path| path.to_owned())
}

/// The modules that tasks may require, as a list of (module name, text): `perigee.task` is `lua/task/perigee/task.lua`.
/// Those of `lua/task/libmoon` keep that before their names: `host.lua` finds them after the script's own files.
fn task_sources() -> String {
    sources("lua/task", |path| path.trim_end_matches(".lua").replace('/', "."))
}

fn sources(folder: &str, name: impl Fn(&str) -> String) -> String {
    let root = Path::new(&env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it")).join("../..").join(folder);
    println!("cargo::rerun-if-changed={}", root.display());
    let mut files = Vec::new();
    collect(&root, &mut files);
    files.sort();
    let mut list = String::from("&[\n");
    for file in files {
        let path = file.strip_prefix(&root).expect("collected below it").display().to_string();
        writeln!(list, "    ({:?}, include_str!({file:?})),", name(&path)).expect("writing to a string");
    }
    list.push(']');
    list
}

fn collect(folder: &Path, to: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
        let path = entry.expect("a readable folder").path();
        match path.extension().and_then(|e| e.to_str()) {
            _ if path.is_dir() => collect(&path, to),
            Some("md") => {}
            _ => to.push(path),
        }
    }
}

/// The newest `build/mlua-sys-*/out/luajit-build/src/jit` beside our own output folder.
fn jit_folder(out: &Path) -> Option<PathBuf> {
    let builds = out.parent()?.parent()?;
    let candidates = fs::read_dir(builds).ok()?.filter_map(|entry| {
        let entry = entry.ok()?;
        entry.file_name().to_str()?.starts_with("mlua-sys-").then_some(())?;
        let jit = entry.path().join("out/luajit-build/src/jit");
        let built = fs::metadata(jit.join("vmdef.lua")).ok()?.modified().ok()?;
        Some((built, jit))
    });
    candidates.max().map(|(_, jit)| jit)
}
