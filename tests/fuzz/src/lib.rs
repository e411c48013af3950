// SPDX-License-Identifier: MIT
//! Fuzz targets: what perigee promises for every input, whatever its bytes are.
//!
//! A target is a function of bytes in a file of its own, which panics when a promise is broken. It does not know who
//! feeds it: libFuzzer (`./x fuzz`), `cargo test` with the committed seeds, or a file that once made it fail.
//!
//! | file | contents |
//! | --- | --- |
//! | `input.rs` | bytes as a source of choices, which is also a random number generator |
//! | `kept.rs` | what is too dear to be made for each input |
//! | `targets/` | one file per target |
//! | `frames.rs`, `frames/` | frames that are nearly right |
//! | `filters.rs` | frames against random lists of rules |
//! | `plane.rs` | frames through both planes: the in-kernel plane does what the modules do, or leaves it to others |
//! | `flood.rs` | frames by the billion through a whole router, the same ones for the same seed |
//! | `hostile.rs`, `hostile/` | scripts and C modules that do what they can against a worker |
//! | `sentence.rs` | whether an error is one sentence |
//! | `bed.rs`, `world.rs`, `kernel.rs`, `views.rs` | what the crates' own tests are made with: a router on heap packets, a simulated kernel |
#![forbid(unsafe_code)]

pub mod filters;
pub mod flood;
pub mod frames;
pub mod hostile;
pub mod input;
pub(crate) mod kept;
pub mod plane;
pub mod sentence;

#[path = "../../../lib/router/tests/common/mod.rs"]
pub(crate) mod bed;
#[path = "../../../lib/linux/tests/follower/kernel.rs"]
pub(crate) mod kernel;
#[path = "../../../lib/lua/tests/common/mod.rs"]
#[allow(dead_code, reason = "its tests use more of it")]
pub(crate) mod lua_bed;
#[path = "../../../lib/xdp/tests/plane/bed.rs"]
#[allow(dead_code, reason = "its tests use more of it")]
pub(crate) mod plane_bed;
#[path = "../../../lib/lua/tests/common/tasks.rs"]
pub(crate) mod task_bed;
#[path = "../../../lib/packet/tests/exercise/mod.rs"]
pub(crate) mod views;
#[path = "../../../lib/linux/tests/follower/world.rs"]
#[allow(dead_code, reason = "its tests use more of it")]
pub(crate) mod world;

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, and that of its file.
    pub name: &'static str,
    /// Tries one input.
    pub run: fn(&[u8]),
    /// The longest input that is of any use, in bytes.
    pub longest: usize,
}

/// Declares the targets: each with its file, the longest input, and what it is about.
macro_rules! targets {
    ($($(#[$about:meta])* $name:ident: $longest:expr;)*) => {
        mod targets {
            $($(#[$about])* pub mod $name;)*
        }

        /// All targets, in the order of `./x fuzz all`.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), run: targets::$name::run, longest: $longest },)*];
    };
}

targets! {
    ports: 4096;
    scripts: 2048;
    tasks: 1024;
    snabb: 2048;
    api: 4096;
    linux: 4096;
    helper: 4096;
    netlink: 4096;
    pcap: 4096;
    socket: 4096;
    fpm: 4096;
    config: 4096;
    profile: 4096;
    expression: 1024;
    views: 2048;
}

/// The target of a name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
