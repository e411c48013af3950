// SPDX-License-Identifier: MIT
//! `perigee.h`, with the parts that follow from Rust written into it: the struct of the batch, the prototypes of the
//! registry's modules, and the offsets that the C compiler asserts.
//!
//! The copy in `include/` is for those who compile against it; a test compares it with [`header`], and
//! `cargo run -p perigee-lua --example header` writes it. What scripts get is always [`header`].

use crate::host::ScriptWorker;
use perigee_modules::{MODULES, Run};
use perigee_packet::Mask;
use perigee_packet::batch::{BATCH_LAYOUT, Field, flags};
use std::fmt::Write;

/// The hand-written parts, and the generated ones as they were written last.
const COPY: &str = include_str!("../include/perigee.h");

// What the hand-written parts say.
const _: () = {
    assert!(size_of::<Mask>() == 32);
    assert!(std::mem::offset_of!(ScriptWorker, id) == 0 && std::mem::offset_of!(ScriptWorker, queues) == 4);
    assert!(flags::IPV4_CHECKSUM_GOOD == 1 && flags::IPV4_CHECKSUM_BAD == 2 && flags::HASH == 4);
    assert!(flags::TIME == 8 && flags::DEVICE_TIME == 16 && flags::FILTERED == 32);
};

/// `perigee.h`, whole.
pub fn header() -> String {
    let header = replace(COPY, "typedef struct perigee_batch {\n", "} perigee_batch;", &fields());
    let header = replace(&header, "/* The modules of the registry. */\n", "\n/* ffi.cdef ends */", &prototypes());
    replace(&header, "/* The offsets of Rust's struct Batch. */\n", "PERIGEE_ASSERT(sizeof", &offsets())
}

/// The part of the header that `ffi.cdef` understands. There `data` has another name, so that a script that asks for it
/// gets it from the metatype of bursts, which has the host forget what it has read of headers.
pub(crate) fn definitions() -> String {
    let definitions = between_marks(&header()).to_owned();
    assert!(definitions.contains("uint8_t *data[256];"), "scripts find the frames");
    definitions.replace("uint8_t *data[256];", "uint8_t *frames[256];")
}

/// What tasks' `ffi.cdef` reads besides.
pub(crate) fn task_definitions() -> &'static str {
    between_marks(include_str!("../include/perigee_task.h"))
}

fn between_marks(header: &str) -> &str {
    let (_, rest) = header.split_once("/* ffi.cdef begins */").expect("a header has its first mark");
    rest.split_once("/* ffi.cdef ends */").expect("a header has its second mark").0
}

/// The text with what lies between two marks replaced.
fn replace(text: &str, begin: &str, end: &str, with: &str) -> String {
    let (before, rest) = text.split_once(begin).unwrap_or_else(|| panic!("perigee.h has the mark {begin:?}"));
    let (_, after) = rest.split_once(end).unwrap_or_else(|| panic!("perigee.h has the mark {end:?} after {begin:?}"));
    [before, begin, with, end, after].concat()
}

fn fields() -> String {
    let declaration = |field: &Field| {
        let space = if field.c_type.ends_with('*') { "" } else { " " };
        let slots = if field.per_slot { "[256]" } else { "" };
        format!("{}{space}{}{slots};", field.c_type, field.name)
    };
    let width = BATCH_LAYOUT.iter().map(|field| declaration(field).len()).max().unwrap_or(0);
    let line = |field: &Field| format!("  {:width$}  /* {} */\n", declaration(field), field.about);
    BATCH_LAYOUT.iter().map(line).collect()
}

fn prototypes() -> String {
    let mut text = String::new();
    for module in MODULES {
        let masks = match module.run {
            Run::One(_) => "perigee_mask *",
            Run::Two(_) => "perigee_mask *ip4, perigee_mask *ip6",
            Run::None => continue,
        };
        writeln!(text, "int perigee_{}(perigee_context *, perigee_batch *, {masks});", module.name)
            .expect("a String takes everything");
    }
    text
}

fn offsets() -> String {
    BATCH_LAYOUT.iter().map(|field| format!("PERIGEE_AT({}, {});\n", field.name, field.offset)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets are written there, too: a change of the layout, which breaks shared libraries, does not go
    /// unnoticed.
    #[test]
    fn the_copy_in_include_is_up_to_date() {
        assert!(
            COPY == header(),
            "lib/lua/include/perigee.h does not agree with the registry or the batch; run: cargo run -p perigee-lua \
             --example header"
        );
    }

    #[test]
    fn every_module_has_a_prototype() {
        let definitions = definitions();
        for module in MODULES.iter().filter(|module| !matches!(module.run, Run::None)) {
            assert!(definitions.contains(&format!("int perigee_{}(", module.name)), "{}", module.name);
        }
    }
}
