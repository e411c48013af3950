// SPDX-License-Identifier: MIT
//! A start that can be interrupted: it checks between two steps whether the end was asked for. DPDK's start is one long
//! step. The time limit of the end begins after it; a second signal does not wait.

use anyhow::Result;
use std::fmt::{self, Display, Formatter};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The end was asked for before the router ran. What had been made is undone on the way out.
#[derive(Debug)]
pub struct Interrupted;

impl Display for Interrupted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("the end was asked for before the router ran")
    }
}

impl std::error::Error for Interrupted {}

/// A start, shared by the thread that makes the router and the one that receives signals.
#[derive(Default)]
pub struct Start {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    asked: bool,
    /// A step is under way that cannot be interrupted.
    busy: bool,
}

impl State {
    fn step(&self) -> Result<(), Interrupted> {
        if self.asked { Err(Interrupted) } else { Ok(()) }
    }
}

impl Start {
    /// Between two steps.
    ///
    /// # Errors
    /// The end was asked for.
    pub fn step(&self) -> Result<(), Interrupted> {
        self.state().step()
    }

    /// Does a step that cannot be interrupted.
    ///
    /// # Errors
    /// The step's error, or that the end was asked for before or during it; then what the step made is dropped.
    pub fn uninterrupted<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<T> {
        {
            // Under one lock: a signal in between would find that no step is under way.
            let mut state = self.state();
            state.step()?;
            state.busy = true;
        }
        let made = work();
        self.state().busy = false;
        let made = made?;
        self.step()?;
        Ok(made)
    }

    /// Asks for the end. Returns whether a step is under way that cannot be interrupted.
    pub fn ask_to_end(&self) -> bool {
        let mut state = self.state();
        state.asked = true;
        state.busy
    }

    /// Whether such a step is under way.
    pub fn is_busy(&self) -> bool {
        self.state().busy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn a_start_ends_between_two_steps() {
        let start = Start::default();
        assert!(start.step().is_ok());
        assert_eq!(start.uninterrupted(|| Ok(7)).unwrap(), 7);
        assert!(!start.ask_to_end(), "nothing is under way");
        assert!(start.step().is_err());
        let not_begun = start.uninterrupted(|| -> Result<()> { panic!("it is too late for this") });
        assert!(not_begun.unwrap_err().is::<Interrupted>());
    }

    /// A start of DPDK that took longer than the two seconds that an end may take was ended by SIGKILL.
    #[test]
    fn the_end_by_force_waits_for_a_step_that_cannot_be_interrupted() {
        struct Made(std::sync::mpsc::Sender<&'static str>);
        impl Drop for Made {
            fn drop(&mut self) {
                self.0.send("undone").unwrap();
            }
        }
        let (start, (events, heard)) = (Start::default(), channel());
        let (under_way, begun) = channel();
        let (go_on, goes_on) = channel::<()>();
        std::thread::scope(|scope| {
            let (start, of_step, of_force) = (&start, events.clone(), events);
            scope.spawn(move || {
                let made = start.uninterrupted(|| {
                    under_way.send(()).unwrap();
                    goes_on.recv().unwrap();
                    of_step.send("made").unwrap();
                    Ok(Made(of_step))
                });
                assert!(made.err().unwrap().is::<Interrupted>());
            });
            begun.recv().unwrap();
            assert!(start.ask_to_end());
            scope.spawn(move || {
                while start.is_busy() {
                    std::thread::yield_now();
                }
                of_force.send("force").unwrap();
            });
            go_on.send(()).unwrap();
            assert_eq!(heard.recv().unwrap(), "made");
            let mut rest: Vec<_> = heard.iter().take(2).collect();
            rest.sort_unstable();
            assert_eq!(rest, ["force", "undone"]);
        });
        assert!(!start.is_busy(), "where nothing is under way, nothing is waited for");
    }
}
