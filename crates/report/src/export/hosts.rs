//! The hosts of a run, their cores, and each player's part in every trial.

use kqps_observation::{Fingerprint, HostRole, Run};

use super::points::P99_AT_MOST;
use super::sheet::{Sheet, Value, count, counted, number, numbers, text, words};
use crate::section::host::of_subjects;

/// A row for every host of a run that names them, or for the only one.
pub(super) fn hosts(run: &Run) -> Sheet {
    let columns = [
        ("host", "its name; nothing if the run names none"),
        ("role", "server, player, or both"),
        ("address", "where its subjects listen, or from where its player sends"),
        ("kqps", "version of the kqps that ran there"),
        ("cpu_model", "its processor"),
        ("cpus", "number of logical CPUs"),
        ("memory_bytes", "its memory"),
        ("hypervisor", "its hypervisor, if it is a virtual machine"),
        ("kernel", "its kernel"),
        ("system", "its system"),
        ("clock_source", "its clock"),
        ("governor", "its frequency governor"),
        ("is_turbo_on", "whether cores may run faster than their base frequency"),
        ("microcode", "its microcode"),
    ];
    let mut sheet = Sheet::new("hosts", "one host", &columns);
    if run.hosts.is_empty() {
        let mut row = vec![Value::None, text("both"), Value::None, words(&run.kqps_version)];
        row.extend(facts(&run.fingerprint));
        sheet.rows.push(row);
    }
    for host in &run.hosts {
        let role = match host.role {
            HostRole::Server => "server",
            HostRole::Player => "player",
        };
        let version = words(host.kqps.version.as_deref().unwrap_or_default());
        let mut row = vec![text(&host.name), text(role), text(host.address.to_string()), version];
        row.extend(facts(&host.fingerprint));
        sheet.rows.push(row);
    }
    sheet
}

fn facts(host: &Fingerprint) -> [Value; 10] {
    let known = |text: &Option<String>| words(text.as_deref().unwrap_or_default());
    [
        words(&host.cpu_model),
        count(host.cores.len()),
        counted(Some(host.memory_bytes).filter(|bytes| *bytes > 0)),
        known(&host.hypervisor),
        words(&host.kernel),
        known(&host.os),
        known(&host.clock_source),
        known(&host.governor),
        host.turbo.map_or(Value::None, Value::Flag),
        known(&host.microcode),
    ]
}

/// A row for every logical CPU of the subjects' host.
pub(super) fn cores(run: &Run) -> Sheet {
    let columns = [
        ("cpu", "the logical CPU"),
        ("package", "its package"),
        ("core", "its core"),
        ("numa_node", "its memory node"),
        ("player_cells", "number of cells whose player had it"),
        ("subject_cells", "number of cells whose subject had it"),
    ];
    let mut sheet = Sheet::new("cores", "one logical CPU of the subjects' host", &columns);
    for core in &of_subjects(run).cores {
        let cells = |has: &dyn Fn(&kqps_observation::Cell) -> bool| {
            count(run.cells.iter().filter(|cell| has(cell)).count())
        };
        // The cores of players on other hosts are not those of this one.
        let is_one_host = run.hosts.is_empty();
        sheet.rows.push(vec![
            count(core.cpu),
            count(core.package),
            count(core.core),
            count(core.numa_node),
            cells(&|cell| is_one_host && cell.player_cpus.contains(&core.cpu)),
            cells(&|cell| cell.subject_cpus.contains(&core.cpu)),
        ]);
    }
    sheet
}

/// A row for every player's part in every trial of several players.
pub(super) fn parts(run: &Run) -> Sheet {
    let columns = [
        ("cell", "index of the cell in the run"),
        ("name", "the cell's name"),
        ("host", "the player's host"),
        ("offered_qps", "queries a second that it sent"),
        ("answered_qps", "correct answers a second that it got"),
        ("intended", "queries that it was to send"),
        ("bad_share", "share of them without a correct answer in time"),
        ("p50_us", "median latency"),
        ("p99_us", "p99 latency"),
        P99_AT_MOST,
        ("max_us", "greatest latency"),
        ("late_us", "how much later than asked it began"),
        ("clock_uncertainty_us", "the greatest error of what is known of its clock"),
        ("trial_skew_us", "how far apart the players of this trial began at most"),
        ("trials", "number of the trial"),
    ];
    let mut sheet = Sheet::new("parts", "one player's part in one trial", &columns);
    for one in &run.trials {
        let Some(trial) = one.measured() else { continue };
        for part in &trial.parts {
            sheet.rows.push(vec![
                count(one.cell),
                words(run.cells.get(one.cell as usize).map_or("", |cell| &cell.name)),
                text(&part.host),
                number(part.offered_qps),
                number(part.answered_qps),
                count(part.accounts.intended),
                number(part.accounts.bad_ratio()),
                counted(part.latency_us.p50),
                counted(part.latency_us.p99),
                counted(part.latency_us.at_most.and_then(|bounds| bounds.p99)),
                counted(part.latency_us.max),
                number(part.start.late_ns as f64 / 1e3),
                number(part.start.uncertainty_ns as f64 / 1e3),
                number(trial.start_skew_us),
                numbers(&[one.number]),
            ]);
        }
    }
    sheet
}
