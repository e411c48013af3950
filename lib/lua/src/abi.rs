// SPDX-License-Identifier: MIT
//! The functions of `perigee.h`: what scripts and shared libraries call.
//!
//! One macro exports them all. It turns null pointers and panics into a failure (-1 or the named default) that the
//! caller can ask about with `perigee_failure`, so that no unwinding ever crosses the C boundary.

use crate::exit;
use crate::host::{Next, ScriptWorker};
use perigee_modules::reason::ValueKind;
use perigee_modules::{Context, Counter, Kind, ModuleId, Reason, watch};
use perigee_packet::batch::scatter::DropOut;
use perigee_packet::wire::checksums;
use perigee_packet::{Batch, Mask};
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The failure that a panic or a null pointer leaves in the context.
fn remember(ctx: *mut Context, name: &str, what: &str) {
    // SAFETY: a context that is not null is the worker's, which outlives the call, and only its thread calls us.
    if let Some(ctx) = unsafe { ctx.as_mut() } {
        ctx.failure = Some(format!("{name}: {what}\0"));
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic").to_owned()
}

/// Why a function failed.
pub(crate) struct Why(std::borrow::Cow<'static, str>);

impl From<&'static str> for Why {
    fn from(why: &'static str) -> Why {
        Why(why.into())
    }
}

impl From<String> for Why {
    fn from(why: String) -> Why {
        Why(why.into())
    }
}

/// Runs a body; its failure is remembered in the context and yields `default`. A script that is to be left is left at
/// the end.
pub(crate) fn guard<T: Copy>(ctx: *mut Context, name: &str, default: T, body: impl FnOnce() -> Result<T, Why>) -> T {
    exit::enter_host();
    let result = guarded(ctx, name, default, body);
    exit::leave_host();
    result
}

#[inline(always)]
fn guarded<T>(ctx: *mut Context, name: &str, default: T, body: impl FnOnce() -> Result<T, Why>) -> T {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => value,
        failed => {
            fail(ctx, name, failed.map(|result| result.err()));
            default
        }
    }
}

/// What has failed is remembered out of line: every call of a module comes through `guarded`.
#[cold]
#[inline(never)]
fn fail(ctx: *mut Context, name: &str, failed: std::thread::Result<Option<Why>>) {
    match failed {
        Ok(why) => remember(ctx, name, why.as_ref().map_or("", |Why(what)| what)),
        Err(panic) => remember(ctx, name, &message(&*panic)),
    }
}

/// A pointer argument as a reference, or a failure.
macro_rules! borrow {
    (&mut $pointer:ident) => {
        // SAFETY: pointers in perigee.h are null or what the host gave out for this worker, and only its thread calls
        // us.
        unsafe { $pointer.as_mut() }.ok_or(concat!(stringify!($pointer), " is NULL"))?
    };
    (& $pointer:ident) => {
        // SAFETY: as above.
        unsafe { $pointer.as_ref() }.ok_or(concat!(stringify!($pointer), " is NULL"))?
    };
}

/// Exports functions: `fn name(ctx from EXPRESSION; arguments) -> type = default { body }`.
macro_rules! export {
    ($($(#[$doc:meta])* fn $name:ident(ctx from $ctx:expr; $($arg:ident: $type:ty),*) -> $result:ty = $default:expr, $body:block)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// Every pointer must be null or one that this worker's host gave out and has not taken back.
            #[unsafe(no_mangle)]
            pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                let ctx: *mut Context = $ctx;
                $crate::abi::guard(ctx, stringify!($name), $default, || $body)
            }
        )*

        /// Addresses of all functions, so that the linker keeps them for `ffi.C`.
        pub(crate) static FUNCTIONS: &[(&str, $crate::abi::address::Address)] =
            &[$((stringify!($name), $crate::abi::address::Address($name as *const ())),)*];
    };
}
pub(crate) use {borrow, export};

pub(crate) mod address {
    /// A function's address, only ever compared with null.
    pub(crate) struct Address(pub(crate) *const ());
    // SAFETY: an address is never dereferenced.
    unsafe impl Sync for Address {}
}

/// The context of a worker; null for a null worker.
fn context_of(worker: *mut ScriptWorker) -> *mut Context {
    // SAFETY: null or the host's, see `borrow!`.
    unsafe { worker.as_mut() }.map_or(std::ptr::null_mut(), |worker| worker.context())
}

export! {
    /// Fills the batch from a queue, counted from 0; returns how many packets are in it.
    fn perigee_worker_receive(ctx from context_of(worker); worker: *mut ScriptWorker, queue: u32, batch: *mut Batch) -> u32 = 0, {
        Ok(borrow!(&mut worker).worker().receive(queue as usize, borrow!(&mut batch)) as u32)
    }

    /// Fills the batch with the next burst; returns its packets, 0 once the loop is to end, -2 when garbage is to be collected first,
    /// -3 if it is empty, but gathered packets are ready.
    fn perigee_worker_next(ctx from context_of(worker); worker: *mut ScriptWorker, batch: *mut Batch) -> c_int = -1, {
        Ok(match borrow!(&mut worker).next(borrow!(&mut batch)) {
            Next::Burst(packets) => packets as c_int,
            Next::End => 0,
            Next::Collect => -2,
            Next::Gathered => -3,
        })
    }

    /// 0 once the loop is to end: the router stops, or a new script is there.
    fn perigee_worker_running(ctx from context_of(worker); worker: *mut ScriptWorker) -> c_int = 0, {
        Ok(borrow!(&mut worker).running().into())
    }

    /// What is to be done between two rounds.
    fn perigee_worker_housekeeping(ctx from context_of(worker); worker: *mut ScriptWorker) -> c_int = -1, {
        Ok(borrow!(&mut worker).housekeeping().into())
    }

    /// The script has collected garbage in steps, as `perigee_worker_housekeeping` or `perigee_worker_next` asked for.
    fn perigee_worker_collected(ctx from context_of(worker); worker: *mut ScriptWorker, steps: u32, heap_kb: u32) -> c_int = -1, {
        borrow!(&mut worker).has_collected(steps, heap_kb.into());
        Ok(0)
    }

    /// A new batch, which the host frees when the script ends.
    fn perigee_worker_batch(ctx from context_of(worker); worker: *mut ScriptWorker) -> *mut Batch = std::ptr::null_mut(), {
        Ok(borrow!(&mut worker).new_batch())
    }

    /// A new mask, which the host frees when the script ends.
    fn perigee_worker_mask(ctx from context_of(worker); worker: *mut ScriptWorker) -> *mut Mask = std::ptr::null_mut(), {
        Ok(borrow!(&mut worker).new_mask())
    }

    /// A new place to gather packets that drop out, which the host frees when the script ends.
    fn perigee_worker_gather(ctx from context_of(worker); worker: *mut ScriptWorker, size: u32, timeout_ns: u64)
        -> *mut DropOut = std::ptr::null_mut(), {
        Ok(borrow!(&mut worker).new_gather(size as usize, timeout_ns))
    }

    /// The worker's context.
    fn perigee_worker_context(ctx from context_of(worker); worker: *mut ScriptWorker) -> *mut Context = std::ptr::null_mut(), {
        Ok(context_of(worker))
    }

    /// Counts an event of the JIT compiler: 0 a trace, 1 an abort, 2 a piece of code blacklisted.
    fn perigee_worker_trace(ctx from context_of(worker); worker: *mut ScriptWorker, event: c_int) -> c_int = -1, {
        borrow!(&mut worker).count_trace(event);
        Ok(0)
    }

    /// Drops packets under a reason.
    fn perigee_drop(ctx from ctx; ctx: *mut Context, batch: *mut Batch, mask: *const Mask, reason: u16) -> c_int = -1, {
        let ctx = borrow!(&mut ctx);
        ctx.custom.check(Reason(reason), Kind::Drop)?;
        ctx.drop(borrow!(&mut batch), *borrow!(&mask), Reason(reason));
        Ok(0)
    }

    /// Gives packets to the slow path under a reason.
    fn perigee_punt(ctx from ctx; ctx: *mut Context, batch: *mut Batch, mask: *const Mask, reason: u16) -> c_int = -1, {
        let ctx = borrow!(&mut ctx);
        ctx.custom.check(Reason(reason), Kind::Punt)?;
        ctx.punt(borrow!(&mut batch), *borrow!(&mask), Reason(reason));
        Ok(0)
    }

    /// Writes the checksums of packets: IPv4 header, UDP, TCP, ICMP.
    fn perigee_checksums(ctx from ctx; ctx: *mut Context, batch: *mut Batch, mask: *const Mask) -> c_int = -1, {
        borrow!(&mut ctx);
        borrow!(&mut batch).for_each(*borrow!(&mask), |packet| {
            let l3 = packet.l3();
            checksums::fill(packet.frame_mut(), l3.into());
        });
        Ok(0)
    }

    /// Moves packets into another batch, as far as there is room; the rest stays.
    fn perigee_move(ctx from ctx; ctx: *mut Context, from: *mut Batch, mask: *const Mask, to: *mut Batch) -> c_int = -1, {
        distinct(from, to)?;
        let (from, mask, to) = (borrow!(&mut from), *borrow!(&mask), borrow!(&mut to));
        if let Some(ctx) = followed(ctx) {
            watch::moving(ctx, from, mask, to);
        }
        from.move_to(mask, to);
        Ok(0)
    }

    /// Copies packets into another batch, emptied first; what finds no buffer is counted.
    fn perigee_copy(ctx from ctx; ctx: *mut Context, from: *const Batch, mask: *const Mask, to: *mut Batch) -> c_int = -1, {
        distinct(from, to)?;
        let copied = crate::host::copy(borrow!(&from), *borrow!(&mask), borrow!(&mut to));
        borrow!(&mut ctx).counters.reason(perigee_modules::host::NO_BUFFER, copied.missing);
        Ok(0)
    }

    /// Makes a frame longer at its start.
    fn perigee_push(ctx from ctx; ctx: *mut Context, batch: *mut Batch, slot: u32, bytes: u32) -> c_int = -1, {
        Ok(crate::host::reshape(borrow!(&mut batch), slot, |packet| packet.push(bytes as usize))?)
    }

    /// Makes a frame shorter at its start.
    fn perigee_pull(ctx from ctx; ctx: *mut Context, batch: *mut Batch, slot: u32, bytes: u32) -> c_int = -1, {
        Ok(crate::host::reshape(borrow!(&mut batch), slot, |packet| packet.pull(bytes as usize))?)
    }

    /// Sets a frame's length.
    fn perigee_resize(ctx from ctx; ctx: *mut Context, batch: *mut Batch, slot: u32, bytes: u32) -> c_int = -1, {
        Ok(crate::host::reshape(borrow!(&mut batch), slot, |packet| packet.resize(bytes as usize))?)
    }

    /// Takes packets out of a burst; the mask keeps those that found no room.
    fn perigee_gather_add(ctx from ctx; ctx: *mut Context, gather: *mut DropOut, batch: *mut Batch, mask: *mut Mask) -> c_int = -1, {
        let now = borrow!(&mut ctx).now;
        let mask = borrow!(&mut mask);
        let gather = borrow!(&mut gather);
        if gather.is_gathered_in(batch) {
            return Err("the batch is the gathered one".into());
        }
        let batch = borrow!(&mut batch);
        if let Some(ctx) = followed(ctx) {
            watch::gathering(ctx, batch, *mask);
        }
        *mask = gather.gather(batch, *mask, now);
        Ok(0)
    }

    /// The gathered packets once there are enough or they have waited long enough, else null.
    fn perigee_gather_ready(ctx from ctx; ctx: *mut Context, gather: *mut DropOut) -> *mut Batch = std::ptr::null_mut(), {
        let now = borrow!(&mut ctx).now;
        Ok(borrow!(&mut gather).ready(now).map_or(std::ptr::null_mut(), std::ptr::from_mut))
    }

    /// The number of a reason, found or made.
    fn perigee_reason(ctx from ctx; ctx: *mut Context, module: *const c_char, name: *const c_char, punt: c_int)
        -> u16 = u16::MAX, {
        let kind = if punt != 0 { Kind::Punt } else { Kind::Drop };
        Ok(borrow!(&mut ctx).custom.number(&text(module)?, &text(name)?, kind).0)
    }

    /// The number of a script's counter, or gauge, found or made.
    fn perigee_value(ctx from ctx; ctx: *mut Context, module: *const c_char, name: *const c_char, gauge: c_int)
        -> c_int = -1, {
        let kind = if gauge != 0 { ValueKind::Gauge } else { ValueKind::Counter };
        Ok(borrow!(&mut ctx).custom.value(&text(module)?, &text(name)?, kind)?.into())
    }

    /// Adds to a script's counter, or sets a gauge.
    fn perigee_value_change(ctx from ctx; ctx: *mut Context, number: c_int, by: f64, set: c_int) -> c_int = -1, {
        let value = u16::try_from(number).ok().and_then(|number| borrow_value(ctx, number));
        let value = value.ok_or("there is no such counter or gauge")?;
        if by.is_nan() || by < 0.0 {
            return Err(format!("found {by}, expected a number from 0 on").into());
        }
        if set != 0 { value.set(by as u64) } else { value.add(by as u64) }
        Ok(0)
    }

    /// The port of an interface, by its name; -1 where there is none.
    fn perigee_port(ctx from ctx; ctx: *mut Context, interface: *const c_char) -> c_int = -1, {
        let interfaces = &borrow!(&mut ctx).tables.interfaces;
        let found = interfaces.by_name(&text(interface)?).and_then(|id| interfaces.egress(id));
        Ok(found.map_or(-1, |egress| egress.port.into()))
    }

    /// Time of this round's start in ns.
    fn perigee_now(ctx from ctx; ctx: *mut Context) -> u64 = 0, {
        Ok(borrow!(&mut ctx).now)
    }

    /// What the last failure was.
    fn perigee_failure(ctx from ctx; ctx: *mut Context) -> *const c_char = c"unknown failure".as_ptr(), {
        Ok(borrow!(&mut ctx).failure.as_ref().map_or(c"no failure".as_ptr(), |text| text.as_ptr().cast()))
    }
}

/// A counter or gauge of a script on this worker.
fn borrow_value<'a>(ctx: *mut Context, number: u16) -> Option<&'a Counter> {
    // SAFETY: null or the worker's, which outlives the call, and only its thread calls us.
    unsafe { ctx.as_ref() }?.counters.value(number)
}

/// The context, while a packet is followed.
fn followed<'a>(ctx: *mut Context) -> Option<&'a mut Context> {
    // SAFETY: null or the worker's, which outlives the call, and only its thread calls us.
    unsafe { ctx.as_mut() }.filter(|ctx| ctx.trace.is_some())
}

/// Two references to one batch must not exist.
fn distinct(a: *const Batch, b: *const Batch) -> Result<(), &'static str> {
    if std::ptr::eq(a, b) { Err("from and to are the same batch") } else { Ok(()) }
}

/// A mask that is narrowed must not be the one that says which packets the batch owns: those it lost would be nobody's.
fn own(batch: *const Batch, mask: *const Mask) -> Result<(), &'static str> {
    let at = (mask as usize).wrapping_sub(batch as usize);
    if at < size_of::<Batch>() {
        Err("the mask is the batch's own `live`: copy it, mask:assign(burst.live)")
    } else {
        Ok(())
    }
}

fn text(string: *const c_char) -> Result<String, &'static str> {
    if string.is_null() {
        return Err("a name is NULL");
    }
    // SAFETY: not null, and C strings end in NUL.
    Ok(unsafe { CStr::from_ptr(string) }.to_string_lossy().into_owned())
}

fn distinct_masks(a: *const Mask, b: *const Mask) -> Result<(), &'static str> {
    if std::ptr::eq(a, b) { Err("the two masks are the same") } else { Ok(()) }
}

/// A module is not called.
#[cold]
#[inline(never)]
fn refuse(ctx: *mut Context, name: &str, why: &'static str) -> c_int {
    guard(ctx, name, -1, || Err(why.into()))
}

/// Calls a module: `guard`, without anything that could fail but the module itself, as this is what every burst pays
/// for.
#[inline(always)]
fn call(ctx: *mut Context, name: &str, module: impl FnOnce()) -> c_int {
    exit::enter_host();
    let result = match catch_unwind(AssertUnwindSafe(module)) {
        Ok(()) => 0,
        Err(panic) => {
            fail(ctx, name, Err(panic));
            -1
        }
    };
    exit::leave_host();
    result
}

/// Exports the registry's modules as `perigee_<name>`.
macro_rules! export_modules {
    (@one $name:ident, one) => {
        #[doc = concat!("The module `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// Every pointer must be null or one that this worker's host gave out and has not taken back.
        #[unsafe(export_name = concat!("perigee_", stringify!($name)))]
        pub unsafe extern "C" fn $name(ctx: *mut Context, batch: *mut Batch, mask: *mut Mask) -> c_int {
            if let Err(why) = own(batch, mask) {
                return refuse(ctx, stringify!($name), why);
            }
            // SAFETY: pointers in perigee.h are null or what the host gave out for this worker, and only its thread calls us.
            let given = unsafe { (ctx.as_mut(), batch.as_mut(), mask.as_mut()) };
            let (Some(context), Some(batch), Some(mask)) = given else {
                return refuse(ctx, stringify!($name), if batch.is_null() { "batch is NULL" } else { "mask is NULL" });
            };
            call(ctx, stringify!($name), || match context.watched {
                true => watch::one(context, batch, mask, ModuleId::$name, perigee_modules::$name::$name),
                false => perigee_modules::$name::$name(context, batch, mask),
            })
        }
    };
    (@one $name:ident, two) => {
        #[doc = concat!("The module `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// Every pointer must be null or one that this worker's host gave out and has not taken back.
        #[unsafe(export_name = concat!("perigee_", stringify!($name)))]
        pub unsafe extern "C" fn $name(ctx: *mut Context, batch: *mut Batch, ip4: *mut Mask, ip6: *mut Mask) -> c_int {
            if let Err(why) = own(batch, ip4).and(own(batch, ip6)).and(distinct_masks(ip4, ip6)) {
                return refuse(ctx, stringify!($name), why);
            }
            // SAFETY: pointers in perigee.h are null or what the host gave out for this worker, and only its thread calls us.
            let given = unsafe { (ctx.as_mut(), batch.as_mut(), ip4.as_mut(), ip6.as_mut()) };
            let (Some(context), Some(batch), Some(ip4), Some(ip6)) = given else {
                return refuse(ctx, stringify!($name), if batch.is_null() { "batch is NULL" } else { "a mask is NULL" });
            };
            call(ctx, stringify!($name), || match context.watched {
                true => watch::two(context, batch, ip4, ip6, ModuleId::$name, perigee_modules::$name::$name),
                false => perigee_modules::$name::$name(context, batch, ip4, ip6),
            })
        }
    };
    (@one $name:ident, none) => {};
    (@address $name:ident, none) => {
        std::ptr::null()
    };
    (@address $name:ident, $kind:ident) => {
        $name as *const ()
    };
    ($($name:ident($kind:ident),)*) => {
        $(export_modules!(@one $name, $kind);)*

        /// Addresses of all modules, so that the linker keeps them for `ffi.C`.
        pub(crate) static MODULE_FUNCTIONS: &[(&str, address::Address)] =
            &[$((stringify!($name), address::Address(export_modules!(@address $name, $kind))),)*];
    };
}
perigee_modules::for_each_module!(export_modules);

/// Makes sure that the exported functions are in the program; returns how many there are.
pub(crate) fn link() -> usize {
    let all = FUNCTIONS.iter().chain(MODULE_FUNCTIONS);
    all.filter(|(_, address)| !std::hint::black_box(address.0).is_null()).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_reported_by_its_text() {
        let caught = |body: fn()| message(&*catch_unwind(body).unwrap_err());
        assert_eq!(caught(|| std::panic::panic_any("one")), "one");
        assert_eq!(caught(|| std::panic::panic_any("two".to_owned())), "two");
        assert_eq!(caught(|| std::panic::panic_any(3)), "panic");
    }

    #[test]
    fn what_fails_without_a_context_yields_the_default() {
        let none = std::ptr::null_mut();
        assert_eq!(guard(none, "f", 7, || Ok(1)), 1);
        assert_eq!(guard(none, "f", 7, || Err("why".into())), 7);
        assert_eq!(guard(none, "f", 7, || -> Result<i32, Why> { panic!("no unwinding crosses the boundary") }), 7);
        assert_eq!(call(none, "f", || ()), 0);
        assert_eq!(call(none, "f", || panic!("no unwinding crosses the boundary")), -1);
        assert_eq!(refuse(none, "f", "why"), -1);
        assert!(link() > FUNCTIONS.len());
    }
}
