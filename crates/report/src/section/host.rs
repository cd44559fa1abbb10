//! The host and the settings of a run, as names and values.

use kqps_observation::{Fingerprint, Run};
use kqps_verdict::search::Goal;

use super::separation::Apart;
use crate::format;

pub(crate) type Fact = (String, String);

/// The host that subjects ran on.
pub(crate) fn of_subjects(run: &Run) -> &Fingerprint {
    run.server_host().map_or(&run.fingerprint, |host| &host.fingerprint)
}

/// The host that subjects ran on in one line, and how many players there were and where.
pub(crate) fn line_of_run(run: &Run) -> String {
    let line = line(of_subjects(run));
    let Some(server) = run.server_host() else { return line };
    let players = Apart::of_run(run).line(run.player_hosts().count());
    format!("{}: {line} · {players}", server.name)
}

/// The host in one line.
pub(crate) fn line(host: &Fingerprint) -> String {
    let cpus = match host.cores.len() {
        0 => None,
        1 => Some("1 logical CPU".to_owned()),
        count => Some(format!("{count} logical CPUs")),
    };
    let kernel = host.kernel.trim_start_matches("Linux ").split_whitespace().next();
    let kernel = kernel.map(|release| format!("Linux {release}"));
    let machine = host.hypervisor.as_ref().map(|_| "virtual machine".to_owned());
    let parts = [Some(host.cpu_model.clone()), cpus, kernel, machine];
    let known = parts.into_iter().flatten().filter(|part| !part.is_empty());
    known.collect::<Vec<_>>().join(" · ")
}

/// The facts of the host that are shown first.
pub(crate) fn facts(host: &Fingerprint) -> Vec<Fact> {
    let turbo = host.turbo.map(|on| if on { "on" } else { "off" }.to_owned());
    let all = [
        ("processor", Some(host.cpu_model.clone())),
        ("logical CPUs", (!host.cores.is_empty()).then(|| host.cores.len().to_string())),
        ("memory", (host.memory_bytes > 0).then(|| format::bytes(host.memory_bytes))),
        ("virtual machine", host.hypervisor.clone()),
        ("kernel", Some(host.kernel.clone())),
        ("system", host.os.clone()),
        ("clock", host.clock_source.clone()),
        ("governor", host.governor.clone()),
        ("turbo", turbo),
        ("microcode", host.microcode.clone()),
    ];
    let known = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    known.filter(|(_, value)| !value.is_empty()).collect()
}

/// The settings of a run.
pub(crate) fn settings(run: &Run, goal: &Goal) -> Vec<Fact> {
    let cpus = |of: fn(&kqps_observation::Cell) -> &[u32]| {
        let all: Vec<u32> = run.cells.iter().flat_map(|cell| of(cell).iter().copied()).collect();
        format::cpus(&all)
    };
    let mut facts = vec![
        ("goal of the search".to_owned(), goal_in_words(goal)),
        ("blocks (starts of every cell)".to_owned(), run.blocks.to_string()),
        ("budget".to_owned(), run.budget_s.map_or_else(|| "none".to_owned(), format::duration_s)),
        ("cores of the player".to_owned(), cpus(|cell| &cell.player_cpus)),
        ("cores of the subjects".to_owned(), cpus(|cell| &cell.subject_cpus)),
    ];
    facts.extend(timeouts(run).map(|text| ("timeout".to_owned(), text)));
    facts.extend(datasets(run));
    facts
}

/// When a reply is late; `None` before the first trial.
fn timeouts(run: &Run) -> Option<String> {
    let mut all: Vec<f64> =
        run.trials.iter().filter_map(|trial| Some(trial.measured()?.load.timeout_s)).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    let texts: Vec<String> = all.into_iter().map(format::duration_s).collect();
    (!texts.is_empty()).then(|| format!("a reply is late after {}", texts.join(" or ")))
}

fn goal_in_words(goal: &Goal) -> String {
    let exceed = match goal.exceed {
        0.0 => "no trial may be worse".to_owned(),
        share => format!("{} of the time may be worse", format::percent(share)),
    };
    format!(
        "{}: trials of {}, {} at one load, at most {} bad, {exceed}, bounds within {}",
        goal.name,
        format::duration_s(goal.final_s),
        format::duration_s(goal.sum_s),
        format::percent(goal.loss),
        format::percent(goal.width),
    )
}

/// Every dataset that was played, with the hash that identifies it.
fn datasets(run: &Run) -> Vec<Fact> {
    let mut played: Vec<_> = run.trials.iter().filter_map(|trial| Some(&trial.measured()?.dataset)).collect();
    played.sort_by(|a, b| (&a.path, &a.hash).cmp(&(&b.path, &b.hash)));
    played.dedup();
    let fact = |dataset: &&kqps_observation::trial::DatasetFacts| {
        let queries = format::count(dataset.queries);
        let hash = format::shortened(&dataset.hash, 17);
        ("dataset".to_owned(), format!("{}, {queries} queries, BLAKE3 {hash}", dataset.path))
    };
    played.iter().map(fact).collect()
}

/// The programs that took part, with their versions.
pub(crate) fn binaries(host: &Fingerprint) -> Vec<Fact> {
    let fact = |(name, binary): (&String, &kqps_observation::fingerprint::BinaryFacts)| {
        let version = binary.version.as_deref().unwrap_or("version unknown");
        let hash = binary
            .blake3
            .as_deref()
            .map_or("hash not read".to_owned(), |hash| format!("BLAKE3 {}", format::shortened(hash, 17)));
        (name.clone(), format!("{version}, {}, {hash}", binary.path))
    };
    host.binaries.iter().map(fact).collect()
}

/// Kernel settings, interrupts, mitigations and facts that could not be read, each under its heading; empty
/// ones are left out.
pub(crate) fn further(host: &Fingerprint) -> Vec<(&'static str, Vec<Fact>)> {
    let sections = [
        ("Kernel settings", &host.sysctls),
        ("Limits of the process", &host.limits),
        ("Interrupts of network devices, and their cores", &host.interrupts),
        ("Queues of network devices, and their cores", &host.queues),
        ("Mitigations", &host.mitigations),
        ("Could not be read", &host.unreadable),
    ];
    let list = |map: &std::collections::BTreeMap<String, String>| {
        map.iter().map(|(name, value)| (name.clone(), value.clone())).collect::<Vec<Fact>>()
    };
    sections.into_iter().filter(|(_, map)| !map.is_empty()).map(|(title, map)| (title, list(map))).collect()
}
