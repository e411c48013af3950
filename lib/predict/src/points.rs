// SPDX-License-Identifier: MIT
//! Measured points: how fast a saturated router was, from a CSV file.
//!
//! The first line names the columns, in any order; lines that start with `#` are comments. Every flow of a point was
//! sent as fast as the links carry: flows of one direction share its link.
//!
//! | column | |
//! | --- | --- |
//! | `flows`, `cores` | flows, and the cores that forwarded them; flow i on core i mod cores |
//! | `frame_size` | bytes from Ethernet header to frame check sequence |
//! | `gbps` or `mpps` | measured: Gbit/s on the wire, `(S + 20) 8 packets/s`, or million packets/s; of all flows together |
//! | `two_way` | 0 or 1: do flows go both ways, by turns? Else they do from 2 cores on |
//! | `burst` | packets that a core takes at once, where that was forced |
//! | `routes`, `destinations` | routes in the table, random destinations: a working set of 64 bytes for each of the fewer |
//! | `working_set_bytes` | the same in bytes |
//! | `punted` | share of the packets that go to the slow path, 0 to 1; 0 if it is not there |
//! | `bound` | `cpu` or `line`: what limited the rate, where it is known |
//! | `line_gbps` | rate of each link and direction |
//! | `note`, `source`, `published_...`, `#...` | for readers |

use crate::error::{Error, MOST_SAID};
use crate::profile::{MAX_CORES, SIZES, two_way_by_default};
use crate::service::wire_bits;
use csv::StringRecord;
use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::str::FromStr;

/// Largest file of points, in bytes.
const MAX_BYTES: u64 = 4 << 20;
/// Most points in a file.
const MAX_POINTS: usize = 10_000;
/// Bytes of tables that a destination's lookup touches: a cache line.
const LOOKUP_BYTES: f64 = 64.0;

const COLUMNS: [&str; 13] = [
    "flows",
    "cores",
    "frame_size",
    "gbps",
    "mpps",
    "two_way",
    "burst",
    "routes",
    "destinations",
    "working_set_bytes",
    "punted",
    "bound",
    "line_gbps",
];
const IGNORED_COLUMNS: &str = "note, source, published_..., #...";

/// A measurement of a saturated router.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// Its line in the file, from 1.
    pub line: u64,
    /// Flows that were sent.
    pub flows: u32,
    /// Cores that forwarded them; flow i on core i mod cores.
    pub cores: u32,
    /// Bytes of a frame, from Ethernet header to frame check sequence.
    pub frame_size: u32,
    /// The measured rate of all flows together, in Gbit/s on the wire.
    pub gbps: f64,
    /// Flow 0 goes one way, flow 1 the other, and so on.
    pub two_way: bool,
    /// Packets that a core takes at once, if that was forced.
    pub burst: Option<u32>,
    /// Bytes of the tables that packets were looked up in, if that is known.
    pub working_set: Option<f64>,
    /// Share of the packets that go to the slow path, if that is known.
    pub punted: Option<f64>,
    /// What limited the rate, if that is known.
    pub bound: Option<Bound>,
    /// Rate of each link and direction in Gbit/s, if that is known.
    pub line_gbps: Option<f64>,
    /// Columns for readers, by name.
    pub notes: Vec<(String, String)>,
}

/// What limits a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// All cores.
    Cpu,
    /// A link, for at least one of the flows.
    Line,
}

impl Point {
    /// A core's time for a packet in nanoseconds, if all cores were busy: `k (S + 20) 8 / D` (Eq. 6).
    pub fn service_ns(&self) -> f64 {
        f64::from(self.cores) * wire_bits(self.frame_size) / self.gbps
    }

    /// A column for readers as a number.
    pub fn note_number(&self, name: &str) -> Option<f64> {
        self.notes.iter().find(|(column, _)| column == name).and_then(|(_, text)| text.parse().ok())
    }

    /// Flows of each direction on each core: `flows[direction][core]`.
    pub fn placed(&self) -> [Vec<u32>; 2] {
        let (k, mut placed) = (self.cores, [vec![0; self.cores as usize], vec![0; self.cores as usize]]);
        // Directions and cores repeat after this many flows.
        let period = 2 * k;
        for first in 0..period.min(self.flows) {
            let direction = if self.two_way { first % 2 } else { 0 };
            placed[direction as usize][(first % k) as usize] +=
                self.flows / period + u32::from(first < self.flows % period);
        }
        placed
    }
}

/// Reads points.
///
/// # Errors
/// A file that cannot be read or is larger than 4 MiB; a line, column or value that is wrong: see [`parse`].
pub fn load(file: &Path) -> Result<Vec<Point>, Error> {
    let failed =
        |source| Error::File { file: file.to_owned(), expected: "a CSV file of measured points", cause: source };
    let mut text = Vec::new();
    fs::File::open(file).and_then(|f| f.take(MAX_BYTES + 1).read_to_end(&mut text)).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(failed(io::Error::other(format!("more than {} MiB", MAX_BYTES >> 20))));
    }
    parse(&text, &file.display().to_string())
}

/// The mistakes of a file's lines: the first of them, and a number.
#[derive(Default)]
struct Mistakes {
    first: Vec<Error>,
    more: usize,
}

impl Mistakes {
    fn push(&mut self, mistake: Error) {
        if self.first.len() < MOST_SAID {
            self.first.push(mistake);
        } else {
            self.more += 1;
        }
    }

    fn none(mut self) -> Result<(), Error> {
        match self.first.len() {
            0 => Ok(()),
            1 => Err(self.first.remove(0)),
            _ => Err(Error::Several { first: self.first, more: self.more }),
        }
    }
}

/// Reads points from a CSV text; `file` is the file's name in errors.
///
/// # Errors
/// Columns that are missing, unknown or there twice, no points at all, more than 10,000; every line with a value that
/// does not parse or contradicts another, and the first such value of it.
pub fn parse(text: &[u8], file: &str) -> Result<Vec<Point>, Error> {
    let mut reader = csv::ReaderBuilder::new()
        .comment(Some(b'#'))
        .trim(csv::Trim::All)
        .flexible(true)
        .has_headers(false)
        .from_reader(text);
    let mut records = reader.records();
    let place = |record: &StringRecord| record.position().map_or(1, |position| line_of(text, position));
    let header = match records.next() {
        Some(header) => header.map_err(|error| unreadable(&error, file, text))?,
        None => return Err(wrong(file, 1, None, "an empty file", "a line that names the columns, then points")),
    };
    check_header(&header, file, place(&header))?;
    let (mut points, mut mistakes) = (Vec::new(), Mistakes::default());
    for record in records {
        // Behind bytes that are no text nothing can be trusted.
        let record = record.map_err(|error| unreadable(&error, file, text))?;
        let line = place(&record);
        if record.len() != header.len() {
            let expected = format!("{}, as the first line names", header.len());
            let found = if record.len() == 1 { "1 value".into() } else { format!("{} values", record.len()) };
            mistakes.push(wrong(file, line, None, found, expected));
            continue;
        }
        if points.len() == MAX_POINTS {
            return Err(wrong(file, line, None, "one point more", format!("at most {MAX_POINTS}")));
        }
        match (Row { header: &header, record: &record, file, line }).point() {
            Ok(point) => points.push(point),
            Err(mistake) => mistakes.push(mistake),
        }
    }
    mistakes.none()?;
    if points.is_empty() {
        return Err(wrong(file, place(&header), None, "no points", "at least one line below the columns' names"));
    }
    Ok(points)
}

/// The line of a record. The reader's positions are those before the blank lines and comments above it.
pub(crate) fn line_of(text: &[u8], position: &csv::Position) -> u64 {
    let (mut line, mut rest) = (position.line(), text.get(position.byte() as usize..).unwrap_or_default());
    while let Some(b'\r' | b'\n' | b'#') = rest.first() {
        let end = match rest[0] {
            b'\r' => 0,
            _ => rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len() - 1),
        };
        line += u64::from(rest[end] == b'\n');
        rest = &rest[end + 1..];
    }
    line
}

fn unreadable(error: &csv::Error, file: &str, text: &[u8]) -> Error {
    let line = error.position().map_or(1, |position| line_of(text, position));
    wrong(file, line, None, "bytes that are no UTF-8", "text")
}

fn wrong(file: &str, line: u64, column: Option<&str>, found: impl Into<String>, expected: impl Into<String>) -> Error {
    Error::Cell {
        file: file.to_owned(),
        line,
        column: column.map(str::to_owned),
        found: found.into(),
        expected: expected.into(),
    }
}

fn for_people(column: &str) -> bool {
    column.starts_with('#') || column.starts_with("published_") || matches!(column, "note" | "source")
}

fn check_header(header: &StringRecord, file: &str, line: u64) -> Result<(), Error> {
    let has = |name: &str| header.iter().any(|column| column == name);
    for (index, column) in header.iter().enumerate() {
        if !COLUMNS.contains(&column) && !for_people(column) {
            let expected = format!("one of {}; or for people {IGNORED_COLUMNS}", COLUMNS.join(", "));
            return Err(wrong(file, line, None, format!("the unknown column {column:?}"), expected));
        }
        if header.iter().take(index).any(|earlier| earlier == column) {
            return Err(wrong(file, line, None, format!("the column {column} twice"), "each column once"));
        }
    }
    if let Some(missing) = ["flows", "cores", "frame_size"].into_iter().find(|name| !has(name)) {
        let expected = "at least flows, cores, frame_size, and gbps or mpps";
        return Err(wrong(file, line, None, format!("no column {missing}"), expected));
    }
    for (what, group, expected) in [
        ("gbps, mpps", &["gbps", "mpps"][..], "one of gbps (on the wire) and mpps"),
        ("working_set_bytes, routes", &["working_set_bytes", "routes"], "the working set said in one way"),
        ("working_set_bytes, destinations", &["working_set_bytes", "destinations"], "the working set said in one way"),
    ] {
        let there = group.iter().filter(|name| has(name)).count();
        if there > 1 {
            return Err(wrong(file, line, None, format!("both columns {what}"), expected));
        }
        if there == 0 && group.contains(&"gbps") {
            return Err(wrong(file, line, None, "no column gbps or mpps", "the measured rate"));
        }
    }
    Ok(())
}

/// A line below the header.
struct Row<'a> {
    header: &'a StringRecord,
    record: &'a StringRecord,
    file: &'a str,
    line: u64,
}

impl Row<'_> {
    fn point(&self) -> Result<Point, Error> {
        let flows = self.needed("flows", 1, 1 << 20)?;
        let cores = self.needed("cores", 1, MAX_CORES)?;
        let frame_size = self.needed("frame_size", SIZES[0], SIZES[1])?;
        if cores > flows {
            let expected =
                format!("at most {flows}, one for each flow: a flow stays on its core, the others do nothing");
            return Err(self.wrong("cores", &cores.to_string(), expected));
        }
        let gbps = match self.positive("mpps")? {
            // Million packets/s times bits are Mbit/s.
            Some(mpps) => mpps * wire_bits(frame_size) / 1000.0,
            None => self.positive("gbps")?.ok_or_else(|| self.wrong("gbps", "", "a number > 0"))?,
        };
        let two_way = match self.text("two_way") {
            None => two_way_by_default(cores),
            Some("0") => false,
            Some("1") if flows == 1 => {
                return Err(self.wrong("two_way", "1", "0 for a single flow, which goes one way"));
            }
            Some("1") => true,
            Some(other) => return Err(self.wrong("two_way", other, "0 or 1")),
        };
        let bound = match self.text("bound") {
            None => None,
            Some("cpu") => Some(Bound::Cpu),
            Some("line") => Some(Bound::Line),
            Some(other) => return Err(self.wrong("bound", other, "cpu, line or nothing")),
        };
        let line_gbps = self.positive("line_gbps")?;
        let directions = if two_way { 2.0 } else { 1.0 };
        // Rounding may take a figure a little over what is possible.
        if let Some(most) = line_gbps.map(|line| line * directions).filter(|most| gbps > most * 1.001) {
            let expected = format!("at most {most} Gbit/s on the wire: line_gbps for each of {directions} directions");
            return Err(wrong(self.file, self.line, None, format!("{gbps} Gbit/s"), expected));
        }
        Ok(Point {
            line: self.line,
            flows,
            cores,
            frame_size,
            gbps,
            two_way,
            burst: self.whole("burst", 1, 1024)?,
            working_set: self.working_set()?,
            punted: self.punted()?,
            bound,
            line_gbps,
            notes: self.notes(),
        })
    }

    fn working_set(&self) -> Result<Option<f64>, Error> {
        if let Some(text) = self.text("working_set_bytes") {
            let bytes = self.number("working_set_bytes", text)?.filter(|&bytes| bytes >= 0.0);
            return bytes.map(Some).ok_or_else(|| self.wrong("working_set_bytes", text, "a number >= 0"));
        }
        let (routes, destinations) = (self.whole("routes", 1, u32::MAX)?, self.whole("destinations", 1, u32::MAX)?);
        Ok([routes, destinations].into_iter().flatten().min().map(|lines| f64::from(lines) * LOOKUP_BYTES))
    }

    fn punted(&self) -> Result<Option<f64>, Error> {
        let Some(text) = self.text("punted") else { return Ok(None) };
        let share = self.number("punted", text)?.filter(|share| (0.0..=1.0).contains(share));
        share.map(Some).ok_or_else(|| self.wrong("punted", text, "a share, 0 to 1"))
    }

    fn notes(&self) -> Vec<(String, String)> {
        let columns = self.header.iter().zip(self.record).filter(|(column, _)| for_people(column));
        columns.map(|(column, text)| (column.to_owned(), text.to_owned())).collect()
    }

    /// The text in a column, if there is any.
    fn text(&self, column: &str) -> Option<&str> {
        let index = self.header.iter().position(|name| name == column)?;
        self.record.get(index).filter(|text| !text.is_empty())
    }

    fn wrong(&self, column: &str, found: &str, expected: impl Into<String>) -> Error {
        let found = if found.is_empty() { "nothing".to_owned() } else { format!("{found:?}") };
        wrong(self.file, self.line, Some(column), found, expected)
    }

    fn whole(&self, column: &str, least: u32, most: u32) -> Result<Option<u32>, Error> {
        let Some(text) = self.text(column) else { return Ok(None) };
        match u32::from_str(text) {
            Ok(value) if (least..=most).contains(&value) => Ok(Some(value)),
            _ => Err(self.wrong(column, text, format!("a whole number, {least} to {most}"))),
        }
    }

    fn needed(&self, column: &str, least: u32, most: u32) -> Result<u32, Error> {
        self.whole(column, least, most)?
            .ok_or_else(|| self.wrong(column, "", format!("a whole number, {least} to {most}")))
    }

    fn number(&self, column: &str, text: &str) -> Result<Option<f64>, Error> {
        match f64::from_str(text) {
            Ok(value) if value.is_finite() => Ok(Some(value)),
            _ => Err(self.wrong(column, text, "a number")),
        }
    }

    fn positive(&self, column: &str) -> Result<Option<f64>, Error> {
        let Some(text) = self.text(column) else { return Ok(None) };
        match self.number(column, text)? {
            // So that ratios of such numbers are finite, too.
            Some(value) if (1e-9..1e9).contains(&value) => Ok(Some(value)),
            _ => Err(self.wrong(column, text, "a number > 0, 1e-9 to 1e9")),
        }
    }
}

#[cfg(test)]
mod tests;
