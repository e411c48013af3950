// SPDX-License-Identifier: MIT
//! A run: trials one after the other, each stored before the next begins; a report at the end, or of what there is
//! where the run was interrupted or broke off.

use super::Interrupt;
use super::between::Between;
use super::folder::{self, TRIALS};
use super::output::Screen;
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use perigee_measure::environment::{Environment, Finding, Judgement};
use perigee_measure::pace::Rate;
use perigee_measure::pace::rate::wire_bits;
use perigee_measure::report::Report;
use perigee_measure::run::store::{self, Header};
use perigee_measure::run::{Family, Maximum, Run, Settings, Test, TrialRecord, Ways};
use perigee_measure::search::Trial;
use perigee_measure::search::profile::Profile;
use perigee_measure::tester::Tester;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;

/// What to measure, and where to put it.
#[derive(Clone)]
pub struct Plan {
    /// As people call the device.
    pub target: String,
    pub profile: Profile,
    pub family: Family,
    pub ways: Ways,
    pub sizes: Vec<u32>,
    /// Instead of all that the profile has.
    pub tests: Vec<Test>,
    /// Each way.
    pub flows: u32,
    /// Each way; otherwise the line's rate, or what the tester reaches.
    pub maximum: Option<Rate>,
    /// The tester's own latency in ns as the user gave it.
    pub floor: Option<u64>,
    /// That with frames of each size, where it is known.
    pub floors: BTreeMap<u32, u64>,
    pub environment: Environment,
    pub folder: PathBuf,
    pub resume: bool,
}

impl Plan {
    fn settings(&self, maximum: Maximum) -> Settings {
        let settings = Settings::new(self.profile.clone(), self.family, self.ways, maximum);
        let tests = if self.tests.is_empty() { settings.tests.clone() } else { self.tests.clone() };
        Settings { sizes: self.sizes.clone(), tests, flows: self.flows, ..settings }
    }

    /// Takes note of the tester's own latency in ns with frames of a size, and how it was found.
    pub fn with_floor(&mut self, size: u32, floor: u64, how: &str) {
        self.floors.insert(size, floor);
        self.environment.findings.push(Finding {
            name: format!("the tester's own latency with {size} bytes"),
            value: format!("{floor} ns: {how}; it is subtracted"),
            judgement: Judgement::Fine,
            advice: None,
        });
    }

    /// Whether a test is to be run.
    pub fn wants(&self, test: Test) -> bool {
        test.is_in(&self.profile) && (self.tests.is_empty() || self.tests.contains(&test))
    }

    /// Finds mistakes before anything is built.
    pub fn check(&self) -> Result<()> {
        // A share of a line that is not known yet is some rate.
        let any = |size: &u32| self.asked(*size, None).ok().flatten().unwrap_or(1e6);
        let any = Maximum::Frames(self.sizes.iter().map(|size| (*size, any(size))).collect());
        Ok(self.settings(any).check()?)
    }

    /// Frames per second that the user asks for, on a line of so many bits per second.
    fn asked(&self, size: u32, line: Option<f64>) -> Result<Option<f64>> {
        let Some(rate) = self.maximum else { return Ok(None) };
        let rate = rate.frames_per_second(f64::from(size), line)?;
        Ok(rate.map(|rate| line.map_or(rate, |line| rate.min(line / wire_bits(f64::from(size))))))
    }

    /// The maximum that the user asks for, if all sizes have one.
    fn asked_of_all(&self, line: Option<f64>) -> Result<Option<Maximum>> {
        let rates = self.sizes.iter().map(|size| Ok(self.asked(*size, line)?.map(|rate| (*size, rate))));
        let rates: Option<BTreeMap<u32, f64>> = rates.collect::<Result<Vec<_>>>()?.into_iter().collect();
        Ok(rates.map(Maximum::Frames))
    }
}

/// The tester's own latency that stored trials were measured with, by frame size.
fn floors(records: &[TrialRecord]) -> BTreeMap<u32, u64> {
    let of = |record: &TrialRecord| record.directions.iter().find_map(|direction| direction.latency.as_ref()?.floor_ns);
    records.iter().filter_map(|record| Some((record.size, of(record)?))).collect()
}

/// The name of the finding about what the tester's ports are.
const PORTS: &str = "the tester's ports";

/// What the tester's ports are, for the report, and for whoever resumes the run.
pub fn ports_finding(between: &Between) -> Finding {
    let drivers: Vec<String> = between.ports.ports.iter().map(|port| port.driver()).collect();
    Finding { name: PORTS.to_owned(), value: drivers.join(", "), judgement: Judgement::Fine, advice: None }
}

/// What the ports of a run's tester were, if that is known.
fn ports_of(environment: &Environment) -> Option<&str> {
    environment.findings.iter().find(|finding| finding.name == PORTS).map(|finding| finding.value.as_str())
}

/// How a run ended.
pub enum Ended {
    Done,
    Interrupted,
    /// The device, a port or the disk failed.
    Broken(anyhow::Error),
}

/// A run under way.
pub struct Session<'a> {
    plan: Plan,
    between: &'a mut Between,
    interrupt: &'a Interrupt,
    screen: Screen,
    /// The tester of the frame size under way.
    tester: Option<(u32, Tester)>,
}

impl<'a> Session<'a> {
    pub fn new(plan: Plan, between: &'a mut Between, interrupt: &'a Interrupt) -> Session<'a> {
        Session { plan, between, interrupt, screen: Screen::new(), tester: None }
    }

    /// Runs it, to its end or until it is interrupted. `alive` is asked after each trial whether the device still runs.
    ///
    /// # Errors
    /// It cannot begin. Whatever happens later is in [`Ended`], with a report of what there is.
    pub fn run(mut self, mut alive: impl FnMut() -> Result<()>) -> Result<(Report, Ended)> {
        let (mut run, environment, mut file) = match self.stored()? {
            Some(stored) => stored,
            None => self.begin()?,
        };
        let mut ended = Ended::Done;
        while let Some((size, trial)) = run.next() {
            self.screen.begin(&run.progress());
            let record = match self.trial(size, &trial).and_then(|record| alive().map(|()| record)) {
                _ if self.interrupt.is_stopped() => {
                    ended = Ended::Interrupted;
                    break;
                }
                Ok(record) => record,
                Err(error) => {
                    ended = Ended::Broken(error);
                    break;
                }
            };
            let stored = file.write_all(store::line(&record).as_bytes()).context("the trial cannot be stored");
            if let Err(error) = run.report(record.clone()) {
                ended = Ended::Broken(error.into());
                break;
            }
            self.screen.done(run.records().len(), &record, self.plan.profile.trust.unsent, run.left().seconds);
            if let Err(error) = stored {
                ended = Ended::Broken(error);
                break;
            }
        }
        if let Some((_, tester)) = self.tester.take() {
            self.between.keep(tester);
        }
        Ok((Report::new(&self.plan.target, &environment, &run), ended))
    }

    fn trial(&mut self, size: u32, trial: &Trial) -> Result<TrialRecord> {
        let mut tester = match self.tester.take() {
            Some((of, tester)) if of == size => tester,
            other => {
                if let Some((_, tester)) = other {
                    self.between.keep(tester);
                }
                self.between.tester(size, self.plan.ways, self.plan.floors.get(&size).copied())?
            }
        };
        let (interrupt, screen) = (self.interrupt, &self.screen);
        let record =
            tester.trial(&mut self.between.ports, size, trial, |course| interrupt.watch(course), &mut |interval| {
                screen.interval(interval)
            });
        self.tester = Some((size, tester));
        record
    }

    /// A new run and its file.
    fn begin(&mut self) -> Result<(Run, Environment, File)> {
        let maximum = self.maximum()?;
        let settings = self.plan.settings(maximum);
        let (run, environment) = (Run::new(settings)?, self.plan.environment.clone());
        let path = self.plan.folder.join(TRIALS);
        let header = store::line(&Header::new(&self.plan.target, run.settings(), &environment));
        let written = File::create_new(&path).and_then(|mut file| match file.write_all(header.as_bytes()) {
            Ok(()) => Ok(file),
            Err(error) => {
                // Half of a line would be in the way of the next run.
                let _ = std::fs::remove_file(&path);
                Err(error)
            }
        });
        let file = written.with_context(|| format!("{} cannot be written", path.display()))?;
        Ok((run, environment, file))
    }

    /// The highest load of each size. The device is seen to forward before it is looked for.
    fn maximum(&mut self) -> Result<Maximum> {
        let (sizes, ways) = (self.plan.sizes.clone(), self.plan.ways);
        let line = self.between.line();
        let given = self.plan.asked_of_all(line)?.or(line.map(Maximum::Line));
        if let Some(maximum) = given {
            self.screen.step("Does the device forward?");
            let mut tester = self.between.tester(sizes[0], ways, None)?;
            let forwards = self.between.expect_forwarding(&mut tester);
            self.between.keep(tester);
            return forwards.map(|()| maximum);
        }
        let mut reached = BTreeMap::new();
        for size in sizes {
            self.interrupt.check()?;
            self.screen.step(&format!("How many frames of {size} bytes can the tester send?"));
            reached.insert(size, self.between.reach(size, ways)?);
        }
        Ok(Maximum::Frames(reached))
    }

    /// The run that is stored in the folder, if it is to go on.
    fn stored(&mut self) -> Result<Option<(Run, Environment, File)>> {
        if !self.plan.resume {
            return Ok(None);
        }
        let path = self.plan.folder.join(TRIALS);
        let name = path.display().to_string();
        let stored = folder::stored(&self.plan.folder)?;
        if let Some(note) = &stored.note {
            self.screen.say(&format!("note: {note}"));
        }
        let (header, settings) = (&stored.header, &stored.header.settings);
        ensure!(
            header.target == self.plan.target,
            "{name} is a run of {}, not of {}: name another folder by --report",
            header.target,
            self.plan.target
        );
        if let (Some(then), Some(now)) = (ports_of(&header.environment), ports_of(&self.plan.environment)) {
            ensure!(
                then == now,
                "{name}: the run was begun with the ports {then}, and the tester has {now} now: resume it as it was begun \
                 (AF_XDP sockets are root's), or start a new run"
            );
        }
        // The maximum that was measured then counts, unless another one is asked for.
        let asked = self.plan.asked_of_all(self.between.line())?;
        let maximum = asked.unwrap_or_else(|| settings.maximum.clone());
        if let Some(difference) = settings.difference(&self.plan.settings(maximum)) {
            return Err(anyhow!("{name}: {difference}"));
        }
        let floors = floors(&stored.records);
        let differs = |floor: u64| floors.values().find(|stored| **stored != floor);
        if let Some(stored) = self.plan.floor.and_then(differs) {
            bail!("{name}: the run has a floor of {stored} ns: leave --floor out, or start a new run");
        }
        // So that all of the run is measured alike.
        self.plan.floors.extend(floors);
        let run = Run::resume(stored.header.settings, stored.records)?;
        let cut = || -> std::io::Result<File> {
            OpenOptions::new().write(true).open(&path)?.set_len(stored.whole)?;
            OpenOptions::new().append(true).open(&path)
        };
        let file = cut().with_context(|| format!("{name} cannot be written"))?;
        Ok(Some((run, stored.header.environment, file)))
    }
}
