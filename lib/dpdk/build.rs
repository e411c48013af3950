// SPDX-License-Identifier: MIT
//! Compiles the C shim against DPDK, with the flags that pkg-config names, and links the libraries that it names.
//! Drivers are not linked: EAL loads them from the distribution's plugin folder. With the shim the C compiler checks
//! what `src/ffi.rs` declares.

#[path = "build/check.rs"]
mod check;
#[path = "build/declarations.rs"]
mod declarations;

use pkg_config::Library;
use std::path::{Path, PathBuf};
use std::process::{Command, exit};
use std::{env, fs};

/// The shim, without what `sanitize` adds.
const SHIM: &[&str] = &[
    "src/shim.c",
    "src/shim_filters.c",
    "src/shim_fib.c",
    "src/shim_numa.c",
    "src/shim_ports.c",
    "src/shim_power.c",
    "src/shim_snabb.c",
    "src/shim_snabb_pool.c",
    "src/shim_snabb_tasks.c",
];

fn main() {
    for file in
        ["build.rs", "build", "src/shim.h", "src/snabb.h", "src/snabb_layout.h", "src/tsan.h", "src/shim_tsan.c"]
    {
        println!("cargo:rerun-if-changed={file}");
    }
    SHIM.iter().for_each(|file| println!("cargo:rerun-if-changed={file}"));
    let dpdk = match pkg_config::Config::new().atleast_version("22.11").cargo_metadata(false).probe("libdpdk") {
        Ok(dpdk) => dpdk,
        Err(error) => refuse(&format!(
            "DPDK 22.11 or newer is needed, and pkg-config does not find it: run ./x, which installs it\n{error}"
        )),
    };
    rerun_for_another(&dpdk);

    let mut shim = cc::Build::new();
    shim.files(SHIM).includes(&dpdk.include_paths).opt_level(3).warnings(true).extra_warnings(true);
    shim.flags(other_flags()).flags(machine());
    sanitize(&mut shim);
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    keep_command(&out, shim.get_compiler());
    shim.file(declarations(&out)).include("src").compile("perigee_shim");

    // All of them: rustc passes --as-needed, so that a program needs those that it uses. Behind the shim, which uses
    // them.
    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for library in &dpdk.libs {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

fn refuse(sentence: &str) -> ! {
    eprintln!("{sentence}");
    exit(1)
}

/// The C file that compares what Rust declares with the headers.
fn declarations(out: &Path) -> PathBuf {
    let read = |file: &str| {
        println!("cargo:rerun-if-changed={file}");
        fs::read_to_string(file).unwrap_or_else(|error| refuse(&format!("{file}: {error}")))
    };
    let text = declarations::c_file(read).unwrap_or_else(|sentence| refuse(&sentence));
    let file = out.join("declarations.c");
    fs::write(&file, text).unwrap_or_else(|error| refuse(&format!("{}: {error}", file.display())));
    file
}

/// How the shim is compiled, an argument a line: `tests/declarations.rs` compiles other declarations the same way.
fn keep_command(out: &Path, compiler: cc::Tool) {
    let command = compiler.to_command();
    let words = std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy());
    let file = out.join("compiler");
    let written = fs::write(&file, words.collect::<Vec<_>>().join("\n"));
    written.unwrap_or_else(|error| refuse(&format!("{}: {error}", file.display())));
}

/// When the distribution has put another DPDK in place: its files are older than this build, but the folders that they
/// are in are not.
fn rerun_for_another(dpdk: &Library) {
    for folder in &dpdk.include_paths {
        if ["rte_version.h", "rte_build_config.h"].iter().any(|file| folder.join(file).exists()) {
            println!("cargo:rerun-if-changed={}", folder.display());
        }
    }
}

/// The compiler's flags that are no folders: DPDK's headers want a file included before all others and instructions of
/// the processor (`-march`, from 23.11 on `-mrtm`). pkg-config names them, and the crate of that name does not pass
/// them on.
fn other_flags() -> Vec<String> {
    println!("cargo:rerun-if-env-changed=PKG_CONFIG");
    let program = env::var_os("PKG_CONFIG").unwrap_or_else(|| "pkg-config".into());
    let output = Command::new(program).args(["--cflags-only-other", "libdpdk"]).output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).split_whitespace().map(str::to_owned).collect()
        }
        _ => refuse("pkg-config finds DPDK, and does not say how to compile for it: run pkg-config --cflags libdpdk"),
    }
}

/// The workspace's own instruction set, where it is newer than the one that the distribution builds DPDK for: behind
/// that, it replaces it.
fn machine() -> Option<&'static str> {
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    features.split(',').any(|feature| feature == "avx2").then_some("-march=x86-64-v3")
}

/// `./x sanitize`: the shim, and with it DPDK's inlines, gets the sanitizer that Rust has (`-Zsanitizer`), whose
/// runtime rustc links.
fn sanitize(shim: &mut cc::Build) {
    println!("cargo:rerun-if-env-changed=CARGO_CFG_SANITIZE");
    let Ok(sanitizer) = env::var("CARGO_CFG_SANITIZE") else { return };
    shim.flag(format!("-fsanitize={sanitizer}")).flag("-fno-omit-frame-pointer").flag("-g");
    if sanitizer == "thread" {
        // It knows no fences; nothing here relies on them alone.
        shim.flag_if_supported("-Wno-tsan");
        shim.file("src/shim_tsan.c").define("PERIGEE_TSAN", None);
        // The rings of C11's memory model: of the other, which is plain accesses between barriers and the same code on
        // x86, ThreadSanitizer cannot know what is ordered.
        shim.define("RTE_USE_C11_MEM_MODEL", None);
    }
}
