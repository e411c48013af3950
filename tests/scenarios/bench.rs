// SPDX-License-Identifier: MIT
//! `perigee bench`: measures Linux, perigee, a command line and a box on two wires, and writes reports; keeps what it
//! has where it is interrupted or a device fails; compares. No test asserts a figure: machines are busy.

use perigee_tests::device::{Kind, Setup};
use perigee_tests::{Asserts, Ended, Good, Signal, World, perigee, run, wait_until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

perigee_tests::scenarios![
    linux_is_benchmarked_and_reported,
    perigee_is_benchmarked_both_ways_and_reset,
    a_box_on_two_wires_is_benchmarked,
    by_af_xdp_a_box_is_benchmarked_and_no_buffer_is_missing as root,
    a_run_is_interrupted_and_resumed,
    a_device_that_fails_leaves_what_was_measured,
    a_device_that_cannot_be_measured_says_why,
    nothing_is_measured_where_the_report_cannot_be_written,
    several_devices_are_benchmarked_one_after_the_other,
    a_run_on_a_busy_machine_gives_what_was_forwarded_at_least,
    devices_are_compared,
    a_comparison_keeps_its_rounds_where_a_device_fails,
];

/// A profile of trials as short as possible.
const SHORT: &str = r#"{
    "name": "short",
    "sizes": [64],
    "settle": { "learning": 0.05, "drain": 0.1, "pause": 0.02 },
    "throughput": { "goals": [{
        "name": "half", "loss_ratio": 0.5, "exceed_ratio": 0.5, "final_duration": 0.2, "duration_sum": 0.2,
        "initial_duration": 0.1, "width": 0.3
    }] },
    "latency": { "shares": [0.5], "duration": 0.2, "tag_after": 0.02, "repeats": 3, "tagged": 10 },
    "loss_rate": { "step": 0.1, "duration": 0.1 },
    "back_to_back": null,
    "recovery": null
}"#;

/// A folder for profiles and reports: the scenario's own, /run, is hidden in the namespaces that the program makes.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a temporary folder"))
    }

    fn report(&self) -> PathBuf {
        self.0.path().join("report")
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("a file in a temporary folder");
        path
    }

    /// `perigee bench rfc2544` with a profile, and its report in here.
    fn command(&self, profile: &str, words: &[&str]) -> Command {
        let mut command = self.bare(words);
        command.arg("--profile").arg(self.file("profile.json", profile)).args(["--maximum", "4kpps"]);
        command
    }

    /// Without a profile and a maximum.
    fn bare(&self, words: &[&str]) -> Command {
        let mut command = Command::new(perigee());
        command.args(["bench", "rfc2544"]).args(words).args(["--hugepages", "no", "--memory", "256"]);
        command.arg("--report").arg(self.report()).current_dir(self.0.path());
        command
    }
}

/// The report of a folder.
#[track_caller]
fn json(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("report.json")).expect("a report");
    serde_json::from_str(&text).expect("JSON")
}

/// All trials so far.
fn trials(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("run.jsonl")).unwrap_or_default();
    text.split_inclusive('\n').skip(1).filter(|line| line.ends_with('\n')).map(str::to_owned).collect()
}

/// A measurement that ran to its end. On a machine that cannot answer, it says so by its exit code.
#[track_caller]
fn measured(ended: Ended) -> Ended {
    assert!(matches!(ended.code, Some(0 | 2)), "{}:\n{}", ended.command, ended.text);
    ended
}

/// The report of a run to its end. Whether it has throughput: on a machine without a core to spare the tester sends too
/// little in every trial, and says so.
#[track_caller]
fn has_throughput(report: &Value, target: &str) -> bool {
    assert_eq!((&report["target"], &report["finished"]), (&Value::from(target), &Value::from(true)), "{report:#}");
    let trials = report["trials"].as_array().expect("a list");
    let unsent = |trial: &&Value| trial["outcome"]["sent"].as_u64() < trial["outcome"]["intended"].as_u64();
    let unsent = |size: &Value| trials.iter().filter(|trial| trial["size"] == *size).any(|trial| unsent(&trial));
    let found = |row: &Value| row["pps"].as_f64() > Some(0.0);
    let fell_short = |verdict: &Value| ["tester_too_slow", "at_least", "unanswered"].iter().any(|v| verdict == v);
    let too_slow = |row: &Value| fell_short(&row["goals"][0]["verdict"]) && unsent(&row["size"]);
    let throughput = report["throughput"].as_array().expect("a list");
    throughput.iter().for_each(|row| is_at_least_what_trials_forwarded(row, trials));
    assert!(!throughput.is_empty() && throughput.iter().all(|row| found(row) || too_slow(row)), "{throughput:#?}");
    throughput.iter().all(found)
}

/// No figure is below 0.95 of what a trial of full length forwarded as the goal demands, whatever was asked for; where
/// there was such a trial, there is an answer.
#[track_caller]
fn is_at_least_what_trials_forwarded(row: &Value, trials: &[Value]) {
    let number = |of: &Value, path: &str| of.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    for goal in row["goals"].as_array().expect("a list") {
        let passes = |trial: &&Value| {
            let (sent, received) = (number(trial, "/outcome/sent"), number(trial, "/outcome/received"));
            let is_full = number(trial, "/outcome/duration") >= number(goal, "/goal/final_duration");
            let of_search = trial["trial"]["purpose"]["throughput"].is_object() && trial["size"] == row["size"];
            of_search && is_full && sent > 0.0 && (sent - received) / sent <= number(goal, "/goal/loss_ratio")
        };
        let offered = |trial: &Value| {
            number(trial, "/outcome/load") * number(trial, "/outcome/sent") / number(trial, "/outcome/intended")
        };
        let most = trials.iter().filter(passes).map(offered).fold(0.0, f64::max);
        assert!(number(goal, "/proven_pps") >= 0.95 * most, "{most}: {goal:#}");
        let least = 0.95 * most * (1.0 - number(goal, "/goal/loss_ratio"));
        assert!(goal["verdict"] != "at_least" || number(goal, "/pps") >= least, "{most}: {goal:#}");
        assert!(goal["verdict"] != "unanswered" || most == 0.0, "{most}: {goal:#}");
    }
}

fn linux_is_benchmarked_and_reported(world: &World) {
    let (interfaces, folder) = (world.interfaces(), Folder::new());
    let ended = run(&mut folder.command(SHORT, &["linux", "--json"]));
    let printed: Value = serde_json::from_str(&measured(ended).out).expect("JSON on standard output");
    let found = has_throughput(&printed, "linux");
    assert_eq!(printed, json(&folder.report()));
    // Of what the tester could not send nothing was tagged.
    let tagged = |trial: &&Value| {
        trial["trial"]["purpose"]["latency"].is_object() && trial["outcome"]["sent"] == trial["outcome"]["intended"]
    };
    let measured = printed["trials"].as_array().expect("a list").iter().any(|trial| tagged(&trial));
    let median = &printed["latency"][0]["loads"][0]["median"];
    assert!(!(found && measured) || median.is_object(), "{printed:#}");
    assert!(!printed["loss_rate"].as_array().expect("a list").is_empty());
    let environment = printed["environment"].to_string();
    for fact in ["kernel", "the tester's own latency with 64 bytes", "\"t0\"", "\"t1\""] {
        assert!(environment.contains(fact), "{fact} is missing: {environment}");
    }
    let floor = printed["trials"][0]["directions"][0]["latency"]["floor_ns"].as_u64();
    assert!(floor > Some(0), "{:#}", printed["trials"][0]);
    let text = |name: &str| fs::read_to_string(folder.report().join(name)).expect("a file of the report");
    assert!(text("report.html").contains("<svg") && !text("report.html").contains("<script"));
    assert!(text("report.md").starts_with("# linux") && text("report.md").contains("## The machine"));
    assert_eq!(text("trials.csv").lines().count(), trials(&folder.report()).len() + 1);
    assert!(text("results.csv").contains("throughput"));
    assert!(text("points.csv").starts_with("flows,cores,frame_size,mpps"));
    // It is never overwritten.
    let error = run(&mut folder.command(SHORT, &["linux"])).refused("--resume");
    assert!(error.text.contains("the results of an earlier run"), "{}", error.text);
    assert_eq!(world.interfaces(), interfaces);
    wait_until("all processes to end", || world.processes().is_empty());
}

fn perigee_is_benchmarked_both_ways_and_reset(world: &World) {
    let folder = Folder::new();
    let reset = "\"recovery\": null, \"reset\": { \"duration\": 30.0, \"after\": 1.0, \"repeats\": 1 }";
    let profile = SHORT.replace("\"recovery\": null", reset);
    let words = ["perigee", "--both-ways", "--ipv6", "--sizes", "84,512", "--tests", "throughput,reset", "--reset"];
    let text = measured(run(&mut folder.command(&profile, &words))).text;
    assert!(text.contains("pps each way") || text.contains("this machine cannot answer"), "{text}");
    let report = json(&folder.report());
    let found = has_throughput(&report, "perigee");
    assert_eq!(report["throughput"].as_array().map(Vec::len), Some(2));
    for trial in report["trials"].as_array().expect("a list") {
        assert_eq!(trial["directions"].as_array().map(Vec::len), Some(2), "{trial:#}");
    }
    // It was gone, and came back.
    let times = &report["reset"][0]["times"];
    assert!(!found || times["not_back"] == 0, "{times:#}");
    assert!(!found || times["by_timestamps"][0].as_f64() > Some(0.0), "{times:#}");
    wait_until("all processes to end", || world.processes().is_empty());
}

fn a_box_on_two_wires_is_benchmarked(world: &World) {
    let device = world.device(Setup::default(), Kind::Linux);
    let wires = ["--left", "t0", "--right", "t1", "--floor", "100"];
    let folder = Folder::new();
    measured(run(&mut folder.command(SHORT, &wires)));
    let first = json(&folder.report());
    has_throughput(&first, "t0 to t1");
    assert_eq!(first["trials"][0]["directions"][0]["latency"]["floor_ns"], 100);
    // The cable is pulled in a trial: that is said, and what was measured before is kept.
    let folder = Folder::new();
    let running = world.start(&mut folder.command(&SHORT.replace("0.2", "1.5"), &wires));
    wait_until("some trials", || trials(&folder.report()).len() > 1);
    device.host().run("ip link set d1 down").good();
    let ended = running.end();
    assert!(ended.text.contains("link"), "{}", ended.text);
    assert!(json(&folder.report())["trials"].as_array().is_some_and(|trials| trials.len() > 1));
    drop(device);
}

/// `bench rfc2544 --left xdp:` ended with "packet buffers are missing" behind its report.
fn by_af_xdp_a_box_is_benchmarked_and_no_buffer_is_missing(world: &World) {
    let device = world.device(Setup::default(), Kind::Linux);
    let wires = ["--left", "xdp:t0", "--right", "xdp:t1", "--floor", "100", "--tests", "throughput"];
    let folder = Folder::new();
    let ended = measured(run(&mut folder.command(SHORT, &wires)));
    assert!(!ended.text.contains("missing at the end"), "{}", ended.text);
    let report = json(&folder.report());
    has_throughput(&report, "xdp:t0 to xdp:t1");
    let received = |trial: &Value| trial["outcome"]["received"].as_u64() > Some(0);
    assert!(report["trials"].as_array().is_some_and(|trials| trials.iter().any(received)), "{report:#}");
    drop(device);
}

fn a_run_is_interrupted_and_resumed(world: &World) {
    let folder = Folder::new();
    // Too long to end before it is interrupted.
    let profile = SHORT.replace("\"repeats\": 1", "\"repeats\": 40");
    let running = world.start(&mut folder.command(&profile, &["linux", "--tests", "throughput,latency"]));
    wait_until("some trials", || trials(&folder.report()).len() > 3);
    running.signal(Signal::INT).good();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.text);
    assert!(ended.text.contains("--resume") && ended.text.contains("is not finished"), "{}", ended.text);
    let (before, partial) = (trials(&folder.report()), json(&folder.report()));
    assert_eq!(partial["finished"], false);
    assert_eq!(partial["trials"].as_array().map(Vec::len), Some(before.len()));
    // A trial was being written when the power failed.
    let file = folder.report().join("run.jsonl");
    let text = fs::read_to_string(&file).expect("the run");
    fs::write(&file, text + "{\"size\": 64, \"tri").expect("the run can be written");
    run(&mut folder.bare(&["linux", "--resume", "--sizes", "128"])).refused("the stored run has [64] for sizes");
    run(&mut folder.bare(&["perigee", "--resume"])).refused("a run of linux");
    let ended = measured(run(&mut folder.bare(&["linux", "--resume"])));
    assert!(ended.text.contains("it is cut off"), "{}", ended.text);
    let after = trials(&folder.report());
    assert!(after.len() > before.len() && after[..before.len()] == before[..]);
    has_throughput(&json(&folder.report()), "linux");
    wait_until("all processes to end", || world.processes().is_empty());
}

/// A command line that forwards.
fn forwards() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/tasks/forward.lua");
    let (program, script) = (perigee().display().to_string(), script.display());
    format!("{program} task --hugepages no --memory 256 {script} $PERIGEE_LEFT $PERIGEE_RIGHT")
}

/// One that forwards until a file is there, and then fails.
fn forwards_until(file: &Path) -> String {
    format!("{} & until [ -e {} ]; do sleep 0.05; done; kill $!; wait; exit 7", forwards(), file.display())
}

fn a_device_that_fails_leaves_what_was_measured(world: &World) {
    let folder = Folder::new();
    let profile = SHORT.replace("\"repeats\": 1", "\"repeats\": 400");
    let enough = folder.0.path().join("enough");
    let running = world.start(&mut folder.command(&profile, &[&forwards_until(&enough)]));
    wait_until("some trials", || trials(&folder.report()).len() > 3);
    fs::write(&enough, "").expect("a file in a temporary folder");
    let ended = running.end();
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    assert!(ended.text.contains("the run broke off") && ended.text.contains("ended with"), "{}", ended.text);
    let kept = json(&folder.report());
    assert_eq!(kept["finished"], false);
    assert_eq!(kept["trials"].as_array().map(Vec::len), Some(trials(&folder.report()).len()));
    wait_until("all processes to end", || world.processes().is_empty());
}

fn a_device_that_cannot_be_measured_says_why(world: &World) {
    let folder = Folder::new();
    let ended = run(&mut folder.command(SHORT, &["sleep 1000"])).refused("forwards nothing");
    assert!(ended.text.contains("look at its routes"), "{}", ended.text);
    run(&mut folder.command(SHORT, &["echo no luck >&2; exit 3"])).refused("no luck");
    let usage =
        [(&["lunix"][..], "expected perigee, perigee-xdp, linux, testpmd"), (&["linux", "--maximum", "0pps"], "0pps")];
    for (words, part) in usage {
        let ended = run(&mut folder.bare(words));
        assert!(ended.code == Some(2) && ended.text.contains(part), "{}", ended.text);
    }
    run(&mut folder.bare(&["linux", "--sizes", "20"])).refused("expected 64 to 9216");
    run(&mut folder.bare(&["linux", "--profile", "slow"])).refused("expected rfc2544, tst009, quick or a file");
    run(&mut folder.bare(&["linux", "--resume"])).refused("no run to resume");
    run(&mut folder.bare(&["linux", "--reset=reboot"])).refused("for a box");
    run(&mut folder.bare(&["linux", "--maximum", "50%"])).refused("line");
    wait_until("all processes to end", || world.processes().is_empty());
}

fn nothing_is_measured_where_the_report_cannot_be_written(world: &World) {
    let folder = Folder::new();
    fs::write(folder.report(), "").expect("a file where the report's folder is to be");
    let ended = run(&mut folder.command(SHORT, &["linux"])).refused("cannot be written");
    assert!(ended.text.contains("--report") && !ended.text.contains("trial"), "{}", ended.text);
    assert_eq!(world.interfaces().len(), 0);
}

fn several_devices_are_benchmarked_one_after_the_other(world: &World) {
    let folder = Folder::new();
    let forward = forwards();
    let ended = run(&mut folder.command(SHORT, &["linux", &forward, "--tests", "throughput", "--json"]));
    let ended = measured(ended);
    let all: Value = serde_json::from_str(&ended.out).expect("JSON and nothing else on standard output");
    let all = all.as_array().expect("a report of each");
    has_throughput(&all[0], "linux");
    has_throughput(&all[1], &forward);
    assert!(folder.report().join("linux/report.html").exists());
    run(&mut folder.command(SHORT, &["linux", "linux"])).refused("the results of two devices");
    wait_until("all processes to end", || world.processes().is_empty());
}

fn a_comparison_keeps_its_rounds_where_a_device_fails(world: &World) {
    let (folder, mut command) = (Folder::new(), Command::new(perigee()));
    let enough = folder.0.path().join("enough");
    command.args(["bench", "compare", "linux"]).arg(forwards_until(&enough));
    command.args(["--rounds", "1000", "--seconds", "0.1"]);
    command.args(["--rate", "4kpps", "--latency-rate", "2kpps", "--hugepages", "no", "--memory", "256", "--json"]);
    let running = world.start(&mut command);
    wait_until("the third round", || running.stderr().contains("round 3 of 1000"));
    fs::write(&enough, "").expect("a file in a temporary folder");
    let ended = running.end();
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    assert!(ended.text.contains("cannot be measured") && ended.text.contains("ended with"), "{}", ended.text);
    let all: Value = serde_json::from_str(&ended.out).expect("JSON");
    let rounds = all["sizes"][0]["loaded_rounds"].as_array().expect("rounds");
    assert!(!rounds.is_empty() && rounds.len() < 1000 && all["ended"].is_string(), "{all:#}");
    wait_until("all processes to end", || world.processes().is_empty());
}

/// Each such run ended with "this machine cannot answer", though trials were forwarded without loss: `has_throughput`
/// demands the figure where there was such a trial. lib/measure's tests of short testers prove it for testers that fall
/// short by up to 90 %.
fn a_run_on_a_busy_machine_gives_what_was_forwarded_at_least(world: &World) {
    // They end by themselves, whatever becomes of this process.
    let busy = || world.start(Command::new("sh").args(["-c", "ulimit -t 300; while :; do :; done"]));
    let loops: Vec<_> = (0..3).map(|_| busy()).collect();
    let folder = Folder::new();
    let mut command = folder.bare(&["linux", "--tests", "throughput"]);
    let text = measured(run(command.arg("--profile").arg(folder.file("profile.json", SHORT)))).text;
    drop(loops);
    let report = json(&folder.report());
    let found = has_throughput(&report, "linux");
    let verdict = &report["throughput"][0]["goals"][0]["verdict"];
    assert!(verdict != "at_least" || text.contains("the tester was the limit"), "{text}");
    assert!(found || text.contains("this machine cannot answer"), "{text}");
}

fn devices_are_compared(world: &World) {
    let mut command = Command::new(perigee());
    command.args(["bench", "compare", "linux"]).arg(forwards());
    command.args(["--rounds", "6", "--seconds", "0.1", "--rate", "4kpps", "--latency-rate", "2kpps"]);
    command.args(["--hugepages", "no", "--memory", "256"]);
    let ended = measured(run(&mut command));
    assert_eq!(ended.code == Some(2), ended.out.contains("has no figure of"), "{}", ended.text);
    let text = ended.out;
    // Each device has its row in both tables, whatever the machine does.
    let rows = |device: &str| text.lines().filter(|line| line.contains(device)).count();
    assert!(rows("linux") >= 3 && rows(" task ") >= 2, "{text}");
    for part in ["ratios to linux", "6 rounds", " task ", "p99"] {
        assert!(text.contains(part), "{part:?} is missing:\n{text}");
    }
    let all: Value = serde_json::from_str(&measured(run(command.arg("--json"))).out).expect("JSON");
    let of_size = &all["sizes"][0];
    assert_eq!(of_size["loaded_rounds"].as_array().map(Vec::len), Some(6), "{all:#}");
    let of_trusted_rounds = |samples: &str, figure: &str, ratio: &Value| {
        let rounds = of_size[samples].as_array().expect("rounds");
        let counts = |round: &&Value| {
            let trusted = (0..2).all(|at| round[at]["spoiled"] == false && round[at][figure].is_number());
            trusted && round[0][figure].as_f64() > Some(0.0)
        };
        let count = rounds.iter().filter(counts).count();
        assert_eq!(ratio["count"].as_u64().unwrap_or(0), count as u64, "{all:#}");
        assert_eq!(ratio["median_interval"].is_array(), count >= 6, "{all:#}");
    };
    // On a busy machine, trials of some rounds may not be trusted, or of all: they are left out, and fewer than six
    // have no interval.
    of_trusted_rounds("loaded_rounds", "forwarded_pps", &of_size["loaded"][1]["forwarded_ratio"]);
    of_trusted_rounds("relaxed_rounds", "p50_ns", &of_size["relaxed"][1]["p50_ratio"]);
    wait_until("all processes to end", || world.processes().is_empty());
}
