// SPDX-License-Identifier: MIT
//! Prints `bpf/reasons.h`.

fn main() {
    print!("{}", perigee_xdp::reasons::header());
}
