// SPDX-License-Identifier: MIT
//! The way out of a script that does not return: its thread is stopped where it stands and continues behind the call.
//!
//! A hook of LuaJIT's does not fire in compiled code, and nothing in Lua reaches a C module that loops or sleeps. A
//! signal reaches all of them. Its handler jumps back (`siglongjmp`) to where the thread called the script, over frames
//! of C and of LuaJIT only; the VM is in an unknown state then and is never touched again, not even to free it.
//!
//! ```text
//!  watchdog ──signal──► handler on the script's thread, by where that stands, and everything on its stack:
//!                         in the script: interpreter, machine code, C module ─────► leaves
//!                         in perigee itself, called by the script ────────────────► leaves at the end of that call
//!                         a library on the stack (it may hold a lock) ────────────► not now; the watchdog tries again
//!                         waiting in the kernel, in a call under no lock ─────────► leaves
//! ```
//!
//! So nothing of Rust's is ever left half-done, and no lock of the C library stays locked. A thread that cannot be left
//! at all ends the process: [`end_by_force`].
//!
//! | file | contents |
//! | --- | --- |
//! | `exit/stack.rs` | whether a thread may leave where it stands |
//! | `exit/code.rs` | whose code lies where |
//! | `exit/crash.rs` | crashes and `exit` in C modules, said in the log |
//! | `exit/force.rs` | the end by force |

mod code;
mod crash;
mod force;
mod stack;

pub(crate) use code::{learn_modules, take_loader_lock};
pub use force::{end_by_force, end_within};

use mlua::ffi::{self, lua_State};
use stack::{Bounds, Place};
use std::cell::{Cell, UnsafeCell};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

/// `struct way` of exit.c.
#[repr(C)]
struct Way {
    jump: *mut c_void,
    armed: *const AtomicI32,
    frame: *const AtomicUsize,
}

unsafe extern "C-unwind" {
    fn perigee_exit_call(
        way: *const Way,
        state: *mut lua_State,
        arguments: c_int,
        results: c_int,
        close: c_int,
    ) -> c_int;
    fn perigee_exit_leave(jump: *mut c_void) -> !;
}

/// The call was left: the VM must not be used any more, in no way.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Left;

/// Why a thread did not leave its script when it was last asked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hindrance {
    /// It does not take the signal.
    Deaf,
    /// It is in perigee itself, called by the script.
    InPerigee,
    /// Code of a library is on its stack; the file whose code it runs, if that is known.
    Library(Option<&'static str>),
}

/// A thread's way out of the scripts that it runs.
#[repr(C, align(16))]
pub(crate) struct Exit {
    /// A `sigjmp_buf`, written by the thread itself.
    jump: UnsafeCell<[u8; 512]>,
    /// 1 while the thread is in a script.
    armed: AtomicI32,
    /// Where the stack of the script begins.
    frame: AtomicUsize,
    /// The VM whose script it is.
    state: AtomicPtr<lua_State>,
    /// The lowest address of the thread's stack.
    low: usize,
    /// Counts the calls of scripts.
    calls: AtomicU64,
    /// The call to leave: a signal that comes late does not end the next one.
    wanted: AtomicU64,
    /// Counts the signals that the thread has answered by staying.
    answers: AtomicU64,
    /// Where it stood then; 0: in perigee itself.
    stood: AtomicUsize,
    /// The script's name, as `name_script` has it.
    script: AtomicPtr<&'static str>,
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
        HANDLER.call_once(|| {
            code::learn();
            stack::prepare();
            crash::install();
        });
        install_handler();
        let exit = Arc::new(Exit {
            jump: UnsafeCell::new([0; 512]),
            armed: AtomicI32::new(0),
            frame: AtomicUsize::new(0),
            state: AtomicPtr::new(null_mut()),
            low: lowest_of_stack(),
            calls: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            answers: AtomicU64::new(0),
            stood: AtomicUsize::new(0),
            script: AtomicPtr::new(null_mut()),
            // SAFETY: has no requirements.
            thread: unsafe { libc::gettid() },
        });
        EXIT.set(Arc::as_ptr(&exit));
        Own { exit, _not_another_threads: PhantomData }
    }

    /// Calls the function below its arguments on the stack of `state`, as `lua_pcall` does, and returns its status. To
    /// be called by this exit's thread. The collector stands still from the end of the call to the next one.
    ///
    /// # Safety
    /// `state` is a VM that nothing else uses meanwhile, with a function and `arguments` values on its stack.
    pub(crate) unsafe fn call(&self, state: *mut lua_State, arguments: c_int, results: c_int) -> Result<c_int, Left> {
        // SAFETY: the caller's.
        unsafe { self.enter(state, arguments, results, 0) }
    }

    /// Closes a VM, whose finalizers are the script's code. To be called by this exit's thread.
    ///
    /// # Safety
    /// `state` is a VM that nothing else uses meanwhile or afterwards.
    pub(crate) unsafe fn close(&self, state: *mut lua_State) -> Result<(), Left> {
        // SAFETY: the caller's.
        unsafe { self.enter(state, 0, 0, 1).map(drop) }
    }

    /// # Safety
    /// That of [`Self::call`], or if `close` is not 0, of [`Self::close`].
    unsafe fn enter(
        &self,
        state: *mut lua_State,
        arguments: c_int,
        results: c_int,
        close: c_int,
    ) -> Result<c_int, Left> {
        assert!(std::ptr::eq(EXIT.get(), self), "a thread leaves by its own exit");
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.state.store(state, Ordering::Relaxed);
        let depth = DEPTH.replace(0);
        let way = Way { jump: self.jump.get().cast(), armed: &raw const self.armed, frame: &raw const self.frame };
        // SAFETY: `jump` is large enough and this thread's, and the caller vouches for the stack. Rust's frames, from
        // here on down, are not left: `perigee_exit_leave` ends in `perigee_exit_call`.
        let status = unsafe { perigee_exit_call(&raw const way, state, arguments, results, close) };
        DEPTH.set(depth);
        PENDING.set(false);
        if status < 0 { Err(Left) } else { Ok(status) }
    }

    /// Whether its thread is in a script, and in the how-manieth call of one.
    pub(crate) fn in_script(&self) -> Option<u64> {
        (self.armed.load(Ordering::Acquire) != 0).then(|| self.calls.load(Ordering::Relaxed))
    }

    /// Asks the thread to leave a call of a script now, if it can; to be repeated until [`Self::in_script`] says that
    /// it has.
    pub(crate) fn push(&self, call: u64) {
        self.wanted.store(call, Ordering::Release);
        // SAFETY: has no requirements; a thread that has ended is an error, which means that it has left.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.thread, signal()) };
    }

    /// How often the thread has answered such a signal by staying.
    pub(crate) fn answers(&self) -> u64 {
        self.answers.load(Ordering::Acquire)
    }

    /// Why it stayed; `before`: the answers before it was asked.
    pub(crate) fn hindrance(&self, before: u64) -> Hindrance {
        match self.stood.load(Ordering::Relaxed) {
            _ if self.answers() == before => Hindrance::Deaf,
            0 => Hindrance::InPerigee,
            at => Hindrance::Library(code::name(at)),
        }
    }

    /// Says which script the thread runs from now on.
    pub(crate) fn name_script(&self, name: &str) {
        static NAMES: Mutex<BTreeMap<String, &'static &'static str>> = Mutex::new(BTreeMap::new());
        let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        // They are few, and kept for ever: a signal handler may read one at any time.
        let kept = names.entry(name.to_owned()).or_insert_with(|| {
            let text: &'static str = Box::leak(name.to_owned().into_boxed_str());
            Box::leak(Box::new(text))
        });
        self.script.store(std::ptr::from_ref::<&'static str>(*kept).cast_mut(), Ordering::Release);
    }

    /// The name of the script that the thread runs.
    pub(crate) fn script(&self) -> &'static str {
        // SAFETY: null, or what `name_script` keeps for ever.
        unsafe { self.script.load(Ordering::Acquire).as_ref() }.copied().unwrap_or("that is loaded")
    }

    fn bounds(&self) -> Bounds {
        let (frame, state) = (self.frame.load(Ordering::Relaxed), self.state.load(Ordering::Relaxed));
        Bounds { low: self.low, frame, state }
    }

    /// CPU time of its thread; `None` if it has ended.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        // The clock of a thread, as the kernel encodes it (linux/posix-timers.h): CPUCLOCK_PERTHREAD_MASK |
        // CPUCLOCK_SCHED.
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
        leave_here();
    }
}

/// Runs something that is not left, in a call that may only be left later.
pub(crate) fn in_host<T>(body: impl FnOnce() -> T) -> T {
    enter_host();
    let result = body();
    DEPTH.set(DEPTH.get().wrapping_sub(1));
    result
}

/// At the end of a call into perigee: leaves, unless a library's code has called the script that made the call.
#[cold]
#[inline(never)]
fn leave_here() {
    // SAFETY: see `leave`.
    let Some(exit) = (unsafe { EXIT.get().as_ref() }) else { return };
    if exit.armed.load(Ordering::Relaxed) != 0 && stack::may_leave_here(exit.bounds()) {
        leave();
    }
}

#[cold]
#[inline(never)]
fn leave() {
    // SAFETY: the thread's own exit, which it keeps alive while this is not null.
    let Some(exit) = (unsafe { EXIT.get().as_ref() }) else { return };
    if exit.armed.swap(0, Ordering::AcqRel) != 0 {
        // SAFETY: armed: `perigee_exit_call` has not returned, and what is between has nothing to drop.
        unsafe { perigee_exit_leave(exit.jump.get().cast()) }
    }
}

/// The lowest address of the calling thread's stack; the highest there is if it is not known, so that nothing is on the
/// stack.
fn lowest_of_stack() -> usize {
    // SAFETY: the attributes are filled by the first call, read by the second and freed by the third.
    unsafe {
        let (mut attributes, mut low, mut size): (libc::pthread_attr_t, _, _) = (std::mem::zeroed(), null_mut(), 0);
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return usize::MAX;
        }
        let known = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size) == 0;
        libc::pthread_attr_destroy(&raw mut attributes);
        if known { low as usize } else { usize::MAX }
    }
}

/// Installs the handler, again if a C module has put another one in its place.
pub(crate) fn install_handler() {
    // SAFETY: a zeroed sigaction is one with nothing set; the handler is async-signal-safe.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        // No SA_RESTART: a call in which the script sleeps is to end.
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal(), &raw const action, null_mut());
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
    let stays = |at| {
        exit.stood.store(at, Ordering::Relaxed);
        exit.answers.fetch_add(1, Ordering::Release);
    };
    if DEPTH.get() > 0 {
        PENDING.set(true);
        return stays(0);
    }
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the kernel gives a valid one.
    let (at, stack, result) = registers(unsafe { &*context });
    let place = Place { at, stack, interrupted: result == -i64::from(libc::EINTR), context };
    if stack::may_leave(&place, exit.bounds()) {
        leave();
    }
    stays(at);
}

/// The program counter, the stack pointer, and where the result of a system call is.
#[cfg(target_arch = "x86_64")]
fn registers(context: &libc::ucontext_t) -> (usize, usize, i64) {
    let of = |register: c_int| context.uc_mcontext.gregs[register as usize];
    (of(libc::REG_RIP) as usize, of(libc::REG_RSP) as usize, of(libc::REG_RAX))
}

#[cfg(target_arch = "aarch64")]
fn registers(context: &libc::ucontext_t) -> (usize, usize, i64) {
    (context.uc_mcontext.pc as usize, context.uc_mcontext.sp as usize, context.uc_mcontext.regs[0] as i64)
}

/// Makes the context one of a thread that stands at `at` in a frame of this size; what the registers were.
#[cfg(target_arch = "x86_64")]
fn move_to(context: *mut libc::ucontext_t, at: usize, stack: usize, _: usize) -> libc::mcontext_t {
    // SAFETY: the handler's own, which is valid until it returns.
    unsafe {
        let kept = (*context).uc_mcontext;
        (*context).uc_mcontext.gregs[libc::REG_RIP as usize] = at as i64;
        (*context).uc_mcontext.gregs[libc::REG_RSP as usize] = stack as i64;
        kept
    }
}

/// There, the frame is described relative to the frame pointer, at the two topmost words of it.
#[cfg(target_arch = "aarch64")]
fn move_to(context: *mut libc::ucontext_t, at: usize, stack: usize, size: usize) -> libc::mcontext_t {
    // SAFETY: as above.
    unsafe {
        let kept = (*context).uc_mcontext;
        (*context).uc_mcontext.pc = at as u64;
        (*context).uc_mcontext.sp = stack as u64;
        (*context).uc_mcontext.regs[29] = (stack + size - 16) as u64;
        kept
    }
}

/// Pushes the value of this name in the registry of a VM. Raw, as the registry may have a metatable of the script's.
///
/// # Safety
/// `state` is a VM that nothing else uses meanwhile.
pub(crate) unsafe fn push_named(state: *mut lua_State, name: &std::ffi::CStr) {
    // SAFETY: the caller's.
    unsafe {
        ffi::lua_pushstring(state, name.as_ptr());
        ffi::lua_rawget(state, ffi::LUA_REGISTRYINDEX);
    }
}

/// Takes the value on top of the stack into the registry of a VM, as raw.
///
/// # Safety
/// `state` is a VM that nothing else uses meanwhile, with a value on its stack.
pub(crate) unsafe fn keep_named(state: *mut lua_State, name: &std::ffi::CStr) {
    // SAFETY: the caller's.
    unsafe {
        ffi::lua_pushstring(state, name.as_ptr());
        ffi::lua_insert(state, -2);
        ffi::lua_rawset(state, ffi::LUA_REGISTRYINDEX);
    }
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

    /// Calls its argument, with addresses of a library below it on the stack, as earlier calls leave them.
    unsafe extern "C-unwind" fn above_addresses(state: *mut lua_State) -> c_int {
        let addresses = std::hint::black_box([libc::qsort as *const (); 64]);
        // SAFETY: called by the VM, with a function on its stack; there is nothing to drop when it is left.
        unsafe { ffi::lua_call(state, 0, 0) };
        std::hint::black_box(&addresses);
        0
    }

    /// A script that only loops ended the router: what calls before it had left on the stack looked like a library's
    /// frames, for as long as the loop went on.
    #[test]
    fn a_loop_above_a_stack_of_old_addresses_is_left() {
        // Finalizers run above the way out of machine code, which has saved registers: zeros, or values of the script.
        let scripts = [
            "loop()",
            "jit.off() loop()",
            "coroutine.wrap(loop)()",
            "local function work(m) for n = 1, m do keep = {} end end
             work(20000) work(20000)
             getmetatable(newproxy(true)).__gc = loop
             work(1e15)",
            "local function work(m)
               local a, b, c, d, e, f, g, h, i, j = 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5
               local k, l, o, p, q, r = 11.5, 12.5, 13.5, 14.5, 15.5, 16.5
               for n = 1, m do
                 a = a * 1.0000001 + b; b = b * 1.0000001 + c; c = c * 1.0000001 + d; d = d * 1.0000001 + e
                 e = e * 1.0000001 + f; f = f * 1.0000001 + g; g = g * 1.0000001 + h; h = h * 1.0000001 + i
                 i = i * 1.0000001 + j; j = j * 1.0000001 + k; k = k * 1.0000001 + l; l = l * 1.0000001 + o
                 o = o * 1.0000001 + p; p = p * 1.0000001 + q; q = q * 1.0000001 + r; r = r * 1.0000001 + a
                 if a > 1e200 then a, b, c, d, e, f, g, h = 1, 1, 1, 1, 1, 1, 1, 1 end
                 if i > 1e200 then i, j, k, l, o, p, q, r = 1, 1, 1, 1, 1, 1, 1, 1 end
                 keep = {}
               end
               return a + b + c + d + e + f + g + h + i + j + k + l + o + p + q + r
             end
             work(20000) work(20000)
             getmetatable(newproxy(true)).__gc = loop
             work(1e15)",
        ];
        for script in scripts {
            static LOOPS: AtomicI32 = AtomicI32::new(0);
            LOOPS.store(0, Ordering::Relaxed);
            let text = format!(
                "local loops = require('ffi').cast('int *', {})
                local function loop() loops[0] = 1 while true do end end
                above_addresses(function() {script} end)\0",
                &raw const LOOPS as usize
            );
            let (tell, told) = std::sync::mpsc::sync_channel(1);
            let thread = std::thread::spawn(move || {
                let own = Exit::of_this_thread();
                tell.send(Arc::clone(&own)).unwrap();
                // SAFETY: the VM is this thread's, and is not used after it was left.
                unsafe {
                    let state = ffi::luaL_newstate();
                    ffi::luaL_openlibs(state);
                    ffi::lua_pushcfunction(state, above_addresses);
                    ffi::lua_setglobal(state, c"above_addresses".as_ptr());
                    assert_eq!(ffi::luaL_loadstring(state, text.as_ptr().cast()), 0);
                    own.call(state, 0, 0)
                }
            });
            let exit = told.recv().unwrap();
            let start = std::time::Instant::now();
            while LOOPS.load(Ordering::Relaxed) == 0 {
                assert!(start.elapsed() < Duration::from_secs(60) && !thread.is_finished(), "{script:?} does not loop");
                // sleep: between two looks
                std::thread::sleep(Duration::from_millis(1));
            }
            // sleep: until the loop is machine code
            std::thread::sleep(Duration::from_millis(20));
            while !thread.is_finished() {
                assert!(start.elapsed() < Duration::from_secs(60), "{script:?} is not left: {:?}", exit.hindrance(0));
                exit.push(1);
                // sleep: between two signals
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(thread.join().unwrap(), Err(Left), "{script:?}");
        }
    }
}
