// SPDX-License-Identifier: MIT
//! Whether a thread may leave a script where it stands: no code between there and the call of the script may belong to
//! a library that was there before the first script. Such a library may hold a lock of the whole process: the dynamic
//! loader's around the constructor of a C module, `malloc`'s, that of a file.
//!
//! ```text
//!  perigee_exit_call ► LuaJIT ► C module ► LuaJIT ► ...      may be left
//!  perigee_exit_call ► LuaJIT ► libc: dlopen ► constructor   may not: that is the loader's lock
//!  perigee_exit_call ► LuaJIT ► libc: read ► kernel          may, if it waits: the signal has ended the system call (EINTR)
//! ```
//!
//! Two ways to know, of which one is enough. First, the words on the stack are looked through: if none of them is an
//! address in a library's code, no frame is a library's. That is sound, but what earlier calls have left behind looks
//! like one. Then the frames are followed by what the compiler says of them. LuaJIT's machine code has no such
//! description; LuaJIT says where the interpreter lies in whose frame it runs, and the frames are followed from there.
//! From other code without a description on, such as a script's own machine code, the words are looked through.

use super::code::{self, Whose};
use mlua::ffi::lua_State;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// Where a thread stands.
pub(super) struct Place {
    /// The instruction it is at.
    pub at: usize,
    /// Its stack pointer.
    pub stack: usize,
    /// Whether a system call has just been ended by a signal.
    pub interrupted: bool,
    /// What the signal handler was given.
    pub context: *mut libc::ucontext_t,
}

/// The part of a stack that is in question.
#[derive(Clone, Copy)]
pub(super) struct Bounds {
    /// The lowest address of the thread's stack.
    pub low: usize,
    /// Where the stack of the code that may be left begins.
    pub frame: usize,
    /// The VM of the script, the thread's own; null before its first.
    pub state: *mut lua_State,
}

/// Whether the thread may leave the script from where it was interrupted. To be called by its signal handler.
pub(super) fn may_leave(place: &Place, bounds: Bounds) -> bool {
    let in_library = code::is_library(place.at);
    let waits = in_library && place.interrupted && code::is_c_library(place.at) && behind_system_call(place.at);
    if in_library && !waits {
        return false;
    }
    (!in_library && is_clean(place.stack, bounds)) || follow_through(place, waits, bounds)
}

/// Whether the thread may leave from here: the end of a call into perigee.
pub(super) fn may_leave_here(bounds: Bounds) -> bool {
    match follow(0, None, false, bounds) {
        Followed::Ended(may) => may,
        // There is nothing to follow them by.
        Followed::ToInterpreter(stack) => is_clean(stack, bounds),
    }
}

/// Follows the frames from where the thread was interrupted, and again below each stretch of LuaJIT's machine code, as
/// if the interpreter had been interrupted in whose frame that runs.
fn follow_through(place: &Place, waits: bool, bounds: Bounds) -> bool {
    /// Finalizers run above machine code that is being left, and may do the same.
    const MOST: usize = 16;
    // In LuaJIT's assembly, a frame is not everywhere as described. The unwinder reads the address that it takes for the
    // next frame, and that may be any.
    // SAFETY: the VM of the script that this thread is in.
    let is_described =
        bounds.state.is_null() || unsafe { perigee_exit_is_described(bounds.state, place.at, place.stack) } != 0;
    if !is_described {
        return false;
    }
    let mut followed = follow(place.stack, Some(place.at), waits, bounds);
    for _ in 0..MOST {
        let Followed::ToInterpreter(stack) = followed else { break };
        // SAFETY: these have no requirements.
        let (at, size) = unsafe { (perigee_exit_in_interpreter(), perigee_exit_frame_size()) };
        let kept = super::move_to(place.context, at, stack, size);
        followed = follow(stack, Some(at), false, bounds);
        // SAFETY: the handler's own, which is valid until it returns.
        unsafe { (*place.context).uc_mcontext = kept };
    }
    followed == Followed::Ended(true)
}

/// Whether no word between a stack pointer and the frame is an address in a library's code. Not return addresses alone:
/// a handler of a C module's may have interrupted a library anywhere.
fn is_clean(stack: usize, bounds: Bounds) -> bool {
    // Another stack than the thread's: what called it is not known.
    if stack < bounds.low || stack > bounds.frame {
        return false;
    }
    let words = (stack & !7..bounds.frame).step_by(8);
    // SAFETY: all of it is the stack of this very thread, in use.
    let mut words = words.map(|at| unsafe { (at as *const usize).read_volatile() });
    !words.any(|word| code::is_library(address(word)))
}

/// A return address without what the processor signs it with.
fn address(word: usize) -> usize {
    if cfg!(target_arch = "aarch64") { word & 0xffff_ffff_ffff } else { word }
}

/// Whether the instruction before an address of a library is a system call.
fn behind_system_call(at: usize) -> bool {
    const CALL: &[u8] = if cfg!(target_arch = "x86_64") { &[0x0f, 0x05] } else { &[0x01, 0x00, 0x00, 0xd4] };
    // SAFETY: the thread has just run the code there.
    unsafe { std::slice::from_raw_parts((at - CALL.len()) as *const u8, CALL.len()) == CALL }
}

unsafe extern "C" {
    fn perigee_exit_interpreter(state: *mut lua_State, at: usize, stack: usize) -> usize;
    fn perigee_exit_leaves_machine_code(at: usize) -> c_int;
    fn perigee_exit_interpreter_of(coroutine: usize, stack: usize) -> usize;
    fn perigee_exit_is_described(state: *mut lua_State, at: usize, stack: usize) -> c_int;
    fn perigee_exit_in_interpreter() -> usize;
    fn perigee_exit_frame_size() -> usize;
    fn _Unwind_Backtrace(each: extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_GetCFA(context: *mut c_void) -> usize;
    fn _Unwind_GetGR(context: *mut c_void, register: c_int) -> usize;
}

/// A walk from frame to frame.
struct Walk {
    bounds: Bounds,
    /// The stack pointer of the first frame that counts, and its address if the thread was interrupted there.
    stack: usize,
    top: Option<usize>,
    started: bool,
    /// The thread waits in a library, and all frames so far are that library's; the outermost of them.
    waits: bool,
    entry: usize,
    followed: Followed,
}

/// How far frames could be followed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Followed {
    /// To the end, or as far as need be; whether the thread may leave.
    Ended(bool),
    /// To LuaJIT's machine code; the stack pointer of the interpreter in whose frame that runs.
    ToInterpreter(usize),
}

const GO_ON: c_int = 0;
const ENOUGH: c_int = 5;

/// Follows the frames from a stack pointer on; whether none is a library's, but for those of a function that waits.
fn follow(stack: usize, top: Option<usize>, waits: bool, bounds: Bounds) -> Followed {
    let (started, entry, followed) = (false, 0, Followed::Ended(false));
    let mut walk = Walk { bounds, stack, top, started, waits, entry, followed };
    // SAFETY: `each` takes what it is given here. The walk allocates nothing; it takes the lock of the unwinder where
    // LuaJIT has registered machine code, which this thread does not hold, as it stands in no library of that kind.
    unsafe { _Unwind_Backtrace(each, (&raw mut walk).cast()) };
    walk.followed
}

extern "C" fn each(context: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: `follow` has made it, and nobody else has it; the context is valid during the call.
    let (walk, at, stack) = unsafe { (&mut *walk.cast::<Walk>(), _Unwind_GetIP(context), _Unwind_GetCFA(context)) };
    // SAFETY: the context is valid during the call; the register is a callee-saved one.
    walk.step(at, stack, || unsafe { _Unwind_GetGR(context, COROUTINE) })
}

/// The register in which LuaJIT's assembly keeps the coroutine while it leaves machine code, by its number in
/// descriptions of frames: rbp (vm_x64.dasc, RB) and x23 (vm_arm64.dasc, L).
const COROUTINE: c_int = if cfg!(target_arch = "x86_64") { 6 } else { 23 };

impl Walk {
    fn step(&mut self, at: usize, stack: usize, coroutine: impl FnOnce() -> usize) -> c_int {
        if !self.started && (stack < self.stack || self.top.is_some_and(|top| top != at)) {
            // The handler's own frames.
            return if stack >= self.bounds.frame { ENOUGH } else { GO_ON };
        }
        // A return address is behind its call, which may be a function's last instruction.
        let is_interrupted = !self.started && self.top.is_some();
        let at = if is_interrupted { at } else { at.wrapping_sub(1) };
        self.started = true;
        if stack >= self.bounds.frame {
            self.followed = Followed::Ended(!self.waits);
            return ENOUGH;
        }
        let whose = code::whose(at);
        match whose {
            Whose::Library if self.waits => {
                self.entry = at;
                return GO_ON;
            }
            Whose::Library => return ENOUGH,
            Whose::Program | Whose::Module | Whose::Unknown => {}
        }
        if std::mem::take(&mut self.waits) && !code::waits(self.entry) {
            return ENOUGH;
        }
        // SAFETY: has no requirements.
        if unsafe { perigee_exit_leaves_machine_code(at) } != 0 {
            // SAFETY: the register has the coroutine, which is one of the VM's that this thread is in.
            self.followed = self.to_interpreter(unsafe { perigee_exit_interpreter_of(coroutine(), stack) }, stack);
            return ENOUGH;
        }
        if whose == Whose::Unknown {
            self.followed = self.to_interpreter(self.interpreter(at, stack), stack);
            return ENOUGH;
        }
        GO_ON
    }

    /// On from the interpreter at `found`, if that is there; otherwise the words say whether the thread may leave.
    fn to_interpreter(&self, found: usize, stack: usize) -> Followed {
        match found >= stack && found < self.bounds.frame {
            true => Followed::ToInterpreter(found),
            false => Followed::Ended(is_clean(stack, self.bounds)),
        }
    }

    /// If this is LuaJIT's machine code, the stack pointer of the interpreter in whose frame it runs; otherwise 0.
    fn interpreter(&self, at: usize, stack: usize) -> usize {
        if self.bounds.state.is_null() {
            return 0;
        }
        // SAFETY: the VM of the script that this thread is in.
        unsafe { perigee_exit_interpreter(self.bounds.state, at, stack) }
    }
}

/// What a walk needs is prepared by the first one: not in a handler.
pub(super) fn prepare() {
    let bounds = Bounds { low: 0, frame: usize::MAX, state: null_mut() };
    let _ = follow(0, None, false, bounds);
}
