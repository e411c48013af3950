// SPDX-License-Identifier: MIT
//! Machines made up of files: one that is set up for measuring, one that is not, and one that shows nothing.

use perigee_measure::environment::{Environment, Finding, Judgement, Meanwhile};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

use Judgement::{CostsRepeatability, Fine, MayFalsify, Unknown};

/// Processors 0 to 3: 0 and 2, 1 and 3 are threads of one core. 1 is used, 3 is off in the good machine.
fn machine(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    for (path, text) in files {
        write(root.path(), path, text);
    }
    root
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

const GOOD: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.12.48\n"),
    ("proc/cpuinfo", "processor\t: 0\nmodel name\t: Made Up 3000\nflags\t\t: fpu avx2\n\nprocessor\t: 1\n"),
    ("proc/cmdline", "quiet isolcpus=managed_irq,1 nohz_full=1 rcu_nocbs=1\n"),
    ("proc/stat", "cpu  100 0 50 1000 0 0 0 0 0 0\ncpu0 50 0 25 500 0 0 0 0 0 0\ncpu1 50 0 25 500 0 0 0 0 0 0\n"),
    ("proc/loadavg", "0.02 0.10 0.30 1/200 4711\n"),
    (
        "proc/meminfo",
        "MemTotal: 1000 kB\nHugePages_Total:     512\nHugePages_Free:      500\nHugepagesize:       2048 kB\n",
    ),
    ("proc/1/comm", "init\n"),
    ("proc/sys/kernel/nmi_watchdog", "0\n"),
    ("proc/irq/24/smp_affinity_list", "0\n"),
    ("proc/irq/24/eth0/x", ""),
    // Nobody handles it.
    ("proc/irq/25/smp_affinity_list", "0-3\n"),
    ("sys/devices/system/cpu/online", "0-2\n"),
    ("sys/devices/system/cpu/isolated", "1\n"),
    ("sys/devices/system/cpu/nohz_full", "1\n"),
    ("sys/devices/system/cpu/intel_pstate/no_turbo", "1\n"),
    ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
    ("sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "1\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state1/name", "C1\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state1/latency", "2\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state2/name", "C6\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state2/latency", "133\n"),
    ("sys/devices/system/cpu/cpu1/cpuidle/state2/disable", "1\n"),
    ("sys/devices/system/cpu/vulnerabilities/meltdown", "Not affected\n"),
    ("sys/devices/system/cpu/vulnerabilities/spectre_v2", "Mitigation: Retpolines\n"),
    ("sys/devices/system/node/online", "0\n"),
    ("sys/devices/system/node/node0/cpulist", "0-3\n"),
    ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
    ("sys/class/net/eth0/speed", "10000\n"),
    ("sys/class/net/eth0/mtu", "1500\n"),
    ("sys/class/net/eth0/device/numa_node", "0\n"),
];

fn find(environment: &Environment, name: &str) -> Finding {
    environment.all().into_iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no {name}"))
}

/// What the good machine is with some files changed: the finding of that name.
fn with(changed: &[(&str, &str)], name: &str) -> Finding {
    let root = machine(GOOD);
    changed.iter().for_each(|(path, text)| write(root.path(), path, text));
    find(&Environment::read(root.path(), &[1], &["eth0"]), name)
}

fn expect(changed: &[(&str, &str)], name: &str, judgement: Judgement, value: &str, advice: &str) {
    let finding = with(changed, name);
    assert_eq!(finding.judgement, judgement, "{finding:?}");
    assert!(finding.value.contains(value), "{finding:?}");
    assert!(finding.advice.as_deref().unwrap_or("").contains(advice), "{finding:?}");
    let complete = finding.advice.as_ref().is_none_or(|advice| advice.ends_with('.') || advice.ends_with(")."));
    assert!(complete, "{finding:?}");
}

#[test]
fn a_machine_that_is_set_up() {
    let root = machine(GOOD);
    let driver = root.path().join("sys/class/net/eth0/device/driver");
    std::os::unix::fs::symlink("../../../bus/pci/drivers/made_up", driver).unwrap();
    let mut environment = Environment::read(root.path(), &[1], &["eth0"]);
    environment.interfaces[0].pause = Some(false);
    for finding in environment.all() {
        assert_eq!((finding.judgement, &finding.advice), (Fine, &None), "{finding:?}");
    }
    assert_eq!(environment.worst(), Fine);
    for (name, value) in [
        ("kernel", "6.12.48"),
        ("processor", "Made Up 3000"),
        ("processors used", "1"),
        ("isolated processors", "1"),
        ("hugepages", "512 of 2048 kB, 500 free"),
        ("mitigations", "spectre_v2"),
        ("idle states", "up to C1, which takes 2 us to leave"),
        ("driver of eth0", "made_up"),
        ("speed of eth0", "10000 Mbit/s"),
    ] {
        assert_eq!(find(&environment, name).value, value);
    }
    let text = serde_json::to_string(&environment).unwrap();
    assert_eq!(serde_json::from_str::<Environment>(&text).unwrap(), environment);
}

#[test]
fn each_shortcoming_is_found() {
    let cpu = |file: &str| format!("sys/devices/system/cpu/{file}");
    expect(&[("proc/cpuinfo", "flags : fpu hypervisor\n")], "virtual machine", MayFalsify, "yes", "bare machine");
    expect(&[("proc/cpuinfo", "flags : fpu hypervisor\n")], "processor", Unknown, "unknown", "");
    let stat = "cpu  100 0 50 1000 0 0 0 50 0 0\n";
    expect(&[("proc/stat", stat)], "stolen time since boot", MayFalsify, "4.17 %", "pinned");
    expect(
        &[("proc/loadavg", "3.5 1 1 1/1 1")],
        "load of the last minute",
        CostsRepeatability,
        "3.50",
        "Other programs",
    );
    expect(
        &[("proc/meminfo", "HugePages_Total: 0\nHugePages_Free: 0\nHugepagesize: 2048 kB")],
        "hugepages",
        CostsRepeatability,
        "0 of",
        "vm.nr_hugepages",
    );
    expect(&[("proc/77/comm", "irqbalance\n")], "irqbalance", CostsRepeatability, "runs", "stop it");
    expect(&[("proc/sys/kernel/nmi_watchdog", "1")], "NMI watchdog", CostsRepeatability, "on", "switch it off");
    let clock = "sys/devices/system/clocksource/clocksource0/current_clocksource";
    expect(&[(clock, "hpet\n")], "clock source", MayFalsify, "hpet", "clocksource=tsc");
    expect(&[(clock, "kvm-clock\n")], "clock source", Fine, "kvm-clock", "");
    expect(&[(&cpu("online"), "0\n")], "processors online", MayFalsify, "1 (0)", "Processors 1 are to be used");
    expect(&[(&cpu("online"), "1\n")], "processors online", CostsRepeatability, "1 (1)", "leave one free");
    expect(
        &[("proc/cmdline", "quiet\n"), (&cpu("isolated"), "\n")],
        "isolated processors",
        CostsRepeatability,
        "none",
        "Boot with isolcpus=1;",
    );
    expect(
        &[("proc/cmdline", "quiet\n"), (&cpu("nohz_full"), "(null)\n")],
        "tickless processors",
        CostsRepeatability,
        "none",
        "nohz_full=1",
    );
    expect(
        &[("proc/cmdline", "rcu_nocbs=2-3\n")],
        "processors without RCU callbacks",
        CostsRepeatability,
        "2-3",
        "rcu_nocbs=1",
    );
    expect(
        &[(&cpu("cpu1/cpufreq/scaling_governor"), "powersave\n")],
        "frequency governor",
        CostsRepeatability,
        "powersave",
        "performance",
    );
    expect(&[(&cpu("intel_pstate/no_turbo"), "0\n")], "turbo", CostsRepeatability, "on", "echo 1 >");
    expect(
        &[(&cpu("cpu1/topology/thread_siblings_list"), "1,3\n")],
        "hyperthreads",
        CostsRepeatability,
        "3 beside",
        "for N in 3",
    );
    expect(
        &[(&cpu("cpu1/cpuidle/state2/disable"), "0\n")],
        "idle states",
        CostsRepeatability,
        "C6, which takes 133 us",
        "cpupower idle-set",
    );
    expect(
        &[("proc/irq/24/effective_affinity_list", "1\n")],
        "interrupts on the processors used",
        CostsRepeatability,
        "1 (24)",
        "elsewhere",
    );
    expect(&[("sys/class/net/eth0/device/numa_node", "1\n")], "NUMA node of eth0", CostsRepeatability, "1", "node 1");
    expect(&[("sys/class/net/eth0/speed", "-1\n")], "speed of eth0", Unknown, "unknown", "");
    expect(&[], "flow control of eth0", Unknown, "unknown", "");
}

#[test]
fn processors_that_share() {
    let root = machine(GOOD);
    for core in [1, 3] {
        write(root.path(), &format!("sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list"), "1,3");
    }
    write(root.path(), "sys/devices/system/node/online", "0-1");
    write(root.path(), "sys/devices/system/node/node0/cpulist", "0-1");
    write(root.path(), "sys/devices/system/node/node1/cpulist", "2-3");
    let environment = Environment::read(root.path(), &[3, 1], &[]);
    let threads = find(&environment, "hyperthreads");
    assert_eq!((threads.judgement, threads.value.as_str()), (MayFalsify, "1,3 share cores"));
    let nodes = find(&environment, "NUMA nodes");
    assert_eq!((nodes.judgement, nodes.value.as_str()), (CostsRepeatability, "2, of which 0-1 are used"));
    assert_eq!(environment.worst(), MayFalsify);
}

/// AMD's switch for turbo has the other sense.
#[test]
fn boost() {
    let root = machine(&[("sys/devices/system/cpu/cpufreq/boost", "1")]);
    let turbo = find(&Environment::read(root.path(), &[], &[]), "turbo");
    assert!(turbo.judgement == CostsRepeatability && turbo.advice.unwrap().contains("echo 0 >"));
}

#[test]
fn pause_frames() {
    let root = machine(GOOD);
    let mut environment = Environment::read(root.path(), &[1], &["eth0"]);
    environment.interfaces[0].pause = Some(true);
    let pause = find(&environment, "flow control of eth0");
    assert!(pause.judgement == MayFalsify && pause.advice.unwrap().contains("ethtool -A eth0 rx off tx off"));
}

#[test]
fn a_machine_that_shows_nothing() {
    let root = machine(&[]);
    let environment = Environment::read(root.path(), &[0, 1], &["eth0"]);
    for finding in environment.all() {
        assert!(finding.judgement == Unknown || finding.name == "processors used", "{finding:?}");
    }
    assert_eq!(Meanwhile::read(root.path(), &[0]), Meanwhile::default());
    assert!(environment.to_string().contains("kernel: unknown (unknown)\n"));
}

/// Files full of anything: no panic.
#[test]
fn nonsense() {
    for text in
        ["", "\n", "-1", "x", "0-", "99999999999999999999", "cpu cpu cpu", "a:b\nflags:", "\u{fffd}|\0", "4294967295"]
    {
        let files: Vec<(&str, &str)> = GOOD.iter().map(|(path, _)| (*path, text)).collect();
        let root = machine(&files);
        let environment = Environment::read(root.path(), &[1, 2], &["eth0", "../../x"]);
        assert!(!environment.to_string().is_empty() && environment.markdown().lines().count() > 20);
        Meanwhile::read(root.path(), &[1, 2]);
    }
}

#[test]
fn listings_begin_with_the_gravest() {
    let root = machine(GOOD);
    write(root.path(), "proc/loadavg", "3.5 1 1 1/1 1");
    write(root.path(), "sys/devices/system/clocksource/clocksource0/current_clocksource", "hp|et\n");
    let environment = Environment::read(root.path(), &[1], &[]);
    let markdown = environment.markdown();
    let lines: Vec<&str> = markdown.lines().collect();
    assert!(lines[2].starts_with("| clock source | hp\\|et | may falsify | Reading it"), "{markdown}");
    assert!(lines[3].starts_with("| load of the last minute | 3.50 | costs repeatability | "), "{markdown}");
    let text = environment.to_string();
    assert!(text.starts_with("clock source: hp|et (may falsify)\n    Reading it takes"), "{text}");
}

#[test]
fn what_happens_during_a_trial() {
    let root = machine(&[]);
    let files = |steal: u64, interrupts: u64| {
        let stat = format!("cpu  0\ncpu0 1 1 1 1 1 1 1 9 0 0\ncpu1 10 0 10 {} 0 0 0 {steal} 5 0\n", 80 - steal);
        write(root.path(), "proc/stat", &stat);
        let text = format!(
            "            CPU0       CPU1\n  24:         5  {interrupts}  PCI-MSI eth0\n NMI:  1  2  Non-maskable\n ERR:   0\n"
        );
        write(root.path(), "proc/interrupts", &text);
    };
    files(0, 100);
    let before = Meanwhile::read(root.path(), &[1]);
    assert_eq!(before, Meanwhile { stolen_ticks: Some(0), all_ticks: Some(100), interrupts: Some(102) });
    files(20, 130);
    let stat = fs::read_to_string(root.path().join("proc/stat")).unwrap();
    fs::write(root.path().join("proc/stat"), stat.replace("cpu1 10", "cpu1 110")).unwrap();
    let meanwhile = Meanwhile::read(root.path(), &[1]).since(&before);
    assert_eq!(meanwhile, Meanwhile { stolen_ticks: Some(20), all_ticks: Some(100), interrupts: Some(30) });
    assert_eq!(meanwhile.stolen(), Some(0.2));
    // A processor that there is not.
    assert_eq!(Meanwhile::read(root.path(), &[7]), Meanwhile::default());
}

/// This very machine, whatever it is.
#[test]
fn the_real_one() {
    let environment = Environment::read(Path::new("/"), &[0], &["lo"]);
    println!("{environment}");
    assert_ne!(find(&environment, "kernel").judgement, Unknown);
    // It has no device.
    let lo = find(&environment, "lo");
    assert!(lo.judgement == Fine && lo.value.contains("MTU"), "{lo:?}");
}
