// SPDX-License-Identifier: MIT
//! The way out of a script that does not return: its thread is stopped where it stands and goes on behind the call.
//!
//! A hook of LuaJIT's does not fire in compiled code, and nothing in Lua reaches a C module that loops or sleeps. A signal reaches
//! all of them. Its handler jumps back (`siglongjmp`) to where the thread called the script, over frames of C and of LuaJIT only;
//! the VM is in an unknown state then and is never touched again, not even to free it.
//!
//! ```text
//!  watchdog ──signal──► handler on the script's thread, by where that stands:
//!                         in the script: interpreter, machine code, C module ─────► leaves
//!                         in perigee itself, called by the script ────────────────► leaves at the end of that call
//!                         in a library (malloc may hold its lock) ────────────────► not now; the watchdog tries again
//!                         asleep in the kernel, in a call under no lock ──────────► leaves
//! ```
//!
//! So nothing of Rust's is ever left half-done, and no lock of the C library stays locked.

use mlua::ffi::{self, lua_State};
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Once, OnceLock};
use std::time::Duration;

unsafe extern "C-unwind" {
    fn perigee_exit_pcall(
        jump: *mut c_void,
        armed: *const AtomicI32,
        state: *mut lua_State,
        arguments: c_int,
        results: c_int,
    ) -> c_int;
    fn perigee_exit_leave(jump: *mut c_void) -> !;
}

/// The call was left: the VM must not be used any more, in no way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left;

/// A thread's way out of the scripts that it runs.
#[repr(C, align(16))]
pub(crate) struct Exit {
    /// A `sigjmp_buf`, written by the thread itself.
    jump: UnsafeCell<[u8; 512]>,
    /// 1 while the thread is in a script.
    armed: AtomicI32,
    /// Counts the calls of scripts.
    calls: AtomicU64,
    /// The call to leave: a signal that comes late does not end the next one.
    wanted: AtomicU64,
    /// Whether the thread was last found asleep in the kernel, in a call under no lock.
    asleep: AtomicBool,
    /// The thread's number in the kernel.
    thread: c_int,
}

// SAFETY: only its thread touches `jump`; the rest is atomic or constant.
unsafe impl Sync for Exit {}
// SAFETY: it belongs to nothing that is bound to a thread: others only read atomics and send signals.
unsafe impl Send for Exit {}

thread_local! {
    /// What the handler needs: plain words, as nothing else can be read in it.
    static EXIT: Cell<*const Exit> = const { Cell::new(null()) };
    /// How deep the script's thread is in perigee itself.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Whether to leave at the end of that.
    static PENDING: Cell<bool> = const { Cell::new(false) };
}

/// The signal: a real-time one, as libraries use the others.
fn signal() -> c_int {
    libc::SIGRTMIN() + 5
}

impl Exit {
    /// Prepares the calling thread, which may run scripts as long as it keeps this.
    pub(crate) fn of_this_thread() -> Own {
        static HANDLER: Once = Once::new();
        HANDLER.call_once(install);
        let exit = Arc::new(Exit {
            jump: UnsafeCell::new([0; 512]),
            armed: AtomicI32::new(0),
            calls: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            asleep: AtomicBool::new(false),
            // SAFETY: has no requirements.
            thread: unsafe { libc::gettid() },
        });
        EXIT.set(Arc::as_ptr(&exit));
        Own { exit, _not_another_threads: PhantomData }
    }

    /// Calls the function below its arguments on the stack of `state`, as `lua_pcall` does, and returns its status. To be called by
    /// this exit's thread.
    ///
    /// # Safety
    /// `state` is a VM that nothing else uses meanwhile, with a function and `arguments` values on its stack.
    pub(crate) unsafe fn call(&self, state: *mut lua_State, arguments: c_int, results: c_int) -> Result<c_int, Left> {
        assert!(std::ptr::eq(EXIT.get(), self), "a thread leaves by its own exit");
        self.calls.fetch_add(1, Ordering::Relaxed);
        let (depth, jump) = (DEPTH.replace(0), self.jump.get().cast());
        // SAFETY: `jump` is large enough and this thread's, and the caller vouches for the stack. Rust's frames, from here on down,
        // are not left: `perigee_exit_leave` ends in `perigee_exit_pcall`.
        let status = unsafe { perigee_exit_pcall(jump, &raw const self.armed, state, arguments, results) };
        DEPTH.set(depth);
        PENDING.set(false);
        self.asleep.store(false, Ordering::Relaxed);
        if status < 0 { Err(Left) } else { Ok(status) }
    }

    /// Whether its thread is in a script, and in the how-manieth call of one.
    pub(crate) fn in_script(&self) -> Option<u64> {
        (self.armed.load(Ordering::Acquire) != 0).then(|| self.calls.load(Ordering::Relaxed))
    }

    /// Asks the thread to leave a call of a script now, if it can; to be repeated until [`Self::in_script`] says that it has.
    /// `asleep`: it sleeps in the kernel, in a call under no lock.
    pub(crate) fn push(&self, call: u64, asleep: bool) {
        self.asleep.store(asleep, Ordering::Relaxed);
        self.wanted.store(call, Ordering::Release);
        // SAFETY: has no requirements; a thread that has ended is an error, which means that it has left.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, signal()) };
    }

    /// CPU time of its thread; `None` if it has ended.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        // The clock of a thread, as the kernel encodes it (linux/posix-timers.h): CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED.
        let clock = !self.thread << 3 | 6;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is valid.
        let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
        (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }

    /// The system call in which its thread sleeps; `None` if it runs, or if it cannot be known.
    pub(crate) fn sleeps_in(&self) -> Option<i64> {
        let text = std::fs::read_to_string(format!("/proc/self/task/{}/syscall", self.thread)).ok()?;
        text.split(' ').next()?.parse().ok()
    }
}

/// A thread's hold of its own exit. Others may keep the exit for longer, but the handler does not know it any more.
pub(crate) struct Own {
    exit: Arc<Exit>,
    _not_another_threads: PhantomData<*const ()>,
}

impl Deref for Own {
    type Target = Arc<Exit>;

    fn deref(&self) -> &Arc<Exit> {
        &self.exit
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if std::ptr::eq(EXIT.get(), &raw const *self.exit) {
            EXIT.set(null());
        }
    }
}

/// A call from a script into perigee begins: it is not left before [`leave_host`].
#[inline(always)]
pub(crate) fn enter_host() {
    DEPTH.set(DEPTH.get() + 1);
}

/// A call from a script into perigee ends. To be called last, with nothing left to drop: it may not return.
#[inline(always)]
pub(crate) fn leave_host() {
    let depth = DEPTH.get().wrapping_sub(1);
    DEPTH.set(depth);
    if depth == 0 && PENDING.get() {
        leave();
    }
}

/// Runs something that is not left, in a call that may only be left later.
pub(crate) fn in_host<T>(body: impl FnOnce() -> T) -> T {
    enter_host();
    let result = body();
    DEPTH.set(DEPTH.get().wrapping_sub(1));
    result
}

#[cold]
#[inline(never)]
fn leave() {
    // SAFETY: the thread's own exit, which it keeps alive while this is not null.
    let Some(exit) = (unsafe { EXIT.get().as_ref() }) else { return };
    if exit.armed.swap(0, Ordering::AcqRel) != 0 {
        // SAFETY: armed: `perigee_exit_pcall` has not returned, and what is between has nothing to drop.
        unsafe { perigee_exit_leave(exit.jump.get().cast()) }
    }
}

/// Where the code of libraries lies that were there before the first script: a thread is not stopped in them.
static LIBRARIES: OnceLock<Vec<(usize, usize)>> = OnceLock::new();

/// Finds the libraries and installs the handler.
fn install() {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
        // SAFETY: both pointers are valid during the call; headers are as many as it says.
        unsafe {
            let (info, list) = (&*info, &mut *list.cast::<Vec<(usize, usize)>>());
            // The program itself has no name.
            if *info.dlpi_name == 0 && list.is_empty() {
                list.push((0, 0));
                return 0;
            }
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            let code =
                headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
            list.extend(code.map(|header| {
                let start = (info.dlpi_addr + header.p_vaddr) as usize;
                (start, start + header.p_memsz as usize)
            }));
        }
        0
    }
    let mut list: Vec<(usize, usize)> = Vec::new();
    // SAFETY: `add` takes what it is given here, and keeps none of it.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut list).cast()) };
    let _ = LIBRARIES.set(list);
    // SAFETY: a zeroed sigaction is one with nothing set; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        // No SA_RESTART: a call in which the script sleeps is to end.
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal(), &raw const action, std::ptr::null_mut());
    }
}

/// The signal's handler; calls nothing but what is above.
extern "C" fn handle(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: see `leave`.
    let Some(exit) = (unsafe { EXIT.get().as_ref() }) else { return };
    let wanted = exit.wanted.load(Ordering::Acquire) == exit.calls.load(Ordering::Relaxed);
    if !wanted || exit.armed.load(Ordering::Relaxed) == 0 {
        return;
    }
    if DEPTH.get() > 0 {
        PENDING.set(true);
        return;
    }
    // SAFETY: the kernel gives a valid one.
    let at = program_counter(unsafe { &*context.cast() });
    let in_library = LIBRARIES.get().is_none_or(|list| list.iter().any(|(from, to)| (*from..*to).contains(&at)));
    if !in_library || (exit.asleep.load(Ordering::Relaxed) && behind_system_call(at)) {
        leave();
    }
}

#[cfg(target_arch = "x86_64")]
fn program_counter(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize
}

#[cfg(target_arch = "aarch64")]
fn program_counter(context: &libc::ucontext_t) -> usize {
    context.uc_mcontext.pc as usize
}

/// Whether the instruction before an address is a system call.
fn behind_system_call(at: usize) -> bool {
    const CALL: &[u8] = if cfg!(target_arch = "x86_64") { &[0x0f, 0x05] } else { &[0x01, 0x00, 0x00, 0xd4] };
    // SAFETY: the thread has just run the code there.
    unsafe { std::slice::from_raw_parts((at - CALL.len()) as *const u8, CALL.len()) == CALL }
}

/// Pushes the value of this name in the registry of a VM.
///
/// # Safety
/// `state` is a VM that nothing else uses meanwhile.
pub(crate) unsafe fn push_named(state: *mut lua_State, name: &std::ffi::CStr) {
    // SAFETY: the caller's.
    unsafe { ffi::lua_getfield(state, ffi::LUA_REGISTRYINDEX, name.as_ptr()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The watchdog dropped an exit that its thread had given up: the thread's handler would have read it all the same.
    #[test]
    fn a_handler_does_not_know_an_exit_that_only_others_keep() {
        std::thread::spawn(|| {
            let own = Exit::of_this_thread();
            let of_the_watchdog = Arc::clone(&own);
            assert!(std::ptr::eq(EXIT.get(), Arc::as_ptr(&of_the_watchdog)));
            drop(own);
            assert!(EXIT.get().is_null());
            assert_eq!(Arc::strong_count(&of_the_watchdog), 1);
        })
        .join()
        .unwrap();
    }
}
