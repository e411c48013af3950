// SPDX-License-Identifier: MIT
//! Sets `cfg(tsan)` in the build for ThreadSanitizer (`./x sanitize thread`).

fn main() {
    println!("cargo::rustc-check-cfg=cfg(tsan)");
    if std::env::var("CARGO_CFG_SANITIZE").is_ok_and(|sanitizer| sanitizer == "thread") {
        println!("cargo::rustc-cfg=tsan");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
