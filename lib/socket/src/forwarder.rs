// SPDX-License-Identifier: MIT
//! XDP programs that forward by themselves, in the kernel: what a router can be compared with. Instructions are those
//! of the kernel's Documentation/bpf/standardization/instruction-set.rst.

use crate::error::{Error, Result, xdp_failed};
use crate::sys::{Instruction, Mode, Program, Socket, XDP_PASS, interface};
use std::os::fd::OwnedFd;

/// What a program does with an interface's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forwarding<'a> {
    /// Sends all of them, as they are, through this interface.
    To(&'a str),
    /// Routes IPv4 by the kernel's table and its neighbors: checks lengths, lowers the TTL, writes both MAC addresses.
    /// What has options, an expired TTL, no route or no neighbor goes to the kernel. The header's checksum is
    /// adjusted and not checked.
    Table,
}

/// A program at an interface, in its driver; it is detached when this is dropped.
#[derive(Debug)]
pub struct XdpForwarder {
    _attached: OwnedFd,
}

impl XdpForwarder {
    /// Loads the program and attaches it to an interface of this thread's network namespace.
    ///
    /// # Errors
    /// One of the interfaces is not there, this is not root, or the driver takes no XDP program.
    pub fn attach(interface: &str, forwarding: Forwarding<'_>) -> Result<XdpForwarder> {
        let socket = Socket::open().map_err(|error| xdp_failed(interface, "no socket could be made", &error))?;
        let index = |name: &str| {
            interface::index(&socket, name)
                .map_err(|_| Error::new(format!("interface {name} is not there: `ip link` lists them")))
        };
        let instructions = match forwarding {
            Forwarding::To(other) => redirect(index(other)?),
            Forwarding::Table => route(),
        };
        // The kernel gives bpf_fib_lookup to programs under the GPL or a license beside it; that of these lines allows
        // it.
        let program = Program::new(&instructions, c"Dual MIT/GPL")
            .map_err(|error| xdp_failed(interface, "its XDP program could not be loaded", &error))?;
        let attached = program
            .attach(index(interface)?, Mode::Native)
            .map_err(|error| xdp_failed(interface, "no XDP program could be attached", &error))?;
        Ok(XdpForwarder { _attached: attached })
    }
}

// Registers: r0 has what a function returns, r1 to r5 its arguments, r10 the stack.
const CONTEXT: u8 = 6;
const FRAME: u8 = 7;
const STACK: u8 = 10;

const FUNC_REDIRECT: i32 = 23;
const FUNC_FIB_LOOKUP: i32 = 69;

/// Widths of loads and stores.
const BYTE: u8 = 0x10;
const HALF: u8 = 0x08;
const WORD: u8 = 0x00;
const DOUBLE: u8 = 0x18;

/// Where struct bpf_fib_lookup is on the stack, and its length.
const LOOKUP: i16 = -64;
const LOOKUP_BYTES: i32 = 64;

fn instruction(code: u8, to: u8, from: u8, offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, immediate }
}

/// `to = value`
fn set(to: u8, value: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, value)
}

/// `to = from`
fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0, 0)
}

/// `to += value`
fn add(to: u8, value: i32) -> Instruction {
    instruction(0x07, to, 0, 0, value)
}

/// `to = *(from + offset)`
fn load(width: u8, to: u8, from: u8, offset: i16) -> Instruction {
    instruction(0x61 | width, to, from, offset, 0)
}

/// `*(to + offset) = from`
fn store(width: u8, to: u8, offset: i16, from: u8) -> Instruction {
    instruction(0x63 | width, to, from, offset, 0)
}

fn call(function: i32) -> Instruction {
    instruction(0x85, 0, 0, 0, function)
}

/// `return r0`
fn exit() -> Instruction {
    instruction(0x95, 0, 0, 0, 0)
}

/// `return bpf_redirect(index, 0)`
fn redirect(index: i32) -> Vec<Instruction> {
    vec![set(1, index), set(2, 0), call(FUNC_REDIRECT), exit()]
}

/// A jump to the end of [`route`], where frames are given to the kernel; the offset is written when that is known.
fn to_kernel(code: u8, register: u8, other: u8, value: i32) -> Instruction {
    instruction(code, register, other, 0, value)
}

/// Jumps: unless equal, if greater, if at most; by a value, and by a register.
const UNLESS_EQUAL: u8 = 0x55;
const IF_GREATER_THAN_REGISTER: u8 = 0x2d;
const IF_AT_MOST: u8 = 0xb5;
const IF_LESS: u8 = 0xa5;

fn route() -> Vec<Instruction> {
    let mut program = check();
    program.extend(lookup());
    program.push(to_kernel(UNLESS_EQUAL, 0, 0, 0));
    program.extend(rewrite());
    // return bpf_redirect(the lookup's interface, 0)
    program.extend([load(WORD, 1, STACK, LOOKUP + 8), set(2, 0), call(FUNC_REDIRECT), exit()]);
    let end = program.len();
    program.extend([set(0, XDP_PASS), exit()]);
    for (at, jump) in program.iter_mut().enumerate() {
        let jumps = [UNLESS_EQUAL, IF_GREATER_THAN_REGISTER, IF_AT_MOST].contains(&jump.code);
        if jumps {
            jump.offset = (end - at - 1) as i16;
        }
    }
    program
}

/// Whole headers of Ethernet and IPv4, without options, and a TTL that is left.
fn check() -> Vec<Instruction> {
    vec![
        copy(CONTEXT, 1),
        load(WORD, FRAME, CONTEXT, 0),
        load(WORD, 3, CONTEXT, 4),
        copy(2, FRAME),
        add(2, 34),
        to_kernel(IF_GREATER_THAN_REGISTER, 2, 3, 0),
        load(HALF, 2, FRAME, 12),
        to_kernel(UNLESS_EQUAL, 2, 0, 0x0800_u16.to_be().into()),
        load(BYTE, 2, FRAME, 14),
        to_kernel(UNLESS_EQUAL, 2, 0, 0x45),
        load(BYTE, 2, FRAME, 22),
        to_kernel(IF_AT_MOST, 2, 0, 1),
    ]
}

/// `r0 = bpf_fib_lookup(context, lookup, 64, 0)`
fn lookup() -> Vec<Instruction> {
    let zeros = (0..8).map(|at| instruction(0x62 | DOUBLE, STACK, 0, LOOKUP + 8 * at, 0));
    let mut program: Vec<Instruction> = zeros.collect();
    program.extend([
        // family, protocol, type of service
        set(2, libc::AF_INET),
        store(BYTE, STACK, LOOKUP, 2),
        load(BYTE, 2, FRAME, 23),
        store(BYTE, STACK, LOOKUP + 1, 2),
        load(BYTE, 2, FRAME, 15),
        store(BYTE, STACK, LOOKUP + 12, 2),
        // length, in the machine's order of bytes
        load(HALF, 2, FRAME, 16),
        instruction(0xdc, 2, 0, 0, 16),
        store(HALF, STACK, LOOKUP + 6, 2),
        // the interface that the frame came from, both addresses
        load(WORD, 2, CONTEXT, 12),
        store(WORD, STACK, LOOKUP + 8, 2),
        load(WORD, 2, FRAME, 26),
        store(WORD, STACK, LOOKUP + 16, 2),
        load(WORD, 2, FRAME, 30),
        store(WORD, STACK, LOOKUP + 32, 2),
        copy(1, CONTEXT),
        copy(2, STACK),
        add(2, LOOKUP.into()),
        set(3, LOOKUP_BYTES),
        set(4, 0),
        call(FUNC_FIB_LOOKUP),
    ]);
    program
}

/// The TTL less one, the checksum with it (RFC 1624), MAC addresses of the next hop and of the interface.
fn rewrite() -> Vec<Instruction> {
    let mut program = vec![
        load(HALF, 2, FRAME, 24),
        add(2, 0x0100_u16.to_be().into()),
        instruction(IF_LESS, 2, 0, 1, 0xffff),
        add(2, 1),
        store(HALF, FRAME, 24, 2),
        load(BYTE, 2, FRAME, 22),
        add(2, -1),
        store(BYTE, FRAME, 22, 2),
    ];
    // To, then from, as in the frame; in the lookup they are the other way round.
    for (to, from) in [(0, 58), (6, 52)] {
        for at in [0, 2, 4] {
            program.extend([load(HALF, 2, STACK, LOOKUP + from + at), store(HALF, FRAME, to + at, 2)]);
        }
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_the_end_or_over_one_instruction() {
        let program = route();
        let end = program.len() - 2;
        assert_eq!(program[end], set(0, XDP_PASS));
        let jumps: Vec<(usize, &Instruction)> = program
            .iter()
            .enumerate()
            .filter(|(_, jump)| jump.code & 7 == 5 && ![0x85, 0x95].contains(&jump.code))
            .collect();
        assert_eq!(jumps.len(), 6);
        for (at, jump) in jumps {
            let there = at + 1 + usize::try_from(jump.offset).unwrap();
            assert!(there == end || (jump.code == IF_LESS && there == at + 2), "{at}: {jump:?}");
        }
    }

    #[test]
    fn codes_are_those_of_the_instruction_set() {
        assert_eq!(
            (load(BYTE, 2, 7, 22).code, load(HALF, 2, 7, 12).code, load(WORD, 7, 6, 0).code),
            (0x71, 0x69, 0x61)
        );
        assert_eq!(
            (store(BYTE, 7, 22, 2).code, store(HALF, 7, 24, 2).code, store(WORD, 10, -56, 2).code),
            (0x73, 0x6b, 0x63)
        );
        assert_eq!((load(WORD, 7, 6, 0).registers, 0x62 | DOUBLE), (0x67, 0x7a));
    }
}
