// SPDX-License-Identifier: MIT
//! Tasks: functions of a Lua script, each in a VM and on a thread of its own, that send, receive and talk to each
//! other.
//!
//! ```text
//! machine   what tasks ask of the machine: devices, packet buffers, rings, cores, a clock
//! shared    what several tasks know: queues, pipes, rings; each queue is one task's at a time
//! steer     several queues over one of a device
//! runner    what runs a task: a script's VM, or a program of another kind that tasks run beside
//! host      one task as its script sees it: batches, masks, pools, its context
//! abi       the functions of perigee_task.h, for every burst
//! native    the functions of the table `native`, for everything else
//! group     all tasks of a program: start, wait, results, errors, the end
//! modifier  a script whose function changes frames before they are sent: `perigee gen --script`
//! ```
//!
//! A task is interrupted by [`Tasks::stop`]: `running()` turns false in all of them, whatever waits for packets,
//! messages or time returns, and when a function ends, however it ends, its host frees what its batches hold and gives
//! its queues back.

mod abi;
mod group;
mod host;
mod machine;
mod modifier;
mod native;
mod runner;
mod shared;
mod steer;

pub use group::{Failure, Tasks};
pub use machine::{Claim, Core, DeviceQueue, DeviceRequest, Machine, OpenDevice};
pub use modifier::Modifier;
pub use runner::{Beside, Seat, has_module};

pub(crate) use abi::link;
