// SPDX-License-Identifier: MIT
//! The in-kernel plane against the modules that workers run, by BPF_PROG_TEST_RUN: as root only, as it loads a program.
//! Nothing is sent, and no interface is touched.

#[allow(dead_code, reason = "the fuzzer uses more of it")]
mod bed;
mod frames;
mod lookups;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let arguments = Arguments::from_args();
    if !rustix::process::geteuid().is_root() {
        println!("not run: loading BPF programs takes root");
        return;
    }
    let case = |name: &str, run: fn()| {
        Trial::test(name, move || {
            run();
            Ok(())
        })
    };
    let cases = vec![
        case("frames_fare_alike_in_both_planes", frames::fare_alike),
        case("frames_fare_alike_with_filters", frames::fare_alike_with_filters),
        case("linux_gets_what_the_router_does_not_finish", frames::linux_gets_what_the_router_does_not_finish),
        case("extension_headers_are_followed_for_linux", frames::extension_headers_are_followed_for_linux),
        case("linux_gets_all_of_ipv4_where_it_has_no_address", frames::linux_gets_all_of_ipv4_where_it_has_no_address),
        case("frames_fare_alike_with_reverse_paths", frames::fare_alike_with_reverse_paths),
        case("lookups_agree_while_routes_change", lookups::agree_while_routes_change),
        case("groups_and_neighbors_agree", lookups::groups_and_neighbors_agree),
    ];
    libtest_mimic::run(&arguments, cases).exit();
}
