// SPDX-License-Identifier: MIT
//! Compiles the C shim against the distribution's DPDK and links the few DPDK libraries that are used.
//! Drivers are not linked: EAL loads them from the distribution's plugin folder.

use std::process::exit;

/// What the shim and `ffi.rs` call.
const LIBRARIES: &[&str] = &[
    "rte_acl",
    "rte_lpm",
    "rte_fib",
    "rte_ethdev",
    "rte_net",
    "rte_mbuf",
    "rte_mempool",
    "rte_ring",
    "rte_eal",
    "rte_telemetry",
];

/// The shim, but for what `sanitize` adds.
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
        SHIM.iter().copied().chain(["src/shim.h", "src/snabb.h", "src/snabb_layout.h", "src/tsan.h", "src/shim_tsan.c"])
    {
        println!("cargo:rerun-if-changed={file}");
    }

    let found = pkg_config::Config::new().atleast_version("22.11").cargo_metadata(false).probe("libdpdk");
    let Ok(dpdk) = found else {
        eprintln!("DPDK 22.11 or newer is needed, and pkg-config does not find it: run ./x, which installs it");
        exit(1);
    };

    let mut shim = cc::Build::new();
    shim.files(SHIM).includes(&dpdk.include_paths).opt_level(3).warnings(true).extra_warnings(true);
    // DPDK's headers want these two; pkg-config names them, but the crate of that name does not pass them on.
    shim.flag("-include").flag("rte_config.h").flag(machine());
    sanitize(&mut shim);
    shim.compile("perigee_shim");

    for path in &dpdk.link_paths {
        println!("cargo:rustc-link-search=native={}", path.display());
    }
    for library in LIBRARIES {
        println!("cargo:rustc-link-lib=dylib={library}");
    }
}

/// `./x sanitize`: the shim, and with it DPDK's inlines, gets the sanitizer that Rust has (`-Zsanitizer`), whose runtime rustc links.
fn sanitize(shim: &mut cc::Build) {
    println!("cargo:rerun-if-env-changed=CARGO_CFG_SANITIZE");
    let Ok(sanitizer) = std::env::var("CARGO_CFG_SANITIZE") else { return };
    shim.flag(format!("-fsanitize={sanitizer}")).flag("-fno-omit-frame-pointer").flag("-g");
    if sanitizer == "thread" {
        // It knows no fences; nothing here relies on them alone.
        shim.flag_if_supported("-Wno-tsan");
        shim.file("src/shim_tsan.c").define("PERIGEE_TSAN", None);
        // The rings of C11's memory model: of the other, which is plain accesses between barriers and the same code on x86,
        // ThreadSanitizer cannot know what is ordered.
        shim.define("RTE_USE_C11_MEM_MODEL", None);
    }
}

/// At least the instruction set that the distribution builds DPDK for; the workspace's own where that is newer.
fn machine() -> &'static str {
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    match std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() {
        Ok("x86_64") if features.split(',').any(|f| f == "avx2") => "-march=x86-64-v3",
        Ok("x86_64") => "-march=x86-64-v2",
        Ok("aarch64") => "-march=armv8-a+crc",
        _ => "-march=native",
    }
}
