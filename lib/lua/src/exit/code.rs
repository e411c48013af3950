// SPDX-License-Identifier: MIT
//! Whose code lies where: the program's, that of libraries that were there before the first script, that of scripts' C
//! modules. Read in signal handlers, so nothing here is ever freed or locked.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// Executable code of an object.
#[derive(Clone)]
struct Object {
    start: usize,
    end: usize,
    name: String,
}

impl Object {
    fn has(&self, at: usize) -> bool {
        (self.start..self.end).contains(&at)
    }
}

/// What there was before the first script.
struct Code {
    program: Vec<Object>,
    libraries: Vec<Object>,
    /// The lowest and the highest address in these.
    bounds: (usize, usize),
    /// The C library among them.
    c_library: (usize, usize),
    /// Functions in [`WAITING`].
    waiting: Vec<(usize, usize)>,
}

static CODE: OnceLock<Code> = OnceLock::new();

/// C modules. An entry is replaced if another module lies in its place, and never freed.
static MODULES: [AtomicPtr<Object>; 512] = [const { AtomicPtr::new(null_mut()) }; 512];

/// Whose code an address is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// The program's: perigee, LuaJIT's interpreter.
    Program,
    /// A library's that was there before the first script. It may hold a lock that others need.
    Library,
    /// A C module's of a script.
    Module,
    /// Not known: LuaJIT's machine code, or no code at all.
    Unknown,
}

pub(super) fn whose(at: usize) -> Whose {
    let Some(code) = CODE.get() else { return Whose::Library };
    if is_library(at) {
        Whose::Library
    } else if code.program.iter().any(|object| object.has(at)) {
        Whose::Program
    } else if module(at).is_some() {
        Whose::Module
    } else {
        Whose::Unknown
    }
}

/// Whether an address is in a library.
pub(super) fn is_library(at: usize) -> bool {
    let Some(code) = CODE.get() else { return true };
    (code.bounds.0..code.bounds.1).contains(&at) && code.libraries.iter().any(|object| object.has(at))
}

/// Whether an address is in the C library.
pub(super) fn is_c_library(at: usize) -> bool {
    CODE.get().is_some_and(|code| (code.c_library.0..code.c_library.1).contains(&at))
}

/// Whether an address is in a function of the C library that waits without holding any of its locks.
pub(super) fn waits(at: usize) -> bool {
    CODE.get().is_some_and(|code| code.waiting.iter().any(|(start, end)| (*start..*end).contains(&at)))
}

/// The file whose code an address is in.
pub(super) fn name(at: usize) -> Option<&'static str> {
    let code = CODE.get()?;
    let known = code.libraries.iter().chain(&code.program).find(|object| object.has(at));
    known.or_else(|| module(at)).map(|object| object.name.as_str())
}

fn module(at: usize) -> Option<&'static Object> {
    let entries = MODULES.iter().map(|entry| entry.load(Ordering::Acquire));
    // SAFETY: entries are leaked boxes, or null.
    entries.filter_map(|entry| unsafe { entry.as_ref() }).find(|object| object.has(at))
}

/// Takes note of the program and its libraries, the first time.
pub(super) fn learn() {
    CODE.get_or_init(|| {
        let (program, libraries): (Vec<_>, Vec<_>) = objects().into_iter().partition(|(_, first)| *first);
        let of = |list: Vec<(Object, bool)>| list.into_iter().map(|(object, _)| object).collect::<Vec<_>>();
        let (program, libraries) = (of(program), of(libraries));
        let bounds = (
            libraries.iter().map(|object| object.start).min().unwrap_or(0),
            libraries.iter().map(|object| object.end).max().unwrap_or(0),
        );
        let read = libc::read as *const () as usize;
        let c_library = libraries.iter().find(|object| object.has(read)).map_or((0, 0), |c| (c.start, c.end));
        let waiting = WAITING.iter().filter_map(|name| function(name)).collect();
        Code { program, libraries, bounds, c_library, waiting }
    });
}

/// Takes note of modules that scripts have loaded since. Takes the dynamic loader's locks.
pub(crate) fn learn_modules() {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let Some(code) = CODE.get() else { return };
    let loaded = loaded();
    if KNOWN.swap(loaded, Ordering::AcqRel) == loaded {
        return;
    }
    let known = |at: usize| is_library(at) || code.program.iter().any(|object| object.has(at));
    for (mut object, _) in objects() {
        if known(object.start) {
            continue;
        }
        let same = |other: &Object| (other.start, other.end) == (object.start, object.end);
        object.name = crate::library::original(&object.name).unwrap_or(object.name);
        let place = MODULES.iter().find(|entry| {
            // SAFETY: as in `module`.
            let there = unsafe { entry.load(Ordering::Acquire).as_ref() };
            there.is_none_or(|other| other.start < object.end && object.start < other.end)
        });
        let Some(place) = place else { return };
        // SAFETY: as in `module`.
        let there = unsafe { place.load(Ordering::Acquire).as_ref() };
        if !there.is_some_and(|other| same(other) && other.name == object.name) {
            place.store(Box::leak(Box::new(object)), Ordering::Release);
        }
    }
}

/// Takes the dynamic loader's lock and gives it back.
pub(crate) fn take_loader_lock() {
    // SAFETY: the name is one, and what is found is not used.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"perigee_worker_id".as_ptr()) };
}

/// How many objects have ever been loaded.
fn loaded() -> u64 {
    unsafe extern "C" fn read(info: *mut libc::dl_phdr_info, _: usize, count: *mut c_void) -> c_int {
        // SAFETY: both pointers are valid during the call.
        unsafe { *count.cast::<u64>() = (*info).dlpi_adds };
        1
    }
    let mut count = 0_u64;
    // SAFETY: `read` takes what it is given here, and keeps none of it.
    unsafe { libc::dl_iterate_phdr(Some(read), (&raw mut count).cast()) };
    count
}

/// Executable code of every object, and whether the object is the program.
fn objects() -> Vec<(Object, bool)> {
    unsafe extern "C" fn add(info: *mut libc::dl_phdr_info, _: usize, list: *mut c_void) -> c_int {
        // SAFETY: both pointers are valid during the call; headers are as many as it says.
        unsafe {
            let (info, list) = (&*info, &mut *list.cast::<Vec<(Object, bool)>>());
            // The program itself comes first, and has no name.
            let first = *info.dlpi_name == 0 && list.iter().all(|(_, first)| *first);
            let name = CStr::from_ptr(info.dlpi_name).to_string_lossy();
            let name = if first { "perigee".to_owned() } else { name.into_owned() };
            let headers = std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into());
            let code =
                headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_X != 0);
            list.extend(code.map(|header| {
                let start = (info.dlpi_addr + header.p_vaddr) as usize;
                (Object { start, end: start + header.p_memsz as usize, name: name.clone() }, first)
            }));
        }
        0
    }
    let mut list: Vec<(Object, bool)> = Vec::new();
    // SAFETY: `add` takes what it is given here, and keeps none of it.
    unsafe { libc::dl_iterate_phdr(Some(add), (&raw mut list).cast()) };
    list
}

/// Where a function of the C library lies; `None` if it has none of that name.
fn function(name: &CStr) -> Option<(usize, usize)> {
    /// An entry of a table of symbols (elf.h, Elf64_Sym).
    #[repr(C)]
    struct Symbol {
        name: u32,
        info: u8,
        other: u8,
        section: u16,
        value: u64,
        size: u64,
    }
    unsafe extern "C" {
        fn dladdr1(at: *const c_void, info: *mut libc::Dl_info, extra: *mut *mut c_void, flags: c_int) -> c_int;
    }
    const RTLD_DL_SYMENT: c_int = 1;
    let pointer: *const c_char = name.as_ptr();
    // SAFETY: the name is one, and `dladdr1` fills what it is given with pointers that stay valid as long as the
    // library is loaded.
    unsafe {
        let start = libc::dlsym(libc::RTLD_DEFAULT, pointer);
        let (mut info, mut symbol): (libc::Dl_info, *mut c_void) = (std::mem::zeroed(), null_mut());
        if start.is_null() || dladdr1(start, &raw mut info, &raw mut symbol, RTLD_DL_SYMENT) == 0 {
            return None;
        }
        let size = symbol.cast::<Symbol>().as_ref()?.size as usize;
        Some((start as usize, start as usize + size))
    }
}

/// Functions that wait in a system call, holding no lock of the C library's. What they call to do so is theirs. Not
/// stdio's, nor syslog, which hold locks; not `pthread_once`, which calls back. A script that waits for a condition, a
/// read-write lock or a barrier is counted as waiting in the object, and stays so when it is left: such an object of a
/// C module is lost for other threads. These are scripts of the same module, which are stopped then as well; the
/// process lives on.
const WAITING: &[&CStr] = &[
    c"read",
    c"pread",
    c"readv",
    c"recv",
    c"recvfrom",
    c"recvmsg",
    c"recvmmsg",
    c"send",
    c"sendto",
    c"sendmsg",
    c"sendmmsg",
    c"accept",
    c"accept4",
    c"connect",
    c"poll",
    c"ppoll",
    c"select",
    c"pselect",
    c"epoll_wait",
    c"epoll_pwait",
    c"epoll_pwait2",
    c"sleep",
    c"usleep",
    c"nanosleep",
    c"clock_nanosleep",
    c"pause",
    c"sigsuspend",
    c"sigwait",
    c"sigwaitinfo",
    c"sigtimedwait",
    c"wait",
    c"waitpid",
    c"wait3",
    c"wait4",
    c"waitid",
    c"flock",
    c"sem_wait",
    c"sem_timedwait",
    c"sem_clockwait",
    c"pthread_cond_wait",
    c"pthread_cond_timedwait",
    c"pthread_cond_clockwait",
    c"pthread_mutex_lock",
    c"pthread_mutex_timedlock",
    c"pthread_mutex_clocklock",
    c"pthread_rwlock_rdlock",
    c"pthread_rwlock_wrlock",
    c"pthread_barrier_wait",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_is_somebodys() {
        learn();
        let of = |function: *const ()| function as usize;
        assert_eq!(whose(of(learn as *const ())), Whose::Program);
        assert_eq!(whose(of(libc::malloc as *const ())), Whose::Library);
        assert_eq!(whose(1), Whose::Unknown);
        assert!(is_c_library(of(libc::poll as *const ())) && waits(of(libc::poll as *const ())));
        assert!(!waits(of(libc::malloc as *const ())) && !waits(of(libc::fread as *const ())));
        assert!(name(of(libc::malloc as *const ())).is_some_and(|name| name.contains("libc")));
    }
}
