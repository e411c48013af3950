// SPDX-License-Identifier: MIT
//! Facts about the whole machine: kernel, processors, memory, virtualisation, what else runs.

use super::{Finding, Judgement, Root, list};
use std::collections::BTreeSet;

use Judgement::{CostsRepeatability, MayFalsify};

pub(super) fn findings(root: &Root, cores: &BTreeSet<u32>) -> Vec<Finding> {
    vec![
        kernel(root),
        processor(root),
        online(root, cores),
        numa(root, cores),
        hugepages(root),
        virtual_machine(root),
        steal(root),
        load(root),
        clock(root),
        mitigations(root),
        irqbalance(root),
        watchdog(root),
    ]
}

fn kernel(root: &Root) -> Finding {
    let release = root.text("proc/sys/kernel/osrelease");
    release.map_or_else(|| Finding::unknown("kernel"), |release| Finding::fine("kernel", release))
}

/// A field of `/proc/cpuinfo`, of the first processor.
fn cpuinfo(root: &Root, field: &str) -> Option<String> {
    let text = root.text("proc/cpuinfo")?;
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(name, _)| name.trim() == field).map(|(_, value)| value.trim().to_string())
}

fn processor(root: &Root) -> Finding {
    let model = cpuinfo(root, "model name").filter(|model| !model.is_empty());
    model.map_or_else(|| Finding::unknown("processor"), |model| Finding::fine("processor", model))
}

fn online(root: &Root, cores: &BTreeSet<u32>) -> Finding {
    const NAME: &str = "processors online";
    let Some(online) = root.list("sys/devices/system/cpu/online") else { return Finding::unknown(NAME) };
    let value = format!("{} ({})", online.len(), list(&online));
    let absent: BTreeSet<u32> = cores.difference(&online).copied().collect();
    if !absent.is_empty() {
        let advice = format!("Processors {} are to be used and not online; choose others.", list(&absent));
        return Finding::but(NAME, value, MayFalsify, advice);
    }
    if online.len() <= cores.len() {
        let advice =
            "Every processor is used by the measurement, so the kernel and all else run on them, too; leave one free.";
        return Finding::but(NAME, value, CostsRepeatability, advice);
    }
    Finding::fine(NAME, value)
}

fn numa(root: &Root, cores: &BTreeSet<u32>) -> Finding {
    const NAME: &str = "NUMA nodes";
    let Some(nodes) = root.list("sys/devices/system/node/online") else { return Finding::unknown(NAME) };
    let used: BTreeSet<u32> = nodes.iter().copied().filter(|node| uses_node(root, *node, cores)).collect();
    if used.len() < 2 {
        return Finding::fine(NAME, nodes.len().to_string());
    }
    let value = format!("{}, of which {} are used", nodes.len(), list(&used));
    Finding::but(
        NAME,
        value,
        CostsRepeatability,
        "Use processors of one node, that of the ports; memory of another is slower.",
    )
}

/// Whether one of the processors belongs to a NUMA node.
pub(super) fn uses_node(root: &Root, node: u32, cores: &BTreeSet<u32>) -> bool {
    let of_node = root.list(&format!("sys/devices/system/node/node{node}/cpulist"));
    of_node.is_some_and(|of_node| !of_node.is_disjoint(cores))
}

fn hugepages(root: &Root) -> Finding {
    const NAME: &str = "hugepages";
    let text = root.text("proc/meminfo").unwrap_or_default();
    let field = |name: &str| {
        let value = text.lines().filter_map(|line| line.split_once(':')).find(|(field, _)| *field == name)?.1;
        value.split_whitespace().next()?.parse::<u64>().ok()
    };
    let (Some(total), Some(free), Some(size)) =
        (field("HugePages_Total"), field("HugePages_Free"), field("Hugepagesize"))
    else {
        return Finding::unknown(NAME);
    };
    let value = format!("{total} of {size} kB, {free} free");
    if total > 0 {
        return Finding::fine(NAME, value);
    }
    let advice =
        "Reserve some (sysctl vm.nr_hugepages=512), or packets lie in small pages and every burst misses the TLB.";
    Finding::but(NAME, value, CostsRepeatability, advice)
}

fn virtual_machine(root: &Root) -> Finding {
    const NAME: &str = "virtual machine";
    let Some(flags) = cpuinfo(root, "flags").or_else(|| cpuinfo(root, "Features")) else {
        return Finding::unknown(NAME);
    };
    if !flags.split_whitespace().any(|flag| flag == "hypervisor") {
        return Finding::fine(NAME, "no");
    }
    let kind = root.text("sys/hypervisor/type").or_else(|| root.text("sys/class/dmi/id/product_name"));
    let value = kind.map_or("yes".into(), |kind| format!("yes ({kind})"));
    let advice = "The host may stop its processors at any time; measure on the bare machine, or compare ratios of runs side by side.";
    Finding::but(NAME, value, MayFalsify, advice)
}

fn steal(root: &Root) -> Finding {
    const NAME: &str = "stolen time since boot";
    let Some(times) = root.text("proc/stat").as_deref().and_then(|text| ticks(text.lines().next()?)) else {
        return Finding::unknown(NAME);
    };
    let (steal, total) = (times.get(7).copied().unwrap_or(0), times.iter().take(8).sum::<u64>());
    let percent = if total > 0 { steal as f64 / total as f64 * 100.0 } else { 0.0 };
    let value = format!("{percent:.2} %");
    if percent < 0.01 {
        return Finding::fine(NAME, value);
    }
    let advice =
        "The host gave this machine's processors to others; ask for processors of its own (pinned, not overcommitted).";
    Finding::but(NAME, value, MayFalsify, advice)
}

/// The times of a `cpu` line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice.
pub(super) fn ticks(line: &str) -> Option<Vec<u64>> {
    line.split_whitespace().skip(1).map(|ticks| ticks.parse().ok()).collect()
}

fn load(root: &Root) -> Finding {
    const NAME: &str = "load of the last minute";
    let text = root.text("proc/loadavg");
    let Some(load) = text.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok()) else {
        return Finding::unknown(NAME);
    };
    let value = format!("{load:.2}");
    if load < 0.5 {
        return Finding::fine(NAME, value);
    }
    let advice =
        "Other programs run; end them, and wait a minute after builds, before what is measured is to be compared.";
    Finding::but(NAME, value, CostsRepeatability, advice)
}

fn clock(root: &Root) -> Finding {
    const NAME: &str = "clock source";
    /// Those that are read without a system call, in tens of ns.
    const FAST: [&str; 4] = ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"];
    let Some(clock) = root.text("sys/devices/system/clocksource/clocksource0/current_clocksource") else {
        return Finding::unknown(NAME);
    };
    if FAST.contains(&clock.as_str()) {
        return Finding::fine(NAME, clock);
    }
    let advice = "Reading it takes a microsecond or more, which gaps and latencies contain; boot with clocksource=tsc tsc=reliable \
                  if the processor's TSC is invariant.";
    Finding::but(NAME, clock, MayFalsify, advice)
}

fn mitigations(root: &Root) -> Finding {
    const NAME: &str = "mitigations";
    const FOLDER: &str = "sys/devices/system/cpu/vulnerabilities";
    let names = root.names(FOLDER);
    if names.is_empty() {
        return Finding::unknown(NAME);
    }
    let on = names
        .into_iter()
        .filter(|name| root.text(&format!("{FOLDER}/{name}")).is_some_and(|text| text.starts_with("Mitigation")));
    let on = on.collect::<Vec<_>>().join(", ");
    // They make system calls slower, always by the same: that is what the machine can do.
    Finding::fine(NAME, if on.is_empty() { "none".into() } else { on })
}

fn irqbalance(root: &Root) -> Finding {
    const NAME: &str = "irqbalance";
    let processes: Vec<String> =
        root.names("proc").into_iter().filter(|name| name.starts_with(|c: char| c.is_ascii_digit())).collect();
    if processes.is_empty() {
        return Finding::unknown(NAME);
    }
    let runs = processes.iter().any(|id| root.text(&format!("proc/{id}/comm")).as_deref() == Some("irqbalance"));
    if !runs {
        return Finding::fine(NAME, "does not run");
    }
    let advice = "It moves interrupts while trials run; stop it (systemctl stop irqbalance).";
    Finding::but(NAME, "runs", CostsRepeatability, advice)
}

fn watchdog(root: &Root) -> Finding {
    const NAME: &str = "NMI watchdog";
    match root.number("proc/sys/kernel/nmi_watchdog") {
        None => Finding::unknown(NAME),
        Some(0) => Finding::fine(NAME, "off"),
        Some(_) => {
            let advice = "It interrupts every processor again and again; switch it off (sysctl kernel.nmi_watchdog=0).";
            Finding::but(NAME, "on", CostsRepeatability, advice)
        }
    }
}
