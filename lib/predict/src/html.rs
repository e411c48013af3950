// SPDX-License-Identifier: MIT
//! An answer as a page: one file without scripts or anything from the network, light or dark like the reader's system.

use crate::answer::{Answer, Needed, Question};
use crate::number::{prefixed, significant};
use crate::report::{self, BY_CORES, BY_LOAD};
use maud::{Markup, html};
use perigee_chart::{self as chart, Place};

/// The page. `version` is that of the program, for the footer.
pub fn page(question: &Question, answer: &Answer, version: &str) -> String {
    let name = &question.profile.name;
    let good = matches!(answer.needed, Needed::Cores { .. });
    let cores = answer.load_cores;
    let no_loss = report::capacity_pps(answer);
    let by_cores = answer
        .rows
        .iter()
        .map(|row| (answer.needed == Needed::Cores { cores: row.cores }, report::by_cores(row, question)));
    let by_load = report::loads(answer, true).map(|figures| (false, report::by_load(figures, question, no_loss)));
    let charts = report::charts(question, answer);
    let main = html! {
        p.dim { "Prediction from a profile" }
        h1 { (name) }
        @if let Some(description) = &question.profile.description { p.dim { (description) } }
        p.answer.bad[!good] { (capital(&answer.sentence)) }
        (inputs(question, answer))
        h2 { "By number of cores" }
        p.dim { "At " (offered(question, answer)) " offered; rates in Gbit/s on the wire." }
        (table(&BY_CORES, by_cores))
        @if !charts.is_empty() {
            h2 { "Charts" }
            div.charts { @for chart in &charts { div.card { (chart::draw(chart, Place::Page)) } } }
        }
        h2 { "Against load, " (cores) " core" @if cores != 1 { "s" } }
        p.dim { "Load is the offered rate over the throughput without loss." }
        (table(&BY_LOAD, by_load))
        (method(question, answer))
        footer { "perigee " (version) " predict run. The model: docs/model.md." }
    };
    chart::page(&format!("{name}: prediction"), &main)
}

fn offered(question: &Question, answer: &Answer) -> String {
    format!("{} of {} ({}pps)", question.rate, question.traffic.sizes, prefixed(answer.offered_pps))
}

fn inputs(question: &Question, answer: &Answer) -> Markup {
    let Question { profile, traffic, objective, .. } = question;
    let router = &profile.router;
    let inputs = [
        ("Offered", offered(question, answer)),
        ("Flows", format!("{}, {}", traffic.flows, if traffic.ways() == 2 { "both ways" } else { "one way" })),
        ("Arrivals", traffic.arrivals.to_string()),
        (
            "Objective",
            objective.as_ref().map_or_else(|| "no loss".to_owned(), |limits| limits.to_string().replace(',', ", ")),
        ),
        ("Links", format!("{} ports, {} Gbit/s each", router.ports, router.link_gbps)),
        ("Service times", format!("{} ({})", profile.model.name(), parameters(question))),
        ("Burst, receive ring", format!("{}, {} packets", router.burst, router.receive_ring)),
    ];
    html! {
        div.card { dl { @for (what, value) in inputs { div { dt { (what) } dd { (value) } } } } }
    }
}

fn parameters(question: &Question) -> String {
    let parameters = question.profile.model.parameters();
    let said = parameters.iter().map(|(name, value)| format!("{name} {}", significant(*value, 5)));
    said.collect::<Vec<_>>().join(", ")
}

/// A table; rows with a mark are the answer.
fn table(header: &[&str], rows: impl Iterator<Item = (bool, Vec<String>)>) -> Markup {
    html! {
        div.card {
            table {
                thead { tr { @for name in header { th scope="col" { (name) } } } }
                tbody {
                    @for (needed, cells) in rows {
                        tr.marked[needed] { @for cell in cells { td { (cell) } } }
                    }
                }
            }
        }
    }
}

fn method(question: &Question, answer: &Answer) -> Markup {
    html! {
        h2 { "How this is known" }
        div.card {
            ul {
                @for (what, method) in &answer.methods { li { strong { (capital(what)) } ": " (method) } }
                @for note in &answer.notes { li { (capital(note)) } }
            }
            p { "What the model takes for granted:" }
            ul { @for assumption in report::assumptions(question) { li { (assumption) } } }
        }
    }
}

/// The text with a capital letter at its beginning.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Simulate, answer};
    use crate::capacity::Traffic;
    use crate::profile::Profile;
    use crate::traffic::Arrivals;

    fn question(name: &str) -> Question {
        let text = format!(
            r#"{{"format": "perigee-profile/1", "name": {name:?}, "description": "a <b> & c", "model": "contention",
            "parameters": {{"c0_ns": 563.4, "c_byte_ns": 0, "d_ns": 29.1, "u_ns": 11.1}}}}"#
        );
        Question {
            profile: Profile::parse(&text, "test").unwrap(),
            rate: "3Mpps".parse().unwrap(),
            traffic: Traffic { sizes: "64".parse().unwrap(), flows: 100, directions: 2, arrivals: Arrivals::Poisson },
            cores: "1..3".parse().unwrap(),
            objective: Some("loss<0.1%,p99<1ms".parse().unwrap()),
            simulate: Simulate::WhereNeeded,
            seed: 1,
            packets: 1000,
        }
    }

    /// Every tag that is opened is closed, in order; nothing is loaded; what came from the profile is text.
    #[test]
    fn a_page_is_whole_and_safe() {
        let question = question("<script>alert('1')</script>");
        let html = page(&question, &answer(&question, None, &|_, _| ()).unwrap(), "0.1.0");
        assert!(html.contains("&lt;script&gt;") && html.contains("a &lt;b&gt; &amp; c"));
        for forbidden in ["<script", "http://", "https://", "src=", "url(", "@import", "NaN"] {
            let found = html.replace("http://www.w3.org/2000/svg", "");
            assert!(!found.contains(forbidden), "{forbidden}");
        }
        let mut open = Vec::new();
        for tag in html.split('<').skip(1) {
            let inside = tag.split('>').next().unwrap();
            let name = inside.split([' ', '\n']).next().unwrap();
            if let Some(closed) = name.strip_prefix('/') {
                assert_eq!(open.pop(), Some(closed));
            } else if !inside.ends_with('/') && !["!DOCTYPE", "meta"].contains(&name) {
                open.push(name);
            }
        }
        assert!(open.is_empty(), "{open:?}");
        assert_eq!(html.matches("<svg").count(), 4);
        assert_eq!(html.matches("class=\"marked\"").count(), 1);
    }

    #[test]
    fn one_number_of_cores_has_no_chart_of_cores() {
        let question = Question { cores: "2".parse().unwrap(), ..question("n") };
        let html = page(&question, &answer(&question, None, &|_, _| ()).unwrap(), "0.1.0");
        assert!(!html.contains("Throughput by number of cores") && html.contains("Sojourn time against load"));
    }
}
