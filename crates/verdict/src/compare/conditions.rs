//! Compares two cells of two runs: whether both answered the same questions, without which no comparison is
//! possible, and what differs beside the subject. A comparison changes one factor; each further difference is
//! named.

use std::collections::{BTreeMap, BTreeSet};

use kqps_observation::factors::name;
use kqps_observation::run::{CellLoad, Purpose, RunTrial};
use kqps_observation::{Cell, Run, Trial, cpu_list};

use crate::judge::goal_of;

/// Factors of the players' hosts have this prefix.
const HOSTS: &str = "hosts.";

/// A run and the index of a cell in it.
type Side<'a> = (&'a Run, usize);

/// The kernel draws this setting at random at every boot, and it affects no measurement here.
const RANDOM_SYSCTL: &str = "net.core.netdev_rss_key";

/// Why the two cells did not answer the same questions, each reason a sentence without its full stop; empty if
/// they did.
pub(super) fn unlike(a: Side<'_>, b: Side<'_>) -> Vec<String> {
    let mut differing = Differing::default();
    let (of_a, of_b) = (&a.0.cells[a.1], &b.0.cells[b.1]);
    differing.add("the load", load(of_a), load(of_b));
    if of_a.load == CellLoad::Search && of_b.load == CellLoad::Search {
        differing.add("the goal of the search", goal(a.0), goal(b.0));
    }
    for (name, word) in of_a.factors.words().iter().filter(|(name, _)| is_asked(name)) {
        // A player without a configured I/O model chooses the best, and its trials record the choice.
        if let Some(other) = of_b.factors.word(name) {
            differing.add(name, word.as_str(), other);
        }
    }
    if let (Some(a), Some(b)) = (last(a), last(b)) {
        differing.add("the player's I/O", &a.players.first.io, &b.players.first.io);
        differing.add("the number of the player's threads", a.players.first.threads, b.players.first.threads);
        differing.add("the number of the player's sockets", a.players.first.sockets, b.players.first.sockets);
        differing.add("the timeout in seconds", a.load.timeout_s, b.load.timeout_s);
        differing.add("the greatest burst", a.load.burst, b.load.burst);
        if let (Some(a), Some(b)) = (a.load.outstanding, b.load.outstanding) {
            differing.add("the window", a, b);
        }
        differing.add("the number of queries in the dataset", a.dataset.queries, b.dataset.queries);
    }
    if a.0.seed == b.0.seed && have_other_queries(a, b) {
        differing.found.push("the queries differ although their seed is the same".into());
    }
    differing.found
}

/// Whether a factor says what is asked, and how.
fn is_asked(name: &str) -> bool {
    [name::PLAYER, name::DATASET, HOSTS].iter().any(|prefix| name.starts_with(prefix))
}

/// Differences beside the subject's own program, each a sentence without its full stop.
pub(super) fn differences(a: Side<'_>, b: Side<'_>) -> Vec<String> {
    let mut differing = Differing::default();
    of_cells(a, b, &mut differing);
    of_hosts(a.0, b.0, &mut differing);
    if have_other_queries(a, b) {
        let (a, b) = (a.0.seed, b.0.seed);
        let says = "the queries were drawn with other seeds, so they are of the same kind but not equal";
        differing.found.push(format!("{says}: {a} and {b}"));
    }
    differing.found.push(programs(a.0, b.0));
    differing.found
}

fn of_cells(a: Side<'_>, b: Side<'_>, differing: &mut Differing) {
    let (of_a, of_b) = (&a.0.cells[a.1], &b.0.cells[b.1]);
    let of = |what: &str| format!("{what} of {}", of_a.name);
    differing.add(&of("the subject"), &of_a.subject, &of_b.subject);
    differing.add(&of("the address"), address(of_a), address(of_b));
    differing.add(&of("the I/O"), &of_a.io, &of_b.io);
    differing.add(&of("the number of workers"), of_a.workers, of_b.workers);
    differing.add(&of("the subject's cores"), cores(&of_a.subject_cpus), cores(&of_b.subject_cpus));
    if let (Some(a), Some(b)) = (last(a), last(b)) {
        differing.add(
            "whether the player ran before all others",
            a.players.first.real_time,
            b.players.first.real_time,
        );
        differing.add(
            "whether cores were kept awake",
            a.players.first.cores_awake,
            b.players.first.cores_awake,
        );
    }
    differing.add(&of("the player's cores"), cores(&of_a.player_cpus), cores(&of_b.player_cpus));
    differing.add(&of("the path"), path(a), path(b));
    let others = |cell: &Cell| -> BTreeMap<String, String> {
        let others = cell.factors.words().iter().filter(|(name, _)| !is_asked(name) && *name != name::PATH);
        others.map(|(name, word)| (of(name), word.clone())).collect()
    };
    differing.add_each("", &others(of_a), &others(of_b));
}

/// The address of a subject that already ran before the run. The address of a subject that the run started
/// means nothing.
fn address(cell: &Cell) -> String {
    cell.target.map_or_else(|| "one of the run's choice".into(), |target| target.address.to_string())
}

fn of_hosts(a: &Run, b: &Run, differing: &mut Differing) {
    let (host_a, host_b) = (&a.fingerprint, &b.fingerprint);
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| UNKNOWN.into());
    differing.add("the CPU model", &host_a.cpu_model, &host_b.cpu_model);
    differing.add("the number of the host's cores", host_a.cores.len(), host_b.cores.len());
    differing.add("the microcode", known(&host_a.microcode), known(&host_b.microcode));
    differing.add("the hypervisor", known(&host_a.hypervisor), known(&host_b.hypervisor));
    differing.add("the kernel", &host_a.kernel, &host_b.kernel);
    differing.add("the system", known(&host_a.os), known(&host_b.os));
    differing.add("the clock source", known(&host_a.clock_source), known(&host_b.clock_source));
    differing.add("the governor", known(&host_a.governor), known(&host_b.governor));
    let turbo = |on: Option<bool>| on.map_or(UNKNOWN, |on| if on { "on" } else { "off" });
    differing.add("turbo", turbo(host_a.turbo), turbo(host_b.turbo));
    differing.add_each("the mitigation of ", &host_a.mitigations, &host_b.mitigations);
    let sysctls = |run: &Run| -> BTreeMap<String, String> {
        let mut sysctls = run.fingerprint.sysctls.clone();
        sysctls.remove(RANDOM_SYSCTL);
        sysctls
    };
    differing.add_each("", &sysctls(a), &sysctls(b));
    differing.add_each("the limit ", &host_a.limits, &host_b.limits);
    differing.add_each("the steering of queue ", &host_a.queues, &host_b.queues);
    let hosts = |run: &Run| -> BTreeMap<String, String> {
        let facts = run.hosts.iter().map(|host| (&host.name, &host.fingerprint));
        facts
            .map(|(name, facts)| {
                let cores = facts.cores.len();
                (name.clone(), format!("{}, {cores} cores, {}", facts.cpu_model, facts.kernel))
            })
            .collect()
    };
    differing.add_each("the host ", &hosts(a), &hosts(b));
}

/// How the programs are known to differ. The programs of the subjects may differ, since they are compared.
fn programs(a: &Run, b: &Run) -> String {
    let (of_a, of_b) = (&a.fingerprint.binaries, &b.fingerprint.binaries);
    let common = of_a.iter().filter_map(|(name, facts)| Some((name, facts, of_b.get(name)?)));
    let build = |facts: &kqps_observation::fingerprint::BinaryFacts| {
        let version = facts.version.as_deref().unwrap_or("version unknown");
        let hash = facts.blake3.as_ref().and_then(|hash| hash.get(..8)).unwrap_or(UNKNOWN);
        format!("{version}, binary {hash}")
    };
    let differing: Vec<String> = common
        .filter(|(_, a, b)| (&a.version, &a.blake3) != (&b.version, &b.blake3))
        .map(|(name, a, b)| {
            let is_ours = if name == "kqps" { ", which plays and serves the echo," } else { "" };
            format!("{name}{is_ours} ({} and {})", build(a), build(b))
        })
        .collect();
    if !differing.is_empty() {
        return format!(
            "these programs differ between the runs, and only a difference of the subjects is intended: {}",
            differing.join("; ")
        );
    }
    if a.kqps_version != b.kqps_version {
        return format!("kqps itself differs: {} and {}", a.kqps_version, b.kqps_version);
    }
    "no program is known to differ: this compares the hosts and the sessions".into()
}

const UNKNOWN: &str = "unknown";

#[derive(Default)]
struct Differing {
    found: Vec<String>,
}

impl Differing {
    fn add<T: PartialEq + std::fmt::Display>(&mut self, what: &str, a: T, b: T) {
        let values = [a, b];
        if values[0] != values[1] {
            self.found.push(format!("{what} differs: {} and {}", values[0], values[1]));
        }
    }

    /// Adds every difference between two sets of named values.
    fn add_each(&mut self, head: &str, a: &BTreeMap<String, String>, b: &BTreeMap<String, String>) {
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in names {
            let value = |values: &BTreeMap<String, String>| {
                values.get(name).cloned().unwrap_or_else(|| "not recorded".into())
            };
            self.add(&format!("{head}{name}"), value(a), value(b));
        }
    }
}

/// The last trial of a cell, warm-ups excluded.
fn last((run, cell): Side<'_>) -> Option<&Trial> {
    run.trials_of(cell).filter(|one| one.purpose != Purpose::WarmUp).filter_map(RunTrial::measured).last()
}

/// Whether both sides recorded the hash of their queries, and the hashes differ.
fn have_other_queries(a: Side<'_>, b: Side<'_>) -> bool {
    let hash = |side| last(side).map(|trial| trial.dataset.hash.as_str()).filter(|hash| !hash.is_empty());
    matches!((hash(a), hash(b)), (Some(a), Some(b)) if a != b)
}

fn path((run, cell): Side<'_>) -> &'static str {
    let of_study = run.question.as_ref().map(|question| question.path).unwrap_or_default();
    run.cells[cell].factors.path().kind.unwrap_or(of_study).word()
}

/// The goal of a search, without its time limit.
fn goal(run: &Run) -> String {
    let Some(goal) = goal_of(run) else { return run.goal.clone() };
    let p99 = goal.p99_us.map_or(String::new(), |p99_us| format!(", p99 within {p99_us} µs"));
    format!(
        "{} (trials of {} s, {} s in sum, loss {}, exceeded {}, width {}{p99})",
        goal.name, goal.final_s, goal.sum_s, goal.loss, goal.exceed, goal.width
    )
}

fn load(cell: &Cell) -> String {
    match &cell.load {
        CellLoad::Search => "a search".into(),
        CellLoad::Closed(duration_s) => format!("a closed loop of {duration_s} s"),
        CellLoad::Rates { rates_qps, duration_s } => {
            let rates: Vec<String> = rates_qps.iter().map(f64::to_string).collect();
            format!("{} queries a second for {duration_s} s", rates.join(", "))
        }
    }
}

fn cores(cpus: &[u32]) -> String {
    if cpus.is_empty() { "any".into() } else { cpu_list::write(cpus) }
}
