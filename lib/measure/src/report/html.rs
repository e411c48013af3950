// SPDX-License-Identifier: MIT
//! A report as a page: one file without scripts or anything from the network, light or dark like the reader's system.

use maud::{Markup, html};
use perigee_chart::number::{prefixed, share};
use perigee_chart::{self as chart, Place};

use super::tables::{self, Table};
use super::{Report, charts};
use crate::environment::Judgement;
use crate::run::Maximum;
use crate::search::throughput::Verdict;

impl Report {
    /// The page. `version` is that of the program, for the footer.
    pub fn html(&self, version: &str) -> String {
        let charts = charts::charts(self);
        let main = html! {
            p.dim { (self.what()) }
            h1 { (self.target) }
            (self.summary())
            (self.conditions())
            @if !charts.is_empty() {
                h2 { "Charts" }
                div.charts { @for chart in &charts { div.card { (chart::draw(chart, Place::Page)) } } }
            }
            @for table in tables::results(self) {
                h2 { (table.title) }
                p.dim { (table.about) }
                (drawn(&table))
            }
            (self.not_run())
            (self.conformance())
            (self.trust())
            (self.machine())
            h2 { "Trials" }
            details.card {
                @let table = tables::trials(self);
                summary { "All " (self.trials.len()) " trials" }
                p.dim { (table.about) " The JSON has more of each: gaps, jitter, reordering, intervals." }
                (rows(&table))
            }
            footer {
                "perigee " (version) " bench rfc2544. Frame sizes are with the FCS; on the wire, 20 bytes per frame are added."
            }
        };
        chart::page(&format!("{}: {}", self.target, self.what()), &main)
    }

    fn summary(&self) -> Markup {
        let regular = |row: &super::ThroughputRow| {
            row.goals
                .first()
                .is_some_and(|goal| goal.trusted && matches!(goal.verdict, Verdict::Regular | Verdict::MaximumPasses))
        };
        let good = self.finished && !self.throughput.is_empty() && self.throughput.iter().all(regular);
        html! {
            div.answer.bad[!good] { @for line in self.headline() { div { (line) } } }
        }
    }

    fn conditions(&self) -> Markup {
        let settings = &self.settings;
        let sizes: Vec<_> = settings.sizes.iter().map(u32::to_string).collect();
        let tests: Vec<_> = settings.tests.iter().map(ToString::to_string).collect();
        let maximum = match &settings.maximum {
            Maximum::Line(bits) => format!("{}bit/s, that of the links", prefixed(*bits)),
            Maximum::Frames(_) => "given for each frame size".to_owned(),
        };
        let mut facts = vec![
            ("Profile", self.profile.clone()),
            ("Traffic", format!("{}, {}", settings.family, settings.ways)),
            ("Frame sizes", sizes.join(", ")),
            ("Maximum rate", maximum),
            ("Tests", tests.join(", ")),
            ("Trials", format!("{}, {} of them doubted", self.trials.len(), self.doubted.len())),
        ];
        if let Some((first, last)) = self.period() {
            facts.push(("First trial", first.to_owned()));
            facts.push(("Last trial", last.to_owned()));
        }
        html! {
            div.card { dl { @for (what, value) in facts { div { dt { (what) } dd { (value) } } } } }
        }
    }

    fn not_run(&self) -> Markup {
        html! {
            @if !self.skipped.is_empty() {
                h2 { "Tests that were not run" }
                div.card {
                    ul {
                        @for skipped in &self.skipped {
                            li { (skipped.size) " bytes, " (skipped.test) ": " (skipped.why) "." }
                        }
                    }
                }
            }
        }
    }

    fn conformance(&self) -> Markup {
        html! {
            h2 { "How far this follows RFC 2544" }
            div.card {
                @if self.deviations.is_empty() {
                    p { "It does in durations, repetitions and frame sizes." }
                } @else {
                    p { "The profile " strong { (self.profile) } " was used. What deviates from RFC 2544:" }
                    ul { @for deviation in &self.deviations { li { (deviation) } } }
                }
            }
        }
    }

    fn trust(&self) -> Markup {
        let all = self.trials.len();
        html! {
            h2 { "What may not be trusted" }
            div.card {
                @if self.doubted.is_empty() {
                    p { "Nothing that is known speaks against any of the " (all) " trials." }
                } @else {
                    p {
                        (self.doubted.len()) " of " (all) " trials (" (share(self.doubted.len() as f64 / all as f64)) ") have doubts. \
                        A trial that doubts invalidate is run again; results that rest on one all the same are marked."
                    }
                    details open[self.doubted.len() <= 10] {
                        summary { "Why" }
                        ul {
                            @for doubted in &self.doubted {
                                li {
                                    "Trial " (doubted.trial) ", " (doubted.size) " bytes, " (doubted.purpose) ": "
                                    (doubted.why.join(" "))
                                }
                            }
                        }
                    }
                }
            }
        }
    }

    fn machine(&self) -> Markup {
        let table = tables::environment(self);
        let bad = |at: Judgement| self.findings().iter().filter(|finding| finding.judgement == at).count();
        let (falsify, cost) = (bad(Judgement::MayFalsify), bad(Judgement::CostsRepeatability));
        html! {
            h2 { "The machine" }
            @if table.rows.is_empty() {
                p.dim { "Nothing is known of it." }
            } @else {
                p.dim {
                    "At the beginning of the run. " (falsify) " facts may falsify figures, " (cost) " cost repeatability; what to do \
                    about them stands beside them."
                }
                (drawn(&table))
            }
        }
    }
}

fn drawn(table: &Table) -> Markup {
    html! { div.card { (rows(table)) } }
}

fn rows(table: &Table) -> Markup {
    let words = |at: usize| table.header[at].1;
    html! {
        table {
            thead { tr { @for (name, words) in &table.header { th.words[*words] scope="col" { (name) } } } }
            tbody {
                @for cells in &table.rows {
                    tr { @for (at, cell) in cells.iter().enumerate() { td.words[words(at)] { (cell) } } }
                }
            }
        }
    }
}
