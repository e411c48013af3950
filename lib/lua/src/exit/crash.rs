// SPDX-License-Identifier: MIT
//! Ends that nobody asked for, said in the log: a crash in a C module, `exit` in a C module. What runs here runs in
//! signal handlers.

use super::{EXIT, Exit, code, force::say};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

/// The signals of a crash.
const CRASHES: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGFPE, "SIGFPE"),
    (libc::SIGABRT, "SIGABRT"),
];

/// What happened at these signals before: the standard library's message about a stack that overflows, or the system's
/// default.
struct Before(UnsafeCell<[MaybeUninit<libc::sigaction>; CRASHES.len()]>);

// SAFETY: written once, before the handler that reads it is in place.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new([const { MaybeUninit::uninit() }; CRASHES.len()]));

/// Installs handlers for crashes and for `exit`. To be called once.
pub(super) fn install() {
    for (index, (signal, _)) in CRASHES.iter().enumerate() {
        // SAFETY: a zeroed sigaction is one with nothing set; the handler is async-signal-safe, and runs on the stack
        // that each thread has for the case that its own has overflowed. What was there is stored before the handler
        // can be called.
        unsafe {
            let before = (*BEFORE.0.get())[index].as_mut_ptr();
            libc::sigaction(*signal, std::ptr::null(), before);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = crashed as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut action.sa_mask);
            libc::sigaction(*signal, &raw const action, null_mut());
        }
    }
    // SAFETY: the function may be called at any time.
    unsafe { libc::atexit(exited) };
}

/// The signal's handler: says what is known, and lets happen what would have happened.
extern "C" fn crashed(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(index) = CRASHES.iter().position(|(number, _)| *number == signal) else { return };
    // SAFETY: the kernel gives valid ones; `install` has stored what was there before.
    let (info, at, stack, before) = unsafe {
        let (at, stack, _) = super::registers(&*context.cast());
        (&*info, at, stack, (*BEFORE.0.get())[index].as_ptr())
    };
    // SAFETY: the thread's own exit, which it keeps alive while this is not null.
    let exit = unsafe { EXIT.get().as_ref() }.filter(|exit| exit.in_script().is_some());
    let place = code::name(at).unwrap_or("code that is in no file");
    let caller = exit.and_then(|exit| called_by(exit, at, stack)).unwrap_or("");
    let by = if caller.is_empty() { "" } else { ", called by " };
    let (script, name) = match exit {
        Some(exit) => (", in the script ", exit.script()),
        None => ("", ""),
    };
    // Of a signal that somebody sent there is no address.
    let sent = info.si_code <= 0;
    match sent {
        true => say(format_args!("{} in {place}{by}{caller}{script}{name}: the router crashes", CRASHES[index].1)),
        false => {
            // SAFETY: the kernel's own signals have an address.
            let address = unsafe { info.si_addr() } as usize;
            let signal = CRASHES[index].1;
            say(format_args!(
                "{signal} at the address {address:#x} in {place}{by}{caller}{script}{name}: the router crashes"
            ));
        }
    }
    // SAFETY: `before` is what `sigaction` has stored. A fault happens again once this returns; what was sent is sent
    // again.
    unsafe {
        libc::sigaction(signal, before, null_mut());
        if sent {
            libc::raise(signal);
        }
    }
}

/// The C module that has called the code that crashed, as far as the stack shows it.
fn called_by(exit: &Exit, at: usize, stack: usize) -> Option<&'static str> {
    let bounds = exit.bounds();
    if code::whose(at) == code::Whose::Module || stack < bounds.low || stack >= bounds.frame {
        return None;
    }
    let words = (stack & !7..bounds.frame).step_by(8);
    // SAFETY: the stack of this very thread, in use.
    let mut words = words.map(|at| unsafe { (at as *const usize).read_volatile() });
    words.find(|word| code::whose(*word) == code::Whose::Module).and_then(code::name)
}

/// The process ends by `exit`: if a script did that, nobody has said so.
extern "C" fn exited() {
    // SAFETY: as in `crashed`.
    if let Some(exit) = unsafe { EXIT.get().as_ref() }.filter(|exit| exit.in_script().is_some()) {
        say(format_args!(
            "exit was called in C code of the script {}: the router ends, and the helper restores the interfaces",
            exit.script()
        ));
    }
}
