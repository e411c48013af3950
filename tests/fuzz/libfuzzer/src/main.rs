// SPDX-License-Identifier: MIT
//! libFuzzer's end of all targets: `PERIGEE_FUZZ_TARGET` names the one that is run.
#![no_main]

use perigee_fuzz::Target;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("PERIGEE_FUZZ_TARGET").unwrap_or_default();
    perigee_fuzz::target(&name).unwrap_or_else(|| panic!("PERIGEE_FUZZ_TARGET is \"{name}\"; set it to a target"))
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.run)(bytes));
