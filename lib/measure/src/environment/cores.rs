// SPDX-License-Identifier: MIT
//! Facts about the processors that a measurement uses: who else may run on them, and how fast they are when.

use super::{Finding, Judgement, Root, list, parse_list};
use std::collections::BTreeSet;

use Judgement::{CostsRepeatability, MayFalsify};

const CPU: &str = "sys/devices/system/cpu";

/// Longer than this, waking up from idle is longer than most latencies that are measured; us.
const LONG_WAKE_UP: i64 = 10;

pub(super) fn findings(root: &Root, cores: &BTreeSet<u32>) -> Vec<Finding> {
    let used = if cores.is_empty() { "none named".into() } else { list(cores) };
    vec![
        Finding::fine("processors used", used),
        kept_from(
            root,
            cores,
            "isolated processors",
            "isolated",
            "isolcpus",
            "the scheduler puts other threads on them",
        ),
        kept_from(
            root,
            cores,
            "tickless processors",
            "nohz_full",
            "nohz_full",
            "the timer interrupts them up to 1000 times a second",
        ),
        kept_from(
            root,
            cores,
            "processors without RCU callbacks",
            "",
            "rcu_nocbs",
            "the kernel runs its callbacks on them",
        ),
        governor(root, cores),
        turbo(root),
        siblings(root, cores),
        idle_states(root, cores),
        interrupts(root, cores),
    ]
}

/// Processors that the kernel is kept from in some way: a file that lists them, or a parameter of the command line.
fn kept_from(root: &Root, cores: &BTreeSet<u32>, name: &str, file: &str, parameter: &str, otherwise: &str) -> Finding {
    let by_file =
        if file.is_empty() { None } else { std::fs::read_to_string(root.path(&format!("{CPU}/{file}"))).ok() };
    // Linux writes "(null)" where there is none.
    let by_file = by_file.map(|text| parse_list(text.trim()).unwrap_or_default());
    let by_parameter = root.text("proc/cmdline").map(|_| match root.parameter(parameter).as_deref() {
        Some("all") => cores.clone(),
        Some(text) => parse_list(text).unwrap_or_default(),
        None => BTreeSet::new(),
    });
    let kept: BTreeSet<u32> = match (by_file, by_parameter) {
        (None, None) => return Finding::unknown(name),
        (file, parameter) => file.into_iter().chain(parameter).flatten().collect(),
    };
    let value = if kept.is_empty() { "none".into() } else { list(&kept) };
    let open: BTreeSet<u32> = cores.difference(&kept).copied().collect();
    if open.is_empty() {
        return Finding::fine(name, value);
    }
    let advice = format!("Boot with {parameter}={}; as it is, {otherwise}.", list(cores));
    Finding::but(name, value, CostsRepeatability, advice)
}

/// What a file says for each processor that is used, each value once.
fn values(root: &Root, cores: &BTreeSet<u32>, file: &str) -> BTreeSet<String> {
    cores.iter().filter_map(|core| root.text(&format!("{CPU}/cpu{core}/{file}"))).collect()
}

fn governor(root: &Root, cores: &BTreeSet<u32>) -> Finding {
    const NAME: &str = "frequency governor";
    let governors = values(root, cores, "cpufreq/scaling_governor");
    if governors.is_empty() {
        return Finding::unknown(NAME);
    }
    let value = governors.iter().cloned().collect::<Vec<_>>().join(", ");
    if governors.iter().all(|governor| governor == "performance") {
        return Finding::fine(NAME, value);
    }
    let advice = "The frequency follows the load; set it to performance (cpupower frequency-set -g performance).";
    Finding::but(NAME, value, CostsRepeatability, advice)
}

fn turbo(root: &Root) -> Finding {
    const NAME: &str = "turbo";
    let intel = root.number(&format!("{CPU}/intel_pstate/no_turbo")).map(|off| (off == 0, "intel_pstate/no_turbo", 1));
    let others = || root.number(&format!("{CPU}/cpufreq/boost")).map(|on| (on != 0, "cpufreq/boost", 0));
    match intel.or_else(others) {
        None => Finding::unknown(NAME),
        Some((false, ..)) => Finding::fine(NAME, "off"),
        Some((true, file, off)) => {
            let advice = format!(
                "The frequency depends on temperature and on what other cores do; switch it off (echo {off} > /{CPU}/{file})."
            );
            Finding::but(NAME, "on", CostsRepeatability, advice)
        }
    }
}

fn siblings(root: &Root, cores: &BTreeSet<u32>) -> Finding {
    const NAME: &str = "hyperthreads";
    let of = |core: &u32| {
        let mut siblings = root.list(&format!("{CPU}/cpu{core}/topology/thread_siblings_list"))?;
        siblings.remove(core);
        Some(siblings)
    };
    let known: Vec<BTreeSet<u32>> = cores.iter().filter_map(of).collect();
    if known.is_empty() {
        return Finding::unknown(NAME);
    }
    let siblings: BTreeSet<u32> = known.into_iter().flatten().collect();
    let shared: BTreeSet<u32> = siblings.intersection(cores).copied().collect();
    if !shared.is_empty() {
        let advice =
            "Two threads of the measurement share a core, and each slows the other down; use one thread of each core.";
        return Finding::but(NAME, format!("{} share cores", list(&shared)), MayFalsify, advice);
    }
    if siblings.is_empty() {
        return Finding::fine(NAME, "none beside the processors used");
    }
    let advice = format!(
        "What runs on the other threads of the cores slows the measurement down; switch them off (echo 0 > /{CPU}/cpuN/online, for N in {}).",
        list(&siblings)
    );
    Finding::but(NAME, format!("{} beside the processors used", list(&siblings)), CostsRepeatability, advice)
}

fn idle_states(root: &Root, cores: &BTreeSet<u32>) -> Finding {
    const NAME: &str = "idle states";
    let mut deepest: Option<(i64, String)> = None;
    for core in cores {
        let folder = format!("{CPU}/cpu{core}/cpuidle");
        for state in root.names(&folder) {
            let Some(latency) = root.number(&format!("{folder}/{state}/latency")) else { continue };
            let name = root.text(&format!("{folder}/{state}/name")).unwrap_or(state.clone());
            let enabled = root.number(&format!("{folder}/{state}/disable")).unwrap_or(0) == 0;
            if enabled && deepest.as_ref().is_none_or(|(most, _)| latency > *most) {
                deepest = Some((latency, name));
            }
        }
    }
    let Some((latency, name)) = deepest else { return Finding::unknown(NAME) };
    let value = format!("up to {name}, which takes {latency} us to leave");
    if latency <= LONG_WAKE_UP {
        return Finding::fine(NAME, value);
    }
    let advice = format!(
        "A device that sleeps between frames answers late at low rates; forbid them (cpupower idle-set -D {LONG_WAKE_UP})."
    );
    Finding::but(NAME, value, CostsRepeatability, advice)
}

fn interrupts(root: &Root, cores: &BTreeSet<u32>) -> Finding {
    const NAME: &str = "interrupts on the processors used";
    let numbers = root.names("proc/irq").into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_digit()));
    // One that somebody handles has a folder with the handler's name.
    let is_handled = |number: &String| {
        root.names(&format!("proc/irq/{number}"))
            .iter()
            .any(|name| root.path(&format!("proc/irq/{number}/{name}")).is_dir())
    };
    let mut known = false;
    let on_used = numbers.filter(is_handled).filter(|number| {
        let read = |file| root.list(&format!("proc/irq/{number}/{file}"));
        let where_to = read("effective_affinity_list").or_else(|| read("smp_affinity_list"));
        known |= where_to.is_some();
        where_to.is_some_and(|where_to| !where_to.is_disjoint(cores))
    });
    let on_used: Vec<String> = on_used.collect();
    if !known {
        return Finding::unknown(NAME);
    }
    if on_used.is_empty() {
        return Finding::fine(NAME, "none");
    }
    let advice =
        "Devices interrupt the measurement; send them elsewhere (echo PROCESSORS > /proc/irq/N/smp_affinity_list).";
    Finding::but(NAME, format!("{} ({})", on_used.len(), on_used.join(", ")), CostsRepeatability, advice)
}
