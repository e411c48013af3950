// SPDX-License-Identifier: MIT
//! Traffic of a Lua script: the table that describes it, and the function that changes its frames before they are sent.
//!
//! The script is loaded once, before anything is opened. Its VM goes with the frames to the sending thread, where its
//! function is called for each batch.

use anyhow::{Context as _, Result, anyhow, bail};
use perigee_dpdk::{Clock, MBUF};
use perigee_lua::Script;
use perigee_lua::mlua::{Table, Value};
use perigee_lua::task::{Core, DeviceRequest, Machine, Modifier, OpenDevice, Tasks};
use perigee_measure::traffic::{Description, Frames};
use perigee_packet::{Batch, Mask, Memory, Pool, ReceiveQueue, TransmitQueue};
use serde_json::Map;
use std::any::Any;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A script, loaded.
pub struct TrafficScript {
    /// Its path, as messages show it.
    pub name: String,
    /// What its table says; the default without one.
    pub description: Description,
    modifier: Modifier,
}

impl TrafficScript {
    /// Loads a script with its arguments; `clock` is that of the generator.
    ///
    /// # Errors
    /// What is wrong with it or with its table, by file and line or by file and key.
    pub fn load(path: &Path, words: &[String], clock: Clock) -> Result<TrafficScript> {
        let script = Script::read(path)?;
        let name = script.name.clone();
        let modifier = Modifier::load(Arc::new(OwnMachine(clock)), script, words)?;
        let description = modifier.described().map(described).transpose();
        let description = description.with_context(|| format!("{name}: the table of the traffic"))?.unwrap_or_default();
        Ok(TrafficScript { name, description, modifier })
    }

    /// These frames, changed by the script's function if it has one; and what to ask about it.
    pub fn changing(self, frames: Box<dyn Frames + Send>) -> (Box<dyn Frames + Send>, Option<Arc<Watch>>) {
        if !self.modifier.modifies() {
            return (frames, None);
        }
        let watch = Arc::new(Watch {
            name: self.name,
            tasks: self.modifier.tasks(),
            stopped: AtomicBool::new(false),
            at_work: AtomicBool::new(false),
            failure: OnceLock::new(),
        });
        let changed =
            Changed { frames, modifier: self.modifier, watch: watch.clone(), written: 0, began: None, ended: false };
        (Box::new(changed), Some(watch))
    }
}

/// A table with the keys of a description.
fn described(table: &Table) -> Result<Description> {
    let mut keys = Map::new();
    for pair in table.pairs::<Value, Value>() {
        let (key, value) = pair.map_err(|error| anyhow!("{error}"))?;
        let key = key.to_string().map_err(|error| anyhow!("{error}"))?;
        let value = match value {
            Value::Boolean(value) => value.into(),
            Value::Integer(value) => value.into(),
            Value::Number(value) => value.into(),
            Value::String(value) => value.to_string_lossy().to_owned().into(),
            other => bail!("{key} is a {}, expected a string, a number or a boolean", other.type_name()),
        };
        keys.insert(key, value);
    }
    // Its message starts with the key.
    serde_path_to_error::deserialize(serde_json::Value::Object(keys)).map_err(|error| anyhow!("{error}"))
}

/// What other threads know of a script at work.
pub struct Watch {
    name: String,
    tasks: Arc<Tasks>,
    stopped: AtomicBool,
    /// Whether its function runs.
    at_work: AtomicBool,
    failure: OnceLock<String>,
}

impl Watch {
    /// Why the script ended the traffic, if it did.
    pub fn failure(&self) -> Option<&str> {
        self.failure.get().map(String::as_str)
    }

    /// Asks the script to end: `task.running()` turns false in it. If its function runs `grace` later, the process
    /// ends: compiled Lua cannot be interrupted, and nothing can be taken from a thread that still uses it.
    pub fn interrupt(self: &Arc<Watch>, grace: Duration) {
        self.stopped.store(true, Ordering::Relaxed);
        self.tasks.stop();
        let watch = self.clone();
        let wait = move || {
            std::thread::sleep(grace);
            if watch.at_work.load(Ordering::Relaxed) {
                let Watch { name, .. } = &*watch;
                eprintln!(
                    "perigee: {name}: modify does not return: a loop in it has to end, or to ask `task.running()` whether to go on"
                );
                std::process::exit(1);
            }
        };
        // Without a thread, the caller's own limit remains.
        let _ = std::thread::Builder::new().name("script".to_owned()).spawn(wait);
    }
}

/// Frames that a script changes.
struct Changed {
    frames: Box<dyn Frames + Send>,
    modifier: Modifier,
    watch: Arc<Watch>,
    /// Frames so far.
    written: u64,
    /// When the first was written, ns.
    began: Option<u64>,
    /// Nothing is to be sent any more.
    ended: bool,
}

impl Frames for Changed {
    fn lengths(&mut self, count: usize) -> &[u16] {
        if self.ended { &[] } else { self.frames.lengths(count) }
    }

    fn write(&mut self, batch: &mut Batch, mask: Mask, now: u64, run: u16) -> usize {
        let written = self.frames.write(batch, mask, now, run);
        let seconds = (now - *self.began.get_or_insert(now)) as f64 / 1e9;
        self.watch.at_work.store(true, Ordering::Relaxed);
        let changed = self.modifier.modify(batch, self.written, now, seconds);
        self.watch.at_work.store(false, Ordering::Relaxed);
        // A function that was asked to end may have left its work half done.
        self.ended = changed.is_err() || self.watch.stopped.load(Ordering::Relaxed);
        if let Err(why) = changed {
            let _ = self.watch.failure.set(format!("{why} (in modify, at frame {})", self.written));
        }
        if self.ended {
            self.frames.unsent(batch, mask);
            batch.discard(mask);
            return 0;
        }
        self.written += written as u64;
        written
    }

    fn unsent(&mut self, batch: &Batch, mask: Mask) {
        self.frames.unsent(batch, mask);
    }

    fn departures(&mut self, count: usize) -> &[u64] {
        self.frames.departures(count)
    }

    fn written(&self, flow: u32) -> u64 {
        self.frames.written(flow)
    }

    fn restart(&mut self) {
        self.frames.restart();
        (self.written, self.began) = (0, None);
    }
}

/// The generator's memory and clock, and nothing to open: that is on its command line.
struct OwnMachine(Clock);

const NOTHING: &str = "a script of `perigee gen` opens nothing: it describes frames and changes them";

impl Machine for OwnMachine {
    fn memory(&self) -> &'static dyn Memory {
        &MBUF
    }

    fn cores(&self) -> Vec<Core> {
        vec![]
    }

    fn open(&self, _: &DeviceRequest) -> Result<OpenDevice, String> {
        Err(NOTHING.to_owned())
    }

    fn pool(&self, _: u32, _: u16, _: Option<u16>) -> Result<Arc<dyn Pool>, String> {
        Err(NOTHING.to_owned())
    }

    fn ring(&self, _: u32) -> Result<(Box<dyn TransmitQueue>, Box<dyn ReceiveQueue>), String> {
        Err(NOTHING.to_owned())
    }

    fn now(&self) -> u64 {
        self.0.now()
    }

    fn enter(&self, _: usize) -> Result<Box<dyn Any>, String> {
        Err(NOTHING.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perigee_measure::stamp::{LENGTH, Stamp};
    use perigee_measure::traffic::Traffic;
    use perigee_packet::batch::heap::HeapPool;

    fn script(source: &str, words: &[&str]) -> Result<TrafficScript, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("test.lua");
        std::fs::write(&path, source).unwrap();
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        let loaded = TrafficScript::load(&path, &words, Clock::new());
        loaded.map_err(|error| format!("{error:#}").replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn the_table_has_the_keys_of_a_description() {
        let source = "traffic = { sizes = 'imix', flows = 2 ^ 4, vlan = 7, source_port = '1-' .. ..., ttl = 9.0, stamp = false }";
        let expected: Description =
            toml::from_str("sizes = 'imix'\nflows = 16\nvlan = 7\nsource_port = '1-99'\nttl = 9\nstamp = false")
                .unwrap();
        assert_eq!(script(source, &["99"]).unwrap().description, expected);
        assert_eq!(script("function modify() end", &[]).unwrap().description, Description::default());
        for (source, expected) in [
            (
                "traffic = { sauce = 1 }",
                "test.lua: the table of the traffic: sauce: unknown field `sauce`, expected one of `sizes`",
            ),
            ("traffic = { sizes = true }", "test.lua: the table of the traffic: sizes: invalid type: boolean `true`"),
            ("traffic = { sizes = 20 }", "test.lua: the table of the traffic: sizes: "),
            (
                "traffic = { ttl = 64.5 }",
                "test.lua: the table of the traffic: ttl: invalid type: floating point `64.5`",
            ),
            ("traffic = { ttl = 0 / 0 }", "test.lua: the table of the traffic: ttl: invalid type: null"),
            ("traffic = { 'imix' }", "test.lua: the table of the traffic: 1: unknown field `1`"),
            ("traffic = { sizes = { 64 } }", "test.lua: the table of the traffic: sizes is a table, expected a string"),
            ("traffic = {}\nx.y = 1", "test.lua:2: attempt to index global 'x'"),
        ] {
            let Err(error) = script(source, &[]) else { panic!("{source} is accepted") };
            assert!(error.starts_with(expected), "{source}: found {error:?}, expected {expected:?} at its start");
        }
        assert!(TrafficScript::load(Path::new("/nothing.lua"), &[], Clock::new()).is_err());
    }

    /// The next `count` frames in a batch, not written yet.
    fn next(frames: &mut dyn Frames, pool: &'static HeapPool, count: usize) -> Box<Batch> {
        let mut batch = Batch::new(pool);
        for length in frames.lengths(count).to_vec() {
            batch.push(pool.packet(&vec![0; length.into()]).unwrap(), 0).unwrap();
        }
        batch
    }

    #[test]
    fn frames_are_changed_until_the_script_throws() {
        let source = "
            traffic = { sizes = 80 }
            function modify(burst, first, seconds)
              assert(seconds == first / 10)
              if first == 20 then burst.nothing = 1 end
              for slot = 0, burst.count - 1 do burst.data[slot][burst.length[slot] - 1] = first + slot end
            end";
        let script = script(source, &[]).unwrap();
        let traffic = Traffic::new(&script.description).unwrap();
        let (mut frames, watch) = script.changing(Box::new(traffic));
        let (pool, watch) = (HeapPool::leak(100), watch.unwrap());
        // Twice: once more from its start.
        for _ in 0..2 {
            for first in [0, 10] {
                let mut batch = next(&mut *frames, pool, 10);
                assert_eq!(frames.write(&mut batch, Mask::ALL, 5_000 + first * 100_000_000, 7), 10);
                for slot in 0..10 {
                    let frame = batch.frame(slot).unwrap();
                    let number = first as u8 + slot;
                    assert_eq!((frame.len(), frame[75]), (76, number));
                    let stamp = Stamp::read(&frame[42..42 + LENGTH]).unwrap();
                    assert_eq!((stamp.run, stamp.sequence), (7, number.into()));
                }
            }
            assert_eq!((frames.written(0), watch.failure()), (20, None));
            frames.restart();
        }
        for first in [0, 10, 20] {
            let mut batch = next(&mut *frames, pool, 10);
            let written = frames.write(&mut batch, Mask::ALL, first * 100_000_000, 7);
            // What it was given last is not sent.
            assert_eq!((written, batch.live().count()), if first < 20 { (10, 10) } else { (0, 0) });
        }
        let failure = watch.failure().unwrap();
        assert!(failure.contains("test.lua:5: ") && failure.ends_with("(in modify, at frame 20)"), "{failure}");
        assert_eq!((frames.written(0), frames.lengths(10).len(), pool.in_use()), (20, 0, 0));
    }

    #[test]
    fn what_it_has_not_finished_when_it_is_interrupted_is_not_sent() {
        let script = script("function modify() while task.running() do end end", &[]).unwrap();
        let traffic = Traffic::new(&script.description).unwrap();
        let (mut frames, watch) = script.changing(Box::new(traffic));
        let (pool, watch) = (HeapPool::leak(100), watch.unwrap());
        std::thread::scope(|scope| {
            let writing = scope.spawn(move || {
                let mut batch = next(&mut *frames, pool, 10);
                let written = frames.write(&mut batch, Mask::ALL, 0, 7);
                (written, batch.live().count(), frames.lengths(10).len())
            });
            // sleep: so that it loops; it ends at once if it has not begun
            std::thread::sleep(Duration::from_millis(20));
            assert!(!writing.is_finished());
            watch.interrupt(Duration::from_secs(60));
            assert_eq!(writing.join().unwrap(), (0, 0, 0));
        });
        assert_eq!(watch.failure(), None);
    }
}
