// SPDX-License-Identifier: MIT
//! That the C compiler notices where Rust's declarations are not C's (`build/check.rs`): each test changes the text of
//! one, and has it compiled as `build.rs` does.

#[path = "../build/check.rs"]
mod check;
#[path = "../build/declarations.rs"]
mod declarations;

use check::Source;
use std::process::Command;

const FFI: &str = "src/ffi.rs";
const ARRAYS: &str = "../packet/src/batch/moves.rs";
const FLAGS: &str = "../packet/src/batch/flags.rs";
const TASKS: &str = "src/snabb/tasks.rs";

/// The C file for what the files declare.
fn c_file(text: impl Fn(&str) -> String) -> String {
    declarations::c_file(text).unwrap_or_else(|sentence| panic!("{sentence}"))
}

fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Has it compiled by the compiler that `build.rs` uses, with the same flags; the error is what that says.
fn compile(c: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("declarations.c");
    std::fs::write(&file, c).unwrap();
    let mut words = include_str!(concat!(env!("OUT_DIR"), "/compiler")).lines();
    let mut compiler = Command::new(words.next().unwrap());
    compiler.args(words).args(["-I", "src", "-fsyntax-only"]).arg(file).env("LC_ALL", "C");
    let output = compiler.output().unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// A change of a declaration: the file, words that it has once, others for them, and what an error at a line of that
/// file says then.
type Change<'a> = (&'a str, &'a str, &'a str, &'a str);

/// All changes are made in one text, and each has to give its error.
fn refuses(changes: &[Change]) {
    let compiled = compile(&c_file(|path| {
        changes.iter().filter(|change| change.0 == path).fold(text(path), |text, (_, from, to, _)| {
            assert_eq!(text.matches(from).count(), 1, "{path} has this once: {from}");
            text.replace(from, to)
        })
    }));
    let said = compiled.unwrap_err();
    for (path, from, to, words) in changes {
        let found = said.lines().any(|line| line.starts_with(path) && line.contains("error") && line.contains(words));
        assert!(found, "`{to}` for `{from}` gives no error with `{words}`: {said}");
    }
}

#[test]
fn what_is_declared_is_what_the_headers_have() {
    assert_eq!(compile(&c_file(text)), Ok(()));
}

#[test]
fn a_field_that_moved_is_noticed() {
    refuses(&[
        (FFI, "data_off: u16,\n    pub refcnt:", "refcnt: u16,\n    pub data_off:", "Mbuf.data_off lies elsewhere"),
        (FFI, "    _next: u64,\n", "", "Mbuf.tx_offload lies elsewhere in struct rte_mbuf"),
        (FFI, "    pub max_mtu: u16,\n", "", "DeviceInfo.reta_size lies elsewhere in struct perigee_device"),
        (ARRAYS, "    pub length: *mut u16,\n", "", "ReceiveArrays.port lies elsewhere in struct perigee_arrays"),
    ]);
}

#[test]
fn a_field_of_another_type_is_noticed() {
    refuses(&[
        (FFI, "pub pkt_len: u32,", "pub pkt_len: u16,", "Mbuf.pkt_len has another type in struct rte_mbuf"),
        (FFI, "pub buf_addr: *mut c_void,", "pub buf_addr: u64,", "Mbuf.buf_addr has another type"),
        (FFI, "pub socket: i32,", "pub socket: u32,", "DeviceInfo.socket has another type"),
        (FFI, "pub device: *mut Device,", "pub device: *mut Mbuf,", "DeviceInfo.device has another type"),
        (FFI, "pub source_mask: [u8; 16],", "pub source_mask: [u8; 4],", "FlowPattern.source_mask has another type"),
        (ARRAYS, "pub hash: *mut u32,", "pub hash: *mut u64,", "ReceiveArrays.hash has another type"),
    ]);
}

#[test]
fn a_field_that_is_missing_or_unknown_is_noticed() {
    refuses(&[
        (FFI, "    pub max_frame: u64,\n", "", "SnabbQueues has another size or alignment"),
        (FFI, "pub speed_known: u8,", "pub speed_knows: u8,", "speed_knows"),
        (FFI, "    _rest: [u8; 0],\n", "    _more: [u8; 1000],\n    _rest: [u8; 0],\n", "Mbuf is longer"),
    ]);
}

#[test]
fn a_constant_of_another_value_is_noticed() {
    refuses(&[
        (
            FFI,
            "MBUF_LRO: u64 = 1 << 16;",
            "MBUF_LRO: u64 = 1 << 17;",
            "MBUF_LRO is 131072, and RTE_MBUF_F_RX_LRO is not",
        ),
        (FFI, "LCORE_ANY: c_uint = c_uint::MAX;", "LCORE_ANY: c_uint = 0;", "LCORE_ANY is 0"),
        (FFI, "SNABB_STRIDE: usize = 23 *", "SNABB_STRIDE: usize = 24 *", "SNABB_STRIDE is 12288"),
        (FLAGS, "pub const HASH: u8 = 4;", "pub const HASH: u8 = 8;", "HASH is 8, and PERIGEE_HASH is not"),
    ]);
}

#[test]
fn another_signature_is_noticed() {
    refuses(&[
        // A parameter of another width, one too few, of another structure, not constant any more; another result.
        (
            FFI,
            "rte_lpm_add(lpm: *mut Lpm, ip: u32, length: u8,",
            "rte_lpm_add(lpm: *mut Lpm, ip: u32, length: u16,",
            "conflicting types for 'rte_lpm_add'",
        ),
        (
            FFI,
            "rte_fib_add(fib: *mut Fib, ip: u32, length: u8, id: u64)",
            "rte_fib_add(fib: *mut Fib, ip: u32, length: u8)",
            "conflicting types for 'rte_fib_add'",
        ),
        (
            FFI,
            "rte_mempool_free(pool: *mut Mempool)",
            "rte_mempool_free(pool: *mut Ring)",
            "conflicting types for 'rte_mempool_free'",
        ),
        (FFI, "rte_dev_probe(devargs: *const", "rte_dev_probe(devargs: *mut", "conflicting types for 'rte_dev_probe'"),
        (FFI, "rte_eal_cleanup() -> c_int", "rte_eal_cleanup()", "conflicting types for 'rte_eal_cleanup'"),
        (FFI, "to: *mut [u64; 8])", "to: *mut [u64; 7])", "conflicting types for 'perigee_port_stats'"),
        (FFI, "c_char, usize) -> isize;", "c_char, usize) -> c_int;", "conflicting types for 'perigee_log_stream'"),
        (TASKS, "    n: u32,\n", "    n: u16,\n", "conflicting types for 'perigee_snabb_to_batch'"),
    ]);
}

#[test]
fn a_function_that_is_gone_is_noticed() {
    refuses(&[(FFI, "pub fn rte_ring_free(", "pub fn rte_ring_release(", "'rte_ring_release' undeclared")]);
}

/// What is not understood is refused, by a sentence with the item's name.
#[test]
fn what_is_not_understood_is_refused() {
    let refused = |text: &str, name: &str, why: &str| {
        let sources = [Source { path: FFI, text, items: None }];
        let sentence = check::c_file(&[], &sources, &[]).unwrap_err();
        assert!(sentence.starts_with(&format!("{FFI}: {name}")) && sentence.contains(why), "{text}: {sentence}");
    };
    let alias = "#[doc(alias = \"struct s\")]";
    refused("#[repr(C)] struct S { a: u8 }", "S", "does not say what it is in C");
    refused("const A: u8 = 1;", "A", "does not say what it is in C");
    refused(&format!("{alias} struct S {{ a: u8 }}"), "S", "give it #[repr(C)]");
    refused(&format!("{alias} #[repr(C, packed)] struct S {{ a: u8 }}"), "S", "attribute `repr`");
    refused(&format!("{alias} #[repr(C)] struct S<T> {{ a: *mut T }}"), "S", "no parameters");
    refused(&format!("{alias} #[repr(C)] struct S(u8);"), "S", "without a name");
    refused(&format!("{alias} #[repr(C)] struct S {{ a: bool }}"), "S", "a: its type `bool` is not known");
    refused(&format!("{alias} #[repr(C)] struct S {{ a: &'static u8 }}"), "S", "a: its type is not understood");
    refused("#[doc(alias = \"A\")] const A: u8 = 8 / 2;", "A", "arithmetic");
    refused("#[doc(alias = \"A\")] #[cfg(unix)] const A: u8 = 8;", "A", "attribute `cfg`");
    refused("#[repr(C)] enum E { A }", "E", "not understood");
    refused("#[repr(C)] union U { a: u8 }", "U", "not understood");
    refused("static S: u8 = 1;", "S", "not understood");
    refused("something! {}", "macro", "not understood");
    refused("use std::ffi::c_int as c_uint;", "use", "another name");
    refused("use std::ffi::*;", "use", "a glob");
    refused("extern \"C\" { static S: u8; }", "extern", "only functions");
    refused("extern \"C\" { #[link_name = \"g\"] fn f(); }", "extern: f", "attribute `link_name`");
    refused("extern \"C\" { fn f(a: u8, ...); }", "f", "variadic");
    refused("extern \"C\" { fn f(a: fn(u8)); }", "f", "not understood");
    refused("extern \"system\" { fn f(); }", "extern", "not understood");
    let elsewhere = [Source { path: FLAGS, text: "mod flags {}", items: Some(&[("HASH", "PERIGEE_HASH")]) }];
    assert!(check::c_file(&[], &elsewhere, &[]).unwrap_err().contains("there is no HASH"));
}

/// Declarations are written as C reads them, from the inside out.
#[test]
fn declarators_are_those_of_c() {
    let written = |signature: &str| {
        let text = format!(
            "type Write = extern \"C\" fn(*mut c_void, *const c_char) -> isize; extern \"C\" {{ fn f{signature}; }}"
        );
        let c = check::c_file(&[], &[Source { path: FFI, text: &text, items: None }], &[("Mbuf", "struct rte_mbuf")]);
        c.unwrap().lines().last().unwrap().to_owned()
    };
    assert_eq!(written("()"), "void f(void);");
    assert_eq!(written("(a: *const *mut Mbuf) -> *const u8"), "const uint8_t *f(struct rte_mbuf *const *);");
    assert_eq!(written("(a: *mut *const Mbuf)"), "void f(const struct rte_mbuf **);");
    assert_eq!(written("(a: *const [u8; 2 + (1 << 4)])"), "void f(const uint8_t (*)[18]);");
    assert_eq!(written("(a: [[u8; 2]; 3])"), "void f(uint8_t [3][2]);");
    assert_eq!(written("(a: Write)"), "void f(ssize_t (*)(void *, const char *));");
    assert_eq!(written("(a: *const Write)"), "void f(ssize_t (*const *)(void *, const char *));");
}
