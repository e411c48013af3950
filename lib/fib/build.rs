// SPDX-License-Identifier: MIT
//! Declares `cfg(loom)`, which the model checker's build sets, so that rustc does not warn about it; and sets `cfg(tsan)` in the build for
//! ThreadSanitizer (`./x sanitize thread`).

fn main() {
    println!("cargo::rustc-check-cfg=cfg(loom)");
    println!("cargo::rustc-check-cfg=cfg(tsan)");
    if std::env::var("CARGO_CFG_SANITIZE").is_ok_and(|sanitizer| sanitizer == "thread") {
        println!("cargo::rustc-cfg=tsan");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
